"""`config` of the chart: what ragmon would refuse at its start is refused before the upgrade."""

import json
import re
import subprocess

import helm_python
import jsonschema
import pytest
import yaml

from ragmon.config import load
from ragmon.errors import SettingsError
from ragmon.plugins import kinds
from tests.support.chart import CHART, VARIANTS, texts
from tests.support.markdown import pages
from tests.support.tools import program

SCHEMA = CHART / "values.schema.json"
# Everything that the documentation shows as ragmon.yaml.
EXAMPLES = [
    pytest.param(fence.text, id=f"{page.name}:{fence.line}")
    for page in pages()
    for fence in page.fences
    if fence.language == "yaml" and fence.text.startswith("# ragmon.yaml")
]


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    of_config = {"definitions": schema["definitions"], "$ref": "#/definitions/config"}
    return jsonschema.Draft7Validator(of_config)


@pytest.fixture(scope="module")
def chart():
    with helm_python.Chart.load(CHART) as loaded:
        yield loaded


def as_helm_reads(text: str) -> dict:
    """YAML with dates as text, as Helm has it."""
    return json.loads(json.dumps(yaml.safe_load(text) or {}, default=str))


def test_go_knows_every_pattern():
    found = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', SCHEMA.read_text(encoding="utf-8"))
    assert len(found) > 20
    assert [each for each in found if re.search(r"\(\?[=!<]|\\\\[AzZ1-9]", each)] == []


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_documented_setting_passes(validator, text):
    assert list(validator.iter_errors(as_helm_reads(text))) == []


def test_there_are_examples():
    assert len(EXAMPLES) > 15


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_passes(validator, variant):
    assert list(validator.iter_errors(VARIANTS[variant].get("config", {}))) == []


@pytest.mark.parametrize("package", ["ragmon.sinks", "ragmon.sources"])
def test_every_plugin_has_its_options(validator, package):
    name = package.removeprefix("ragmon.")
    for kind in kinds(package):
        errors = validator.iter_errors({name: [{"kind": kind, "nonsense": 1}]})
        assert any("nonsense" in error.message for error in errors), kind


@pytest.mark.parametrize(
    ("config", "named"),
    [
        pytest.param({"nonsense": 1}, "nonsense", id="an unknown setting"),
        pytest.param({"retention": {"recrods": "1d"}}, "recrods", id="a typo in a section"),
        pytest.param({"retention": {"records": "1 fortnight"}}, "records", id="no duration"),
        pytest.param({"retention": {"max_disk": "40 GiG"}}, "max_disk", id="no size"),
        pytest.param({"evaluate_every": 0}, "evaluate_every", id="below its bound"),
        pytest.param({"max_series": "many"}, "max_series", id="a text for a number"),
        pytest.param({"max_series": 0}, "max_series", id="too few"),
        pytest.param({"sinks": [{"kind": "slak"}]}, "kind", id="an unknown sink"),
        pytest.param({"sinks": [{"url": "http://a"}]}, "kind", id="a sink without a kind"),
        pytest.param(
            {"sinks": [{"kind": "slack", "webhook_ulr_file": "/a"}]}, "webhook_ulr_file", id="sink"
        ),
        pytest.param({"judge": {"llm": {"modle": "a"}}}, "modle", id="two sections down"),
        pytest.param({"privacy": {"text": "redcat"}}, "text", id="none of the words"),
    ],
)
def test_what_ragmon_would_refuse_helm_refuses(chart, config, named, tmp_path):
    path = tmp_path / "ragmon.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    if "sinks" not in config:  # those are checked when they are built
        with pytest.raises(SettingsError, match=named):
            load(path, {}, {})
    with pytest.raises(helm_python.HelmError, match=named):
        texts(chart, {"config": config})
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    command = [program("helm3"), "template", "rag", CHART, "--values", values]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert named in done.stderr


@pytest.mark.parametrize(
    "config",
    [
        {"retention": {"records": 86_400, "max_disk": "40GB"}, "windows": ["5m", 3600]},
        {"windows": "5m,1h", "slices": "tenant", "limits": {"queue": "128MiB"}},
        {"detectors": {"holidays": ["2026-12-24", "/etc/ragmon/days.ics"]}},
        {"sinks": [{"kind": "slack", "webhook_url_file": "/a", "give_up_after": "2h"}]},
        {"sources": [{"kind": "jsonl", "path": "/a.jsonl"}], "store": {"kind": "sqlite"}},
    ],
    ids=["numbers and units", "lists in one text", "days", "a sink", "a source"],
)
def test_what_ragmon_takes_helm_takes(chart, config):
    assert texts(chart, {"config": config})
