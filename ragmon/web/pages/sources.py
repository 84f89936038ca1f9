"""Protocol of what the pages are made of, and its answers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ragmon.metric_series import Floats
from ragmon.signals import Column
from ragmon.web.permits import Readable
from ragmon.web.series import SeriesQuery
from ragmon.windows.estimates import Estimates
from ragmon.windows.trends import FirstSeen

WEEK_S = 7 * 86_400.0


class Trends(NamedTuple):
    """Every pipeline over a window, over the same window a week ago, and step by step."""

    pipelines: tuple[str, ...]  # in the order of the rows
    left_out: int  # pipelines with the least traffic, beyond those shown
    columns: Sequence[Column]
    now: Estimates  # a row a pipeline
    before: Estimates  # a week earlier
    steps: Estimates  # a row a step, pipeline by pipeline; without intervals
    start: float  # unix seconds at which the first step begins
    step_s: float
    watermark: float | None  # unix seconds of the newest query that is counted


class Course(NamedTuple):
    """Every metric of one pipeline or slice, step by step."""

    start: float  # unix seconds at which the first step begins
    step_s: float
    columns: Sequence[Column]
    estimates: Estimates  # a row a step
    expected: Mapping[str, tuple[Floats, Floats]] = {}  # by metric: ends of what is ordinary


class SliceFigures(NamedTuple):
    """The slices of a pipeline over one stretch of time, each beside the rest of the pipeline."""

    slices: tuple[tuple[str, str], ...]  # dimension and value of each
    columns: Sequence[Column]
    whole: Estimates  # one row
    slice_estimates: Estimates  # a row a slice
    rest: Estimates  # a row a slice: the pipeline without it


class Restart(NamedTuple):
    """A start of ragmon."""

    at: float  # unix seconds
    version: str


class CourseSource(Protocol):
    """Source of metrics over time."""

    async def course(self, query: SeriesQuery) -> Course:
        """Every metric for each step.

        Raises:
            KeyError: no such pipeline or slice has queries.
        """
        ...


class PageSource(Protocol):
    """Source of what the pages show, beside alerts and baselines."""

    def now(self) -> float:
        """Unix seconds."""
        ...

    def problems(self) -> list[str]:
        """Reasons why ragmon is not ready; empty when it is."""
        ...

    def quarantined(self) -> int:
        """Number of entries in quarantine."""
        ...

    async def trends(self, window_s: float, span_s: float, readable: Readable | None) -> Trends:
        """The pipelines that may be read over a window, and over the steps of a longer span."""
        ...

    async def slices(self, pipeline: str, start: float, end: float) -> SliceFigures:
        """The slices of a pipeline that have queries, those with the most first."""
        ...

    async def pipelines(self, readable: Readable | None) -> list[str]:
        """Names of the pipelines that may be read, in their order."""
        ...

    async def new_versions(self, over_s: float, readable: Readable | None) -> list[FirstSeen]:
        """Versions that appeared lately, the newest first."""
        ...

    async def restarts(self, since: float) -> list[Restart]:
        """Starts of ragmon from a moment on, the newest first."""
        ...
