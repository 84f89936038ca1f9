"""Each message once, on a topic in memory: kills, refusals, gaps, topics made anew."""

import pytest

from ragmon.errors import OverloadedError, RemoteError, StoreError
from ragmon.sources.kafka.positions import TopicIdentity
from ragmon.sources.kafka.source import KafkaSource
from tests.support.jsonl import Killed
from tests.support.kafka_log import Reader


def ids(count, start=0):
    return [f"q{number}" for number in range(start, start + count)]


@pytest.fixture
def reader():
    return Reader()


def test_messages_are_read_as_they_come(reader):
    assert reader.read() == []
    reader.topic.write(*ids(5))
    assert reader.read() == ids(5)
    reader.restart()
    reader.topic.write("later")
    assert reader.read() == [*ids(5), "later"]
    assert reader.disk.counted == {"accepted": 6, "duplicates": 0}


def test_all_partitions_are_read_and_their_positions_kept_apart():
    reader = Reader(partitions=3)
    for number in range(3):
        reader.topic.write(f"of{number}", partition=number)
    assert sorted(reader.read()) == ["of0", "of1", "of2"]
    assert sorted(reader.disk.offsets) == [f"kafka:ragmon:rag:{each}" for each in range(3)]


@pytest.mark.parametrize("instant", ["before", "after"])
def test_a_kill_neither_repeats_nor_skips_a_message(reader, instant):
    for round_ in range(4):
        reader.topic.write(*ids(10, 10 * round_))
        reader.disk.killed = instant
        with pytest.raises(Killed):
            reader.source.step()
        reader.disk.killed = ""
        reader.restart()
    assert reader.read() == ids(40)


class GoesOn(KafkaSource):
    """A consumer that commits its position with its records, and goes on behind what failed."""

    def begin_again(self):
        pass


def fail_often(reader):
    for round_ in range(5):
        reader.topic.write(*ids(10, 10 * round_))
        reader.disk.trouble = [StoreError("the disk is full")]
        with pytest.raises(StoreError):
            reader.source.step()
    return reader.read()


def test_after_an_error_it_reads_again_from_the_stored_position(reader):
    assert fail_often(reader) == ids(50)
    assert all(each.is_closed for each in reader.connections[:-1])


def test_a_consumer_that_does_not_seek_back_loses():
    assert fail_often(Reader(kind=GoesOn)) == []


def test_what_is_delivered_again_is_not_read_again(reader):
    reader.topic.write(*ids(3))
    reader.read()
    reader.connections[-1]._next[0] = 0
    assert reader.read() == ids(3)


def test_a_full_queue_is_waited_for_with_the_topic_paused(reader):
    reader.topic.write("a")
    paused = []
    submit = reader.disk.submit

    def full(submission):
        paused.append(reader.connections[-1].paused)
        submit(submission)

    reader.disk.submit = full
    reader.disk.trouble = [OverloadedError("full", retry_after_s=1)] * 2
    assert reader.read() == ["a"]
    assert paused == [0, 1, 1]
    assert reader.connections[-1].paused == 0
    assert len(reader.connections) == 1


def test_brokers_that_refuse_are_asked_again(reader):
    reader.topic.trouble = [RemoteError("no broker answers")] * 3
    reader.topic.write("a")
    assert reader.read() == ["a"]


def delete_before(reader, offset):
    reader.topic.oldest[0] = offset


def test_a_gap_is_counted_and_read_over(reader):
    reader.topic.write(*ids(3))
    reader.read()
    reader.topic.write(*ids(7, 3))
    delete_before(reader, 8)
    reader.restart()
    assert reader.read() == [*ids(3), "q8", "q9"]
    assert reader.source.figures.lost == 5
    reader.restart()
    reader.read()
    assert reader.source.figures.lost == 0


