"""Golden probes: job and outcome of one run of a golden set against a live service.

Light, because the daemon imports it; the run itself is ``probe_process``, a process of its own.
"""

from typing import Literal

from msgspec import Struct

from ragmon.evaluate.run.endpoint import Template
from ragmon.stats.paired import PairedOutcomes, compare_outcomes

PASSES = 0.5
"""A score in [0, 1], such as faithfulness, passes from here on."""

_SHOWN = ("precision", "recall", "ndcg", "hit", "reciprocal_rank", "error")


class ProbeJob(Struct, frozen=True, kw_only=True):
    """One run of one probe."""

    probe: str
    cases: str  # path
    template: Template
    concurrency: int
    attempts: int
    ks: tuple[int, ...]
    most_cases: int
    grounding: bool  # have the embedded judge read the answers
    baseline: str = ""  # path of an evaluation to compare with
    ids_match: bool = False  # an earlier run found what is relevant by its ids


class Golden(Struct, frozen=True, kw_only=True):
    """Scores of one run case by case, for paired comparison with another run."""

    name: str
    created_at: float  # unix seconds
    case_ids: tuple[str, ...]
    scores: dict[str, tuple[float | None, ...]]  # by metric; None: unknown for this case


class ProbeMean(Struct, frozen=True):
    """One metric over the cases with a score, with its 95 % interval."""

    metric: str  # ``recall@5``, ``faithfulness/grounding``
    mean: float
    lower: float | None
    upper: float | None
    samples: int


class ProbeOutcome(Struct, frozen=True, kw_only=True):
    """Result of one run: scores, or the error that stopped it."""

    probe: str
    started_at: float  # unix seconds
    duration_s: float
    cases: int = 0  # sent to the service
    means: tuple[ProbeMean, ...] = ()
    failures: dict[str, int] = {}  # questions without a usable answer, by reason
    golden: Golden | None = None  # None: the whole run failed
    baseline: Golden | None = None  # the scores that the job compares with
    error: str = ""  # why the whole run failed

    @property
    def end(self) -> Literal["finished", "failed"]:
        """Status of the run."""
        return "failed" if self.golden is None else "finished"


def is_shown(metric: str) -> bool:
    """True if a metric of an evaluation is shown for probes too."""
    if metric.startswith("faithfulness/"):
        return True
    return metric.partition("@")[0] in _SHOWN and "/" not in metric  # hit@1/citation is of traffic


class Compared(Struct, frozen=True):
    """Two runs over the cases with a score in both."""

    paired: PairedOutcomes
    cases: int
    before: int  # cases that passed
    after: int


def compare(before: Golden, after: Golden) -> dict[str, Compared]:
    """Exact paired tests of two runs: hits at each k, and faithful answers.

    Args:
        before: the baseline run.
        after: the current run.
    """
    places = {case_id: at for at, case_id in enumerate(before.case_ids)}
    shared = [(places[key], at) for at, key in enumerate(after.case_ids) if key in places]
    compared = {}
    for metric, now in after.scores.items():
        was = before.scores.get(metric)
        if was is None or not metric.startswith(("hit@", "faithfulness/")):
            continue
        pairs = [(was[a], now[b]) for a, b in shared]
        known = [(a >= PASSES, b >= PASSES) for a, b in pairs if a is not None and b is not None]
        if known:
            was_good, is_good = [a for a, _ in known], [b for _, b in known]
            paired = compare_outcomes(was_good, is_good)
            compared[metric] = Compared(paired, len(known), sum(was_good), sum(is_good))
    return compared
