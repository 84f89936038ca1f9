"""A turn of detection in the embedded store."""

import tracemalloc
from collections.abc import Iterator

import pytest

from ragmon.detectors.minutes import SavedMinute
from ragmon.errors import StoreError
from ragmon.records import Position
from ragmon.stores.protocols import Turn
from ragmon.stores.sqlite.store import SqliteStore

SIZE = 200_000


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path, synchronous="OFF")
    yield opened
    opened.close()


def turn(buckets: Iterator[SavedMinute], state: bytes = b"state") -> Turn:
    """A turn without events."""
    return Turn(
        state=state,
        buckets=buckets,
        oldest=(0, 0),
        book=b"book",
        catching_up=False,
        positions={0: Position()},
    )


def minutes(count: int) -> Iterator[SavedMinute]:
    return (SavedMinute(0, at, bytes(SIZE)) for at in range(count))


def test_buckets_are_made_and_packed_one_after_another(store):
    alerts = store.state.alert_log()
    tracemalloc.start()
    try:
        alerts.save(turn(minutes(100)))
        assert tracemalloc.get_traced_memory()[1] < 10 * SIZE
    finally:
        tracemalloc.stop()
    assert [(each.bucket, len(each.body)) for each in alerts.load().buckets] == [
        (at, SIZE) for at in range(100)
    ]


def test_buckets_that_cannot_be_made_leave_everything_as_it_was(store):
    alerts = store.state.alert_log()
    alerts.save(turn(minutes(1)))

    def failing() -> Iterator[SavedMinute]:
        yield SavedMinute(0, 7, b"seven")
        raise StoreError("the disk is gone")

    with pytest.raises(StoreError, match="gone"):
        alerts.save(turn(failing(), state=b"another"))
    saved = alerts.load()
    assert saved.state == b"state"
    assert [each.bucket for each in saved.buckets] == [0]
