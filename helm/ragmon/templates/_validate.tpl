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
{{- if and (gt (int .Values.replicas) 1) (not (include "ragmon.isShared" .)) -}}
{{- fail "replicas: the embedded store has one writer; more need config.store: {kind: postgresql, dsn_file: …}" -}}
{{- end -}}
{{- include "ragmon.validate.workers" . -}}
{{- include "ragmon.validate.tokens" . -}}
{{- if include "ragmon.isShared" . -}}
{{- include "ragmon.validate.shared" . -}}
{{- else -}}
{{- include "ragmon.validate.upgrade" . -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.validate.workers" -}}
{{- if dig "replica" "role" "" .Values.config -}}
{{- fail "config.replica.role is set by the chart: workers.replicas says how many workers there are" -}}
{{- end -}}
{{- if include "ragmon.hasWorkers" . -}}
{{- if not (include "ragmon.isShared" .) -}}
{{- fail "workers: the embedded store has one writer; workers need config.store: {kind: postgresql, dsn_file: …}" -}}
{{- end -}}
{{- $topics := list -}}
{{- range default list .Values.config.sources -}}
{{- if and (eq (default "" .kind) "kafka") (eq (default "queries" .format) "queries") -}}
{{- $topics = append $topics .topic -}}
{{- end -}}
{{- end -}}
{{- if ne (len $topics) 1 -}}
{{- fail (printf "workers share one source of kind kafka with the format queries, and config.sources has %d" (len $topics)) -}}
{{- end -}}
{{- with .Values.workers.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{- fail "workers.autoscaling.minReplicas must not exceed maxReplicas" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "ragmon.validate.shared" -}}
{{- if .Values.persistence.existingClaim -}}
{{- fail "persistence.existingClaim: with config.store.kind postgresql pods have no volume; `ragmon copy-store` takes what is there into the database" -}}
{{- end -}}
{{- if not (dig "replica" "standby" true .Values.config) -}}
{{- fail "config.replica.standby is true in a Deployment: while it rolls, a pod waits for the one before" -}}
{{- end -}}
{{- if not (has (default "RollingUpdate" .Values.updateStrategy.type) (list "RollingUpdate" "Recreate")) -}}
{{- fail "updateStrategy.type of a Deployment, which config.store.kind postgresql makes, is RollingUpdate or Recreate" -}}
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
{{- if $auth.protect_probes -}}
{{- fail "config.auth.protect_probes: the kubelet's probes cannot send a token; use networkPolicy.enabled" -}}
{{- end -}}
{{- if dig "tls" "cert_file" "" $config -}}
{{- fail "config.tls: probes, monitors and `helm test` of this chart speak HTTP; end TLS at the Ingress, the gateway or a mesh" -}}
{{- end -}}
{{- $text := toYaml $config -}}
{{- range $secret := list "api_key" "routing_key" "webhook_url" "secret" "password" "token" "dsn" -}}
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
{{- end -}}

{{- define "ragmon.validate.tokens" -}}
{{- $names := list -}}
{{- range .Values.auth.extraTokens -}}
{{- if has .name $names -}}
{{- fail (printf "auth.extraTokens: two tokens are named %s" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- if not .Values.auth.existingSecret -}}
{{- if .Values.auth.ingestKey -}}
{{- fail "auth.ingestKey names a key of auth.existingSecret, which is empty" -}}
{{- end -}}
{{- if include "ragmon.isShared" . -}}
{{- fail "config.store.kind postgresql: each pod would make tokens of its own; give them all the same in auth.existingSecret" -}}
{{- end -}}
{{- /* Only `helm upgrade` sees the cluster here; what `helm template` renders does not depend on it. */ -}}
{{- $name := printf "%s-token" (include "ragmon.fullname" .) -}}
{{- with and .Release.IsUpgrade (lookup "v1" "Secret" (include "ragmon.namespace" .) $name) -}}
{{- if eq (dig "labels" "app.kubernetes.io/managed-by" "" .metadata) "Helm" -}}
{{- $ingest := ternary ",auth.ingestKey=ingest-token" "" (hasKey .data "ingest-token") -}}
{{- fail (printf "an earlier chart made the tokens of this release, in the Secret %s, and its senders use them: keep them by --set auth.existingSecret=%s%s, or delete the Secret to have ragmon make new ones" $name $name $ingest) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What Kubernetes would refuse in the midst of an upgrade; only `helm upgrade` sees the cluster here. */ -}}
{{- define "ragmon.validate.upgrade" -}}
{{- $name := include "ragmon.fullname" . -}}
{{- $namespace := include "ragmon.namespace" . -}}
{{- with and .Release.IsUpgrade (lookup "apps/v1" "StatefulSet" $namespace $name) -}}
{{- $changed := list -}}
{{- $claim := first (default list .spec.volumeClaimTemplates) -}}
{{- $persistence := $.Values.persistence -}}
{{- $pvc := printf "pvc data-%s-0" $name -}}
{{- $grow := "" -}}
{{- if ne (empty $claim) (or (not $persistence.enabled) (not (empty $persistence.existingClaim))) -}}
{{- $changed = append $changed "whether the volume is the StatefulSet's own" -}}
{{- else if $claim -}}
{{- $size := dig "spec" "resources" "requests" "storage" "0" $claim -}}
{{- if ne (include "ragmon.bytes" $size) (include "ragmon.bytes" $persistence.size) -}}
{{- $changed = append $changed (printf "persistence.size from %s to %s" $size $persistence.size) -}}
{{- $grow = printf `kubectl -n %s patch %s -p '{"spec":{"resources":{"requests":{"storage":"%s"}}}}', then ` $namespace $pvc $persistence.size -}}
{{- end -}}
{{- end -}}
{{- if ne .spec.serviceName (include "ragmon.headlessName" $) -}}
{{- $changed = append $changed (printf "the Service %s to %s" .spec.serviceName (include "ragmon.headlessName" $)) -}}
{{- end -}}
{{- if $changed -}}
{{- fail (printf "Kubernetes lets no StatefulSet change %s. Run %skubectl -n %s delete statefulset %s --cascade=orphan (pod and volume stay), and upgrade again" (join " and " $changed) $grow $namespace $name) -}}
{{- end -}}
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
{{- if and $monitor.enabled (not $monitor.authorization) (dig "protect_metrics" false (default dict $.Values.config.auth)) -}}
{{- fail (printf "config.auth.protect_metrics: Prometheus needs a token too; give it in %s.authorization, for example {credentials: {name: SECRET, key: KEY}}" $key) -}}
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
{{- range $name, $_ := .Values.prometheusRule.overrides -}}
{{- if not (has $name $known) -}}
{{- fail (printf "prometheusRule.overrides: there is no alert %s" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
