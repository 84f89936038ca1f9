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

{{- /* True where the store is in PostgreSQL, so that pods have no volume and there may be several. */ -}}
{{- define "ragmon.isShared" -}}
{{- if eq (dig "store" "kind" "sqlite" .Values.config) "postgresql" -}}true{{- end -}}
{{- end -}}

{{- /* True where workers read the topic, and the other pods count what they store. */ -}}
{{- define "ragmon.hasWorkers" -}}
{{- if or .Values.workers.autoscaling.enabled (gt (int .Values.workers.replicas) 0) -}}true{{- end -}}
{{- end -}}

{{- /* Values of a worker: pods of another name, so that neither the Service nor anything else takes them for
those that answer. */ -}}
{{- define "ragmon.worker" -}}
{{- $values := deepCopy .Values -}}
{{- $_ := set $values "nameOverride" (printf "%s-worker" (include "ragmon.name" . | trunc 45 | trimSuffix "-")) -}}
{{- $_ := set $values "fullnameOverride" (include "ragmon.fullname" .) -}}
{{- $_ := set $values "resources" .Values.workers.resources -}}
{{- $role := dict "name" "RAGMON_REPLICA__ROLE" "value" "worker" -}}
{{- $_ := set $values "extraEnv" (append .Values.extraEnv $role) -}}
{{- $_ := unset $values.config "otlp" -}}
{{- toYaml $values -}}
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
{{- $registry := default .registry $.Values.global.imageRegistry -}}
{{- $name := ternary .repository (printf "%s/%s" $registry .repository) (empty $registry) -}}
{{- if .digest -}}
{{- printf "%s@%s" $name .digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Name of a token's file in a volume of Secrets. */ -}}
{{- define "ragmon.tokenFile" -}}
{{- printf "/run/ragmon/tokens/%s" . -}}
{{- end -}}

{{- /* ragmon as people open it, without a slash at the end: as far as the chart can know. */ -}}
{{- define "ragmon.ownUrl" -}}
{{- if dig "external_url" "" .Values.config -}}
{{- trimSuffix "/" .Values.config.external_url -}}
{{- else if and .Values.ingress.enabled .Values.ingress.hosts -}}
{{- printf "%s://%s" (ternary "https" "http" (not (empty .Values.ingress.tls))) (first .Values.ingress.hosts) -}}
{{- else -}}
{{- printf "http://%s.%s.svc:%v" (include "ragmon.fullname" .) (include "ragmon.namespace" .) .Values.service.port -}}
{{- end -}}
{{- end -}}

{{- /* Tokens that come from Secrets, as files: [{name, existingSecret, key}]. */ -}}
{{- define "ragmon.tokenFiles" -}}
{{- $files := list -}}
{{- with .Values.auth -}}
{{- if .existingSecret -}}
{{- $files = append $files (dict "name" "chart" "existingSecret" .existingSecret "key" .key) -}}
{{- if .ingestKey -}}
{{- $files = append $files (dict "name" "chart-ingest" "existingSecret" .existingSecret "key" .ingestKey) -}}
{{- end -}}
{{- end -}}
{{- toYaml (concat $files .extraTokens) -}}
{{- end -}}
{{- end -}}

{{- /* Port of config.otlp.grpc, or nothing. */ -}}
{{- define "ragmon.grpcPort" -}}
{{- dig "otlp" "grpc" "" .Values.config | splitList ":" | last -}}
{{- end -}}

{{- /* What the user sets, and what belongs to the chart: address, data, tokens. Without a Secret ragmon makes
its two tokens itself, on its volume: nothing that is rendered holds a secret, and it is the same each time. */ -}}
{{- define "ragmon.config" -}}
{{- $own := dict "name" "chart" "scopes" .Values.auth.scopes -}}
{{- $ingest := dict "name" "chart-ingest" "scopes" (list "ingest") -}}
{{- $tokens := list -}}
{{- if not .Values.auth.existingSecret -}}
{{- $tokens = list (set $own "generate" true) (set $ingest "generate" true) -}}
{{- else -}}
{{- $tokens = list (set $own "token_file" (include "ragmon.tokenFile" "chart")) -}}
{{- if .Values.auth.ingestKey -}}
{{- $tokens = append $tokens (set $ingest "token_file" (include "ragmon.tokenFile" "chart-ingest")) -}}
{{- end -}}
{{- end -}}
{{- range .Values.auth.extraTokens -}}
{{- $tokens = append $tokens (dict "name" .name "scopes" .scopes "token_file" (include "ragmon.tokenFile" .name)) -}}
{{- end -}}
{{- $auth := merge (dict "tokens" $tokens) (default dict .Values.config.auth) -}}
{{- $own := dict "host" "0.0.0.0" "port" 8321 "data_dir" "/data" "auth" $auth -}}
{{- if .Values.externalLabels -}}
{{- $alerts := deepCopy (default dict .Values.config.alerts) -}}
{{- $labels := merge (default dict $alerts.labels) .Values.externalLabels -}}
{{- $_ := set $own "alerts" (merge (dict "labels" $labels) $alerts) -}}
{{- end -}}
{{- if include "ragmon.isShared" . -}}
{{- $replica := dict "standby" true -}}
{{- if include "ragmon.hasWorkers" . -}}
{{- $_ := set $replica "role" "evaluator" -}}
{{- end -}}
{{- $_ := set $own "replica" (merge $replica (default dict .Values.config.replica)) -}}
{{- end -}}
{{- toYaml (merge $own .Values.config) -}}
{{- end -}}

{{- /* Of a monitor as a whole, the same for a ServiceMonitor and a PodMonitor: (dict "root" $ "monitor" …). */ -}}
{{- define "ragmon.monitor" -}}
{{- with .monitor.jobLabel }}
jobLabel: {{ . }}
{{- end }}
{{- with .monitor.sampleLimit }}
sampleLimit: {{ . | int64 }}
{{- end }}
{{- if and .monitor.namespace (ne .monitor.namespace (include "ragmon.namespace" .root)) }}
namespaceSelector:
  matchNames: [{{ include "ragmon.namespace" .root }}]
{{- end }}
{{- end -}}

{{- /* What scrapes the pod: (dict "root" $ "monitor" …). */ -}}
{{- define "ragmon.endpoint" -}}
{{- $root := .root -}}
{{- with .monitor -}}
- port: http
  path: /metrics
  {{- if ne .scheme "http" }}
  scheme: {{ .scheme }}
  {{- end }}
  interval: {{ .interval }}
  scrapeTimeout: {{ .scrapeTimeout }}
  {{- if .honorLabels }}
  honorLabels: true
  {{- end }}
  {{- with .tlsConfig }}
  tlsConfig: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .authorization }}
  authorization: {{- toYaml . | nindent 4 }}
  {{- end }}
  relabelings:
    # The rules select this job by its name.
    - targetLabel: job
      replacement: ragmon
    {{- range $name, $value := $root.Values.externalLabels }}
    - targetLabel: {{ $name }}
      replacement: {{ $value | quote }}
    {{- end }}
    {{- with .relabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- $shared := include "ragmon.isShared" $root }}
  {{- if or $shared .metricRelabelings }}
  metricRelabelings:
    {{- if $shared }}
    {{- include "ragmon.onePod" (dict "name" (include "ragmon.fullname" $root)) | nindent 4 }}
    {{- end }}
    {{- with .metricRelabelings }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* Series of the store go on under one name, whichever pod is active, as those of one pod that is restarted:
rates, alerts and dashboards see no other instance after a take-over. A standby's own keep its pod. */ -}}
{{- define "ragmon.onePod" -}}
{{- range $label := list "instance" "pod" -}}
- sourceLabels: [{{ $label }}]
  targetLabel: __tmp_{{ $label }}
- sourceLabels: [__name__]
  regex: ragmon_.+
  targetLabel: {{ $label }}
  replacement: {{ $.name }}
- sourceLabels: [__name__, source, __tmp_{{ $label }}]
  regex: (?:ragmon_(?:leader|lease_epoch|store_up|build_info);[^;]*|ragmon_rejected_total;standby);(.+)
  targetLabel: {{ $label }}
{{ end -}}
- action: labeldrop
  regex: __tmp_.+
{{- end -}}

{{- /* Name of the headless Service, which gives the pod a name of its own. */ -}}
{{- define "ragmon.headlessName" -}}
{{- printf "%s-headless" (include "ragmon.fullname" .) -}}
{{- end -}}

{{- /* A quantity of Kubernetes in bytes. */ -}}
{{- define "ragmon.bytes" -}}
{{- $unit := regexFind "[A-Za-z]*$" . -}}
{{- $units := dict "" 1 "K" 1e3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 -}}
{{- floor (mulf (trimSuffix $unit . | float64) (get $units $unit)) | int64 -}}
{{- end -}}

{{- /* A Prometheus duration of one unit, in milliseconds. */ -}}
{{- define "ragmon.milliseconds" -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- mul (trimSuffix $unit . | int) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit) -}}
{{- end -}}
