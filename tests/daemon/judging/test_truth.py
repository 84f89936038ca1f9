"""The estimate is unbiased through the daemon's own functions, whatever the proxy is worth."""

import numpy as np
import pytest

from ragmon.clock import ManualClock
from ragmon.daemon.judging.selection import AnswerFacts, JudgeSelection, relations, sampler_of
from ragmon.daemon.judging.shared_budget import SharedBudget
from ragmon.judges.budget import BudgetLimits
from ragmon.pipeline import amend
from ragmon.records import Amendments, Chunk, QueryRecord, Verdict
from ragmon.sampling import Sampler, SamplingOptions
from ragmon.windows.estimates import estimate, shown
from ragmon.windows.series import SeriesKey
from tests.support.examples import NOON, pipeline, windows

PIPELINE = pipeline(ks=(3,))
COLUMNS = PIPELINE.catalogue.columns
FAITHFUL = next(
    at for at, column in enumerate(shown(COLUMNS)) if column.key == "faithfulness{judge=llm}"
)
DAYS, ANSWERS, A_DAY = 30, 400, 500


class Day:
    """A day of answers: drawn as they come, judged, and estimated at its end."""

    def __init__(self, number, world):
        self.rng = np.random.default_rng(number)
        self.number = number
        self.world = world
        self.clock = ManualClock(NOON)
        self.windows = windows(PIPELINE)
        budget = SharedBudget(BudgetLimits(judgements_per_day=A_DAY), self.clock)
        self.selection = JudgeSelection(
            Sampler(SamplingOptions()), budget, self.clock, slices=(), known=self.known,
            forecast_usd=lambda _: 0.0,
        )  # fmt: skip
        self.budget = budget
        self.asked = 0

    def known(self, with_relations):
        found = relations(self.windows, COLUMNS, 86_400.0, self.clock.now())
        return AnswerFacts(0, found if with_relations else {})

    def run(self):
        for batch in range(ANSWERS // 20):
            self.clock.sleep(600.0)
            self.batch(range(20 * batch, 20 * batch + 20))
        merged = self.windows.merge(86_400.0, self.clock.now())
        found = estimate(merged, COLUMNS)
        at = self.windows.series.keys[SeriesKey("default")]
        return found.mean[at, FAITHFUL], found.lower[at, FAITHFUL], found.upper[at, FAITHFUL]

    def batch(self, numbers):
        truth, proxy = self.world(self.rng, len(numbers))
        records = [
            QueryRecord(query_id=f"{self.number}-{n}", timestamp=self.clock.now(), answer="A.",
                        chunks=[Chunk("a", text="A.")])
            for n in numbers
        ]  # fmt: skip
        self.windows.fold(PIPELINE.observe(records))
        read = [Verdict(query_id=r.query_id, judge="grounding", score=p)
                for r, p in zip(records, proxy.tolist(), strict=True)]  # fmt: skip
        draws = self.selection(records, read, 1.0)
        after = []
        for record, verdict, drawn, score in zip(records, read, draws, truth.tolist(), strict=True):
            known, _ = amend(Amendments(), verdict)
            known, _ = amend(known, drawn)
            if drawn.drawn and self.budget.admit(0.0) is not None:
                self.asked += 1
                said = Verdict(query_id=record.query_id, judge="llm", score=score,
                               probability=drawn.probability)  # fmt: skip
                known, _ = amend(known, said)
            after.append(known)
        before = [Amendments()] * len(records)
        self.windows.restate(PIPELINE.observe(records, before), PIPELINE.observe(records, after))


def faithful(rng, n):
    """One answer in six is bad, and the proxy has an inkling of which."""
    chance = rng.beta(5.0, 1.0, n)
    return (rng.random(n) < chance) * 1.0, chance


def biased(rng, n):
    truth, proxy = faithful(rng, n)
    return truth, 0.5 * proxy**2


def inverted(rng, n):
    truth, proxy = faithful(rng, n)
    return truth, 1.0 - proxy


@pytest.mark.parametrize("world", [faithful, biased, inverted])
def test_days_of_sampling_tell_the_truth(world):
    days = [Day(number, world) for number in range(DAYS)]
    found = np.array([day.run() for day in days])
    mean, lower, upper = found.T
    error = mean - 5 / 6
    assert abs(error.mean()) < 3.0 * error.std() / np.sqrt(DAYS)
    assert ((lower <= 5 / 6) & (upper >= 5 / 6)).mean() > 0.85
    assert all(50 < day.asked <= A_DAY for day in days)


def test_a_restart_does_not_forget_how_much_traffic_there_is():
    day = Day(0, faithful)
    for _ in range(20):
        day.clock.sleep(60.0)
        day.batch(range(day.asked, day.asked + 20))
    again = sampler_of(SamplingOptions(), day.selection.traffic)
    records, doubts = [("default", "")], np.full(1, np.nan)
    index = np.zeros(1, dtype=np.int32)
    now = day.clock.now() + 60.0
    after = again.probabilities(now, records, index, doubts, pace_per_hour=100.0)
    anew = Sampler(SamplingOptions()).probabilities(
        now, records, index, doubts, pace_per_hour=100.0
    )
    assert after[0] == pytest.approx(100 / 1_200, rel=0.5)  # twenty a minute
    assert anew[0] == 1.0  # it would take the first answer for all there is
    assert sampler_of(SamplingOptions(), None).forecast == Sampler(SamplingOptions()).forecast
