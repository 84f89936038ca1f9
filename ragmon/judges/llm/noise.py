"""Noise sensitivity: faithfulness lost when irrelevant chunks stand between the others."""

from collections.abc import Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from ragmon.judges.llm.judge import LlmJudge
from ragmon.judges.llm.verdict import Failure, JudgedAnswer


class Noise(Struct, frozen=True):
    """Faithfulness without and with distractors."""

    clean: float
    noisy: float

    @property
    def sensitivity(self) -> float | None:
        """1 - noisy / clean: the share lost to noise, negative if it rose; None for clean 0."""
        return 1.0 - self.noisy / self.clean if self.clean > 0 else None


def noise_sensitivity(
    judge: LlmJudge, case: JudgedAnswer, distractors: Sequence[tuple[str, str]]
) -> Noise | Failure:
    """Judge a case as it is, and again with distractors between its chunks.

    Args:
        judge: with claims or rubric among its modes.
        case: the answer.
        distractors: (id, text) of chunks that have nothing to do with the question.
    """
    mixed = [chunk for pair in zip_longest(case.chunks, distractors) for chunk in pair if chunk]
    scores = []
    for variant in (case, replace(case, chunks=tuple(mixed))):
        result = judge.judge(variant)
        if isinstance(result, Failure):
            return result
        if "faithfulness" not in result.scores:
            return Failure(
                reason="unjudgeable", detail="the answer makes no claim", retryable=False
            )
        scores.append(result.scores["faithfulness"])
    return Noise(*scores)
