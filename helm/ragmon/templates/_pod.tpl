{{- /* Where a pod runs, the same for ragmon and for `helm test`. */ -}}
{{- define "ragmon.placement" -}}
{{- $secrets := list -}}
{{- range concat .Values.global.imagePullSecrets .Values.imagePullSecrets -}}
{{- $secrets = append $secrets (ternary . (dict "name" .) (kindIs "map" .)) -}}
{{- end -}}
{{- with $secrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" "runtimeClassName" "dnsPolicy" "dnsConfig" "hostAliases" }}
{{- with index $.Values $key }}
{{ $key }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if not .Values.hostUsers }}
hostUsers: false
{{- end }}
securityContext: {{- toYaml .Values.podSecurityContext | nindent 2 }}
# Variables such as RAGMON_PORT that Kubernetes would add are no settings.
enableServiceLinks: false
{{- end -}}

{{- define "ragmon.template" -}}
metadata:
  labels:
    {{- include "ragmon.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "ragmon.config" . | sha256sum }}
    {{- with merge dict .Values.podAnnotations .Values.commonAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec: {{- include "ragmon.pod" . | nindent 2 }}
{{- end -}}

{{- /* Away from the other replicas, unless the values say where to run. */ -}}
{{- define "ragmon.spread" -}}
{{- if and (include "ragmon.isShared" .) (not .Values.affinity) (not .Values.topologySpreadConstraints) }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "ragmon.selectorLabels" . | nindent 14 }}
{{- end }}
{{- end -}}

{{- define "ragmon.pod" -}}
serviceAccountName: {{ include "ragmon.serviceAccountName" . }}
automountServiceAccountToken: {{ .Values.serviceAccount.automount }}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
{{- include "ragmon.placement" . }}
{{- include "ragmon.spread" . }}
{{- with .Values.topologySpreadConstraints }}
{{- $own := dict "labelSelector" (dict "matchLabels" (include "ragmon.selectorLabels" $ | fromYaml)) }}
topologySpreadConstraints:
  {{- range . }}
  - {{- ternary dict $own (hasKey . "labelSelector") | merge (deepCopy .) | toYaml | nindent 4 }}
  {{- end }}
{{- end }}
{{- with .Values.extraInitContainers }}
initContainers: {{- tpl (toYaml .) $ | nindent 2 }}
{{- end }}
containers:
  {{- include "ragmon.container" . | nindent 2 }}
  {{- with .Values.extraContainers }}
  {{- tpl (toYaml .) $ | nindent 2 }}
  {{- end }}
volumes: {{- include "ragmon.volumes" . | nindent 2 }}
{{- end -}}

{{- define "ragmon.container" -}}
- name: ragmon
  image: {{ include "ragmon.image" . | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: {{- concat (list "serve" "--config" "/etc/ragmon/ragmon.yaml") .Values.extraArgs | toYaml | nindent 4 }}
  securityContext: {{- toYaml .Values.containerSecurityContext | nindent 4 }}
  ports:
    - name: http
      containerPort: 8321
      protocol: TCP
    {{- with include "ragmon.grpcPort" . }}
    - name: otlp-grpc
      containerPort: {{ . }}
      protocol: TCP
    {{- end }}
  {{- $shared := include "ragmon.isShared" . }}
  {{- if or $shared .Values.extraEnv }}
  env:
    {{- if $shared }}
    # Where other replicas reach this one.
    - name: RAGMON_REPLICA__ADDRESS
      valueFrom: {fieldRef: {fieldPath: status.podIP}}
    {{- end }}
    {{- with .Values.extraEnv }}
    {{- tpl (toYaml .) $ | nindent 4 }}
    {{- end }}
  {{- end }}
  {{- with .Values.extraEnvFrom }}
  envFrom: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.lifecycle }}
  lifecycle: {{- toYaml . | nindent 4 }}
  {{- end }}
  startupProbe:
    httpGet: {path: /livez, port: http}
    {{- toYaml .Values.startupProbe | nindent 4 }}
  livenessProbe:
    httpGet: {path: /livez, port: http}
    {{- toYaml .Values.livenessProbe | nindent 4 }}
  readinessProbe:
    httpGet: {path: /readyz, port: http}
    {{- toYaml .Values.readinessProbe | nindent 4 }}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    - {name: data, mountPath: /data}
    - {name: tmp, mountPath: /tmp}
    - {name: config, mountPath: /etc/ragmon, readOnly: true}
    {{- if include "ragmon.tokenFiles" . | fromYamlArray }}
    - {name: tokens, mountPath: /run/ragmon/tokens, readOnly: true}
    {{- end }}
    {{- if .Values.secretFiles }}
    - {name: secrets, mountPath: /run/ragmon/secrets, readOnly: true}
    {{- end }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "ragmon.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ default .Values.persistence.size .Values.tmp.sizeLimit }}
    {{- with .Values.tmp.medium }}
    medium: {{ . }}
    {{- end }}
- name: config
  configMap:
    name: {{ include "ragmon.fullname" . }}
{{- with include "ragmon.tokenFiles" . | fromYamlArray }}
{{ include "ragmon.secretVolume" (dict "name" "tokens" "files" .) }}
{{- end }}
{{- with .Values.secretFiles }}
{{ include "ragmon.secretVolume" (dict "name" "secrets" "files" .) }}
{{- end }}
{{- if or (include "ragmon.isShared" .) (not .Values.persistence.enabled) }}
- name: data
  emptyDir:
    sizeLimit: {{ .Values.persistence.size }}
{{- else if .Values.persistence.existingClaim }}
- name: data
  persistentVolumeClaim:
    claimName: {{ .Values.persistence.existingClaim }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Keys of Secrets as files that only ragmon's group reads. */ -}}
{{- define "ragmon.secretVolume" -}}
- name: {{ .name }}
  projected:
    defaultMode: 0440
    sources:
      {{- range .files }}
      - secret:
          name: {{ .existingSecret }}
          items: [{key: {{ .key | quote }}, path: {{ .name | quote }}}]
      {{- end }}
{{- end -}}
