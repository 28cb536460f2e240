{{/* The API: whether there is one, who it is, and what it is told. It speaks to the database and the storage alone. */}}

{{- define "samjobs.api" -}}
{{- if dig "enabled" true (.Values.api | default dict) -}}true{{- end -}}
{{- end -}}

{{/* How it knows its callers: kubernetes or tokens. */}}
{{- define "samjobs.apiAccess" -}}
{{- $a := .Values.api | default dict -}}
{{- $access := $a.access | default "kubernetes" -}}
{{- if and (eq $access "tokens") (not $a.tokensSecret) -}}
{{- fail "api.access is tokens, and api.tokensSecret is not set: name a Secret whose key tokens.yaml holds what `samjobs token` writes" -}}
{{- end -}}
{{- $access -}}
{{- end -}}

{{- define "samjobs.apiServiceAccount" -}}
{{- $of := dig "serviceAccount" dict (.Values.api | default dict) -}}
{{- if dig "create" true $of -}}
{{- $of.name | default (printf "%s-api" (include "samjobs.fullname" .)) -}}
{{- else -}}
{{- $of.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The environment of all processes, less the way to Redis. */}}
{{- define "samjobs.apiEnv" -}}
{{- $env := list -}}
{{- range include "samjobs.env" . | fromYamlArray -}}
{{- if ne .name "SAMJOBS_REDIS_URL" -}}
{{- $env = append $env . -}}
{{- end -}}
{{- end -}}
{{- toYaml $env -}}
{{- end -}}

{{- define "samjobs.apiVolumes" -}}
{{- $found := list -}}
{{- range include "samjobs.volumes" . | fromYamlArray -}}
{{- if ne .name "redis-ca" -}}
{{- $found = append $found . -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{- define "samjobs.apiVolumeMounts" -}}
{{- $found := list -}}
{{- range include "samjobs.volumeMounts" . | fromYamlArray -}}
{{- if ne .name "redis-ca" -}}
{{- $found = append $found . -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}
