"""Some at a time, answers in order, and an end that leaves nothing running."""

import threading

import pytest

from ragmon.evaluate.score.parallel import in_parallel


@pytest.mark.parametrize("concurrency", [1, 3])
def test_answers_come_in_order_and_progress_counts_each(concurrency):
    counted = []

    def track(work):
        for each in work:
            counted.append(each)
            yield each

    found = in_parallel(lambda n: n * n, list(range(9)), concurrency, track)
    assert list(found) == [n * n for n in range(9)]
    assert len(counted) == 9


def test_as_many_at_a_time_as_allowed_and_no_more():
    meeting, inside, most = threading.Barrier(3, timeout=10), [], []

    def ask(number):
        inside.append(number)
        most.append(len(inside))
        meeting.wait()  # only three together get through
        inside.remove(number)
        return number

    assert list(in_parallel(ask, list(range(6)), 3)) == list(range(6))
    assert max(most) <= 3


def test_what_was_not_begun_never_is():
    begun, never = [], threading.Event()

    def ask(number):
        begun.append(number)
        if number == 0:
            raise OSError(str(number))
        never.wait(0.05)  # so that all of them would take seconds

    with pytest.raises(OSError, match="0"):
        list(in_parallel(ask, list(range(500)), 2))
    assert len(begun) < 500
