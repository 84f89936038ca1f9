{{- /* Combinations that cannot work fail before anything is installed. */ -}}
{{- define "ragmon.validate" -}}
{{- include "ragmon.validate.config" . -}}
{{- include "ragmon.validate.network" . -}}
{{- include "ragmon.validate.monitoring" . -}}
{{- if and .Values.persistence.existingClaim (not .Values.persistence.enabled) -}}
{{- fail "persistence.existingClaim needs persistence.enabled" -}}
{{- end -}}
{{- if and .Values.persistence.existingClaim .Values.persistence.dataSource -}}
{{- fail "persistence.dataSource is for a new volume, and persistence.existingClaim is none" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) (eq (dig "store" "kind" "sqlite" .Values.config) "sqlite") -}}
{{- fail "replicas: the embedded store has one writer; more need a shared store in config.store" -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.validate.config" -}}
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
{{- if dig "tls" "cert_file" "" $config -}}
{{- fail "config.tls: probes, monitors and `helm test` of this chart speak HTTP; end TLS at the Ingress, the gateway or a mesh" -}}
{{- end -}}
{{- $text := toYaml $config -}}
{{- range $secret := list "api_key" "routing_key" "webhook_url" "secret" "password" "token" -}}
{{- if regexMatch (printf "(?m)^[ -]*['\"]?%s['\"]?: ." $secret) $text -}}
{{- fail (printf "%s in config would stand in a ConfigMap; use %s_file with secretFiles" $secret $secret) -}}
{{- end -}}
{{- end -}}
{{- if regexMatch "(?m)^[ -]*['\"]?headers['\"]?:($| +[^ {]| +{[^}])" $text -}}
{{- fail "headers in config would stand in a ConfigMap, and they may hold credentials; set them by extraEnv from a Secret, for example RAGMON_JUDGE__LLM__HEADERS with valueFrom.secretKeyRef and a value such as {Authorization: Bearer ...}" -}}
{{- end -}}
{{- if regexMatch "://[^/@ '\"]*@" $text -}}
{{- fail "a URL with a user or password in config would stand in a ConfigMap; take the credentials out of the URL" -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.auth.extraTokens -}}
{{- if has .name $names -}}
{{- fail (printf "auth.extraTokens: two tokens are named %s" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.validate.network" -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.enabled needs ingress.hosts" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.enabled needs httpRoute.parentRefs" -}}
{{- end -}}
{{- $grpc := include "ragmon.grpcPort" . -}}
{{- if and $grpc (eq (int .Values.service.grpcPort) (int .Values.service.port)) -}}
{{- fail "service.grpcPort must differ from service.port" -}}
{{- end -}}
{{- if and $grpc (not (has (dig "otlp" "grpc" "" .Values.config) (list (printf "0.0.0.0:%s" $grpc) (printf "[::]:%s" $grpc)))) -}}
{{- fail "config.otlp.grpc must listen on every address: 0.0.0.0:PORT or [::]:PORT" -}}
{{- end -}}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") -}}
{{- fail "service.nodePort needs service.type NodePort or LoadBalancer" -}}
{{- end -}}
{{- if and .Values.service.loadBalancerSourceRanges (ne .Values.service.type "LoadBalancer") -}}
{{- fail "service.loadBalancerSourceRanges needs service.type LoadBalancer" -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.validate.monitoring" -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor would scrape each pod twice; enable one" -}}
{{- end -}}
{{- range $key := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := index $.Values $key -}}
{{- if gt (include "ragmon.milliseconds" $monitor.scrapeTimeout | int) (include "ragmon.milliseconds" $monitor.interval | int) -}}
{{- fail (printf "%s.scrapeTimeout must not exceed %s.interval" $key $key) -}}
{{- end -}}
{{- end -}}
{{- $known := list -}}
{{- range $path, $_ := .Files.Glob "rules/Ragmon*.yaml" -}}
{{- $known = append $known (base $path | trimSuffix ".yaml") -}}
{{- end -}}
{{- range .Values.prometheusRule.disabled -}}
{{- if not (has . $known) -}}
{{- fail (printf "prometheusRule.disabled: there is no alert %s" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
