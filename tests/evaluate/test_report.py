"""What a reader sees: tables, Markdown, JUnit, and a page that a browser draws."""

import io
import os
import re
import shutil
import struct
import subprocess
import zlib
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs
from rich.console import Console

from ragmon.evaluate.cases import Case, CaseSet
from ragmon.evaluate.compare.comparison import compare
from ragmon.evaluate.compare.gate import Check, decide
from ragmon.evaluate.compare.preference import Preferences
from ragmon.evaluate.compare.rules import GateRule, Policy
from ragmon.evaluate.document import JudgeAgreement, ReportFigure, describe
from ragmon.evaluate.report import junit, markdown, table
from ragmon.evaluate.report.cases import worst
from ragmon.evaluate.report.page import html
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.metric_text import change_text, signed, value_text
from ragmon.evaluate.score.scoring import ScoringOptions, score
from ragmon.records import Chunk, QueryRecord

EVIL = "<script>alert(1)</script> | `x`"


def cases():
    for number in range(40):
        kind = "how|to" if number % 3 else "error"
        yield Case(
            query=f"question {number} {EVIL}",
            case_id=f"c{number}",
            relevant_doc_ids=["good", f"other{number}"],
            ground_truth_answer="the good answer",
            metadata={"kind": kind},
        )


def run(found_at):
    """A system that finds ``good`` at a rank that depends on the number of the case."""
    for number in range(40):
        rank = found_at(number)
        ids = [f"noise{at}" for at in range(6)]
        if rank is not None:
            ids[rank] = "good"
        yield QueryRecord(
            query_id=f"c{number}",
            timestamp=0.0,
            answer=f"the answer {EVIL}",
            chunks=[Chunk(id=each, text=f"text of {each} {EVIL}") for each in ids],
            citations=ids[:1],
        )


def evaluated(name, found_at):
    records = {record.query_id: record for record in run(found_at)}
    scored = score(
        CaseSet(tuple(cases()), notes=("a note <b>",)), records, ScoringOptions(ks=(1, 3, 5))
    )
    return describe(scored, name, created_at=1_700_000_000.0), scored


GOOD, _ = evaluated(f"live {EVIL}", lambda number: number % 3)
BAD, BAD_SCORED = evaluated("new", lambda number: None if number % 2 else number % 5)
RULES = (
    GateRule(metric="*@5", max_drop=0.05),
    GateRule(metric="error", max_drop=0.0, stratum="kind"),
)
DECISION = decide(GOOD, BAD, Policy(rules=RULES))


def printed(show, *args):
    console = Console(width=160, file=open(os.devnull, "w"), record=True)  # noqa: SIM115, PTH123
    with console.file:
        show(console, *args)
        return console.export_text()


def test_the_table_of_an_evaluation():
    text = printed(table.show, BAD)
    for wanted in (
        "recall@5",
        "kind=how|to",
        "absent: ",
        "completeness",
        "note: a note <b>",
        "poor",
    ):
        assert wanted in text


@pytest.mark.parametrize("width", [80, 200])
def test_a_narrow_terminal_cuts_no_name(width):
    console = Console(width=width, file=io.StringIO())
    table.show(console, BAD)
    table.show_decision(console, DECISION)
    table.show_comparison(console, compare(GOOD, BAD))
    text = console.file.getvalue()
    for name in ("failure_mode/retrieval", "reciprocal_rank/citation", "fail", "hit@5"):
        assert f" {name} " in text
    assert ("p (Holm)" in text) == (width == 200)


def test_a_paradox_is_told_once_for_all_its_metrics():
    told = "by kind every stratum rose while the whole fell"
    found = structs.replace(
        compare(GOOD, BAD), reversals={"hit@1": told, "hit@3": told, "error": "other"}
    )
    text = printed(table.show_comparison, found)
    assert f"Simpson's paradox in hit@1, hit@3: {told}" in text
    assert "Simpson's paradox in error: other" in text


def test_judges_and_agreement_are_told(tmp_path):
    judges = [
        UsageSummary(
            name="llm", judged=3, failed={"timeout": 2}, example="no <answer>", model="tiny"
        ),
        UsageSummary(name="idle"),
    ]
    agreed = [JudgeAgreement("llm", 9, ReportFigure(0.9, 0.8, 1.0), None)]
    found = structs.replace(BAD, judges=judges, agreement=agreed)
    text, page = printed(table.show, found), html(found)
    for wanted in ("llm (tiny) judged 3; 2 failed: timeout 2", "llm against 9 human labels"):
        assert wanted in text
        assert wanted in page
    assert "first error: no &lt;answer&gt;" in page
    assert "idle" not in text
    assert "idle" not in page


def test_the_table_of_preferences():
    usage = UsageSummary(name="llm", judged=12, cost_usd=0.5)
    text = printed(
        table.show_preferences, Preferences(3, 1, 2, 2, 2, 1, (f"why {EVIL}",), usage=usage)
    )
    for wanted in (
        "the second wins 75.0 %",
        "position bias +1.000 over 2 pairs",
        "$0.5000",
        "why <",
    ):
        assert wanted in text
    assert "position bias" not in printed(table.show_preferences, Preferences(0, 0, 1, 0, 0))


def test_no_change_has_no_sign_of_its_own():
    assert [signed(value) for value in (-0.0, -1e-9, 0.0)] == ["+0.000"] * 3


