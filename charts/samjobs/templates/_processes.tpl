{{/* What controller and workers are told alike: where their servers are, and their settings. */}}

{{- define "samjobs.embedded" -}}
{{- if dig "enabled" false (.Values.embedded | default dict) -}}true{{- end -}}
{{- end -}}

{{/* Whether a Postgres or Redis comes with the release. Takes root and server. */}}
{{- define "samjobs.embeds" -}}
{{- $given := index .root.Values .server | default dict -}}
{{- if and (include "samjobs.embedded" .root) (not $given.existingSecret) (not $given.url) -}}true{{- end -}}
{{- end -}}

{{- define "samjobs.embedsData" -}}
{{- $data := dig "data" dict (.Values.embedded | default dict) -}}
{{- if and (include "samjobs.embedded" .) (dig "enabled" true $data) -}}true{{- end -}}
{{- end -}}

{{/* Where an address is kept, as a secretKeyRef. Takes root, server and what it is for a person. */}}
{{- define "samjobs.address" -}}
{{- $given := index .root.Values .server | default dict -}}
{{- $full := include "samjobs.fullname" .root -}}
{{- if and $given.existingSecret $given.url -}}
{{- fail (printf "%s.existingSecret and %s.url are both set: leave one of them out" .server .server) -}}
{{- end -}}
{{- if $given.existingSecret -}}
name: {{ $given.existingSecret | quote }}
key: {{ $given.existingSecretKey | default "url" | quote }}
{{- else if $given.url -}}
name: "{{ $full }}-addresses"
key: {{ .server }}-url
{{- else if include "samjobs.embedded" .root -}}
name: "{{ $full }}-{{ .embedded }}"
key: url
{{- else -}}
{{- fail (printf "%s: no server is given: set %s.existingSecret (a Secret with the address in its key `url`), %s.url, or for a trial embedded.enabled=true" .server .server .server) -}}
{{- end -}}
{{- end -}}

{{- define "samjobs.databaseAddress" -}}
{{- include "samjobs.address" (dict "root" . "server" "database" "embedded" "postgres") -}}
{{- end -}}

{{- define "samjobs.redisAddress" -}}
{{- include "samjobs.address" (dict "root" . "server" "redis" "embedded" "redis") -}}
{{- end -}}

{{/* Environment of controller, migration and workers. */}}
{{- define "samjobs.env" -}}
{{- $database := .Values.database | default dict -}}
- name: SAMJOBS_DATABASE_URL
  valueFrom:
    secretKeyRef:
      {{- include "samjobs.databaseAddress" . | nindent 6 }}
- name: SAMJOBS_REDIS_URL
  valueFrom:
    secretKeyRef:
      {{- include "samjobs.redisAddress" . | nindent 6 }}
{{- with $database.sslmode }}
- name: PGSSLMODE
  value: {{ . | quote }}
{{- end }}
{{- if $database.caSecret }}
- name: PGSSLROOTCERT
  value: /etc/samjobs/database-ca/ca.crt
{{- end }}
{{- range $name, $value := .Values.settings }}
{{- if not (kindIs "invalid" $value) }}
- name: {{ $name }}
  value: {{ include "samjobs.text" $value | quote }}
{{- end }}
{{- end }}
{{- with (.Values.storage | default dict).env }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Where the environment comes from whole, for the same. */}}
{{- define "samjobs.envFrom" -}}
{{- with (.Values.storage | default dict).existingSecret -}}
- secretRef:
    name: {{ . | quote }}
{{- end -}}
{{- end -}}

{{- define "samjobs.volumes" -}}
{{- range $name := list "database" "redis" -}}
{{- with (index $.Values $name | default dict).caSecret }}
- name: {{ $name }}-ca
  secret:
    secretName: {{ . | quote }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- end }}
{{- end -}}

{{- define "samjobs.volumeMounts" -}}
{{- range $name := list "database" "redis" -}}
{{- with (index $.Values $name | default dict).caSecret }}
- name: {{ $name }}-ca
  mountPath: /etc/samjobs/{{ $name }}-ca
  readOnly: true
{{- end }}
{{- end }}
{{- end -}}

{{/* The pools that the controller makes. */}}
{{- define "samjobs.pools" -}}
{{- if .Values.pools -}}
{{ toYaml .Values.pools }}
{{- else if include "samjobs.embedded" . -}}
- name: default
  spec:
    engine: opencv
    resources:
      requests: {cpu: 250m, memory: 512Mi}
      limits: {memory: 2Gi}
    {{- if include "samjobs.embedsData" . }}
    volumes:
      - claim: "{{ include "samjobs.fullname" . }}-data"
        mountPath: /data
        readOnly: false
    {{- end }}
{{- else -}}
[]
{{- end -}}
{{- end -}}

{{/* An annotation that changes with the addresses in the values, and so rolls the workers; none where none is given:
     what an existing secret holds is not known here. */}}
{{- define "samjobs.addressesMark" -}}
{{- $given := printf "%s %s" ((.Values.database | default dict).url | default "") ((.Values.redis | default dict).url | default "") -}}
{{- if trim $given -}}
samjobs.dev/addresses: {{ $given | sha256sum | quote }}
{{- end -}}
{{- end -}}

{{/* The file that tells the controller about this installation (SAMJOBS_KUBERNETES_CONFIG). */}}
{{- define "samjobs.installation" -}}
{{- $worker := .Values.worker | default dict -}}
{{- $image := $worker.image | default dict -}}
namespace: {{ include "samjobs.namespace" . | quote }}
watchNamespaces: {{ include "samjobs.watched" . }}
listSeconds: {{ dig "listSeconds" 60 (.Values.controller | default dict) | int64 }}
worker:
  image: {{ include "samjobs.image" (dict "root" . "image" $image "repository" "samjobs-worker") | quote }}
  imagePullPolicy: {{ $image.pullPolicy | default "IfNotPresent" }}
  imagePullSecrets: {{ include "samjobs.pullSecrets" . }}
  allowedImages: {{ $worker.allowedImages | default list | toJson }}
  {{- with $worker.serviceAccountName }}
  serviceAccountName: {{ . | quote }}
  {{- end }}
  env:
    {{- include "samjobs.env" . | nindent 4 }}
    {{- with $worker.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  envFrom: {{ concat (include "samjobs.envFrom" . | fromYamlArray) ($worker.extraEnvFrom | default list) | default list | toJson }}
  volumes: {{ concat (include "samjobs.volumes" . | fromYamlArray) ($worker.extraVolumes | default list) | default list | toJson }}
  volumeMounts: {{ concat (include "samjobs.volumeMounts" . | fromYamlArray) ($worker.extraVolumeMounts | default list) | default list | toJson }}
  podLabels: {{ mergeOverwrite (deepCopy (.Values.commonLabels | default dict)) (deepCopy ($worker.podLabels | default dict)) | toJson }}
  podAnnotations: {{ merge (deepCopy ($worker.podAnnotations | default dict)) (include "samjobs.addressesMark" . | fromYaml) | toJson }}
  podSecurityContext: {{ $worker.podSecurityContext | default dict | toJson }}
  securityContext: {{ $worker.containerSecurityContext | default dict | toJson }}
defaultPools:
  {{- include "samjobs.pools" . | nindent 2 }}
{{- end -}}
