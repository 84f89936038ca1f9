"""What the chart's values do: settings arrive whole, rights stay few, and nonsense is refused."""

import json
import re

import helm_python
import pytest

from ragmon.config import load
from tests.support.chart import (
    CHART,
    VARIANTS,
    container,
    objects,
    of_kind,
    of_workers,
    pod,
    texts,
)

OWN = [name for name in VARIANTS if name not in {"everything", "dashboards", "platform"}]


@pytest.fixture(scope="module")
def chart():
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


def settings(chart, tmp_path, values: dict):
    """What ragmon makes of the rendered ragmon.yaml."""
    path = tmp_path / "ragmon.yaml"
    path.write_text(of_kind(chart, "ConfigMap", **values)["data"]["ragmon.yaml"], encoding="utf-8")
    return load(path, environment={}).settings


def secret_files(chart, volume: str, **values) -> dict[str, tuple[str, str]]:
    """File to (Secret, key) of a volume of Secrets."""
    found = [each for each in pod(chart, **values)["volumes"] if each["name"] == volume]
    sources = [each["secret"] for volume in found for each in volume["projected"]["sources"]]
    return {item["path"]: (each["name"], item["key"]) for each in sources for item in each["items"]}


@pytest.mark.parametrize("variant", OWN)
def test_ragmon_takes_the_rendered_settings(chart, variant, tmp_path):
    values = VARIANTS[variant]
    got = settings(chart, tmp_path, values)
    assert (got.host, got.port, str(got.data_dir)) == ("0.0.0.0", 8321, "/data")
    auth = values.get("auth", {})
    made = [] if auth.get("existingSecret") else ["chart-ingest"]
    names = [
        "chart",
        *(["chart-ingest"] if auth.get("ingestKey") else made),
        *(each["name"] for each in values.get("auth", {}).get("extraTokens", [])),
    ]
    assert [token.name for token in got.auth.tokens] == names
    files = {f"/run/ragmon/tokens/{name}" for name in secret_files(chart, "tokens", **values)}
    named = {str(token.token_file) for token in got.auth.tokens if token.token_file}
    assert named == files
    assert [token.name for token in got.auth.tokens if token.generate] == (
        ["chart", "chart-ingest"] if made else []
    )


def test_sinks_and_judges_read_their_secrets_from_files(chart, tmp_path):
    got = settings(chart, tmp_path, VARIANTS["secrets"])
    folder = "/run/ragmon/secrets"
    assert str(got.judge.llm.api_key_file) == f"{folder}/llm"
    assert f"{folder}/slack" in repr(got.sinks[0])


def test_numbers_of_the_user_arrive_whole(chart, tmp_path):
    got = settings(chart, tmp_path, VARIANTS["settings"])
    assert got.limits.queue == 134_217_728
    assert got.privacy.text == "redact"
    assert got.slices == ("tenant", "locale")


def test_no_secret_stands_in_clear(chart):
    assert secret_files(chart, "tokens", **VARIANTS["existing"]) == {
        "chart": ("rag-tokens", "admin.token"),
        "checkout": ("rag-tokens", "checkout"),
    }
    assert secret_files(chart, "secrets", **VARIANTS["secrets"]) == {
        "llm": ("judge", "api-key"),
        "slack": ("sinks", "slack.url"),
    }
    mounts = {
        each["mountPath"]: each for each in container(chart, **VARIANTS["secrets"])["volumeMounts"]
    }
    assert mounts["/run/ragmon/secrets"]["readOnly"]


@pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "openshift"])
def test_the_pod_has_few_rights(chart, variant):
    found = pod(chart, **VARIANTS[variant])
    assert found["securityContext"]["runAsNonRoot"]
    assert found["securityContext"]["runAsUser"] == 10001
    assert found["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not found["automountServiceAccountToken"]
    assert found["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_openshift_may_choose_the_ids(chart):
    assert pod(chart, **VARIANTS["openshift"])["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_probes_ask_what_they_mean(chart):
    asked = container(chart)
    paths = {name: asked[name]["httpGet"]["path"] for name in asked if name.endswith("Probe")}
    assert paths == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    patient = container(chart, **VARIANTS["everything"])["readinessProbe"]
    assert (patient["periodSeconds"], patient["timeoutSeconds"]) == (10, 3)


def test_a_change_of_settings_restarts_the_pod(chart):
    def checksum(**values):
        template = of_kind(chart, "StatefulSet", **values)["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum() == checksum(service={"port": 80})
    assert checksum() != checksum(config={"max_series": 7})


def test_what_cannot_be_upgraded_keeps_still(chart):
    def fixed(**values):
        spec = of_kind(chart, "StatefulSet", **values)["spec"]
        return spec["selector"], spec["serviceName"], spec["volumeClaimTemplates"]

    changed = {
        "image": {"tag": "9.9.9"},
        "commonLabels": {"a": "b"},
        "commonAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
    }
    assert fixed() == fixed(**changed)


def test_whatever_selects_the_pod_finds_it(chart):
    labels = of_kind(chart, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    policy = of_kind(chart, "NetworkPolicy", **VARIANTS["networkpolicy"])["spec"]
    selectors = [
        of_kind(chart, "Service")["spec"]["selector"],
        policy["podSelector"]["matchLabels"],
    ]
    for kind, variant in [
        ("StatefulSet", "default"),
        ("PodDisruptionBudget", "disruption"),
        ("PodMonitor", "podmonitor"),
    ]:
        found = of_kind(chart, kind, **VARIANTS[variant])
        selectors.append(found["spec"]["selector"]["matchLabels"])
    for selector in selectors:
        assert selector.items() <= labels.items()
    # … and the pod of `helm test` is not taken for ragmon.
    test = of_kind(chart, "Pod")["metadata"]["labels"]
    assert not selectors[0].items() <= test.items()
    service = of_kind(chart, "Service")["metadata"]["labels"]
    monitor = of_kind(chart, "ServiceMonitor", serviceMonitor={"enabled": True})
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service.items()


@pytest.mark.parametrize(
    ("kind", "endpoints", "values"),
    [
        ("ServiceMonitor", "endpoints", VARIANTS["monitoring"]),
        ("PodMonitor", "podMetricsEndpoints", VARIANTS["podmonitor"]),
    ],
)
def test_the_scraped_job_is_the_one_that_the_rules_select(chart, kind, endpoints, values):
    (endpoint,) = of_kind(chart, kind, **values)["spec"][endpoints]
    assert {"targetLabel": "job", "replacement": "ragmon"} in endpoint["relabelings"]
    ports = {each["name"] for each in container(chart)["ports"]}
    assert endpoint["port"] in ports


def test_routes_lead_to_the_service(chart):
    service = of_kind(chart, "Service")
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    ingress = of_kind(chart, "Ingress", **VARIANTS["ingress"])
    assert [each["host"] for each in ingress["spec"]["rules"]] == VARIANTS["ingress"]["ingress"][
        "hosts"
    ]
    for each in ingress["spec"]["rules"]:
        (path,) = each["http"]["paths"]
        assert path["backend"]["service"]["name"] == service["metadata"]["name"]
        assert path["backend"]["service"]["port"]["name"] in ports
    route = of_kind(chart, "HTTPRoute", **VARIANTS["httproute"])
    assert route["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert route["spec"].keys() == {"parentRefs", "hostnames", "rules"}
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": service["metadata"]["name"], "port": ports["http"]}]
    assert len(rule["matches"]) == 2


def test_otlp_over_grpc_is_open_where_it_is_configured(chart):
    service = of_kind(chart, "Service", **VARIANTS["grpc"])["spec"]["ports"]
    assert {each["name"]: each["port"] for each in service} == {"http": 8321, "otlp-grpc": 4317}
    ports = container(chart, **VARIANTS["grpc"])["ports"]
    assert {each["name"]: each["containerPort"] for each in ports} == {
        "http": 8321,
        "otlp-grpc": 4317,
    }
    assert [each["name"] for each in of_kind(chart, "Service")["spec"]["ports"]] == ["http"]


def test_what_a_platform_team_says_reaches_everything(chart, tmp_path):
    values = VARIANTS["platform"]
    found = pod(chart, **values)
    assert found["containers"][0]["image"].startswith("mirror.example.org/ragmon/ragmon:")
    assert found["imagePullSecrets"] == [{"name": "mirror"}, {"name": "other"}]
    assert of_kind(chart, "StatefulSet", **values)["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert of_kind(chart, "Service", **values)["metadata"]["labels"]["exposed"] == "inside"
    volumes = {each["name"]: each for each in found["volumes"]}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "2Gi", "medium": "Memory"}
    got = settings(chart, tmp_path, values)
    assert got.alerts.labels == {"cluster": "eu-1", "team": "search"}
    assert got.auth.protect_metrics


def test_a_monitor_says_what_its_prometheus_needs(chart):
    monitor = of_kind(chart, "ServiceMonitor", **VARIANTS["platform"])
    assert monitor["metadata"]["namespace"] == "watching"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["ops"]}
    assert monitor["spec"]["jobLabel"] == "app.kubernetes.io/name"
    assert monitor["spec"]["sampleLimit"] == 20_000
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"] == {"credentials": {"name": "ragmon-read", "key": "token"}}
    assert (endpoint["scheme"], endpoint["honorLabels"]) == ("https", True)
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
    assert {"targetLabel": "cluster", "replacement": "eu-1"} in endpoint["relabelings"]
    plain = of_kind(chart, "ServiceMonitor", serviceMonitor={"enabled": True})["spec"]
    assert plain.keys() == {"selector", "endpoints"}


def test_the_headless_service_is_not_scraped_too(chart):
    services = [each for each in objects(chart, {}) if each["kind"] == "Service"]
    monitor = of_kind(chart, "ServiceMonitor", serviceMonitor={"enabled": True})
    (condition,) = monitor["spec"]["selector"]["matchExpressions"]
    headless = [each for each in services if condition["key"] in each["metadata"]["labels"]]
    assert condition["operator"] == "DoesNotExist"
    (named,) = headless
    assert len(services) == 2
    assert named["spec"]["clusterIP"] == "None"
    statefulset = of_kind(chart, "StatefulSet")
    assert statefulset["spec"]["serviceName"] == named["metadata"]["name"]


def test_an_alert_is_changed_by_its_name(chart):
    rule = of_kind(chart, "PrometheusRule", **VARIANTS["platform"])
    alerts = {
        each["alert"]: each
        for group in rule["spec"]["groups"]
        for each in group["rules"]
        if "alert" in each
    }
    assert rule["metadata"]["namespace"] == "watching"
    assert "RagmonAbsent" not in alerts
    down, firing = alerts["RagmonDown"], alerts["RagmonAlertFiring"]
    assert (down["for"], down["labels"]["severity"]) == ("10m", "warning")
    assert firing["labels"] == {"team": "search", "cluster": "eu-1"}
    others = [each for name, each in alerts.items() if name != "RagmonDown"]
    assert len({each["for"] for each in others}) > 1
    assert {each["labels"]["cluster"] for each in alerts.values()} == {"eu-1"}


def test_the_grafana_operator_gets_every_dashboard(chart):
    boards = [
        each for each in objects(chart, VARIANTS["platform"]) if each["kind"] == "GrafanaDashboard"
    ]
    uids = {json.loads(each["spec"]["json"])["uid"] for each in boards}
    assert {"ragmon-is-it-good", "ragmon-what-broke"} <= uids
    assert len(uids) == len(boards)
    for each in boards:
        assert each["metadata"]["namespace"] == "grafana"
        assert each["spec"]["instanceSelector"] == {"matchLabels": {"dashboards": "grafana"}}
        assert (each["spec"]["folder"], each["spec"]["resyncPeriod"]) == ("ragmon", "10m")


def test_an_emptydir_has_an_end(chart):
    volumes = {each["name"]: each for each in pod(chart, **VARIANTS["ephemeral"])["volumes"]}
    assert volumes["data"]["emptyDir"] == volumes["tmp"]["emptyDir"] == {"sizeLimit": "10Gi"}


def test_a_spread_counts_the_pods_of_this_release(chart):
    (spread,) = pod(chart, **VARIANTS["everything"])["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == {
        "app.kubernetes.io/name": "ragmon",
        "app.kubernetes.io/instance": "rag",
    }
    given = {"maxSkew": 1, "topologyKey": "a", "labelSelector": {"matchLabels": {"b": "c"}}}
    (spread,) = pod(chart, topologySpreadConstraints=[given])["topologySpreadConstraints"]
    assert spread == given


def test_more_replicas_want_a_shared_store(chart):
    shared = {"replicas": 3, "config": {"store": {"kind": "postgresql"}}}
    with pytest.raises(helm_python.HelmError, match="tokens of its own"):
        texts(chart, shared)
    shared["auth"] = {"existingSecret": "ragmon-token"}
    assert of_kind(chart, "Deployment", **shared)["spec"]["replicas"] == 3


def test_replicas_of_postgresql_have_no_volume_and_replace_each_other(chart, tmp_path):
    values = VARIANTS["postgresql"]
    kinds = [each["kind"] for each in objects(chart, values)]
    assert "StatefulSet" not in kinds
    assert kinds.count("Service") == 1  # headless ones give names to pods with volumes
    assert "PodDisruptionBudget" in kinds
    spec = of_kind(chart, "Deployment", **values)["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    volumes = {each["name"]: each for each in pod(chart, **values)["volumes"]}
    assert "emptyDir" in volumes["data"]
    assert settings(chart, tmp_path, values).replica.standby
    (address,) = container(chart, **values)["env"]
    assert address["name"] == "RAGMON_REPLICA__ADDRESS"
    assert address["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"


def test_replicas_prefer_different_nodes_unless_the_values_say_where(chart):
    (wish,) = pod(chart, **VARIANTS["postgresql"])["affinity"]["podAntiAffinity"].values()
    assert wish[0]["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    spread = [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]
    values = {**VARIANTS["postgresql"], "topologySpreadConstraints": spread}
    assert "affinity" not in pod(chart, **values)
    own = {"nodeAffinity": {}}
    assert pod(chart, **{**VARIANTS["postgresql"], "affinity": own})["affinity"] == own
    assert "affinity" not in pod(chart)


def test_replicas_may_reach_each_other_and_no_more(chart):
    values = {**VARIANTS["postgresql"], "networkPolicy": {"enabled": True, "from": [{"a": {}}]}}
    policy = of_kind(chart, "NetworkPolicy", **values)["spec"]
    own = {"podSelector": policy["podSelector"]}
    assert own in policy["ingress"][0]["from"]
    _, neighbours = policy["egress"]
    assert neighbours["to"] == [own]
    assert {each["port"] for each in neighbours["ports"]} == {"http", "otlp-grpc"}


def test_workers_are_pods_that_nothing_else_takes_for_its_own(chart, tmp_path):
    values = VARIANTS["workers"]
    spec = of_workers(chart, "Deployment", **values)["spec"]
    assert spec["replicas"] == 4
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"].items() <= labels.items()
    for kind in ("Service", "Deployment", "PodDisruptionBudget", "NetworkPolicy"):
        found = of_kind(chart, kind, **values)["spec"]
        selector = found.get("podSelector", found.get("selector"))
        assert not selector.get("matchLabels", selector).items() <= labels.items()
    for kind in ("PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
        found = of_workers(chart, kind, **values)["spec"]
        selector = found.get("podSelector", found.get("selector"))
        assert selector["matchLabels"].items() <= labels.items()


def test_workers_have_the_settings_of_the_evaluators_and_another_role(chart, tmp_path):
    values = VARIANTS["workers"]
    common = settings(chart, tmp_path, values)
    assert (common.replica.role, common.replica.standby) == ("evaluator", True)
    (worker,) = of_workers(chart, "Deployment", **values)["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each.get("value") for each in worker["env"]}
    environment = {name: value for name, value in given.items() if value is not None}
    path = tmp_path / "ragmon.yaml"
    assert load(path, environment=environment).settings.replica.role == "worker"
    assert worker["resources"]["requests"]["cpu"] == "500m"
    assert {each["name"] for each in worker["ports"]} == {"http"}


def test_series_of_the_store_have_one_name_and_those_of_workers_their_own(chart):
    values = VARIANTS["workers"]
    (own,) = of_kind(chart, "ServiceMonitor", **values)["spec"]["endpoints"]
    assert any(each.get("targetLabel") == "instance" for each in own["metricRelabelings"])
    (theirs,) = of_workers(chart, "PodMonitor", **values)["spec"]["podMetricsEndpoints"]
    assert "metricRelabelings" not in theirs
    assert {"targetLabel": "job", "replacement": "ragmon"} in theirs["relabelings"]


def test_workers_that_are_scaled_have_no_number_of_their_own(chart):
    values = VARIANTS["autoscaling"]
    assert "replicas" not in of_workers(chart, "Deployment", **values)["spec"]
    scaler = of_workers(chart, "HorizontalPodAutoscaler", **values)["spec"]
    assert scaler["scaleTargetRef"]["name"] == "rag-ragmon-worker"
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 16)


TOKEN = {"scopes": ["read"], "existingSecret": "a", "key": "b"}
TOPIC = {"kind": "kafka", "brokers": ["a:1"], "topic": "a"}
SHARED = {
    "config": {"store": {"kind": "postgresql", "dsn_file": "/a"}},
    "auth": {"existingSecret": "a"},
}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"replicas": 2}, "one writer", id="two writers of one store"),
        pytest.param(
            {"workers": {"replicas": 1}, "config": {"sources": [TOPIC]}},
            "workers need config.store",
            id="workers of one file",
        ),
        pytest.param({**SHARED, "workers": {"replicas": 1}}, "has 0", id="workers without a topic"),
        pytest.param(
            {**SHARED, "config": {**SHARED["config"], "replica": {"role": "worker"}}},
            "workers.replicas says",
            id="a role by hand",
        ),
        pytest.param(
            {**SHARED, "persistence": {"existingClaim": "a"}}, "no volume", id="a volume for nobody"
        ),
        pytest.param(
            {**SHARED, "updateStrategy": {"type": "OnDelete"}}, "Recreate", id="no Deployment's"
        ),
        pytest.param(
            {"config": {"store": {"kind": "postgresql", "dsn": "host=db password=a"}}},
            "dsn_file",
            id="a connection string in a ConfigMap",
        ),
        pytest.param({"replica": 1}, "replica", id="a typo"),
        pytest.param({"image": {"tga": "1"}}, "tga", id="a typo inside"),
        pytest.param({"config": {"port": 1}}, "config.port is set by the chart", id="its own port"),
        pytest.param(
            {"config": {"auth": {"tokens": [{"name": "a", "token": "b"}]}}},
            "existingSecret",
            id="a token in a ConfigMap",
        ),
        pytest.param(
            {"config": {"sinks": [{"kind": "slack", "webhook_url": "https://a"}]}},
            "webhook_url_file",
            id="a sink's secret in a ConfigMap",
        ),
        pytest.param(
            {"config": {"judge": {"llm": {"api_key": "a"}}}},
            "api_key_file",
            id="a judge's key in a ConfigMap",
        ),
        pytest.param(
            {"config": {"sinks": [{"kind": "webhook", "url": "https://a", "token": "b"}]}},
            "token_file",
            id="a sink's token in a ConfigMap",
        ),
        pytest.param(
            {"config": {"judge": {"llm": {"headers": {"Authorization": "Bearer b"}}}}},
            "RAGMON_JUDGE__LLM__HEADERS",
            id="a judge's headers in a ConfigMap",
        ),
        pytest.param(
            {"config": {"otlp_export": {"endpoint": "http://a", "headers": {"a": "b"}}}},
            "extraEnv",
            id="an exporter's headers in a ConfigMap",
        ),
        pytest.param(
            {"config": {"external_url": "https://user:word@host/"}},
            "out of the URL",
            id="a password in a URL in a ConfigMap",
        ),
        pytest.param(
            {"auth": {"extraTokens": [{"name": "chart-ingest", **TOKEN}]}},
            "extraTokens",
            id="the name of the senders' token",
        ),
        pytest.param(
            {"config": {"auth": {"protect_probes": True}}}, "probes", id="probes without a token"
        ),
        pytest.param(
            {"config": {"tls": {"cert_file": "/a", "key_file": "/b"}}}, "config.tls", id="TLS"
        ),
        pytest.param(
            {"persistence": {"enabled": False, "existingClaim": "a"}},
            "existingClaim",
            id="a claim, unused",
        ),
        pytest.param(
            {"persistence": {"existingClaim": "a", "dataSource": {"name": "b"}}},
            "dataSource",
            id="an old volume made from a snapshot",
        ),
        pytest.param(
            {"auth": {"extraTokens": [{"name": "chart", **TOKEN}]}}, "chart", id="the chart's name"
        ),
        pytest.param(
            {"auth": {"extraTokens": [{"name": "a", **TOKEN}, {"name": "a", **TOKEN}]}},
            "two tokens are named a",
            id="two tokens of one name",
        ),
        pytest.param({"ingress": {"enabled": True}}, "ingress.hosts", id="an Ingress for nothing"),
        pytest.param(
            {"httpRoute": {"enabled": True}}, "parentRefs", id="a route without a gateway"
        ),
        pytest.param(
            {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}},
            "twice",
            id="scraped twice",
        ),
        pytest.param(
            {"serviceMonitor": {"interval": "5s"}},
            "serviceMonitor.scrapeTimeout",
            id="a scrape longer than its interval",
        ),
        pytest.param(
            {"prometheusRule": {"overrides": {"RagmonGone": {"for": "1m"}}}},
            "no alert RagmonGone",
            id="an alert to change that is not there",
        ),
        pytest.param(
            {"config": {"auth": {"protect_metrics": True}}, "serviceMonitor": {"enabled": True}},
            "serviceMonitor.authorization",
            id="a scrape without a token",
        ),
        pytest.param(
            {"prometheusRule": {"disabled": ["RagmonGone"]}},
            "no alert RagmonGone",
            id="an alert that is not there",
        ),
        pytest.param(
            {"config": {"otlp": {"grpc": "127.0.0.1:4317"}}},
            "config.otlp.grpc",
            id="gRPC for the pod alone",
        ),
        pytest.param(
            {"config": {"otlp": {"grpc": "0.0.0.0:4317"}}, "service": {"grpcPort": 8321}},
            "service.grpcPort",
            id="two ports of one number",
        ),
        pytest.param({"service": {"nodePort": 30_000}}, "nodePort", id="a node's port, closed"),
        pytest.param(
            {"service": {"loadBalancerSourceRanges": ["192.0.2.0/24"]}},
            "LoadBalancer",
            id="networks of no balancer",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused(chart, values, message):
    with pytest.raises(helm_python.HelmError, match=re.escape(message)):
        texts(chart, values)


def notes(chart, **values) -> str:
    return texts(chart, values)["NOTES.txt"]


def test_senders_get_a_token_that_only_sends(chart, tmp_path):
    tokens = {token.name: token for token in settings(chart, tmp_path, {}).auth.tokens}
    assert tokens["chart-ingest"].scopes == ("ingest",)
    assert tokens["chart-ingest"].generate
    text = notes(chart)
    assert "exec rag-ragmon-0 -- ragmon token show chart-ingest)" in text
    assert "token=INGEST_TOKEN" in text


def test_an_existing_secret_needs_no_second_key(chart):
    values = VARIANTS["existing"]
    assert "chart-ingest" not in secret_files(chart, "tokens", **values)
    assert "set auth.ingestKey" in notes(chart, **values)
    named = {**values, "auth": {**values["auth"], "ingestKey": "app"}}
    assert secret_files(chart, "tokens", **named)["chart-ingest"] == ("rag-tokens", "app")
    assert "jsonpath='{.data.app}'" in notes(chart, **named)
    with pytest.raises(helm_python.HelmError, match="existingSecret, which is empty"):
        texts(chart, {"auth": {"ingestKey": "app"}})


def test_values_of_an_older_chart_render(chart, tmp_path):
    values = {"auth": {"ingestKey": None}}
    assert len(settings(chart, tmp_path, values).auth.tokens) == 2


def test_settings_that_only_look_like_secrets_pass(chart):
    config = {
        "judge": {"llm": {"base_url": "http://a", "max_tokens": 100, "headers": {}}},
        "sinks": [{"kind": "webhook", "url": "https://a/b@c", "token_file": "/run/x"}],
    }
    assert of_kind(chart, "ConfigMap", config=config)


def test_notes_say_what_is_next(chart):
    text = notes(chart)
    assert "port-forward svc/rag-ragmon 8321:8321" in text
    assert "exec rag-ragmon-0 -- ragmon token show chart)" in text
    assert "http://rag-ragmon.ops.svc:8321/v1/queries" in text
    assert "serviceMonitor.enabled=true" in text
    assert "WARNING" not in text
    assert "serviceMonitor.enabled=true" not in notes(chart, **VARIANTS["monitoring"])
    assert "https://ragmon.example.org/" in notes(chart, **VARIANTS["ingress"])
    assert "OTLP over gRPC at rag-ragmon.ops.svc:4317" in notes(chart, **VARIANTS["grpc"])


@pytest.mark.parametrize(
    ("metrics", "is_told"),
    [
        ({"exclude": ["ragmon_loop_*"]}, True),
        ({"intervals": "none"}, True),
        ({"max_series": 4000}, False),
        ({}, False),
    ],
)
def test_notes_name_the_commands_that_fit_dashboards_to_metrics(chart, metrics, is_told):
    values = {"config": {"metrics": metrics}}
    assert "ragmon dashboards" not in notes(chart, **values)
    text = notes(chart, **values, dashboards={"enabled": True})
    assert ("`ragmon dashboards`" in text) == is_told


@pytest.mark.parametrize(
    ("values", "warning"),
    [
        pytest.param(VARIANTS["ephemeral"], "persistence is off", id="no volume"),
        pytest.param(VARIANTS["paused"], "replicas is 0", id="paused"),
        pytest.param(
            {"config": {"auth": {"allow_anonymous": True}}}, "allow_anonymous", id="no token"
        ),
        pytest.param(
            {"ingress": {"enabled": True, "hosts": ["a.example.org"]}}, "no TLS", id="in clear"
        ),
        pytest.param(VARIANTS["loadbalancer"], "beyond the cluster", id="open"),
    ],
)
def test_notes_warn(chart, values, warning):
    (told,) = re.findall(r"WARNING: (.+)", notes(chart, **values))
    assert warning in told
