"""The README says what the code does: its generated parts equal the code, and names exist."""

import argparse
import os
import re
from pathlib import Path

import pytest

from ragmon.cli import _commands
from ragmon.cli.check_config import reference

README = Path(__file__).parents[1] / "README.md"


def settings_table() -> str:
    rows = ["| setting | default | |", "| --- | --- | --- |"]
    rows += [f"| `{key}` | {value} | {text} |" for key, value, text in reference()]
    return "\n".join(rows)


def commands_table() -> str:
    rows = ["| command | |", "| --- | --- |"]
    rows += [f"| `ragmon {command.NAME}` | {command.HELP} |" for command in _commands()]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("section", "table"), [("settings", settings_table), ("commands", commands_table)]
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
