"""The budget of series: what is shown, what is withheld, and that nothing flaps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragmon.exposition.budget import STAY_S, Group, Level, SeriesBudget
from ragmon.windows.series import SeriesKey

NOW = 1_000_000.0


def key(name: str) -> SeriesKey:
    return SeriesKey("docs", "tenant", name)


def level(kind: str = "slices", **groups: tuple[int, float]) -> Level:
    return Level(kind, [Group(key(name), *group) for name, group in groups.items()])


def names(keys) -> str:
    return " ".join(sorted(each.value for each in keys))


def test_levels_are_served_in_order_and_the_busiest_first():
    levels = [level("headline", a=(30, 1)), level("slices", b=(30, 5), c=(30, 9), d=(30, 7))]
    allotted = SeriesBudget(100).allot(levels, 5, NOW)
    assert names(allotted.shown["headline"]) == "a"
    assert names(allotted.shown["slices"]) == "c d"
    assert allotted.withheld == {"headline": 0, "slices": 30}


def test_a_slice_is_shown_whole_or_not_at_all():
    allotted = SeriesBudget(59).allot([level(a=(30, 2), b=(30, 1))], 0, NOW)
    assert names(allotted.shown["slices"]) == "a"
    assert allotted.withheld["slices"] == 30


def test_no_smaller_one_goes_before_a_busier_one():
    allotted = SeriesBudget(40).allot([level(a=(30, 3), b=(30, 2), c=(5, 1))], 0, NOW)
    assert names(allotted.shown["slices"]) == "a"


@pytest.mark.parametrize(
    ("after_s", "shown"),
    [
        pytest.param(60.0, "a", id="after a minute the one that is shown stays"),
        pytest.param(STAY_S - 1, "a", id="for almost a day it stays"),
        pytest.param(STAY_S, "b", id="after a day the busier one takes its place"),
    ],
)
def test_one_that_was_shown_stays_for_a_day(after_s, shown):
    budget = SeriesBudget(40)
    budget.allot([level(a=(30, 2), b=(30, 1))], 0, NOW)
    allotted = budget.allot([level(a=(30, 1), b=(30, 2))], 0, NOW + after_s)
    assert names(allotted.shown["slices"]) == shown


def test_two_of_like_traffic_do_not_take_turns():
    budget = SeriesBudget(40)
    for minute in range(3 * 24 * 60):
        busier = minute % 2
        levels = [level(a=(30, 5 + busier), b=(30, 6 - busier))]
        shown = budget.allot(levels, 0, NOW + 60.0 * minute).shown["slices"]
        assert names(shown) == "b"


def test_a_restart_shows_what_was_shown():
    before = SeriesBudget(40)
    before.allot([level(a=(30, 2), b=(30, 1))], 0, NOW)
    other_way = [level(a=(30, 1), b=(30, 2))]
    fresh, restored = SeriesBudget(40), SeriesBudget(40)
    restored.restore(before.state, NOW + 60)
    assert names(fresh.allot(other_way, 0, NOW + 60).shown["slices"]) == "b"
    assert names(restored.allot(other_way, 0, NOW + 60).shown["slices"]) == "a"
    assert names(restored.allot(other_way, 0, NOW + STAY_S).shown["slices"]) == "b"


def test_a_restart_keeps_the_room_of_one_that_ebbs():
    before, after = SeriesBudget(100), SeriesBudget(100)
    before.allot([level(a=(60, 9), b=(40, 1))], 0, NOW)
    after.restore(before.state, NOW)
    after.allot([level(a=(20, 9), b=(40, 1), c=(40, 5))], 0, NOW + 60)
    assert names(after.state.deserved["slices"][at][0] for at in range(2)) == "a b"


def test_a_clock_that_was_ahead_makes_nothing_stay_longer():
    before, after = SeriesBudget(40), SeriesBudget(40)
    before.allot([level(a=(30, 2), b=(30, 1))], 0, NOW + 1e7)
    after.restore(before.state, NOW)
    other_way = [level(a=(30, 1), b=(30, 2))]
    assert names(after.allot(other_way, 0, NOW + STAY_S).shown["slices"]) == "b"


def test_one_that_ebbs_keeps_its_room():
    budget = SeriesBudget(100)
    budget.allot([level(a=(60, 9), b=(40, 1))], 0, NOW)
    budget.allot([level(a=(20, 9), b=(40, 1), c=(40, 5))], 0, NOW + 60)
    allotted = budget.allot([level(a=(60, 9), b=(40, 1), c=(40, 5))], 0, NOW + 120)
    assert names(allotted.shown["slices"]) == "a b"


def test_what_is_gone_gives_its_room_back():
    budget = SeriesBudget(40)
    budget.allot([level(a=(30, 2), b=(30, 1))], 0, NOW)
    allotted = budget.allot([level(b=(30, 1))], 0, NOW + 60)
    assert names(allotted.shown["slices"]) == "b"


def test_nothing_is_shown_when_ragmon_itself_takes_all():
    allotted = SeriesBudget(40).allot([level(a=(1, 2), b=(0, 1))], 50, NOW)
    assert not allotted.shown["slices"]
    assert allotted.withheld["slices"] == 1


groups_of_a_level = st.dictionaries(
    st.integers(0, 12), st.tuples(st.integers(0, 60), st.integers(0, 100)), max_size=12
)


@given(
    limit=st.integers(0, 400),
    turns=st.lists(
        st.tuples(
            st.integers(0, 50),
            st.lists(groups_of_a_level, min_size=3, max_size=3),
            st.floats(1, 2e5),
        ),
        min_size=1,
        max_size=6,
    ),
)
def test_the_budget_holds_whatever_the_traffic(limit, turns):
    budget, now = SeriesBudget(limit), NOW
    for reserved, by_level, later_s in turns:
        now += later_s
        levels = [
            level(f"level{at}", **{f"k{name:02}": group for name, group in groups.items()})
            for at, groups in enumerate(by_level)
        ]
        allotted = budget.allot(levels, reserved, now)
        shown = 0
        for each in levels:
            costs = {group.key: group.cost for group in each.groups}
            in_level = sum(costs[key] for key in allotted.shown[each.kind])
            shown += in_level
            assert in_level + allotted.withheld[each.kind] == sum(costs.values())
        assert shown == 0 or shown + reserved <= limit
