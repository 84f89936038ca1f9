"""Facts of the judge's page, from the running judges."""

from ragmon.api_schema import Report
from ragmon.daemon.judging.anchors import AnchorRounds
from ragmon.daemon.judging.build import Judges, SampledJudging
from ragmon.daemon.judging.calibration import REASONS, SavedCalibrations
from ragmon.daemon.monitor import LiveMonitor
from ragmon.judges import grounding
from ragmon.judges.llm.anchors import drift
from ragmon.web.pages.judge_source import (
    AnchorFacts,
    CalibrationFacts,
    JudgingFacts,
    SpendingFacts,
)
from ragmon.web.permits import Readable

_GRID = tuple(at / 50 for at in range(1, 50))  # scores of a curve


class LiveJudgePages:
    """Implements ``ragmon.web.pages.judge_source.JudgePageSource``."""

    def __init__(self, monitor: LiveMonitor, judges: Judges) -> None:
        self._monitor = monitor
        self._judges = judges

    def now(self) -> float:
        """Unix seconds."""
        return self._monitor.now()

    async def report(self, window: str, readable: Readable | None) -> Report:
        """Report of a window, over the pipelines that may be read.

        Raises:
            ValueError: the window is no duration, or out of range.
        """
        return await self._monitor.report(window, "", None, readable)

    async def judging(self, readable: Readable | None) -> JudgingFacts:
        """Budget, anchors, and calibrations of the pipelines that may be read."""
        sampled = self._judges.sampled
        return JudgingFacts(
            has_embedded=self._judges.has_embedded,
            spending=None if sampled is None else await _spending(sampled),
            anchors=_anchors(sampled.anchor_rounds) if sampled is not None else None,
            calibrations=tuple(
                _curve(name, kept)
                for name, kept in sorted(self._judges.calibrations.kept.items())
                if readable is None or readable(name)
            ),
        )


async def _spending(sampled: SampledJudging) -> SpendingFacts:
    spent, progress = sampled.budget.spent(), await sampled.on_demand.progress()
    return SpendingFacts(
        model=sampled.model,
        waiting=progress.waiting,
        paused_s=progress.paused_s,
        remaining=sampled.budget.remaining_ratio(),
        hour_judgements=spent.hour.judgements,
        hour_dollars=spent.hour.dollars,
        day_judgements=spent.day.judgements,
        day_dollars=spent.day.dollars,
    )


def _anchors(rounds: AnchorRounds | None) -> AnchorFacts | None:
    saved = rounds.rounds if rounds is not None else None
    if saved is None:
        return None
    return AnchorFacts(
        at=saved.at,
        first=saved.first.mean,
        last=saved.last.mean,
        drift=drift(saved.first, saved.last),
        failed=saved.last.failed,
    )


def _curve(pipeline: str, kept: SavedCalibrations) -> CalibrationFacts:
    """The calibration at traits of zero, which shift it for single answers."""
    calibration = kept.calibration
    traits = (0.0,) * len(calibration.trait_weights)
    points = () if kept.refused else tuple(
        (score, grounding.apply(calibration, score, traits)) for score in _GRID
    )  # fmt: skip
    return CalibrationFacts(
        pipeline=pipeline,
        teacher=kept.teacher,
        examples=kept.examples,
        version=kept.version,
        threshold=calibration.threshold,
        marked_from=kept.marks.floor if kept.marks else None,
        refused=REASONS[kept.refused] if kept.refused else "",
        points=points,
    )
