"""Topics that an alert names: what the queries that fail since its change ask about."""

import random

import pytest
from msgspec.structs import replace

from ragmon.alerts.example_texts import topics_text
from ragmon.clock import ManualClock
from ragmon.daemon.alerting.driving_topics import MOST_S, DrivingTopicSearch
from tests.daemon.alerting.test_worst_queries import PIPELINE, alert
from tests.support.examples import NOON, chunks, record
from tests.support.rig import Rig, sent

REFUND = "{} refund deadline for {}"
OTHERS = ("{} shipping cost to {}", "{} password reset for {}", "{} invoice address of {}")
OPENINGS = ("what is the", "tell me the", "I need the", "explain the", "where is the")
SUBJECTS = ("shoes", "books", "tickets", "lamps", "phones", "chairs", "coats", "bikes")


def question(chance, form):
    return form.format(chance.choice(OPENINGS), chance.choice(SUBJECTS))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A tenth asks for refunds, of which none is found since noon; v2 finds none of passwords."""
    rig = Rig(tmp_path_factory.mktemp("driving"), PIPELINE)
    chance = random.Random(5)
    for block in range(6):
        records = []
        for number in range(block * 500, block * 500 + 500):
            at = NOON - 7_200.0 + 3.6 * number
            form = REFUND if number % 10 == 0 else OTHERS[number % 3]
            version = "v2" if number % 4 == 1 else "v1"
            is_lost = at >= NOON and form == REFUND
            is_lost = is_lost or (version == "v2" and form == OTHERS[1])
            is_lost = is_lost or chance.random() < 0.02
            records.append(
                record(
                    f"q{number}", at, pipeline="docs", version=version,
                    tags={"tenant": "acme"}, query=question(chance, form),
                    chunks=[] if is_lost else chunks("a"),
                )
            )  # fmt: skip
        rig.commit(sent(*records))
    yield rig.store
    rig.store.close()


class SlowReader:
    """A reader of which each block takes a while."""

    def __init__(self, reader, clock, block_s):
        self._reader, self._clock, self._block_s = reader, clock, block_s

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._reader.__exit__(*raised)

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def block(self, first_sequence):
        self._clock.sleep(self._block_s)
        return self._reader.block(first_sequence)


def search(store, clock=None, block_s=0.0, texts="keep"):
    clock = clock or ManualClock(NOON)
    return DrivingTopicSearch(
        lambda: SlowReader(store.reader().__enter__(), clock, block_s), PIPELINE, texts, clock
    )


def hour_of(one):
    return replace(one, bad_at=NOON + 3_600.0, fired_at=NOON + 3_600.0)


def test_the_topic_that_fails_since_the_change_is_named_with_its_share(store):
    of = hour_of(alert("zero_result"))
    found = search(store).find(of, lambda: True)
    (topic,) = found.topics
    assert found.state == "done"
    assert {"refund", "deadline"} & set(topic.words)
    assert topic.of_queries == pytest.approx(0.1, abs=0.02)
    assert 0.4 < topic.of_failing < 0.7
    text = topics_text(found.topics, "zero_result")
    assert "of the queries without a result ask about “" in text
    assert text.endswith("% of the queries)")


def test_one_that_failed_before_drives_only_the_alert_of_its_version(store):
    of = hour_of(alert("zero_result", dimension="version", value="v2"))
    words = [set(topic.words) for topic in search(store).find(of, lambda: True).topics]
    assert any({"password", "reset"} <= one for one in words)


@pytest.mark.parametrize(
    ("of", "texts"),
    [
        pytest.param(alert("latency"), "keep", id="another metric"),
        pytest.param(alert("zero_result", kind="no_data"), "keep", id="silence"),
        pytest.param(hour_of(alert("zero_result")), "drop", id="no texts may be shown"),
    ],
)
def test_some_alerts_have_none(store, of, texts):
    assert search(store, texts=texts).find(of, lambda: True) == ((), "done")


def test_a_search_goes_on_in_turns_and_ends_with_what_was_read(store):
    clock = ManualClock(NOON)
    of, slow = hour_of(alert("zero_result")), search(store, clock, block_s=MOST_S / 4)
    turns, found = 0, None
    while found is None or found.state == "waiting":
        assert turns < 20
        began = clock.monotonic()
        found = slow.find(of, lambda began=began: clock.monotonic() == began)
        turns += 1
    assert found.state == "part"
    assert 3 <= turns <= 5


def test_when_everything_fails_alike_no_topic_is_named(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    chance = random.Random(1)
    rig.commit(
        sent(*(
            record(
                f"q{number}", NOON - 3_000.0 + 5.0 * number, pipeline="docs",
                query=question(chance, (REFUND, *OTHERS)[number % 4]),
                chunks=[] if number > 600 else chunks("a"),
            )
            for number in range(1_200)
        ))
    )  # fmt: skip
    assert search(rig.store).find(hour_of(alert("zero_result")), lambda: True).topics == ()
    rig.store.close()


@pytest.mark.parametrize(
    ("people", "is_named"),
    [pytest.param(1, False, id="one person"), pytest.param(3, True, id="three people")],
)
def test_words_of_one_person_are_not_stored_with_an_alert(tmp_path, people, is_named):
    rig = Rig(tmp_path, PIPELINE)
    chance = random.Random(1)
    rig.commit(
        sent(*(
            record(
                f"q{number}", NOON - 3_000.0 + 5.0 * number, pipeline="docs",
                user_id=f"of-zwicky-{number % people}" if number % 4 == 0 else f"u{number}",
                query=question(chance, ("{} zwicky {}", *OTHERS)[number % 4]),
                chunks=[] if number > 600 and number % 4 == 0 else chunks("a"),
            )
            for number in range(1_200)
        ))
    )  # fmt: skip
    found = search(rig.store).find(hour_of(alert("zero_result")), lambda: True)
    rig.store.close()
    words = {word for topic in found.topics for word in topic.words}
    assert ("zwicky" in words) is is_named
