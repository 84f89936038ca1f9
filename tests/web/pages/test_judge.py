"""The page of the judges: coverage, agreement with people, calibration, spend, anchors."""

import asyncio
import json

import pytest
from starlette.requests import Request

from ragmon.api_schema import Report
from ragmon.clock import SystemClock
from ragmon.daemon.judging.calibration import SavedCalibrations
from ragmon.daemon.judging.judge_pages import LiveJudgePages
from ragmon.judges.grounding import Calibration
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.judge import JudgePageSection
from ragmon.web.pages.judge_source import CalibrationFacts, JudgingFacts, SpendingFacts
from ragmon.web.pages.rendering import Renderer
from tests.support.daemons import running
from tests.support.llm_server import serving, with_fields
from tests.support.pages import HtmlPage, check_policy
from tests.support.wait import eventually

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"
NOW = 1_750_000_000.0


def read(site, path: str = "/judge") -> HtmlPage:
    answer = site.get(path)
    assert answer.status == 200, answer.text
    page = HtmlPage(answer.text)
    check_policy(page)
    return page


class KnownJudging:
    """Judges as a daemon would have them."""

    def __init__(self, facts: JudgingFacts) -> None:
        self._facts = facts

    def now(self) -> float:
        return NOW

    async def report(self, window, readable):
        return Report(
            window=window, window_seconds=1.0, start=NOW - 1.0, to=NOW, watermark=None, queries=0,
            latency_ms={}, metrics={}, failure_modes={}, judge_agreement={}, pipelines=[],
            alerts=[], repeats=0,
        )  # fmt: skip

    async def judging(self, readable):
        return self._facts


def shown(*calibrations, spending=None) -> HtmlPage:
    """The page of what is known."""
    facts = JudgingFacts(
        has_embedded=True, spending=spending, anchors=None, calibrations=calibrations
    )
    section = JudgePageSection(KnownJudging(facts), Renderer(Assets()))
    request = Request({"type": "http", "query_string": b"", "headers": []})
    page = HtmlPage(asyncio.run(section.judges(request)).body.decode())
    check_policy(page)
    return page


def test_an_empty_store_says_what_each_part_needs(tmp_path):
    with running(tmp_path / "data") as site:
        text = read(site).text
    for needed in ("No judge runs", "judge.llm", "/v1/labels", "judge.anchors", "As shipped"):
        assert needed in text


def test_coverage_verdicts_and_agreement_with_people(tmp_path):
    now = SystemClock().now()
    answers = [
        {
            "query_id": f"q{number}",
            "pipeline": "shop",
            "timestamp": now - 60,
            "query": "How long may I return a blender?",
            "answer": "You may return a blender within 30 days.",
            "chunks": [{"id": "faq", "text": "You may return a blender within 30 days."}],
        }
        for number in range(8)
    ]
    with running(tmp_path / "data", judge__grounding__enabled=True) as site:
        site.post("/v1/queries", answers)
        labels = [
            {"query_id": f"q{number}", "faithful": float(number > 0), "labeller": "ann"}
            for number in range(4)
        ]
        site.post("/v1/labels", labels)
        eventually(
            lambda: (
                "8 verdicts" in site.get("/judge?window=24h").text
                and "100.0 %" in site.get("/judge?window=24h").text
            ),
            "every answer is judged",
            60,
        )
        page = read(site, "/judge?window=24h")
        assert "shop 8 100.0 %" in page.text
        assert "embedded judge, 8 verdicts" in page.text
        assert "people, 4 verdicts" in page.text
        agreement = page.text[page.text.index("Agreement with people") :]
        assert "shop embedded judge 4 50.0 %" in agreement
        assert "3 1 0 0" in agreement  # both good, only the judge, only people, both bad
        for link in page.links:
            assert site.get(link).status == 200, link


def test_spend_and_drift_of_the_language_model(tmp_path):
    anchors = tmp_path / "anchors.jsonl"
    lines = [
        {"query": "q", "answer": f"It is {n}.", "faithful": 1.0,
         "chunks": [{"id": "c", "text": f"It is {n}"}]}
        for n in range(4)
    ]  # fmt: skip
    anchors.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    with serving() as llm:
        llm.always = with_fields(faithfulness=3)
        settings = {
            "judge__llm__base_url": llm.url,
            "judge__llm__model": "tiny",
            "judge__llm__modes": "[rubric]",
            "judge__anchors": str(anchors),
            "judge__anchors_every": 3_600.0,
        }
        with running(tmp_path / "data", **settings) as site:
            eventually(lambda: "last round 50.0 %" in read(site).text, "a first round")
            text = read(site).text
    for part in ("model tiny", "today (UTC) 4 judgements", "waiting 0 answers", "drift +0.0 pt"):
        assert part in text


def test_a_calibration_is_drawn_where_it_is_in_force():
    curve = ((0.0, 0.1), (0.5, 0.7), (1.0, 0.9))
    page = shown(
        CalibrationFacts(HOSTILE, "people", 120, 3, 0.4, 0.81, "", curve),
        CalibrationFacts("docs", "llm", 60, 0, 0.5, None, "too few examples", ()),
    )
    assert page.tags.count("svg") == 1 + 2  # the chart, and its legend
    assert "version 3, doubted below 40.0 % · learned from 120 labels" in page.text
    assert "marked grounded from 0.81 as shipped" in page.text
    assert "no answer is marked grounded" in page.text
    assert "not in force: too few examples · learned from 60 verdicts of the language" in page.text
    assert "\x1b" not in page.text


def test_a_pause_is_shown():
    page = shown(spending=SpendingFacts("tiny", 7, 90.0, 0.25, 1, 0.01, 20, 0.2))
    assert "7 answers" in page.text
    assert "25.0 % of the tightest limit" in page.text
    assert "for 1 min 30 s the endpoint failed" in page.text


def test_a_curve_is_what_verdicts_are_read_by(tmp_path):
    with running(tmp_path / "data") as site:
        judges = site.daemon._judges
        kind = Calibration("platt", "1", 60, 0.4, slope=2.0, intercept=-1.0)
        judges.calibrations.kept = {
            "shop": SavedCalibrations(1, "people", 60, kind),
            "docs": SavedCalibrations(0, "llm", 60, kind, refused="few"),
        }
        pages = LiveJudgePages(site.daemon._monitor, judges)
        facts = asyncio.run(pages.judging(None))
        docs, known = facts.calibrations
        assert (docs.points, docs.refused[:5]) == ((), "a few")
        assert known.points[24][0] == 0.5
        assert known.points[24][1] == pytest.approx(1 / (1 + 2.718281828), rel=1e-6)
        (mine,) = asyncio.run(pages.judging(lambda name: name == "shop")).calibrations
        assert mine.pipeline == "shop"


@pytest.mark.parametrize("window", ["1y", "<b>"])
def test_a_window_that_makes_no_sense_is_refused(tmp_path, window):
    with running(tmp_path / "data") as site:
        assert site.get(f"/judge?window={window}").status == 400
