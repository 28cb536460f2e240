{{/* How worker pods are found, which the controller makes. */}}

{{- define "samjobs.workers" -}}
matchLabels:
  app.kubernetes.io/name: samjobs
  app.kubernetes.io/component: worker
matchExpressions:
  - {key: samjobs.dev/pool, operator: Exists}
{{- end -}}

{{/* The numbers of a PodDisruptionBudget; minAvailable goes before maxUnavailable. */}}
{{- define "samjobs.budget" -}}
{{- if not (kindIs "invalid" .minAvailable) -}}
minAvailable: {{ .minAvailable | toJson }}
{{- else -}}
maxUnavailable: {{ kindIs "invalid" .maxUnavailable | ternary 1 .maxUnavailable | toJson }}
{{- end }}
{{- with .unhealthyPodEvictionPolicy }}
unhealthyPodEvictionPolicy: {{ . }}
{{- end }}
{{- end -}}
