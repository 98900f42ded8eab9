{{- define "haltline.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "haltline.fullname" -}}
{{- $name := include "haltline.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "haltline.selector" -}}
app.kubernetes.io/name: {{ include "haltline.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Of every object. */ -}}
{{- define "haltline.labels" -}}
{{ include "haltline.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- define "haltline.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "haltline.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{- define "haltline.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* What every process reads from its environment. */ -}}
{{- define "haltline.env" -}}
HALTLINE_BOOTSTRAP: {{ .Values.kafka.bootstrap | quote }}
HALTLINE_CLIENT_CONFIG: /etc/haltline/client.properties
HALTLINE_RULES: {{ ternary "enforced" "all" .Values.shadow.enabled }}
{{- if .Values.audit.enabled }}
HALTLINE_AUDIT_TABLE: {{ .Values.audit.table.url | default "/var/lib/haltline-audit/audit" }}
HALTLINE_AUDIT_PUBLIC_KEY: /etc/haltline-public-key/audit-key.pem.pub
{{- end }}
{{- with .Values.kafka.prefix }}
HALTLINE_PREFIX: {{ . | quote }}
{{- end }}
{{- range $name, $value := .Values.env }}
{{ $name }}: {{ $value | quote }}
{{- end }}
{{- end }}

{{- /* Labels and annotations of a pod: (list . "worker"). */ -}}
{{- define "haltline.podMetadata" -}}
{{- $root := index . 0 }}
{{- $values := index $root.Values (index . 1) -}}
labels:
  {{- include "haltline.selector" $root | nindent 2 }}
  app.kubernetes.io/component: {{ index . 1 }}
annotations: {{ merge (dict "checksum/env" (include "haltline.env" $root | sha256sum)) ($values.podAnnotations | default dict) | toJson }}
{{- end }}

{{- /* The head of a pod's spec: (list . "worker"). */ -}}
{{- define "haltline.pod" -}}
{{- $root := index . 0 }}
{{- $values := index $root.Values (index . 1) -}}
automountServiceAccountToken: false
{{- /* Variables that Kubernetes makes of Services could have the names of settings. */}}
enableServiceLinks: false
{{- if not (and (eq (index . 1) "topics") $root.Values.topics.hook) }}
serviceAccountName: {{ include "haltline.serviceAccount" $root }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $values $key }}
{{ $key }}: {{ toJson . }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- /* The arguments of a container: (list .Values.worker "worker" "--option" "value"). */ -}}
{{- define "haltline.args" -}}
args: {{ concat (rest .) ((first .).extraArgs | default list) | toJson }}
{{- end }}

{{- /* What a container may do, and use: its values. */ -}}
{{- define "haltline.limits" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
resources: {{ toJson .resources }}
{{- end }}

{{- /* What a probe asks: (list "port" "/path" "HTTP"), or HTTPS, or TCP where only clients with a certificate may ask. */ -}}
{{- define "haltline.asks" -}}
{{- if eq (index . 2) "TCP" }}tcpSocket: {port: {{ index . 0 }}}
{{- else }}httpGet: {path: {{ index . 1 }}, port: {{ index . 0 }}{{ if eq (index . 2) "HTTPS" }}, scheme: HTTPS{{ end }}}
{{- end }}
{{- end }}

{{- /* Probes of a process: (list "port" starts "/readyz"), and how it is asked where that is not HTTP. */ -}}
{{- define "haltline.probes" -}}
{{- $how := "HTTP" }}
{{- if gt (len .) 3 }}{{ $how = index . 3 }}{{ end -}}
startupProbe:
  {{ include "haltline.asks" (list (index . 0) "/healthz" $how) }}
  periodSeconds: 5
  failureThreshold: {{ index . 1 }}
livenessProbe:
  {{ include "haltline.asks" (list (index . 0) "/healthz" $how) }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
readinessProbe:
  {{ include "haltline.asks" (list (index . 0) (index . 2) $how) }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end }}

{{- /* One volume of a Secret: (list "name" "secret") or with one file of it: (list "name" "secret" "file"). */ -}}
{{- define "haltline.secret" -}}
- name: {{ index . 0 }}
  secret: {secretName: {{ index . 1 }}, defaultMode: 0440{{ if gt (len .) 2 }}, items: [{key: {{ index . 2 }}, path: {{ index . 2 }}}]{{ end }}}
{{- end }}

{{- define "haltline.tmp" -}}
- name: tmp
  emptyDir: {sizeLimit: 64Mi}
{{- end }}

{{- /* Where agents check the sender of records: the path of the public key, and its volume. */ -}}
{{- define "haltline.verifyKey" -}}
- name: HALTLINE_VERIFY_KEY
  valueFrom: {configMapKeyRef: {name: {{ include "haltline.fullname" . }}-sealing, key: verify-key, optional: {{ not .Values.sealing.enabled }}}}
{{- end }}

{{- define "haltline.sealingSecret" -}}
{{- $root := index . 0 -}}
- name: {{ index . 1 }}
  secret: {secretName: {{ $root.Values.sealing.secret }}, optional: {{ not $root.Values.sealing.enabled }}, defaultMode: 0440, items: [{key: {{ index . 2 }}, path: {{ index . 2 }}}]}
{{- end }}

{{- /* The audit table as sink and verifier see it, and the options of its store. */ -}}
{{- define "haltline.table" -}}
{{- $args := list "--table" (.Values.audit.table.url | default "/var/lib/haltline-audit/audit") }}
{{- toJson (concat $args (include "haltline.tableOptions" . | fromJsonArray)) }}
{{- end }}

{{- define "haltline.tableOptions" -}}
{{- $args := list }}
{{- range $name, $value := .Values.audit.table.options }}
{{- $args = concat $args (list "--storage-option" (printf "%s=%v" $name $value)) }}
{{- end }}
{{- toJson $args }}
{{- end }}

{{- /* Variables with the credentials of its store, as an entry of `envFrom`. */ -}}
{{- define "haltline.tableSecret" -}}
{{- with .Values.audit.table.secret }}
            - secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{- define "haltline.budget" -}}
{{- $root := index . 0 -}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "haltline.fullname" $root }}-{{ index . 1 }}
  labels:
    {{- include "haltline.labels" $root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "haltline.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "haltline.claim" -}}
volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: {{ .accessModes | default (list "ReadWriteOnce") | toJson }}
      {{- with .className }}
      storageClassName: {{ . }}
      {{- end }}
      resources: {requests: {storage: {{ .size }}}}
{{- end }}
