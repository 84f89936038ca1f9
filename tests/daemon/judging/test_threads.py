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
from ragmon.sources import IngestOutcome
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


class Committed:
    """A sink that commits whatever it gets, and remembers it."""

    def __init__(self):
        self.submissions = []

    def submit(self, submission):
        self.submissions.append(submission)
        submission.reply(IngestOutcome(accepted=1))


class Nothing:
    """A store in which nothing waits."""

    def overdue(self, before, limit):
        return []

    def awaited_count(self):
        return 0

    def save(self, name, body):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize(
    ("error", "event", "set_aside"),
    [
        pytest.param(ValueError("a defect"), "judging_defect", 2, id="a defect of ours"),
        pytest.param(StoreError("a full disk"), "judging_paused", 0, id="a store that refuses"),
    ],
)
def test_one_answer_does_not_end_the_thread(error, event, set_aside):
    clock, judge, sink = ManualClock(1.0), Broken(error), Committed()
    budget = SharedBudget(BudgetLimits(judgements_per_hour=10), clock)
    judge_queue = JudgeQueue(bound(Nothing()), bound(Nothing()), Nothing, sink=sink)
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
        eventually(lambda: len(sink.submissions) == set_aside, "those with a defect are set aside")
        sampled.stop()
    assert judge.asked == ["A0", "A1"]
    assert [each["event"] for each in logged] == [event, event]
    for number, submission in enumerate(sink.submissions):
        [verdict], [item] = submission.changes, submission.quarantined
        assert (verdict.query_id, verdict.reason) == (f"q{number}", "judging_defect")
        assert (item.stage, item.reason, item.name) == ("judge", "judging_defect", f"q{number}")
        assert item.error == "ValueError: a defect"
