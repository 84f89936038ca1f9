{{- define "ragmon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "ragmon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "ragmon.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "ragmon.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "ragmon.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ragmon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ragmon.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "ragmon.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: monitor
app.kubernetes.io/part-of: ragmon
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- /* Metadata of an object: (dict "root" $, and what differs of "name" "namespace" "labels" "annotations"). */ -}}
{{- define "ragmon.metadata" -}}
name: {{ default (include "ragmon.fullname" .root) .name }}
namespace: {{ default (include "ragmon.namespace" .root) .namespace }}
labels:
  {{- include "ragmon.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict (default dict .annotations) .root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "ragmon.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "ragmon.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.image" -}}
{{- with .Values.image -}}
{{- $name := ternary .repository (printf "%s/%s" .registry .repository) (empty .registry) -}}
{{- if .digest -}}
{{- printf "%s@%s" $name .digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.secretName" -}}
{{- default (printf "%s-token" (include "ragmon.fullname" .)) .Values.auth.existingSecret -}}
{{- end -}}

{{- /* Key of the senders' token, or nothing. */ -}}
{{- define "ragmon.ingestKey" -}}
{{- default (ternary "" "ingest-token" (not (empty .Values.auth.existingSecret))) .Values.auth.ingestKey -}}
{{- end -}}

{{- /* Port of config.otlp.grpc, or nothing. */ -}}
{{- define "ragmon.grpcPort" -}}
{{- dig "otlp" "grpc" "" .Values.config | splitList ":" | last -}}
{{- end -}}

{{- /* What the user sets, and what belongs to the chart: address, data, tokens as files. */ -}}
{{- define "ragmon.config" -}}
{{- $tokens := list (dict "name" "chart" "scopes" .Values.auth.scopes "token_file" "/run/ragmon/tokens/chart") -}}
{{- if include "ragmon.ingestKey" . -}}
{{- $tokens = append $tokens (dict "name" "chart-ingest" "scopes" (list "ingest") "token_file" "/run/ragmon/tokens/chart-ingest") -}}
{{- end -}}
{{- range .Values.auth.extraTokens -}}
{{- $tokens = append $tokens (dict "name" .name "scopes" .scopes "token_file" (printf "/run/ragmon/tokens/%s" .name)) -}}
{{- end -}}
{{- $auth := merge (dict "tokens" $tokens) (default dict .Values.config.auth) -}}
{{- $own := dict "host" "0.0.0.0" "port" 8321 "data_dir" "/data" "auth" $auth -}}
{{- toYaml (merge $own .Values.config) -}}
{{- end -}}

{{- /* What selects and scrapes the pod: the same for a ServiceMonitor and a PodMonitor. */ -}}
{{- define "ragmon.endpoint" -}}
- port: http
  path: /metrics
  interval: {{ .interval }}
  scrapeTimeout: {{ .scrapeTimeout }}
  relabelings:
    # The rules select this job by its name.
    - targetLabel: job
      replacement: ragmon
    {{- with .relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{- /* A Prometheus duration of one unit, in milliseconds. */ -}}
{{- define "ragmon.milliseconds" -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- mul (trimSuffix $unit . | int) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit) -}}
{{- end -}}
