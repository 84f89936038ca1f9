"""The README says what the code does: its generated parts equal the code, and names exist."""

import argparse
import os
import re

import pytest

from ragmon.cli import _commands
from ragmon.cli.check_config import reference
from tests.support.paths import ROOT
from tests.support.reference import COMPANIONS, families, rows

README = ROOT / "README.md"


def settings_table() -> str:
    rows = ["| setting | default | |", "| --- | --- | --- |"]
    rows += [f"| `{key}` | {value} | {text} |" for key, value, text in reference()]
    return "\n".join(rows)


def commands_table() -> str:
    rows = ["| command | |", "| --- | --- |"]
    rows += [f"| `ragmon {command.NAME}` | {command.HELP} |" for command in _commands()]
    return "\n".join(rows)


def metrics_table() -> str:
    return "\n".join(["| metric | type | labels | |", "| --- | --- | --- | --- |", *rows()])


@pytest.mark.parametrize(
    ("section", "table"),
    [("settings", settings_table), ("commands", commands_table), ("metrics", metrics_table)],
)
def test_golden_section(section, table):
    text = README.read_text(encoding="utf-8")
    begin, end = f"<!-- {section} -->\n", f"<!-- /{section} -->"
    assert begin in text
    assert end in text
    head, rest = text.split(begin, 1)
    found, tail = rest.split(end, 1)
    expected = f"\n{table()}\n\n"
    if os.environ.get("GOLDEN"):
        README.write_text(head + begin + expected + end + tail, encoding="utf-8")
        return
    assert found == expected, "run `make golden` and read the diff"


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
    commands = _commands()
    assert {"serve", "demo", "report", "replay"} <= {command.NAME for command in commands}
    for command in commands:
        parser = argparse.ArgumentParser(prog=f"ragmon {command.NAME}")
        command.arguments(parser)
        assert command.HELP
        assert f"ragmon {command.NAME}" in parser.format_help()


def test_failures_named_in_the_readme_are_those_the_api_knows():
    from ragmon.config import Settings
    from ragmon.daemon.build import build_pipeline
    from ragmon.queries import failures

    text = README.read_text(encoding="utf-8")
    listed = re.search(r"`failing` takes (.*?) \|", text.replace(" (worst first)", ""))
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(failures(build_pipeline(Settings())))
