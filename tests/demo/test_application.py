"""The RAG application end to end, without traffic."""

from functools import cache

import pytest

from ragmon.clock import CpuClock, ManualClock
from ragmon.demo.answerer import NOTHING_FOUND, CitedAnswer
from ragmon.demo.application import FAST, STABLE, TOP_K, Application, Release, build_application
from ragmon.demo.questions import known, load
from ragmon.records import Chunk


class Slow:
    """A retriever and an answerer that each take their time."""

    def __init__(self, clock):
        self._clock = clock

    def search(self, query, k):
        self._clock.sleep(0.25)
        return [Chunk(id="a#1", score=1.0, text=query, source="a")][:k]

    def answer(self, query, chunks):
        self._clock.sleep(0.5)
        return CitedAnswer(query, ("a#1",), ("a#1",))


@cache
def real():
    return build_application(ManualClock())


def test_a_busy_machine_does_not_make_the_application_slow():
    clock = CpuClock()
    started = clock.monotonic()
    clock.sleep(0.05)
    assert clock.monotonic() - started < 0.025
    sum(range(1_000))
    assert clock.monotonic() > started


def test_each_stage_is_measured():
    clock = ManualClock()
    slow = Slow(clock)
    outcome = Application([], {"v": Release("m", slow, slow)}, clock).ask("why?", version="v")
    latency = outcome.latency_ms
    assert (latency.retrieval, latency.generation, latency.total) == (250.0, 500.0, 750.0)


def test_an_answer_is_built_from_retrieved_chunks_and_cites_them():
    outcome = real().ask("does `or` return a bool or one of the operands?", version=STABLE)
    assert 0 < len(outcome.chunks) <= TOP_K
    assert set(outcome.citations) == outcome.used <= {chunk.id for chunk in outcome.chunks}
    texts = [chunk.text for chunk in outcome.chunks if chunk.id in outcome.used]
    assert "always return one of their operands" in outcome.answer
    assert any("always return one of their operands" in text for text in texts)


@pytest.mark.parametrize(
    ("fail_soft", "chunks", "answer", "failed"),
    [
        pytest.param(True, [], NOTHING_FOUND, False, id="soft: nothing found"),
        pytest.param(False, None, None, True, id="hard: an error, and nothing known"),
    ],
)
def test_an_index_that_is_down(fail_soft, chunks, answer, failed):
    outcome = real().without_index().ask("sort a list", version=STABLE, fail_soft=fail_soft)
    assert (outcome.chunks, outcome.answer, outcome.error is not None) == (chunks, answer, failed)


def test_the_fast_release_is_worse_in_everything_that_is_measured():
    application = real()
    asked = [question for question in known(load(), application.chunks) if question.relevant]

    def measured(version):
        hits = helped = cited = 0
        for question in asked:
            outcome = application.ask(question.query, version=version)
            ids = {chunk.id for chunk in outcome.chunks}
            hits += not ids.isdisjoint(question.relevant)
            helped += not outcome.used.isdisjoint(question.relevant)
            cited += len(ids.intersection(outcome.citations)) / max(len(ids), 1)
        return [count / len(asked) for count in (hits, helped, cited)]

    stable, fast = measured(STABLE), measured(FAST)
    assert len(asked) > 100
    assert stable[0] > fast[0] + 0.2
    assert stable[1] > fast[1] + 0.4
    assert stable[2] > fast[2] + 0.15
