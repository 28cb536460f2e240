{{/* Names and labels. Every value may be missing: `helm upgrade --reuse-values` brings those of an older chart. */}}

{{- define "samjobs.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "samjobs.fullname" -}}
{{- $name := include "samjobs.name" . -}}
{{- $of := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $of | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "samjobs.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{/* Namespaces that the controller watches, as JSON; an empty list is all of them. */}}
{{- define "samjobs.watched" -}}
{{- $given := .Values.watchNamespaces | default list -}}
{{- if $given -}}
{{- prepend $given (include "samjobs.namespace" .) | uniq | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{- define "samjobs.serviceAccount" -}}
{{- $of := .Values.serviceAccount | default dict -}}
{{- if dig "create" true $of -}}
{{- $of.name | default (printf "%s-controller" (include "samjobs.fullname" .)) -}}
{{- else -}}
{{- $of.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* Labels by which a workload finds its pods, which can never change. Takes root and component. */}}
{{- define "samjobs.selector" -}}
app.kubernetes.io/name: {{ include "samjobs.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component | quote }}
{{- end -}}

{{/* Labels of every object. Takes root and component. */}}
{{- define "samjobs.labels" -}}
{{ include "samjobs.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: samjobs
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" | quote }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The metadata of an object. Takes root, component and suffix; further labels and annotations; global: no namespace. */}}
{{- define "samjobs.metadata" -}}
{{- $full := include "samjobs.fullname" .root -}}
name: {{ empty .suffix | ternary $full (printf "%s-%s" $full .suffix) | quote }}
{{- if not .global }}
namespace: {{ .namespace | default (include "samjobs.namespace" .root) | quote }}
{{- end }}
labels:
  {{- $own := fromYaml (include "samjobs.labels" .) }}
  {{- toYaml (mergeOverwrite $own (deepCopy (.labels | default dict))) | nindent 2 }}
{{- with mergeOverwrite (deepCopy (.root.Values.commonAnnotations | default dict)) (deepCopy (.annotations | default dict)) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The full name of an image. Takes root and image; repository and tag: of an image that says neither. */}}
{{- define "samjobs.image" -}}
{{- $image := .image | default dict -}}
{{- $registry := (.root.Values.global | default dict).imageRegistry | default $image.registry -}}
{{- $repository := $image.repository | default .repository -}}
{{- $name := ternary (printf "%s/%s" $registry $repository) $repository (not (empty $registry)) -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $name $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name ($image.tag | default .tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* Secrets for the registries as a pod has them, as JSON: charts around this one may give their names alone. */}}
{{- define "samjobs.pullSecrets" -}}
{{- $found := list -}}
{{- range (.Values.global | default dict).imagePullSecrets -}}
{{- $found = append $found (kindIs "string" . | ternary (dict "name" .) .) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* A value as the text of an environment variable; large numbers stay whole. */}}
{{- define "samjobs.text" -}}
{{- if kindIs "string" . -}}{{ . }}{{- else -}}{{ toJson . }}{{- end -}}
{{- end -}}
