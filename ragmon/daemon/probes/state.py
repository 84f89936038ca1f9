"""A probe, and its state from run to run."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ragmon.evaluate.run.endpoint import FAILURES
from ragmon.evaluate.run.probe import Compared, Golden, ProbeJob, ProbeOutcome, compare


class Planned(Struct, frozen=True):
    """A job, and how often."""

    job: ProbeJob
    every_s: float


class ProbeState(Struct, frozen=True):
    """Results of a probe's runs; stored, so that they survive a restart."""

    last: ProbeOutcome | None = None
    reference: Golden | None = None  # the run that counts as right
    runs: dict[str, int] = msgspec.field(default_factory=lambda: {"finished": 0, "failed": 0})
    failures: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(FAILURES, 0))
    falls: dict[str, Compared] = {}  # the last run against the reference, by metric
    worse_since: dict[str, float] = {}  # unix seconds of the first of such runs in a row

    def after(self, outcome: ProbeOutcome) -> "ProbeState":
        """With one more run; the first that came to something is the reference."""
        failures = dict(self.failures)
        for reason, count in outcome.failures.items():
            failures[reason] = failures.get(reason, 0) + count
        if outcome.golden is None:  # says nothing of quality, neither good nor bad
            ends = self.runs | {outcome.end: self.runs.get(outcome.end, 0) + 1}
            return replace(self, last=outcome, runs=ends)
        reference = outcome.baseline or self.reference or _complete(outcome)
        falls = compare(reference, outcome.golden) if reference else {}
        return ProbeState(
            last=outcome,
            reference=reference,
            runs=self.runs | {outcome.end: self.runs.get(outcome.end, 0) + 1},
            failures=failures,
            falls=falls,
            worse_since={
                metric: self.worse_since.get(metric, outcome.started_at)
                for metric, compared in falls.items()
                if compared.paired.fall > 0.0
            },
        )


def _complete(outcome: ProbeOutcome) -> Golden | None:
    """The scores of a run that no failure made smaller."""
    return None if outcome.failures else outcome.golden
