"""Turns of detection in every store: buckets of detectors that began anew replace all others."""

import pytest

from ragmon.detectors.minutes import SavedMinute
from ragmon.records import Position
from ragmon.stores.protocols import Turn
from tests.support.stores import KINDS, opened


@pytest.fixture(params=KINDS)
def store(request, tmp_path):
    held = opened(request.param, tmp_path)
    yield held
    held.close()


def turn(*buckets: int, begun_anew: bool = False) -> Turn:
    return Turn(
        state=b"state",
        begun_anew=begun_anew,
        buckets=[SavedMinute(0, number, b"body") for number in buckets],
        oldest=(0,),
        book=b"book",
        catching_up=False,
        positions={0: Position()},
    )


def test_buckets_stay_until_detectors_begin_anew(store):
    alerts = store.state.alert_log()
    alerts.save(turn(7, 8))
    alerts.save(turn(9))
    assert [saved.bucket for saved in alerts.load().buckets] == [7, 8, 9]
    alerts.save(turn(8, begun_anew=True))
    assert [saved.bucket for saved in alerts.load().buckets] == [8]
