"""Loss by each custom judge, weighted to stand for all answers; detectors watch it.

A sampled judge's answers that could have been judged count 0, and one that was judged counts what
it lacks over its chance of being drawn, as in ``judged_loss``. A judge that reads every answer, or
a part drawn evenly, needs no weights.
"""

from ragmon.records import Amendments, QueryRecord
from ragmon.signals import CustomJudge, SignalOptions
from ragmon.signals.evidence import judge_score

NAME = "custom_loss"
HELP = "Share that an answer lacks by a custom judge, over its chance of being judged."
KIND = "quantity"
METRIC = None  # the estimate with its interval says more


def variants(options: SignalOptions) -> tuple[dict[str, str], ...]:
    """One series for each custom judge; none where there are none."""
    return tuple({"judge": judge.name} for judge in options.custom)


def observe(
    record: QueryRecord, known: Amendments, options: SignalOptions
) -> tuple[float | None, ...]:
    """Losses in [0, 1 / chance], in the order of the judges; None while unknown."""
    return tuple(_loss(known, judge) for judge in options.custom)


def _loss(known: Amendments, judge: CustomJudge) -> float | None:
    score = judge_score(known, judge.name)
    if not judge.is_sampled:
        return None if score is None else 1.0 - score
    if known.draw is None:
        return None
    chance = known.draw.probability / known.draw.share
    return 0.0 if score is None else (1.0 - score) / chance