def test_a_gap_that_nothing_follows_is_reported_once(reader):
    reader.topic.write(*ids(3))
    reader.read()
    reader.topic.write(*ids(2, 3))
    delete_before(reader, 5)
    reader.restart()
    reader.read()
    assert reader.source.figures.lost == 2
    reader.restart()
    reader.read()
    assert reader.source.figures.lost == 0


def test_a_gap_stops_the_partition_where_that_is_set():
    reader = Reader(partitions=2, on_gap="stop")
    reader.topic.write(*ids(3))
    reader.read()
    reader.topic.write(*ids(4, 3))
    delete_before(reader, 5)
    reader.restart()
    reader.topic.write("other", partition=1)
    assert reader.read() == [*ids(3), "other"]
    assert reader.source.figures.stopped["gap"] == 1


def test_a_log_that_went_back_stops_its_partition_for_good(reader):
    reader.topic.write(*ids(5))
    reader.read()
    del reader.topic.partitions[0][2:]
    reader.restart()
    reader.read()
    assert reader.source.figures.stopped["went_back"] == 1
    reader.topic.write(*ids(9, 10))  # beyond the position again
    reader.restart()
    assert reader.read() == ids(5)
    assert reader.source.figures.stopped["went_back"] == 1


@pytest.mark.parametrize(
    ("identity", "cause"),
    [
        pytest.param(TopicIdentity("cluster", "anew"), "topic_made_anew", id="a topic made anew"),
        pytest.param(TopicIdentity("other", "topic"), "another_cluster", id="another cluster"),
    ],
)
def test_another_topic_is_refused_and_another_group_begins_anew(reader, identity, cause):
    reader.topic.write(*ids(3))
    reader.read()
    reader.topic.identity = identity
    reader.topic.write("new")
    reader.disk.clock.sleep(60)
    assert reader.read() == ids(3)
    assert reader.source.figures.stopped[cause] == 1
    reader.options = reader.options.model_copy(update={"group": "anew"})
    reader.restart()
    assert reader.read() == [*ids(3), *ids(3), "new"]  # which the store takes for repeats


def test_brokers_that_tell_no_ids_are_believed(reader):
    reader.topic.identity = TopicIdentity()
    reader.topic.write("a")
    reader.read()
    reader.topic.identity = TopicIdentity("cluster", "topic")
    reader.restart()
    reader.topic.write("b")
    assert reader.read() == ["a", "b"]


def test_partitions_that_are_added_are_read(reader):
    reader.topic.write("a")
    reader.read()
    reader.topic.partitions.append([])
    reader.topic.oldest.append(0)
    reader.topic.write("b", partition=1)
    reader.disk.clock.sleep(60)
    assert reader.read() == ["a", "b"]


def test_large_messages_are_committed_a_few_at_a_time(reader):
    text = b"x" * (1 << 20)
    for number in range(40):
        reader.topic.write_raw(b'{"query_id":"q%d","query":"?","answer":"%s"}' % (number, text))
    sizes = []
    submit = reader.disk.submit
    reader.disk.submit = lambda each: (sizes.append(each.size_bytes), submit(each))[1]
    reader.read()
    assert len(sizes) >= 4
    assert max(sizes) <= 11 << 20
    assert reader.disk.counted["invalid"] == 40  # answers that long are refused


def test_lag_and_what_kafka_shows_follow_what_was_read(reader):
    reader.topic.write(*ids(3))
    reader.read()
    reader.topic.write(*ids(2, 3))
    reader.disk.trouble = [StoreError("full")]
    with pytest.raises(StoreError):
        reader.source.step()
    reader.disk.clock.sleep(100)
    reader.read()
    assert reader.source.figures.lag == {"0": 0.0}
    reader.disk.clock.sleep(100)
    reader.read()
    assert reader.topic.shown == {0: 5}


def test_many_partitions_have_few_series():
    reader = Reader(partitions=1_000)
    for number in range(1_000):
        reader.topic.write(f"of{number}", partition=number)
    assert len(reader.read()) == 1_000
    reader.disk.clock.sleep(5)
    reader.read()
    assert len(reader.source.figures.lag) == 257
