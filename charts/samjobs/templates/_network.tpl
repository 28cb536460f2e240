{{/* Who may reach the health ports, as ingress rules. */}}
{{- define "samjobs.metricsFrom" -}}
- ports: [{protocol: TCP, port: health}]
{{- with (.Values.networkPolicy | default dict).metricsFrom }}
  from:
    {{- toYaml . | nindent 4 }}
    # The pod of `helm test`
    - podSelector:
        matchLabels:
          {{- include "samjobs.selector" (dict "root" $ "component" "test") | nindent 10 }}
{{- end }}
{{- end -}}
