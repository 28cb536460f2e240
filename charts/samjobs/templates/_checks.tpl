{{/* What the schema cannot say of the values: refused here, before anything is sent to the cluster. */}}

{{- define "samjobs.checks" -}}
{{- $controller := .Values.controller | default dict -}}
{{- $api := .Values.api | default dict -}}
{{- $worker := .Values.worker | default dict -}}
{{- $given := dict "commonLabels" .Values.commonLabels "api.service.labels" (dig "service" dict $api).labels -}}
{{- range $name, $of := dict "controller" $controller "api" $api "worker" $worker -}}
{{- $_ := set $given (printf "%s.podLabels" $name) $of.podLabels -}}
{{- end -}}
{{- range $from, $labels := $given -}}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" -}}
{{- if hasKey ($labels | default dict) $label -}}
{{- fail (printf "%s sets %s, by which the chart's objects find each other: leave it out" $from $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $pools := list -}}
{{- range .Values.pools -}}
{{- if has .name $pools -}}
{{- fail (printf "pools: %s is there twice: leave one of them out, or give it another name" .name) -}}
{{- end -}}
{{- $pools = append $pools .name -}}
{{- $scaling := dig "spec" "scaling" dict . -}}
{{- $least := dig "minReplicas" 0 $scaling | int64 -}}
{{- $most := dig "maxReplicas" 1 $scaling | int64 -}}
{{- if gt $least $most -}}
{{- fail (printf "pools: %s: spec.scaling.minReplicas %d is above spec.scaling.maxReplicas %d (left out: 1): raise maxReplicas" .name $least $most) -}}
{{- end -}}
{{- end -}}
{{- $full := include "samjobs.fullname" . -}}
{{- $services := or (include "samjobs.api" .) (include "samjobs.embedded" .) (dig "enabled" true (.Values.metrics | default dict)) -}}
{{- if and $services (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $full)) -}}
{{- fail (printf "names of this release would begin with %q, and no Service may have such a name: set fullnameOverride to lower-case letters, digits and dashes, a letter first" $full) -}}
{{- end -}}
{{- end -}}
