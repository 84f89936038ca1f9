"""Answers that a judge fails on cost only themselves, and are judged once that is mended."""

import pytest

from tests.support.daemons import Process
from tests.support.poison import PoisonedAnswers
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end


def answered(number, answer):
    chunks = [{"id": "c", "text": f"The fee of case {number} is due on Monday."}]
    return {"query_id": f"q{number}", "query": "When?", "answer": answer, "chunks": chunks}


def verdict(site, query_id):
    return (site.get(f"/v1/queries/{query_id}").json["verdicts"] or [None])[0]


def retried(site, entry):
    """What is set aside once the judge has read the answer again."""
    again = site.post(f"/v1/quarantine/{entry}/retry", b"").json
    assert (again["done"], again["under_way"]) == (False, True)

    def ended():
        entries = site.get("/v1/quarantine?stage=judge").json["entries"]
        return None if any(each["under_way"] for each in entries) else (entries,)

    return eventually(ended, "the judge has read it", 60)[0]


def test_an_answer_that_kills_the_judge_is_set_aside_and_judged_when_retried(tmp_path):
    poison = PoisonedAnswers(tmp_path / "poison")
    with Process(tmp_path / "data", environment=poison.environment) as site:
        answers = ["It is due on Monday.", "A poisonous answer.", "It is due on Tuesday."]
        site.post("/v1/queries", [answered(at, text) for at, text in enumerate(answers)])
        listed = "/v1/quarantine?stage=judge"
        [entry] = eventually(lambda: site.get(listed).json["entries"], "it is set aside", 60)
        assert (entry["name"], entry["reason"]) == ("q1", "judge_crashed")
        eventually(lambda: verdict(site, "q1"), "all have verdicts", 30)
        assert [verdict(site, f"q{at}").get("score") is None for at in range(3)] == [
            False, True, False
        ]  # fmt: skip
        shown = site.get(f"/v1/quarantine/{entry['id']}").json
        assert shown["content"] == {"query_id": "q1", "judge": "grounding"}
        counted = 'ragmon_quarantined_total{reason="judge_crashed",stage="judge"} 1\n'
        assert counted in site.page()

        [failed] = retried(site, entry["id"])
        assert (failed["attempts"], failed["error"]) == (1, "the judge's process ended")

        poison.cure()
        assert retried(site, entry["id"]) == []
        assert verdict(site, "q1")["score"] is not None
