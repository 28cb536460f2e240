{{/* What the controller may do, in each namespace that it watches. No secret is ever read by the Kubernetes API. */}}

{{- define "samjobs.rules" -}}
- apiGroups: [samjobs.dev]
  resources: [samjobs]
  verbs: [get, list, watch, delete]    # delete: those whose ttlSecondsAfterFinished is over
- apiGroups: [samjobs.dev]
  resources: [samworkerpools]
  verbs: [get, list, watch]
- apiGroups: [samjobs.dev]
  resources: [samjobs/status, samworkerpools/status]
  verbs: [patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, create, patch]    # the garbage collector deletes them with their pool
- apiGroups: [""]
  resources: [pods]
  verbs: [list, patch]    # patch: which worker goes first
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end -}}

{{/* Two releases of one name in two namespaces do not share cluster roles. */}}
{{- define "samjobs.clusterName" -}}
{{- printf "%s-%s" (include "samjobs.namespace" .) (include "samjobs.fullname" .) | trunc 200 -}}
{{- end -}}

{{/* Who has a role. Takes root, kind and name; account: whose, in place of the controller's. */}}
{{- define "samjobs.binding" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | default (include "samjobs.serviceAccount" .root) | quote }}
    namespace: {{ include "samjobs.namespace" .root | quote }}
{{- end -}}
