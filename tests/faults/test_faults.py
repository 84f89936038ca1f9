"""A few rounds of each sudden end, every fault once; ``make faults`` runs a hundred."""

import random
import struct

import pytest

from tests.faults import io, library, power
from tests.faults.rounds import Crashes, killed, terminated, unplugged
from tests.support.receiver import receiving

pytestmark = pytest.mark.end_to_end


@pytest.fixture(autouse=True, scope="module")
def _library():
    library.required()


@pytest.fixture
def receiver():
    with receiving() as opened:
        yield opened


@pytest.mark.parametrize(
    ("end", "rounds"),
    [
        pytest.param(killed, 2, id="kill -9"),
        pytest.param(terminated, 1, id="SIGTERM"),
        pytest.param(unplugged, 3, id="loss of power"),
    ],
)
def test_nothing_acknowledged_is_lost_or_doubled(tmp_path, receiver, end, rounds):
    with Crashes(tmp_path, receiver, losing_power=end is unplugged) as crashes:
        for _ in range(rounds):
            crashes.round(end)
        crashes.finish()
        assert len(crashes.workload.acknowledged["queries"]) > 0
        assert len(crashes.receiver.accepted) > 0


def test_every_fault_of_the_disk_and_clock_is_survived(tmp_path, receiver):
    with Crashes(tmp_path, receiver, losing_power=True) as crashes:
        power.begin(crashes.data_dir, crashes.faults.durable)
        with crashes.daemon() as site:
            for _ in range(20):
                assert crashes.workload.send_one(site) == 200
            outcomes = list(io.faults_of_the_disk(crashes, site))
            assert [outcome.fault for outcome in outcomes] == list(io.FAULTS)
            assert list(io.steps_of_the_clock(crashes, site)) == list(io.STEPS)
            unplugged(crashes, site)
        crashes.finish()


def test_a_store_that_does_not_sync_is_caught(tmp_path, receiver):
    """The check would see a loss: without fsync a commit does not survive a loss of power."""
    more = ("--store.synchronous", "NORMAL", "--snapshot_every", "1h")
    with Crashes(tmp_path, receiver, losing_power=True, more=more) as crashes:
        power.begin(crashes.data_dir, crashes.faults.durable)
        with crashes.daemon() as site:
            for _ in range(10):
                assert crashes.workload.send_one(site) == 200
            site.kill()
            crashes.lose_power(survivors=0.0)
        assert crashes.lost_bytes > 1_000
        with crashes.daemon() as site, pytest.raises(AssertionError):
            crashes.check(site)


def test_what_was_acknowledged_and_is_not_there_is_caught(tmp_path, receiver):
    with Crashes(tmp_path, receiver) as crashes, crashes.daemon() as site:
        assert crashes.workload.send_one(site) == 200
        crashes.check(site)
        crashes.workload.acknowledged["queries"].add(1_000_000)
        with pytest.raises(AssertionError):
            crashes.check(site)


def test_faults_come_and_go(tmp_path):
    faults = library.Faults(tmp_path / "faults", tmp_path / "data")
    with faults.during(sync_errno=5, every=3):
        assert (faults.get("sync_errno"), faults.get("every")) == (5, 3)
    assert (faults.get("sync_errno"), faults.get("every")) == (0, 0)
    faults.step_clock(-90.5)
    faults.step_clock(30.0)
    assert faults.clock_offset_s == -60.5
    faults.close()


@pytest.mark.parametrize(
    ("survivors", "expected"),
    [
        pytest.param(0.0, b"a" * 1_024, id="nothing unsynced survives"),
        pytest.param(1.0, b"b" * 512 + b"a" * 512 + b"c" * 512, id="everything does"),
    ],
)
def test_a_loss_of_power_leaves_what_was_synced(tmp_path, survivors, expected):
    data, durable = tmp_path / "data", tmp_path / "durable"
    data.mkdir()
    (data / "store").write_bytes(b"a" * 1_024)
    (data / "store-shm").write_bytes(b"memory")
    power.begin(data, durable)
    (data / "store").write_bytes(b"b" * 512 + b"a" * 512 + b"c" * 512)
    (data / "new").write_bytes(struct.pack("<q", 1))
    power.lose(data, durable, random.Random(1), survivors)
    assert (data / "store").read_bytes() == expected
    assert not (data / "store-shm").exists()
    assert (data / "new").exists() is (survivors == 1.0)  # nobody synced the folder


def test_some_sectors_survive_and_none_is_made_up(tmp_path):
    data, durable = tmp_path / "data", tmp_path / "durable"
    data.mkdir()
    (data / "store").write_bytes(b"a" * 51_200)
    power.begin(data, durable)
    (data / "store").write_bytes(b"b" * 51_200)
    power.lose(data, durable, random.Random(3), 0.5)
    left = (data / "store").read_bytes()
    sectors = [left[at : at + 512] for at in range(0, len(left), 512)]
    assert {b"a" * 512, b"b" * 512} == set(sectors)