@pytest.mark.parametrize(
    ("name", "value", "text", "change"),
    [
        ("hit@5", 0.8125, "81.2 %", "+81.2 points"),
        ("ndcg@10", 0.0, "0 %", "0 points"),
        ("error", 1.0, "100 %", "+100.0 points"),
        ("zero_result", 0.0031, "0.31 %", "+0.3 points"),
        ("faithfulness/llm", None, "–", "–"),
        ("latency_ms/total", 1461.4, "1,461", "+1,461"),
        ("semantic_similarity", 0.8125, "0.812", "+0.812"),
        ("reciprocal_rank", 0.5, "0.500", "+0.500"),
    ],
)
def test_shares_are_read_in_percent_and_the_rest_as_numbers(name, value, text, change):
    assert value_text(name, value) == text
    assert change_text(name, value) == change


def test_every_form_of_the_report_is_in_percent():
    comparison = compare(GOOD, BAD)
    forms = {
        "evaluate": printed(table.show, BAD),
        "gate": printed(table.show_decision, DECISION),
        "compare": printed(table.show_comparison, comparison),
        "noise": printed(table.show_noise, comparison),
        "pull request": markdown.summary(DECISION),
        "page": re.sub(
            r"<svg.*?</svg>|<style>.*?</style>|(?=<div|<span>)",
            lambda part: "\n" if not part[0] else "",
            html(BAD, BAD_SCORED),
            flags=re.DOTALL,
        ),
    }
    fraction = re.compile(r"(?<![\w.])[01]\.\d{3}(?![\d.])(?! │ +\d+ / )")  # 0.812; no p-value
    assert fraction.search("hit@5 0.812 ")
    for form, text in forms.items():
        lines = [line for line in text.splitlines() if "hit@" in line or "recall@" in line]
        assert any(" %" in line for line in lines), form
        assert [line for line in lines if fraction.search(line)] == [], form


def test_the_table_of_a_gate():
    text = printed(table.show_decision, DECISION)
    assert " points" in text
    assert "gate failed" in text
    assert text.index("fail") < text.index("worse by")
    passed = decide(GOOD, GOOD, Policy(rules=(GateRule(metric="hit@5", max_drop=0.0),)))
    assert "gate passed" in printed(table.show_decision, passed)


def test_the_table_of_a_comparison():
    text = printed(table.show_comparison, compare(GOOD, BAD))
    for wanted in ("40 shared cases", "worse", "cases that moved most", "c1"):
        assert wanted in text


def test_the_summary_for_a_pull_request():
    text = markdown.summary(DECISION)
    assert text.startswith("### ❌ RAG quality gate failed\n")
    assert "<script>" not in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}  # no cell was torn


def test_a_limit_that_no_case_can_tell_of_is_missed_in_junit_too():
    check = Check(metric="hit@5", stratum="", verdict="inconclusive", reason="none", samples=0)
    suite = ET.fromstring(junit.limits("run", [check])).find("testsuite")
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure").get("message") == "none"


def test_junit():
    root = ET.fromstring(junit.xml(DECISION))
    found = root.findall("testsuite/testcase")
    failures = root.findall("testsuite/testcase/failure")
    assert root.get("tests") == str(len(found)) == str(len(DECISION.checks))
    assert root.get("failures") == str(len(failures))
    assert 0 < len(failures) < len(found)


def test_the_worst_cases_come_first():
    rows = worst(BAD_SCORED)
    scores = BAD_SCORED.column("ndcg@5")[rows]
    assert len(rows) == 12
    assert scores.max() == 0.0  # it holds enough cases that found nothing


def test_the_page_holds_everything_and_runs_nothing():
    page = html(BAD, BAD_SCORED)
    assert "<script" not in page
    assert not re.search(r"(?:src|href)=|url\(|@import", page)  # needs nothing from elsewhere
    for wanted in ("Metrics at k", "Precision and recall", "By stratum", "Worst cases", "<svg"):
        assert wanted in page
    assert page.count("<svg") == page.count("</svg>")
    assert page.count('class="chart"') > 6
    assert "Not measured" in page
    assert "Worst cases" not in html(BAD)


@pytest.fixture(scope="module")
def chromium():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        missing = "chromium is not installed; on Debian: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    return path


def pixels(png):
    """(width, height, rows of RGB bytes) of an 8-bit PNG without interlacing."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        parts[kind] = parts.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert depth == 8
    return width, height, len(set(zlib.decompress(parts[b"IDAT"]))), colour


def test_a_browser_draws_it_on_a_narrow_screen(chromium, tmp_path):
    """Nothing is wider than a phone, and something is drawn."""
    page = tmp_path / "report.html"
    page.write_text(html(BAD, BAD_SCORED), encoding="utf-8")
    probe = (
        "<iframe id=f style='width:360px;height:2000px;border:0' src='report.html'></iframe>"
        "<script>f.onload=()=>{const d=f.contentDocument;"
        "document.title=[d.documentElement.scrollWidth,d.querySelectorAll('svg.chart').length,"
        "Math.min(...[...d.querySelectorAll('svg.chart')].map(s=>s.getBoundingClientRect().height)),"
        "d.body.scrollHeight].join(' ')}</script>"
    )
    (tmp_path / "probe.html").write_text(probe)
    flags = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *("--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"),
        *("--hide-scrollbars", "--window-size=500,2000", "--virtual-time-budget=5000"),
    ]
    shot = tmp_path / "report.png"

    def browse(*more):
        command = [chromium, *flags, *more, (tmp_path / "probe.html").as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    title = re.search(r"<title>(.*?)</title>", browse("--dump-dom").stdout)
    wide, plots, smallest, tall = map(float, title[1].split())
    assert wide == 360
    assert plots == html(BAD, BAD_SCORED).count('class="chart"')
    assert smallest > 40
    assert tall > 2000
    browse(f"--screenshot={shot}")
    width, height, shades, _ = pixels(shot.read_bytes())
    assert (width, height) == (500, 2000)
    assert shades > 20  # not a blank sheet
