"""The budget holds in every hour and day, whatever restarts and clocks do."""

import math

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.judges.budget import Budget, BudgetLimits, Spent

HOUR, DAY = 3_600.0, 86_400.0


def restart(budget, limits):
    """As after a crash: what was stored is all that is left."""
    stored = msgspec.msgpack.encode(budget.spent)
    return Budget(limits, msgspec.msgpack.decode(stored, type=Spent))


@pytest.mark.parametrize(
    ("limits", "cost", "admitted"),
    [
        pytest.param(BudgetLimits(judgements_per_hour=3), 0.0, 3, id="judgements an hour"),
        pytest.param(BudgetLimits(judgements_per_day=4), 0.0, 4, id="judgements a day"),
        pytest.param(BudgetLimits(dollars_per_hour=0.1), 0.03, 3, id="dollars an hour"),
        pytest.param(BudgetLimits(dollars_per_day=0.1), 0.02, 5, id="dollars a day, to the cent"),
        pytest.param(
            BudgetLimits(judgements_per_hour=9, dollars_per_day=0.05),
            0.02,
            2,
            id="the nearest limit",
        ),
        pytest.param(BudgetLimits(), 1e6, 20, id="no limits"),
        pytest.param(BudgetLimits(judgements_per_day=0), 0.0, 0, id="nothing at all"),
    ],
)
def test_admitted(limits, cost, admitted):
    budget = Budget(limits)
    count = 0
    for _ in range(20):
        count += budget.admit(1_000.0, cost) is not None
        budget = restart(budget, limits)
    assert count == admitted


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 2 * DAY),
            st.floats(0.0, 0.02),
            st.sampled_from(["settle", "crash", "cancel"]),
        ),
        max_size=200,
    )
)
def test_no_calendar_hour_or_day_is_ever_over(steps):
    limits = BudgetLimits(
        judgements_per_hour=5, judgements_per_day=12, dollars_per_hour=0.05, dollars_per_day=0.1
    )
    budget, spent = Budget(limits), {}
    for now, cost, end in sorted(steps):
        receipt = budget.admit(now, cost)
        if receipt is None:
            continue
        paid = {"settle": cost / 2, "crash": cost, "cancel": 0.0}[end]
        if end == "settle":
            budget.settle(receipt, paid)
        elif end == "cancel":
            budget.cancel(receipt)
        else:
            budget = restart(budget, limits)
        for period in ("hour", int(now // HOUR)), ("day", int(now // DAY)):
            count, dollars = spent.get(period, (0, 0.0))
            spent[period] = (count + (end != "cancel"), dollars + paid)
    for (unit, _), (count, dollars) in spent.items():
        assert count <= (5 if unit == "hour" else 12)
        assert dollars <= (0.05 if unit == "hour" else 0.1) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("moments", "admitted"),
    [
        pytest.param([0, 1, 2, HOUR, HOUR + 1], 4, id="a new hour has a new budget"),
        pytest.param([HOUR, HOUR + 1, HOUR - 5, HOUR - 4, HOUR + 5], 2, id="back over the edge"),
        pytest.param([9 * HOUR, 9 * HOUR + 1, HOUR, HOUR + 1], 2, id="hours back frees nothing"),
        pytest.param(
            [9e9, 9e9, HOUR, HOUR, 2 * HOUR, 2 * HOUR],
            4,
            id="a leap ahead does not block for years",
        ),
    ],
)
def test_clocks(moments, admitted):
    budget = Budget(BudgetLimits(judgements_per_hour=2))
    assert sum(budget.admit(float(now)) is not None for now in moments) == admitted


@pytest.mark.parametrize(
    ("limits", "spent", "now", "waiting", "pace"),
    [
        pytest.param(BudgetLimits(judgements_per_hour=60), 0, 0.0, 0, 60.0, id="evenly"),
        pytest.param(BudgetLimits(judgements_per_hour=60), 30, 0.0, 0, 30.0, id="half is spent"),
        pytest.param(
            BudgetLimits(judgements_per_hour=60), 0, 0.0, 45, 15.0, id="the waiting come first"
        ),
        pytest.param(
            BudgetLimits(judgements_per_hour=60), 0, 0.0, 99, 0.0, id="more waiting than room"
        ),
        pytest.param(
            BudgetLimits(judgements_per_hour=60), 0, 3_500.0, 0, 120.0, id="never in a hurry"
        ),
        pytest.param(BudgetLimits(judgements_per_day=240), 0, 0.0, 0, 10.0, id="a day's, an hour"),
        pytest.param(
            BudgetLimits(dollars_per_hour=1.0), 0, 0.0, 0, 50.0, id="dollars by expected cost"
        ),
        pytest.param(BudgetLimits(), 0, 0.0, 0, math.inf, id="without limits"),
    ],
)
def test_pace(limits, spent, now, waiting, pace):
    budget = Budget(limits)
    for _ in range(spent):
        assert budget.admit(now)
    assert budget.even_rate(now, waiting, cost_usd=0.02) == pytest.approx(pace)


def test_settling_gives_back_and_learns_the_cost():
    budget = Budget(BudgetLimits(dollars_per_hour=1.0))
    receipt = budget.admit(0.0, 0.6)
    assert budget.admit(0.0, 0.6) is None
    budget.settle(receipt, 0.1)
    assert budget.remaining_ratio(0.0) == pytest.approx(0.9)
    assert budget.room(0.0, 2, cost_usd=99.0) == pytest.approx(7.0)  # of what one did cost
    assert budget.even_rate(0.0) == pytest.approx(9.0)
    assert budget.admit(0.0, 0.6) is not None


def test_a_judgement_that_ends_in_the_next_hour_was_paid_for_in_its_own():
    budget = Budget(BudgetLimits(dollars_per_hour=1.0, dollars_per_day=2.0))
    receipt = budget.admit(HOUR - 1, 1.0)
    assert budget.remaining_ratio(HOUR + 1) == pytest.approx(0.5)
    budget.settle(receipt, 0.2)
    assert budget.spent.hour.dollars == 0.0
    assert budget.spent.day.dollars == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("limits", "room"),
    [
        pytest.param(
            BudgetLimits(judgements_per_hour=9, judgements_per_day=20), 1.0, id="the hour's"
        ),
        pytest.param(
            BudgetLimits(judgements_per_hour=90, judgements_per_day=20), 12.0, id="the day's"
        ),
        pytest.param(BudgetLimits(judgements_per_hour=5), 0.0, id="used up"),
        pytest.param(BudgetLimits(), math.inf, id="without limits"),
    ],
)
def test_room_is_what_is_left_besides_three_waiting(limits, room):
    budget = Budget(limits)
    for _ in range(5):
        assert budget.admit(0.0)
    assert budget.room(1.0, 3) == pytest.approx(room, abs=1e-6)
