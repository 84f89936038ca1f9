"""Silences with an expiry, and maintenance windows that come back every week."""

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

_DAY_S = 86_400
_THURSDAY = 3  # 1 January 1970; Monday is 0


class Matcher(Struct, frozen=True):
    """One condition on a label."""

    name: str
    value: str
    regex: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the label has the value; a label that is absent is empty."""
        held = labels.get(self.name, "")
        if self.regex:
            return re.fullmatch(self.value, held) is not None
        return held == self.value


class Silence(Struct, frozen=True, kw_only=True):
    """Alerts that match every condition are not heard of until it ends."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: float  # unix seconds
    ends_at: float
    created_by: str = ""
    comment: str = ""

    def active(self, now: float) -> bool:
        """Whether it holds at a moment."""
        return self.starts_at <= now < self.ends_at

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it is about an alert; a silence without conditions is about none."""
        return bool(self.matchers) and all(each.matches(labels) for each in self.matchers)


class Maintenance(Struct, frozen=True, kw_only=True):
    """A stretch of every week (UTC) in which some pipelines are worked on."""

    name: str
    weekdays: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)  # of its beginning; Monday is 0
    start_s: float  # seconds after midnight
    duration_s: float
    pipelines: tuple[str, ...] = ()  # none: all

    def active(self, now: float) -> bool:
        """Whether it holds at a moment, also past midnight."""
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
        """Whether it is about an alert."""
        return not self.pipelines or labels.get("pipeline") in self.pipelines


def silenced_by(
    labels: Mapping[str, str],
    silences: Iterable[Silence],
    maintenance: Iterable[Maintenance],
    now: float,
) -> str:
    """What keeps an alert unheard: the id of a silence, a maintenance window, or nothing."""
    for silence in silences:
        if silence.active(now) and silence.matches(labels):
            return silence.id
    for window in maintenance:
        if window.active(now) and window.matches(labels):
            return window.name
    return ""
