"""Where settings come from, which one wins, and errors that name the key and a remedy."""

from pathlib import Path

import pytest

from ragmon.config import load
from ragmon.config.loading import keys
from ragmon.errors import SettingsError
from ragmon.plugins import nearest


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "given.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def value(settings, key: str):
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


def refused(tmp_path, text="", flags=None, environment=None) -> str:
    with pytest.raises(SettingsError) as caught:
        load(file(tmp_path, text), flags, environment or {})
    return str(caught.value)


def test_everything_has_a_working_default():
    loaded = load(None, {}, {})
    settings = loaded.settings
    assert loaded.origins == {}
    assert (settings.host, settings.port) == ("127.0.0.1", 8321)
    assert str(settings.data_dir) == "ragmon-data"
    assert settings.retention.records == 7 * 86_400
    assert settings.retention.windows == 90 * 86_400
    assert settings.windows == (300, 3_600, 86_400, 604_800)
    assert settings.evaluate_every == 15
    assert settings.max_clock_skew == 300
    assert settings.privacy.text == "keep"
    assert settings.latency.slow_ms == 5_000
    assert settings.retrieval.ks == (1, 3, 5, 10)
    assert (settings.auth.tokens, settings.auth.allow_anonymous) == ((), False)


# -------------------------------------------------------------------------- who wins


@pytest.mark.parametrize(
    ("text", "environment", "flags", "expected"),
    [
        pytest.param("", {}, {}, 8321, id="the default"),
        pytest.param("port: 1", {}, {}, 1, id="the file over it"),
        pytest.param("port: 1", {"RAGMON_PORT": "2"}, {}, 2, id="the environment over the file"),
        pytest.param(
            "port: 1", {"RAGMON_PORT": "2"}, {"port": "3"}, 3, id="flags over the environment"
        ),
        pytest.param("port: 1", {}, {"port": 3}, 3, id="flags over the file"),
    ],
)
def test_the_nearest_source_wins(tmp_path, text, environment, flags, expected):
    assert load(file(tmp_path, text), flags, environment).settings.port == expected


def test_sections_are_merged_not_replaced(tmp_path):
    text = "retention: {records: 1d, max_disk: 5GB}\nlimits: {body: 1MB}"
    environment = {"RAGMON_RETENTION__RECORDS": "2d"}
    settings = load(file(tmp_path, text), {"retention.windows": "30d"}, environment).settings
    assert settings.retention.records == 2 * 86_400
    assert settings.retention.windows == 30 * 86_400
    assert settings.retention.max_disk == 5_000_000_000
    assert settings.limits.body == 1_000_000
    assert settings.limits.decompressed == 128 << 20


def test_origins_say_where_each_key_was_given(tmp_path):
    path = file(tmp_path, "port: 1\nretention: {records: 1d}\nslices: [tenant]")
    environment = {"RAGMON_RETENTION__RECORDS": "2d", "RAGMON_LOG__LEVEL": "debug"}
    origins = load(path, {"evaluate_every": "5s"}, environment).origins
    assert origins == {
        "port": str(path),
        "slices": str(path),
        "retention.records": "RAGMON_RETENTION__RECORDS",
        "log.level": "RAGMON_LOG__LEVEL",
        "evaluate_every": "--evaluate-every",
    }


def test_ragmon_yaml_is_read_when_it_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load(None, {}, {}).settings.port == 8321
    (tmp_path / "ragmon.yaml").write_text("port: 1234", encoding="utf-8")
    assert load(None, {}, {}).settings.port == 1234


def test_an_empty_file_changes_nothing(tmp_path):
    loaded = load(file(tmp_path, "# nothing\n"), {}, {})
    assert loaded.settings.model_dump() == load(None, {}, {}).settings.model_dump()


def test_only_ragmons_own_variables_are_read(monkeypatch):
    monkeypatch.setenv("PORT", "99")
    monkeypatch.setenv("HOST", "0.0.0.0")
    monkeypatch.setenv("RAGMON_PORT", "77")
    assert load(None, {}).settings.port == 77
    assert load(None, {}, {}).settings.port == 8321  # given explicitly: not the process's own
    assert load(None, {}, {}).settings.host == "127.0.0.1"


