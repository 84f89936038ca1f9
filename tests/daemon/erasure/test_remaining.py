"""Places that are named to the operator, because ragmon cannot reach them."""

from ragmon.daemon.erasure.remaining import damaged_places
from ragmon.stores.damage import DamagedRow


def test_a_sound_store_names_no_blocks():
    assert damaged_places([DamagedRow("silence", "3", "torn")]) == []


def test_damaged_blocks_are_named():
    rows = [DamagedRow("block", str(first), "checksum") for first in (0, 4_096)]
    [place] = damaged_places(rows)
    assert "2 damaged blocks" in place.place
    assert "0, 4096" in place.place
    assert "ragmon verify" in place.action


def test_of_many_the_first_are_named():
    [place] = damaged_places([DamagedRow("block", str(at), "") for at in range(1_000)])
    assert "1000 damaged blocks" in place.place
    assert len(place.place) < 300
