"""Silences with an expiry, and maintenance windows that come back every week."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

MOST_VALUE = 1_000
"""Longest value of a condition, in characters."""
MOST_EXPRESSIONS = 1_000
"""Most regular expressions of all silences together: as many are kept compiled."""

_EXPRESSION_BYTES = 1 << 17  # of one that is compiled; Unicode classes take up to half of it
_DAY_S = 86_400
_THURSDAY = 3  # 1 January 1970; Monday is 0


class Matcher(Struct, frozen=True):
    """One condition on a label."""

    name: str
    value: str
    regex: bool = False  # in RE2's syntax, as Alertmanager's matchers are

    def problem(self) -> str:
        """Reason why the value is no regular expression; empty when it is one, or is plain."""
        return _compiled(self.value)[1] if self.regex else ""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when the label has the value; a label that is absent is empty."""
        label = labels.get(self.name, "")
        if not self.regex:
            return label == self.value
        pattern, _ = _compiled(self.value)
        # An older release took expressions that RE2 refuses: these match nothing, so none is mute.
        return pattern is not None and pattern.fullmatch(label) is not None


class Silence(Struct, frozen=True, kw_only=True):
    """Suppresses notifications of the alerts that match every condition, until it ends."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: float  # unix seconds
    ends_at: float
    created_by: str = ""
    comment: str = ""

    def active(self, now: float) -> bool:
        """True when it applies at a moment, unix seconds."""
        return self.starts_at <= now < self.ends_at

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when it is about an alert; a silence without conditions is about none."""
        return bool(self.matchers) and all(each.matches(labels) for each in self.matchers)


class Maintenance(Struct, frozen=True, kw_only=True):
    """A stretch of every week (UTC) in which some pipelines are worked on."""

    name: str
    weekdays: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)  # of its beginning; Monday is 0
    start_s: float  # seconds after midnight
    duration_s: float
    pipelines: tuple[str, ...] = ()  # none: all

    def active(self, now: float) -> bool:
        """True when it applies at a moment, unix seconds; also past midnight."""
        since = now - self.start_s
        days = int(self.duration_s // _DAY_S) + 1
        for back in range(days + 1):
            day = int(since // _DAY_S) - back
            begun = since - day * _DAY_S
            weekday = (day + _THURSDAY) % 7
            if weekday in self.weekdays and 0.0 <= begun < self.duration_s:
                return True
        return False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True when it is about an alert."""
        return not self.pipelines or labels.get("pipeline") in self.pipelines


@functools.lru_cache(maxsize=MOST_EXPRESSIONS)
def _compiled(expression: str) -> tuple[Any, str]:
    """The expression and the reason why there is none; RE2 matches in linear time."""
    import re2  # noqa: PLC0415 - commands that only show silences start faster without

    if len(expression) > MOST_VALUE:
        return None, f"longer than {MOST_VALUE} characters"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _EXPRESSION_BYTES
    try:
        return re2.compile(expression, options), ""
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0]
        return None, reason.decode(errors="replace") if isinstance(reason, bytes) else str(error)


def silenced_by(
    labels: Mapping[str, str],
    silences: Iterable[Silence],
    maintenance: Iterable[Maintenance],
    now: float,
) -> str:
    """Id of the silence or name of the maintenance window that suppresses an alert, else empty."""
    for silence in silences:
        if silence.active(now) and silence.matches(labels):
            return silence.id
    for window in maintenance:
        if window.active(now) and window.matches(labels):
            return window.name
    return ""
