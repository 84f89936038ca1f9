"""A restart is invisible, and what comes late finds its query."""

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import Process

pytestmark = pytest.mark.end_to_end

DAY_S = 86_400.0


def queries(now: float) -> list[dict]:
    """Three days of them, in several pipelines, versions and languages."""
    made = []
    for at in range(400):
        chunks = [{"id": f"d{rank}", "score": 1 - rank / 10} for rank in range(at % 5)]
        made.append(
            {
                "query_id": f"r-{at}",
                "timestamp": now - 10 - at * 3 * DAY_S / 400,
                "pipeline": f"p{at % 3}",
                "version": f"v{at % 2}",
                "tags": {"language": ("de", "en")[at % 2]},
                "chunks": chunks,
                "citations": ["d0"] if chunks and at % 3 else [],
                "latency_ms": {"total": 50.0 * at, "retrieval": 3.0 * at},
                "error": "boom" if at % 11 == 0 else None,
                "feedback": ("positive", "negative", None)[at % 3],
            }
        )
    return made


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_restart_is_invisible(tmp_path, how):
    now = SystemClock().now()
    flags = ("--slices", "language", "--snapshot_every", "1h" if how == "kill" else "100ms")
    asked = [f"/v1/report?window={window}&end={now}" for window in ("1h", "24h", "7d")]
    asked += ["/v1/queries?limit=100", "/v1/queries?failing=zero_result,error", "/v1/queries/r-7"]

    def answers(site) -> list:
        return [site.get(each).json for each in asked]

    site = Process(tmp_path / "data", *flags)
    site.post("/v1/queries", queries(now))
    site.post("/v1/feedback", [{"query_id": f"r-{at}", "rating": -1} for at in range(0, 400, 9)])
    site.post("/v1/labels", [{"query_id": "r-8", "relevant_ids": ["d1"]}])
    before = answers(site)
    assert before[2]["queries"] == 400
    assert len(before[2]["pipelines"]) == 3
    getattr(site, how)()
    with Process(tmp_path / "data", *flags) as site:
        assert answers(site) == before


def test_feedback_waits_for_its_query_also_across_a_restart(tmp_path):
    site = Process(tmp_path / "data")
    told = {"query_id": "later", "rating": "negative", "comment": "wrong"}
    assert site.post("/v1/feedback", told).json["accepted"] == 1
    assert site.total("ragmon_feedback_total") == 0
    site.kill()
    with Process(tmp_path / "data") as site:
        assert site.total("ragmon_waiting_changes") == 1
        site.post("/v1/queries", {"query_id": "later", "pipeline": "p", "chunks": [{"id": "a"}]})
        assert site.total("ragmon_feedback_total", pipeline="p", rating="negative") == 1
        assert site.get("/v1/queries/later").json["feedback"]["comment"] == "wrong"
        assert site.total("ragmon_waiting_changes") == 0


def test_feedback_after_days_restates_the_day_of_its_query(tmp_path):
    now = SystemClock().now()
    days_ago = now - 5 * DAY_S

    def liked(site, end: float) -> dict:
        report = site.get(f"/v1/report?window=24h&pipeline=p&end={end}").json
        return report["metrics"].get("positive_feedback", {"samples": 0})

    site = Process(tmp_path / "data")
    site.post(
        "/v1/queries",
        [
            {"query_id": f"old-{at}", "pipeline": "p", "timestamp": days_ago - 60 * at}
            for at in range(20)
        ],
    )
    assert liked(site, days_ago + 3_600)["samples"] == 0
    assert site.terminate() == 0
    with Process(tmp_path / "data") as site:
        told = [{"query_id": f"old-{at}", "rating": "positive"} for at in range(10)]
        assert site.post("/v1/feedback", told).json["accepted"] == 10
        assert liked(site, days_ago + 3_600)["samples"] == 10
        assert liked(site, days_ago + 3_600)["estimate"] == 1.0
        assert liked(site, now)["samples"] == 0
        assert site.total("ragmon_window_restatements_total") >= 10
        assert site.get("/v1/queries/old-3").json["feedback"]["rating"] == 1.0
