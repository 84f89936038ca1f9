"""kill -9 in the middle of judging: no drawn answer is forgotten, none is counted twice."""

import pytest

from tests.support.daemons import Process
from tests.support.llm_server import serving
from tests.support.metrics import total, values
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

ANSWERS = 120
KILLS = 3


def answered(number):
    return {
        "query_id": f"q{number}",
        "query": "When?",
        "answer": f"It is {number}. Penguins dance.",
        "chunks": [{"id": "c", "text": f"It is {number}"}],
    }


def test_kill_9_neither_forgets_an_answer_nor_counts_one_twice(tmp_path):
    with serving() as llm:
        flags = (
            "--judge.llm.base_url", llm.url, "--judge.llm.model", "tiny",
            "--judge.llm.modes", "[claims]", "--judge.every", "200ms",
            "--snapshot_every", "200ms", "--judge.grounding.enabled", "false",
            "--sampling.judgements_per_hour", "100000", "--sampling.judgements_per_day", "null",
        )  # fmt: skip
        site = Process(tmp_path / "data", *flags)
        site.post("/v1/queries", [answered(number) for number in range(ANSWERS)])
        for kill in range(1, KILLS + 1):
            asked = ANSWERS * kill // (KILLS + 1)
            eventually(lambda most=asked: len(llm.chats) > most, "some were asked about", 30)
            site.kill()
            site = Process(tmp_path / "data", *flags)
        with site:
            samples = {"judge": "llm", "window": "1h"}
            name = "ragmon_faithfulness_ratio_samples"
            eventually(
                lambda: values(site.page(), name, **samples) == [ANSWERS], "all were judged", 30
            )
            page = site.page()
            judged = [
                site.get(f"/v1/queries/q{number}").json["verdicts"] for number in range(ANSWERS)
            ]
        assert values(page, "ragmon_faithfulness_ratio", **samples) == [0.5]
        assert total(page, "ragmon_judge_queue_length", judge="llm") == 0
        assert [len(each) for each in judged] == [1] * ANSWERS
