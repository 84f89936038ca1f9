"""The account of memory: what fits, what waits, what never will."""

import pytest

from ragmon.errors import MemoryLimitError
from ragmon.memory import MemoryBudget


def refusal(budget: MemoryBudget, size: int) -> MemoryLimitError:
    with budget.open() as more, pytest.raises(MemoryLimitError) as caught:
        more.take(size)
    return caught.value


def test_reservations_are_lent_together_and_given_back():
    budget = MemoryBudget(1_000)
    with budget.open() as first, budget.open() as second:
        first.take(600)
        second.take(400)
        assert budget.reserved == 1_000
        first.give_back(600)
        second.take(600)
    assert budget.reserved == 0


def test_who_fails_gives_back_too():
    budget = MemoryBudget(1_000)

    def fail() -> None:
        with budget.open() as memory:
            memory.take(600)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert budget.reserved == 0


def test_a_refusal_tells_whether_to_wait_or_to_send_less():
    budget = MemoryBudget(1_000)
    with budget.open() as first:
        first.take(600)
        assert refusal(budget, 600).retry_after_s is not None
        assert refusal(budget, 1_001).retry_after_s is None


def test_a_request_is_judged_by_all_that_it_takes():
    budget = MemoryBudget(1_000)
    with budget.open() as memory:
        memory.take(600)
        with pytest.raises(MemoryLimitError) as caught:
            memory.take(600)
        assert not caught.value.retryable
        assert memory.size == 600


def test_what_the_process_holds_besides_is_not_lent():
    budget = MemoryBudget(1_000)
    budget.note(300)
    assert (budget.base, budget.room) == (300, 700)
    assert not refusal(budget, 701).retryable
    budget.note(600)  # a cache that grew may shrink again
    assert refusal(budget, 500).retryable


def test_what_is_reserved_is_not_counted_twice():
    budget = MemoryBudget(1_000)
    budget.note(300)
    with budget.open() as memory:
        memory.take(400)
        budget.note(850)  # all of what was reserved is in use, and more besides
        assert budget.base == 450
        budget.note(350)  # little of it is
        assert budget.base == 300


def test_a_process_that_holds_too_much_goes_on_slowly():
    budget = MemoryBudget(800)
    budget.note(5_000)
    assert budget.room == 100
    with budget.open() as memory:
        memory.take(100)
