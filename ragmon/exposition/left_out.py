"""Metrics that queries read and the settings leave out: for rules and dashboards that adapt."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ragmon.exposition.choice import MetricChoice
from ragmon.exposition.figures import gauges
from ragmon.signals import Column

_WORD = re.compile(
    r"""
    "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | `[^`]*`  # a string
    | \#[^\n]*                                       # a comment
    | [{}]
    | [a-zA-Z_:][a-zA-Z0-9_:]*
    """,
    re.VERBOSE,
)
_BY_NAME = re.compile(r"""__name__\s*=~\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|`([^`]*)`)""")
_PARTS = ("_bucket", "_sum", "_count")  # of a histogram


class Reads(NamedTuple):
    """Metrics of ragmon that an expression reads."""

    names: list[str]  # recorded ones too
    patterns: list[str]  # each chooses several by a regular expression


class LeftOutMetric(NamedTuple):
    """A metric that an expression reads in vain."""

    name: str  # or the pattern of several
    setting: str  # that leaves it out


def reads(expression: str) -> Reads:
    """The metrics that a PromQL expression reads, other people's left aside."""
    names: dict[str, None] = {}
    is_outside = True  # of the braces, where labels are
    for word in _WORD.findall(expression):
        if word in "{}":
            is_outside = word == "}"
        elif is_outside and re.match(r"(\w+:)?ragmon_", word):
            names[word] = None
    patterns = ("".join(groups) for groups in _BY_NAME.findall(expression))
    return Reads(list(names), list(patterns))


class LeftOut:
    """The metrics that settings leave out of ``/metrics``."""

    def __init__(
        self, choice: MetricChoice, columns: Sequence[Column], *, has_slice_windows: bool
    ) -> None:
        """Make it.

        Args:
            choice: of metrics.
            columns: of the windows.
            has_slice_windows: whether there are gauges of slices at all.
        """
        self._choice = choice
        self._has_slice_windows = has_slice_windows
        self._gauges = {
            f"{stem}{gauge.name}": (gauge.metric, gauge.suffix, bool(at))
            for gauge in gauges(columns)
            for at, stem in enumerate(("ragmon_", "ragmon_slice_"))
        }

    def setting(self, metric: str) -> str:
        """The setting that leaves out a metric, by the name of its series; empty: none does."""
        if metric in self._gauges:
            name, suffix, of_slice = self._gauges[metric]
            if of_slice and not self._has_slice_windows:
                return "metrics.slice_windows"
            return self._choice.gauge_left_out_by(name, suffix, of_slice=of_slice)
        stems = [metric.removesuffix(part) for part in _PARTS if metric.endswith(part)]
        return next(filter(None, map(self._choice.left_out_by, stems or [metric])), "")

    def of(self, expression: str) -> list[LeftOutMetric]:
        """The metrics that an expression reads and that are left out."""
        read = reads(expression)
        settings = [(name, self.setting(name)) for name in read.names if ":" not in name]
        settings += [(pattern, self._of_pattern(pattern)) for pattern in read.patterns]
        return [LeftOutMetric(name, setting) for name, setting in settings if setting]

    def _of_pattern(self, pattern: str) -> str:
        """The setting that leaves out every gauge that a pattern chooses."""
        chosen: Iterable[str] = (name for name in self._gauges if re.fullmatch(pattern, name))
        settings = [self.setting(name) for name in chosen]
        return settings[0] if settings and all(settings) else ""
