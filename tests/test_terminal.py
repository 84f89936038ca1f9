"""No text controls a terminal, in any command."""

import ast
import json
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragmon.cli
from ragmon.alerts import Alert, Evidence, WorstQuery
from ragmon.alerts.message import Links
from ragmon.api_schema import Report
from ragmon.cli import main
from ragmon.cli.rich_output import standard_output
from ragmon.clock import SystemClock
from ragmon.detectors import AlertKey, Finding, StreamKey
from ragmon.logs import configure
from ragmon.sinks import SinkContext, stdout
from ragmon.terminal import json_line, json_text, one_line, one_line_each, printable
from tests.support.alerts import notice
from tests.support.otlp import as_json, span

ATTACK = (
    "\x1b]0;title\x07\x1b]52;c;cHduZWQ=\x07\x1b[2J\x1b[31mred \x9b31m \x7f\b\r\u202egnp\u2028x"
    "\n[critical] Firing: forged"
)
FORGED = "[critical] Firing: forged"


def dangerous(text: str) -> list[str]:
    """Characters that a terminal would obey, and lines that were forged."""
    obeyed = [
        each
        for each in text
        if unicodedata.category(each) in ("Cc", "Zl", "Zp") and each not in "\n\t"
    ]
    bidi = [each for each in text if unicodedata.bidirectional(each) in ("RLO", "LRO", "RLE")]
    return [*obeyed, *bidi, *(line for line in text.splitlines() if line.startswith(FORGED))]


@given(st.text())
def test_nothing_dangerous_is_left_and_lengths_stay(text):
    for cleaned in (printable(text), one_line(text)):
        assert [each for each in dangerous(cleaned) if each != FORGED] == []
        assert len(cleaned) == len(text)
    assert "\n" not in one_line(text)


def test_usual_text_stays_as_it_is():
    usual = "naïve – 日本語 🙂 \t two\nlines"
    assert printable(usual) == usual
    assert one_line("a – b") == "a – b"


@given(st.text())
def test_json_gives_every_character_back(text):
    for encoded in (json_text({"a": [text]}), json_line({"a": [text]})):
        assert json.loads(encoded) == {"a": [text]}
        assert dangerous(encoded) == []


def test_every_text_of_a_struct_is_cleaned():
    row = WorstQuery(query_id="a\x1b", query=ATTACK, why="fine")
    cleaned = one_line_each([row])[0]
    assert isinstance(cleaned, WorstQuery)
    assert (cleaned.query_id, cleaned.why) == ("a␛", "fine")
    assert dangerous(cleaned.query) == []


@pytest.mark.parametrize("markup", [True, False])
def test_a_console_passes_no_escape_sequence_on(capsys, markup):
    standard_output(markup=markup).print(ATTACK.replace("[", "("))
    printed = capsys.readouterr().out
    assert "␛" in printed
    assert [each for each in dangerous(printed) if each != FORGED] == []


@pytest.fixture(scope="module")
def attacked(daemon):
    """A daemon whose every name and text is an attack."""
    now = SystemClock().now() - 30
    fields = {"pipeline": ATTACK, "version": ATTACK, "query": ATTACK, "error": ATTACK}
    sent = [{"query_id": f"{ATTACK}{at}", "timestamp": now, **fields} for at in range(3)]
    assert daemon.post("/v1/queries", sent).json["accepted"] == 3
    return daemon


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["report", "--window", "1h"], id="report"),
        pytest.param(["report", "--window", "1h", "--json"], id="report as JSON"),
        pytest.param(["report", "--window", ATTACK], id="an error that repeats what was asked"),
        pytest.param(["silence", "list"], id="silences"),
        pytest.param(["baseline", "list"], id="baselines"),
    ],
)
def test_commands_that_ask_a_daemon(attacked, capsys, clean_environment, command):
    main([*command, "--url", attacked.url])
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert dangerous(printed.out + printed.err) == []


def test_the_report_shows_the_pipeline(attacked, capsys, clean_environment):
    assert main(["report", "--window", "1h", "--url", attacked.url]) == 0
    assert "␛]0;title␇" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_the_trace_doctor(tmp_path, capsys, clean_environment, flags):
    path = tmp_path / "traces.json"
    attributes = {"openinference.span.kind": "CHAIN", "input.value": ATTACK, "output.value": ATTACK}
    path.write_bytes(as_json(span(1, name=ATTACK, attributes=attributes)))
    assert main(["trace-doctor", str(path), *flags]) == 0
    printed = capsys.readouterr().out
    assert "forged" in printed
    assert dangerous(printed) == []


@pytest.mark.parametrize("style", ["text", "json"])
def test_the_stdout_sink(capsys, style):
    key = AlertKey("test", StreamKey(ATTACK, "hit", "tenant", ATTACK))
    evidence = Evidence(sentence=ATTACK, worst=(WorstQuery("q", ATTACK, ATTACK),))
    alert = Alert(
        key=key, name=ATTACK, state="firing", severity="critical", began_at=0.0, fired_at=0.0,
        bad_at=0.0, notified_at=0.0, evidence=evidence,
        finding=Finding(alert=key, status="bad", severity="critical"),
    )  # fmt: skip
    context = SinkContext(links=Links("http://r", "http://b"), clock=SystemClock())
    stdout.build(stdout.Options(format=style), context).deliver(notice("opened", alert, 0.0))
    printed = capsys.readouterr().out
    assert "forged" in printed
    assert dangerous(printed) == []


def test_the_log_on_a_console(capsys):
    import structlog

    configure("console", "info")
    structlog.get_logger("test").info("refused", pipeline=ATTACK)
    printed = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().err)
    assert "forged" in printed
    assert dangerous(printed) == []


def test_commands_print_in_one_way():
    folder = Path(ragmon.cli.__file__).parent
    paths = sorted(set(folder.glob("*.py")) - {folder / "console.py"})
    assert len(paths) > 20
    assert [f"{path.name}:{line}" for path in paths for line in prints(path.read_text())] == []
    assert prints("print('a')\nsys.stdout.write('a')\nConsole()\njson.dump(a, b)") == [1, 2, 3, 4]


def prints(code: str) -> list[int]:
    """Lines that print past ``ragmon.cli.console`` and ``standard_output``."""
    calls = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call))
    banned = re.compile(r"(print|Console|json\.dump|sys\.std(out|err)\.write)")
    return [call.lineno for call in calls if banned.fullmatch(ast.unparse(call.func))]


def test_a_report_survives_cleaning(attacked):
    import msgspec

    content = attacked.get("/v1/report?window=1h").body
    report = msgspec.json.decode(content, type=Report)
    assert one_line_each(report).queries == 3
