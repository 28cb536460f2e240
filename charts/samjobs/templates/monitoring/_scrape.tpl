{{/* How a monitor's endpoint is scraped. */}}
{{- define "samjobs.scrape" -}}
path: /metrics
interval: {{ .interval | default "30s" | quote }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . | quote }}
{{- end }}
honorLabels: {{ .honorLabels | default false }}
{{- with .relabelings }}
relabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
