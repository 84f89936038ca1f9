"""The chart's README: its table of values is made from the comments of values.yaml."""

import itertools
import json
import os
import re
from collections.abc import Iterator

import pytest
import yaml

from tests.support.chart import CHART, ROOT

README = CHART / "README.md"
VALUES = CHART / "values.yaml"
BEGIN, END = "<!-- values -->\n", "<!-- /values -->"


def explained() -> Iterator[tuple[str, str]]:
    """Each documented key, dotted, and its comment."""
    path: list[tuple[int, str]] = []
    lines = VALUES.read_text(encoding="utf-8").splitlines()
    for before, line in itertools.pairwise(["", *lines]):
        if found := re.match(r"( *)(\w+):", line):
            depth, key = len(found[1]), found[2]
            path = [*(each for each in path if each[0] < depth), (depth, key)]
            if before.strip().startswith("# -- "):
                yield ".".join(name for _, name in path), before.strip().removeprefix("# -- ")


def leaves(values: object, documented: set[str], at: str = "") -> Iterator[str]:
    """Keys that a user may set; what is documented as a whole counts as one."""
    if isinstance(values, dict) and values and at not in documented:
        for key, inner in values.items():
            yield from leaves(inner, documented, f"{at}.{key}" if at else key)
    else:
        yield at


def table() -> str:
    values = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    rows = ["| value | default | |", "| --- | --- | --- |"]
    for key, text in explained():
        default = values
        for part in key.split("."):
            default = default[part]
        rows.append(f"| `{key}` | `{json.dumps(default, ensure_ascii=False)}` | {text} |")
    return "\n".join(rows)


def test_golden_values():
    head, rest = README.read_text(encoding="utf-8").split(BEGIN)
    found, tail = rest.split(END)
    expected = f"\n{table()}\n\n"
    if os.environ.get("GOLDEN"):
        README.write_text(head + BEGIN + expected + END + tail, encoding="utf-8")
        return
    assert found == expected, "run `make golden` and read the diff"


def test_every_value_is_explained():
    documented = dict(explained())
    values = yaml.safe_load(VALUES.read_text(encoding="utf-8"))
    assert [key for key in leaves(values, set(documented)) if key not in documented] == []
    assert len(documented) > 80


def test_the_schema_knows_the_same_values():
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

    def properties(part: dict, at: str = "") -> Iterator[str]:
        for name, inner in part.get("properties", {}).items():
            yield f"{at}{name}"
            yield from properties(inner, f"{at}{name}.")

    known = set(properties(schema))
    groups = {key.rpartition(".")[0] for key, _ in explained()} - {""}
    groups |= {key.rpartition(".")[0] for key in groups} - {""}
    told = {key for key, _ in explained()} | groups
    assert told <= known
    assert {key for key in known if not key.startswith("resources.")} <= told


@pytest.mark.parametrize(
    "readme",
    [README, ROOT / "README.md", ROOT / "deploy/docs/guides/operate.md"],
    ids=["chart", "ragmon", "guide"],
)
def test_a_readme_speaks_of_values_that_are_there(readme):
    documented = {key for key, _ in explained()}
    groups = {key.rpartition(".")[0] for key in documented}
    (command,) = re.findall(r"helm install (?:.*\\\n)+.*", readme.read_text(encoding="utf-8"))
    named = set(re.findall(r"--set ([\w.]+)=", command))
    assert named >= {"serviceMonitor.enabled", "prometheusRule.enabled", "dashboards.enabled"}
    assert named <= documented | groups
