"""Alerts of the real daemon: killed again and again it tells the story of one that never was."""

import random

import pytest

from ragmon.clock import SystemClock
from tests.support.daemons import Process
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

DAY_S = 86_400.0
BATCH = 400
FLAGS = (
    "--judge.grounding.enabled", "false", "--slices", "tenant",
    "--detectors.first_days", "0", "--detectors.lag", "0",
)  # fmt: skip


def day(now: float, queries: int = 12_000) -> list[dict]:
    """A day with an outage of the index at noon, long over, and an hour of misses at its end."""
    rng = random.Random(5)
    found = []
    for number in range(queries):
        at = now - DAY_S + DAY_S * number / queries
        outage = now - 9 * 3_600 <= at < now - 9 * 3_600 + 2_400
        missed = rng.random() < (0.4 if at >= now - 3_600 else 0.05)
        found.append(
            {
                "query_id": f"q{number}",
                "timestamp": at,
                "pipeline": "docs",
                "query": f"question {number} of joe@example.com",
                "tags": {"tenant": rng.choice(["acme", "globex"])},
                "chunks": [] if outage else [{"id": "a"}, {"id": "b"}],
                "relevant_ids": ["z"] if missed else ["a"],
            }
        )
    return found


def told(site: Process, now: float) -> list[tuple]:
    """Every alert with what it says, once everything is judged."""

    def all_of_it():
        answer = site.get("/v1/alerts?limit=1000").json
        return answer["alerts"] if (answer["judged_until"] or 0.0) >= now // 60 * 60 else None

    alerts = eventually(all_of_it, "the day is judged", 60)
    return sorted(
        (each["id"], each["state"], each["ended_at"] or 0.0, str(_bare(each["evidence"])))
        for each in alerts
        if each["state"] != "pending"
    )


def _bare(evidence: dict) -> dict:
    """Without addresses, which differ by the port."""
    worst = [(each["query_id"], each["query"]) for each in evidence["worst"]]
    return {"sentence": evidence["sentence"], "slices": evidence["slices"], "worst": worst}


def send(site: Process, records: list[dict]) -> None:
    for at in range(0, len(records), BATCH):
        assert site.post("/v1/queries", records[at : at + BATCH]).status == 200


def test_killed_again_and_again_it_neither_repeats_nor_forgets_an_alert(tmp_path):
    now = SystemClock().now() // 60 * 60  # or a part of a minute would be judged in between
    records = day(now)
    with Process(tmp_path / "steady", *FLAGS) as steady:
        send(steady, records)
        expected = told(steady, now)
    names = {name for name, *_ in expected}
    assert len(names) == len(expected) > 2
    assert any("question" in said and "joe@" not in said for *_, said in expected)
    rng = random.Random(7)
    cuts = sorted(rng.sample(range(0, len(records), BATCH), 5))
    for first, last in zip([0, *cuts], [*cuts, len(records)], strict=True):
        with Process(tmp_path / "killed", *FLAGS) as killed:
            send(killed, records[first:last])
            if last == len(records):
                assert told(killed, now) == expected
                killed.kill()
    with Process(tmp_path / "killed", *FLAGS) as again:
        assert told(again, now) == expected
        episode = expected[0][0]
        changes = again.get(f"/v1/alerts/{episode}").json["transitions"]
        assert len({each["id"] for each in changes}) == len(changes) > 0