# ------------------------------------------------------------------- values from text


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("host", "::", "::"),
        ("host", "::1", "::1"),
        ("host", "0.0.0.0", "0.0.0.0"),
        ("host", "no", "no"),
        ("port", "9000", 9000),
        ("data_dir", "/var/lib/ragmon", Path("/var/lib/ragmon")),
        ("data_dir", "2025", Path("2025")),
        ("data_dir", "null", Path("null")),
        ("host", "a: b", "a: b"),
        ("host", "[", "["),
        ("windows", "5m,1h", (300.0, 3_600.0)),
        ("windows", "[5m, 1h]", (300.0, 3_600.0)),
        ("windows", "10m", (600.0,)),
        ("slices", "tenant,language", ("tenant", "language")),
        ("slices", "tenant", ("tenant",)),
        ("slices", "[]", ()),
        ("retrieval.ks", "1,5", (1, 5)),
        ("retrieval.ks", "5", (5,)),
        ("retrieval.low_score", "0.25", 0.25),
        ("retrieval.low_score", "null", None),
        ("retention.max_disk", "20GB", 20_000_000_000),
        ("retention.max_disk", "null", None),
        ("max_clock_skew", "10m", 600.0),
        ("auth.allow_anonymous", "true", True),
        ("auth.protect_metrics", "false", False),
        ("privacy.text", "redact", "redact"),
        (
            "store",
            "{kind: sqlite, synchronous: NORMAL}",
            {"kind": "sqlite", "synchronous": "NORMAL"},
        ),
        ("store.synchronous", "NORMAL", {"kind": "sqlite", "synchronous": "NORMAL"}),
        ("sources", "[{kind: jsonl, path: a}]", ({"kind": "jsonl", "path": "a"},)),
    ],
)
def test_flags_and_variables_are_read_alike(key, text, expected):
    found = "store" if key.startswith("store.") else key
    variable = "RAGMON_" + key.upper().replace(".", "__")
    assert value(load(None, {key: text}, {}).settings, found) == expected
    assert value(load(None, {}, {variable: text}).settings, found) == expected


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("alerts.keep.slo", "5m", {"slo": 300.0}),
        ("alerts.wait.anomaly", "1m", {"anomaly": 60.0}),
        ("otlp_export.endpoint", "http://a/v1", {"endpoint": "http://a/v1"}),
    ],
)
def test_the_keys_of_a_free_form_setting_are_its_own(key, text, expected):
    setting = key.rpartition(".")[0]
    assert value(load(None, {key: text}, {}).settings, setting) == expected


@pytest.mark.parametrize(
    "key", ["sinks.0.url", "detectors.rules.0.kind", "alerts.maintenance.0.days", "probes.0.name"]
)
def test_an_entry_of_a_list_cannot_be_set_alone(key):
    with pytest.raises(SettingsError, match="valid tuple"):
        load(None, {key: "x"}, {})


@pytest.mark.parametrize("key", ["windows.0", "port.x", "alerts.renotify.slo"])
def test_there_is_nothing_inside_of_a_plain_setting(key):
    with pytest.raises(SettingsError, match=f"unknown setting `{key}`"):
        load(None, {key: "1"}, {})


def test_tokens_may_come_by_variable():
    variables = {"RAGMON_AUTH__TOKENS": "[{name: app, token: s3cret, scopes: [ingest, read]}]"}
    [token] = load(None, {}, variables).settings.auth.tokens
    assert token.token.get_secret_value() == "s3cret"
    assert token.scopes == ("ingest", "read")


# ----------------------------------------------------------------------- unknown keys


