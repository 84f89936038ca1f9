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

{{- define "ragmon.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ragmon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ragmon.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "ragmon.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: ragmon
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
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
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.secretName" -}}
{{- default (printf "%s-token" (include "ragmon.fullname" .)) .Values.auth.existingSecret -}}
{{- end -}}

{{- /* What the user sets, and what belongs to the chart: address, data, tokens as files. */ -}}
{{- define "ragmon.config" -}}
{{- $tokens := list (dict "name" "chart" "scopes" .Values.auth.scopes "token_file" "/run/ragmon/tokens/chart") -}}
{{- range .Values.auth.extraTokens -}}
{{- $tokens = append $tokens (dict "name" .name "scopes" .scopes "token_file" (printf "/run/ragmon/tokens/%s" .name)) -}}
{{- end -}}
{{- $auth := merge (dict "tokens" $tokens) (default dict .Values.config.auth) -}}
{{- $own := dict "host" "0.0.0.0" "port" 8321 "data_dir" "/data" "auth" $auth -}}
{{- toYaml (merge $own .Values.config) -}}
{{- end -}}

{{- /* Combinations that cannot work fail before anything is installed. */ -}}
{{- define "ragmon.validate" -}}
{{- $config := .Values.config -}}
{{- range list "host" "port" "data_dir" -}}
{{- if hasKey $config . -}}
{{- fail (printf "config.%s is set by the chart; take it out" .) -}}
{{- end -}}
{{- end -}}
{{- $auth := default dict $config.auth -}}
{{- if hasKey $auth "tokens" -}}
{{- fail "config.auth.tokens would stand in a ConfigMap; use auth.existingSecret and auth.extraTokens" -}}
{{- end -}}
{{- if $auth.protect_metrics -}}
{{- fail "config.auth.protect_metrics: the kubelet's probes cannot send a token; use networkPolicy.enabled" -}}
{{- end -}}
{{- if and .Values.persistence.existingClaim (not .Values.persistence.enabled) -}}
{{- fail "persistence.existingClaim needs persistence.enabled" -}}
{{- end -}}
{{- $limits := default dict $config.limits -}}
{{- if and $limits.queue .Values.prometheusRule.enabled (ne (toString (int64 $limits.queue)) (toString (int64 .Values.prometheusRule.queueBytes))) -}}
{{- fail "prometheusRule.queueBytes must equal config.limits.queue, in bytes" -}}
{{- end -}}
{{- end -}}
