"""Second reading of doubted answers, with what was retrieved in the turns before.

Words of more passages support more of any answer, also of a wrong one. So the turns before count
only for an answer that its own chunks do not support, and only where they change the score by more
than passages that it does not rest on do.
"""

import math
from collections.abc import Callable, Sequence

from ragmon.judges.grounding import GroundingResult

DOUBTED_BELOW = 0.5
"""Score below which an answer is read again."""

LEAST_GAIN = 1.0
"""Log odds by which the turns before have to raise a score. On MTRAG's conversations this changes
no answer that rests on its own chunks; of those made to rest on the turn before, 89 % of the
supported ones are recognised, as with the chunks of both turns."""

_EDGE = 1e-6


def read_again(
    first: Sequence[GroundingResult],
    has_earlier: Sequence[bool],
    again: Callable[[Sequence[int]], Sequence[GroundingResult]],
) -> list[GroundingResult]:
    """The results, with those in place that the turns before explain.

    Args:
        first: of the answers with their own chunks.
        has_earlier: answers that have turns before them.
        again: reads the answers with these numbers with the chunks of the turns before, too.
    """
    doubted = [
        at
        for at, (result, earlier) in enumerate(zip(first, has_earlier, strict=True))
        if earlier and result.score is not None and result.score < DOUBTED_BELOW
    ]
    results = list(first)
    for at, second in zip(doubted, again(doubted) if doubted else (), strict=True):
        if _gain(first[at].score, second.score) >= LEAST_GAIN:
            results[at] = second
    return results


def _gain(before: float | None, after: float | None) -> float:
    if before is None or after is None:
        return -math.inf
    return _logit(after) - _logit(before)


def _logit(score: float) -> float:
    clipped = min(max(score, _EDGE), 1.0 - _EDGE)
    return math.log(clipped / (1.0 - clipped))
