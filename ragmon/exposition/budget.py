"""The budget of series: which pipelines, versions and slices ``/metrics`` shows.

Levels are served in order; within a level the busiest come first. A group of series is shown
whole or not at all. One that is shown stays for a day after it was last among the busiest, so
that two of like traffic do not take turns.
"""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from ragmon.windows.series import SeriesKey

STAY_S = 86_400.0
"""Time for which a group stays after it was last among the busiest."""


class Group(NamedTuple):
    """Series that are shown together or not at all."""

    key: SeriesKey
    cost: int  # series now
    traffic: float  # queries; more is shown first


class Level(NamedTuple):
    """Groups of one priority."""

    kind: str
    groups: Sequence[Group]


class Allotment(NamedTuple):
    """Groups shown, and series left out, by kind."""

    shown: dict[str, frozenset[SeriesKey]]
    withheld: dict[str, int]


class BudgetState(Struct, frozen=True):
    """Everything that a budget remembers, by kind."""

    deserved: dict[str, list[tuple[SeriesKey, float]]]  # shown, and last among the busiest when
    most: dict[str, list[tuple[SeriesKey, int]]]  # series that a group ever had

    def shows_as(self, other: "BudgetState") -> bool:
        """True when the same is shown in both."""
        mine, others = (
            {kind: {key for key, _ in groups} for kind, groups in state.deserved.items()}
            for state in (self, other)
        )
        return mine == others


class SeriesBudget:
    """Chooses what is shown; keeps what was, and when it last was among the busiest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._deserved: dict[str, dict[SeriesKey, float]] = {}  # of what is shown
        self._most: dict[str, dict[SeriesKey, int]] = {}  # series that a group ever had

    @property
    def state(self) -> BudgetState:
        """Everything that it remembers."""
        return BudgetState(
            {kind: list(groups.items()) for kind, groups in self._deserved.items()},
            {kind: list(groups.items()) for kind, groups in self._most.items()},
        )

    def restore(self, state: BudgetState, now: float) -> None:
        """Go on where a budget left off; what it says of the future counts as now."""
        self._deserved = {
            kind: {key: min(at, now) for key, at in groups}
            for kind, groups in state.deserved.items()
        }
        self._most = {kind: dict(groups) for kind, groups in state.most.items()}

    def allot(self, levels: Sequence[Level], reserved: int, now: float) -> Allotment:
        """Choose what fits.

        Args:
            levels: the most important first; kinds are distinct.
            reserved: series that are shown in any case.
            now: unix seconds.
        """
        room = self._limit - reserved
        shown, withheld = {}, {}
        for level in levels:
            costs = self._costs(level)
            chosen = self._choose(level, costs, room, now)
            shown[level.kind] = frozenset(chosen)
            room -= sum(costs[key] for key in chosen)
            left_out = (group.cost for group in level.groups if group.key not in chosen)
            withheld[level.kind] = sum(left_out)
        return Allotment(shown, withheld)

    def _costs(self, level: Level) -> dict[SeriesKey, int]:
        """The most series that each group ever had, so that one that ebbs and flows stays."""
        before = self._most.get(level.kind, {})
        costs = {group.key: max(group.cost, before.get(group.key, 0)) for group in level.groups}
        self._most[level.kind] = costs
        return costs

    def _choose(
        self, level: Level, costs: dict[SeriesKey, int], room: int, now: float
    ) -> dict[SeriesKey, float]:
        """The keys to show, each with the time at which it last was among the busiest."""
        ordered = sorted(level.groups, key=lambda group: (-group.traffic, group.key))
        keys = [group.key for group in ordered]
        busiest = dict.fromkeys(_fitting(keys, costs, room), now)
        before = self._deserved.get(level.kind, {})
        staying = {key: at for key, at in before.items() if now - at < STAY_S} | busiest
        first = [key for key in keys if key in before and key in staying]
        newly = [key for key in keys if key in busiest and key not in before]
        chosen = {key: staying[key] for key in _fitting([*first, *newly], costs, room)}
        self._deserved[level.kind] = chosen
        return chosen


def _fitting(
    keys: Sequence[SeriesKey], costs: dict[SeriesKey, int], room: int
) -> Sequence[SeriesKey]:
    """The first of the keys, up to the one that does not fit."""
    for count, key in enumerate(keys):
        room -= costs[key]
        if room < 0:
            return keys[:count]
    return keys
