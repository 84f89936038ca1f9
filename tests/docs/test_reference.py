"""The reference pages equal the code, and leave nothing out."""

import importlib.util
import json
import os
import re

import pytest

from ragmon.cli.commands import COMMANDS
from tests.support.paths import ROOT
from tests.support.reference import COMPANIONS, families, rows
from tests.support.reference_pages import FOLDER, PAGES, parser_of


@pytest.mark.parametrize("name", PAGES)
def test_a_page_equals_the_code(name):
    path, text = FOLDER / name, PAGES[name]()
    if os.environ.get("GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), "run `make golden`"
    assert path.read_text(encoding="utf-8") == text, "run `make golden` and read the diff"


def test_the_charts_schema_is_that_of_the_settings():
    spec = importlib.util.spec_from_file_location("schema", ROOT / "deploy/chart_schema.py")
    chart_schema = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(chart_schema)
    path = ROOT / "helm/ragmon/values.schema.json"
    text = path.read_text(encoding="utf-8")
    expected = chart_schema.with_config(text)
    assert len(json.loads(expected)["definitions"]) > 35
    if os.environ.get("GOLDEN"):
        path.write_text(expected, encoding="utf-8")
        return
    assert text == expected, "run `make golden` and read the diff"


def test_nothing_in_the_folder_is_written_by_hand():
    generated = {*PAGES, "openapi.json", "openapi-3.0.json"}
    assert {path.name for path in FOLDER.iterdir()} <= generated


def test_every_metric_in_the_code_is_in_the_reference():
    page = {each.name.removesuffix("_total") for each in families()}
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "ragmon").rglob("*.py"))
    named = {each.removesuffix("_total") for each in re.findall(r'"(ragmon_[a-z_]+[a-z])"', code)}
    assert len(named) > 20
    assert named - page == set()


def test_what_the_reference_leaves_out_follows_its_pattern():
    listed = {re.search(r"`(\w+)`", row)[1] for row in rows()}
    left_out = {each.name for each in families()} - listed
    assert len(left_out) > 100
    ends = "|".join(COMPANIONS)
    for name in left_out:
        assert re.sub(f"({ends})$", "", name.replace("ragmon_slice_", "ragmon_")) in listed


def test_every_command_has_help():
    assert {"serve", "demo", "report", "replay"} <= set(COMMANDS)
    for name, text in COMMANDS.items():
        assert text
        assert f"ragmon {name}" in parser_of(name).format_help()