@pytest.mark.parametrize(
    ("text", "flags", "environment", "key", "near"),
    [
        pytest.param("prot: 1", {}, {}, "prot", "port", id="in the file"),
        pytest.param(
            "retention: {record: 1d}", {}, {}, "retention.record", "retention.records", id="inside"
        ),
        pytest.param("windwos: [5m]", {}, {}, "windwos", "windows", id="letters swapped"),
        pytest.param("retension: {records: 1d}", {}, {}, "retension", "retention", id="a group"),
        pytest.param("privacy_text: keep", {}, {}, "privacy_text", "privacy.text", id="no dot"),
        pytest.param("", {"evaluate_evry": "5s"}, {}, "evaluate_evry", "evaluate_every", id="flag"),
        pytest.param(
            "",
            {},
            {"RAGMON_LIMITS__BODDY": "5"},
            "limits.boddy",
            "limits.body",
            id="in the environment",
        ),
        pytest.param(
            "", {}, {"RAGMON_RETENTION_RECORDS": "1d"}, "retention_records", "retention.records",
            id="one underscore for two",
        ),
    ],
)  # fmt: skip
def test_an_unknown_key_names_the_nearest(tmp_path, text, flags, environment, key, near):
    message = refused(tmp_path, text, flags, environment)
    assert f"`{key}`" in message
    assert f"did you mean `{near}`" in message


def test_a_value_for_a_group_names_what_is_in_it(tmp_path):
    said = refused(tmp_path, "", {"retention": "3d"})
    assert "`retention` is a group; set retention.records, retention.windows" in said


def test_an_unknown_key_says_where_it_stands(tmp_path):
    assert "given.yaml" in refused(tmp_path, "prot: 1")
    assert "RAGMON_PROT" in refused(tmp_path, environment={"RAGMON_PROT": "1"})
    assert "--prot" in refused(tmp_path, flags={"prot": "1"})


def test_a_bad_entry_of_a_list_is_all_that_is_named(tmp_path):
    said = refused(tmp_path, "windows: [5x]")
    assert "'5x' is not a duration" in said
    assert "windows.0" in said
    assert "at least 1 item" not in said


def test_every_unknown_key_is_named_at_once(tmp_path):
    message = refused(tmp_path, "prot: 1\nhots: a\nretention: {recrods: 1}")
    assert all(name in message for name in ("`prot`", "`hots`", "`retention.recrods`"))


def test_a_key_inside_of_one_that_is_set_as_a_whole_is_refused(tmp_path):
    flags = {"alerts.wait": "5m", "alerts.wait.drop": "10m"}
    said = refused(tmp_path, flags=flags)
    assert "`alerts.wait.drop` conflicts with `alerts.wait`" in said
    assert "keep one" in said


def test_a_key_like_no_other_points_to_check_config(tmp_path):
    assert "check-config" in refused(tmp_path, "zzzzzzz: 1")


def test_every_key_is_its_own_nearest():
    every = keys()
    assert {"port", "retention.records", "privacy.text", "auth.tokens", "limits.body"} <= set(every)
    assert [key for key in every if nearest(key, every) != key] == []


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("RAGMON_SERVICE_HOST", "10.0.0.7"),
        ("RAGMON_SERVICE_PORT", "8321"),
        ("RAGMON_SERVICE_PORT_HTTP", "8321"),
        ("RAGMON_PORT", "tcp://10.0.0.7:8321"),
        ("RAGMON_PORT_8321_TCP", "tcp://10.0.0.7:8321"),
        ("RAGMON_PORT_8321_TCP_PROTO", "tcp"),
        ("RAGMON_PORT_8321_TCP_PORT", "8321"),
        ("RAGMON_PORT_8321_TCP_ADDR", "10.0.0.7"),
        ("RAGMON_GRAFANA_SERVICE_HOST", "10.0.0.8"),
        ("RAGMON_GRAFANA_SERVICE_PORT", "80"),
        ("RAGMON_GRAFANA_SERVICE_PORT_SERVICE", "80"),
        ("RAGMON_GRAFANA_PORT", "tcp://10.0.0.8:80"),
        ("RAGMON_GRAFANA_PORT_80_TCP_ADDR", "10.0.0.8"),
    ],
)
def test_what_kubernetes_says_of_services_is_no_setting(name, given):
    loaded = load(None, {}, {name: given})
    assert loaded.origins == {}
    assert loaded.settings.model_dump() == load(None, {}, {}).settings.model_dump()


