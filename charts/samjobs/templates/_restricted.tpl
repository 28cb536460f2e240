{{/* Of containers whose security nobody needs to change. */}}
{{- define "samjobs.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
