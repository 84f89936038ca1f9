"""The watch over the memory of the process."""

from collections.abc import Iterator

from ragmon.clock import ManualClock, SystemClock
from ragmon.daemon.memory_watch import MemoryWatch
from ragmon.memory import MemoryBudget

MB = 1 << 20


class Heap:
    """A process whose free pages go back when that is asked for."""

    def __init__(self, limit: int = 1_000 * MB) -> None:
        self.used: int | None = 100 * MB
        self.free = 0
        self.trims = 0
        self.clock = ManualClock(1e9)
        self.budget = MemoryBudget(limit)
        self.watch = MemoryWatch(self.budget, self.clock, used=self.measure, trim=self.trim)
        self.turn()  # the first gives back what start-up left

    def measure(self) -> int | None:
        return None if self.used is None else self.used + self.free

    def trim(self) -> bool:
        self.trims += 1
        self.free = 0
        return True

    def turn(self) -> int:
        """Take a turn a second later; returns how often pages were given back in it."""
        before = self.trims
        self.clock.sleep(self.watch.turn())
        return self.trims - before


def test_what_grew_by_free_pages_shrinks_within_a_second():
    heap = Heap()
    heap.free = 15 * MB
    assert heap.turn() == 0
    heap.free = 40 * MB
    assert heap.turn() == 1
    assert heap.budget.base == 100 * MB
    assert heap.turn() == 0


def test_what_grew_and_is_in_use_is_not_tried_again_and_again():
    heap = Heap()
    heap.used = 150 * MB
    assert [heap.turn() for _ in range(5)] == [1, 0, 0, 0, 0]


def test_free_pages_within_what_was_in_use_go_back_in_ten_seconds():
    heap = Heap()
    heap.used, heap.free = 60 * MB, 40 * MB
    assert sum(heap.turn() for _ in range(10)) == 1
    assert heap.budget.base == 60 * MB


def test_pages_are_given_back_before_requests_are_refused():
    heap = Heap(limit=150 * MB)
    assert [heap.turn() for _ in range(3)] == [1, 1, 1]
    heap.budget.reserve(0, 30 * MB)
    assert [heap.turn() for _ in range(3)] == [0, 0, 0]  # that is what requests have reserved


def test_without_a_measure_pages_are_given_back_all_the_same():
    heap = Heap()
    heap.budget.note(7)
    heap.used = None
    assert sum(heap.turn() for _ in range(20)) == 2
    assert heap.budget.base == 7


def test_what_this_process_uses_is_measured():
    budget = MemoryBudget(1 << 40)
    turns = _turns(MemoryWatch(budget, SystemClock()))
    next(turns)
    before = budget.base
    ballast = b"x" * (64 << 20)
    next(turns)
    assert budget.base - before > 0.9 * len(ballast)


def _turns(watch: MemoryWatch) -> Iterator[float]:
    while True:
        yield watch.turn()