def test_a_port_that_is_one_is_a_setting():
    assert load(None, {}, {"RAGMON_PORT": "9000"}).settings.port == 9000


# ------------------------------------------------------------------------- bad values


@pytest.mark.parametrize(
    ("text", "flags", "environment", "said"),
    [
        pytest.param("port: many", {}, {}, ["given.yaml", "port"], id="a wrong type"),
        pytest.param("port: 70000", {}, {}, ["port", "65535"], id="too large"),
        pytest.param(
            "external_url: 'https://['", {}, {}, ["external_url", "IPv6"], id="half a host"
        ),
        pytest.param("external_url: 'https://:80'", {}, {}, ["names no host"], id="no host"),
        pytest.param(
            "evaluate_every: soon", {}, {}, ["evaluate_every", "15s, 5m"], id="no duration"
        ),
        pytest.param("evaluate_every: 0", {}, {}, ["evaluate_every", "greater than 0"], id="zero"),
        pytest.param("evaluate_every: .nan", {}, {}, ["evaluate_every"], id="NaN"),
        pytest.param("evaluate_every: .inf", {}, {}, ["evaluate_every"], id="infinity"),
        pytest.param("limits: {body: big}", {}, {}, ["limits.body", "500MB"], id="no size"),
        pytest.param("limits: {queue: -1}", {}, {}, ["limits.queue"], id="a negative size"),
        pytest.param("limits: {body: 0}", {}, {}, ["limits.body"], id="no byte allowed"),
        pytest.param("privacy: {text: hide}", {}, {}, ["privacy.text", "redact"], id="no choice"),
        pytest.param("windows: []", {}, {}, ["windows"], id="no window"),
        pytest.param("windows: [5s]", {}, {}, ["shortest window is 10s"], id="a short window"),
        pytest.param("windows: [100d]", {}, {}, ["retention.windows"], id="a window not kept"),
        pytest.param("slices: ['a b']", {}, {}, ["slices"], id="a slice with a blank"),
        pytest.param("retention: 7d", {}, {}, ["retention"], id="a value for a section"),
        pytest.param("port: {a: 1}", {}, {}, ["port"], id="a section for a value"),
        pytest.param(
            "", {"evaluate_every": "soon"}, {}, ["--evaluate-every", "15s"], id="names the flag"
        ),
        pytest.param(
            "", {}, {"RAGMON_PORT": "many"}, ["RAGMON_PORT", "port"], id="names the variable"
        ),
        pytest.param("", {}, {"RAGMON_SLICES": "[a"}, ["RAGMON_SLICES", "YAML"], id="broken YAML"),
        pytest.param(
            "",
            {"retention": "7d", "retention.records": "7d"},
            {},
            ["retention"],
            id="a section and a key of it",
        ),
        pytest.param(
            "auth: {tokens: [{name: a, scopes: [write], token: x}]}",
            {},
            {},
            ["auth.tokens.0.scopes", "'ingest', 'read' or 'admin'"],
            id="an unknown scope",
        ),
        pytest.param(
            "auth: {tokens: [{name: a}]}",
            {},
            {},
            ["exactly one of token, token_file, sha256 and generate"],
            id="a token without a token",
        ),
        pytest.param(
            "auth: {tokens: [{name: a, token: x, token_file: y}]}",
            {},
            {},
            ["exactly one of token, token_file, sha256 and generate"],
            id="a token twice",
        ),
        pytest.param(
            "auth: {tokens: [{name: a, sha256: abc}]}", {}, {}, ["sha256"], id="half a hash"
        ),
        pytest.param(
            "auth: {tokens: [{nmae: a, token: b}]}", {}, {}, ["nmae"], id="a typo inside a token"
        ),
    ],
)
def test_a_bad_value_is_explained(tmp_path, text, flags, environment, said):
    message = refused(tmp_path, text, flags, environment)
    assert [part for part in said if part not in message] == []


