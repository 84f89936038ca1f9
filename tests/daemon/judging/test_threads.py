"""The threads that judge go on, whatever one answer does to them."""

import pytest
from structlog.testing import capture_logs

from ragmon.clock import ManualClock
from ragmon.daemon.judging.judge_queue import JudgeQueue
from ragmon.daemon.judging.sampled_judge import SampledJudge, SampledJudgeOptions, Task
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.errors import StoreError
from ragmon.exposition.own import OwnMetrics
from ragmon.exposition.sampled_judge import JudgeMetrics
from ragmon.judges.budget import BudgetLimits
from ragmon.records import Chunk, Draw, QueryRecord
from tests.support.threads import bound
from tests.support.wait import eventually


class Broken:
    """A judge that raises what it was told to, and remembers whom it was asked about."""

    def __init__(self, error):
        self.error = error
        self.asked = []

    def judge(self, case):
        self.asked.append(case.answer)
        raise self.error

    def opens_in(self):
        return 1.0


class Nothing:
    """A store in which nothing waits."""

    def overdue(self, before, limit):
        return []

    def awaited_count(self):
        return 0

    def remember(self, name, body):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize(
    ("error", "event", "is_left_alone"),
    [
        pytest.param(ValueError("a defect"), "judging_defect", True, id="a defect of ours"),
        pytest.param(StoreError("a full disk"), "judging_paused", False, id="a store that refuses"),
    ],
)
def test_one_answer_does_not_end_the_thread(error, event, is_left_alone):
    clock, judge = ManualClock(1.0), Broken(error)
    budget = SharedBudget(BudgetLimits(judgements_per_hour=10), clock)
    judge_queue = JudgeQueue(bound(Nothing()), Nothing, sink=None)
    metrics = JudgeMetrics(OwnMetrics())
    options = SampledJudgeOptions(max_age_s=60.0, threads=1, on_verdict=lambda *_: None)
    sampled = SampledJudge(judge, judge_queue, budget, clock, metrics, options=options)
    for number in range(2):
        answer = QueryRecord(query_id=f"q{number}", answer=f"A{number}", chunks=[Chunk("c")])
        draw = Draw(query_id=f"q{number}", probability=1.0, proxy=0.5)
        sampled._tasks.put(Task(number, answer, draw, budget.admit(0.0)))
    with capture_logs() as logged:
        sampled.start()
        eventually(lambda: len(logged) == 2, "both were judged")
        sampled.stop()
    assert judge.asked == ["A0", "A1"]
    assert [each["event"] for each in logged] == [event, event]
    clock.sleep(86_400.0)
    assert sampled._is_due(0) is not is_left_alone
