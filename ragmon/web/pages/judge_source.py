"""Protocol of what the judge's page is made of, and its answers."""

from typing import NamedTuple, Protocol

from ragmon.api_schema import Report
from ragmon.web.permits import Readable


class SpendingFacts(NamedTuple):
    """Budget of the language model, and its queue."""

    model: str
    waiting: int  # answers
    paused_s: float  # until the endpoint is tried again; 0: it is not paused
    remaining: float  # share left of the tightest limit; 1 without limits
    hour_judgements: float  # spent in the hour (UTC), as the next three
    hour_dollars: float
    day_judgements: float
    day_dollars: float


class AnchorFacts(NamedTuple):
    """Answers that are judged again and again, so that a change of the model shows."""

    at: float  # unix seconds of the last round
    first: float | None  # mean faithfulness
    last: float | None
    drift: float | None  # mean change of those judged in both rounds
    failed: int  # in the last round


class CalibrationFacts(NamedTuple):
    """Map from the embedded judge's score to the share of answers that are faithful."""

    pipeline: str
    teacher: str  # people or llm
    examples: int
    version: int
    threshold: float  # calibrated scores below are doubted
    marked_from: float | None  # uncalibrated score from which answers are marked grounded
    refused: str  # why it is not in force; empty: it is
    points: tuple[tuple[float, float], ...]  # score and calibrated score


class JudgingFacts(NamedTuple):
    """Budget, anchors and calibrations."""

    has_embedded: bool
    spending: SpendingFacts | None  # None: no language model is configured
    anchors: AnchorFacts | None  # None: none are configured, or no round is over
    calibrations: tuple[CalibrationFacts, ...]


class JudgePageSource(Protocol):
    """Source of the judge's page."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    async def report(self, window: str, readable: Readable | None) -> Report:
        """Report of a window, over the pipelines that may be read.

        Raises:
            ValueError: the window is no duration, or out of range.
        """
        ...

    async def judging(self, readable: Readable | None) -> JudgingFacts:
        """Budget, anchors, and calibrations of the pipelines that may be read."""
        ...