def test_a_bad_value_is_not_laid_to_a_key_whose_name_begins_alike(tmp_path):
    environment = {"RAGMON_JUDGE__ANCHORS_EVERY": "soon"}
    message = refused(tmp_path, "judge: {anchors: anchors.jsonl}", {}, environment)
    assert message.startswith("RAGMON_JUDGE__ANCHORS_EVERY: judge.anchors_every")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "given.yaml: No such file or directory", id="missing"),
        pytest.param(b"\xff\xfe\x00", "cannot read", id="binary"),
        pytest.param(b"port: [1", "line", id="broken YAML"),
        pytest.param(b"\tport: 1", "line 1", id="a tab"),
        pytest.param(b"- port", "list", id="a list"),
        pytest.param(b"port", "str", id="a word"),
        pytest.param(b"!!python/object/apply:os.system [id]", "YAML", id="an object to be made"),
        pytest.param(b"port: 1\nport: 2", "twice", id="a key given twice"),
    ],
)
def test_a_file_that_cannot_be_used_is_explained(tmp_path, content, said):
    path = tmp_path / "given.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        load(path, {}, {})
    assert said in str(caught.value)
    assert "given.yaml" in str(caught.value)


# ---------------------------------------------------------------------------- secrets

SECRET = "do-not-print-me"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("auth: {tokens: [{name: a, token: %s, scopes: [none]}]}", id="a bad scope"),
        pytest.param("auth: {tokens: [{name: a, token: %s, token_file: b}]}", id="given twice"),
        pytest.param("auth: {tokens: [{name: a, token: [%s]}]}", id="of a wrong type"),
        pytest.param("auth: {tokens: [{name: a, tokn: %s}]}", id="under a mistyped name"),
        pytest.param("auth: {tokens: [{name: a, sha256: %s}]}", id="instead of its hash"),
        pytest.param("auth: {tokens: %s}", id="instead of the list"),
        pytest.param("auth: {tokens: [%s]}", id="instead of an entry"),
        pytest.param("auth: {tokens: [{name: a, token: %s", id="in broken YAML"),
        pytest.param("auth: %s", id="instead of the section"),
    ],
)
def test_an_error_never_prints_a_secret(tmp_path, text):
    assert SECRET not in refused(tmp_path, text % SECRET)
    if text.startswith("auth: {tokens: "):
        variable = text.removeprefix("auth: {tokens: ").removesuffix("}") % SECRET
        with pytest.raises(SettingsError) as caught:
            load(None, {}, {"RAGMON_AUTH__TOKENS": variable})
        assert SECRET not in str(caught.value)


def test_settings_never_show_a_secret():
    tokens = [{"name": "a", "token": SECRET}]
    loaded = load(None, {"auth.tokens": tokens}, {})
    assert SECRET not in repr(loaded)
    assert SECRET not in str(loaded.settings)
    assert SECRET not in loaded.settings.model_dump_json()


def test_external_labels_are_checked(tmp_path):
    text = "alerts: {labels: {cluster: eu-1}}"
    assert load(file(tmp_path, text), {}, {}).settings.alerts.labels == {"cluster": "eu-1"}


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ("{severity: low}", "is a label that ragmon sets itself"),
        ("{incident_id: x}", "is a label that ragmon sets itself"),
        ("{a-b: x}", "is no name of a label"),
        ("{__name: x}", "is no name of a label"),
        ("{cluster: ''}", "write 1 to 200 characters"),
        ("{" + ", ".join(f"l{number}: x" for number in range(21)) + "}", "at most 20 labels"),
    ],
)
def test_an_external_label_that_receivers_refuse_is_refused(tmp_path, labels, reason):
    assert reason in refused(tmp_path, f"alerts: {{labels: {labels}}}")
