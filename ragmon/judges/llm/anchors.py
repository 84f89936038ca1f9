"""Anchors: fixed answers judged again and again, so that a change of score is the judge's drift.

A JSON line each: ``{"query": …, "answer": …, "chunks": [{"id": …, "text": …}], "faithful": 0.9}``,
where ``faithful`` is the human verdict in [0, 1], if there is one. The judge that is asked must
not remember replies (``LruCache(0)``), or it would repeat its first verdict for ever.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from ragmon.errors import SettingsError
from ragmon.judges.llm.verdict import Failure, JudgedAnswer, Judgement
from ragmon.records import Chunk, UnitInterval
from ragmon.stats.agreement import Agreement, agreement, confusion_rows


class Anchor(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the file."""

    query: str
    answer: str
    chunks: list[Chunk]
    faithful: UnitInterval | None = None

    @property
    def case(self) -> JudgedAnswer:
        """The anchor in the form that the judge takes."""
        return JudgedAnswer(
            self.query, self.answer, tuple((c.id, c.text or "") for c in self.chunks)
        )


class Round(Struct, frozen=True):
    """One judging of all anchors."""

    scores: tuple[float | None, ...]  # faithfulness by anchor; None: failed, or no claims
    failed: int
    mean: float | None  # of the scores
    agreement: Agreement  # with the human verdicts


def read(path: Path) -> tuple[Anchor, ...]:
    """The anchors of a file.

    Raises:
        SettingsError: it cannot be read, or a line is no anchor.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise SettingsError(f"judge.anchors: {error}") from error
    anchors = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            anchors.append(msgspec.json.decode(line, type=Anchor))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"judge.anchors: line {number} of {path}: {error}") from error
    if not anchors:
        raise SettingsError(f"judge.anchors: {path} is empty; write one JSON object a line")
    return tuple(anchors)


class Grader(Protocol):
    """Judge of one answer: ``LlmJudge``, or a wrapper that charges a budget for it."""

    def judge(self, case: JudgedAnswer) -> Judgement | Failure:
        """Grade one answer."""
        ...


def judge_anchors(judge: Grader, anchors: Sequence[Anchor]) -> Round:
    """Judge every anchor once, one after the other."""
    scores: list[float | None] = []
    failed = 0
    for anchor in anchors:
        result = judge.judge(anchor.case)
        failed += not isinstance(result, Judgement)
        scores.append(result.scores.get("faithfulness") if isinstance(result, Judgement) else None)
    known = [score for score in scores if score is not None]
    counts = confusion_rows(
        [math.nan if score is None else score for score in scores],
        [math.nan if anchor.faithful is None else anchor.faithful for anchor in anchors],
    ).sum(axis=0)
    mean = float(np.mean(known)) if known else None
    return Round(tuple(scores), failed, mean, agreement(counts))


def drift(before: Round, after: Round) -> float | None:
    """Mean change of the score over the anchors that both rounds judged; None without any."""
    changes = [
        new - old
        for old, new in zip(before.scores, after.scores, strict=True)
        if old is not None and new is not None
    ]
    return float(np.mean(changes)) if changes else None
