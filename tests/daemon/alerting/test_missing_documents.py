"""Documents that an alert of retrieval names: those whose absence may explain it."""

import numpy as np
import pytest

from ragmon.alerts import MissingDocuments
from ragmon.alerts.example_texts import missing_text
from ragmon.clock import ManualClock
from ragmon.daemon.alerting.missing_documents import MOST_S, MissingDocumentSearch
from tests.daemon.alerting.test_worst_queries import PIPELINE, alert
from tests.support.examples import NOON, chunks, record
from tests.support.rig import Rig, sent

MINUTES = 150  # the change is after two of three hours


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Before noon three of thirty documents each; then 3 and 7 are gone, from v2 all above 20."""
    rig = Rig(tmp_path_factory.mktemp("missing"), PIPELINE)
    rng = np.random.default_rng(1)
    records = []
    for number in range(1_800):
        at = NOON - 7_200.0 + 5.0 * number
        version = "v2" if number % 3 == 0 else "v1"
        ids = rng.choice(20 if version == "v2" else 30, 3, replace=False).tolist()
        if at >= NOON:
            ids = [one for one in ids if one not in (3, 7)]
        records.append(
            record(
                f"q{number}",
                at,
                pipeline="docs",
                version=version,
                tags={"tenant": "acme" if number % 2 else "globex"},
                chunks=chunks(*(f"kb-{one}" for one in ids)),
            )
        )
    rig.commit(sent(*records))
    yield rig.store
    rig.store.close()


class CountedReader:
    """A reader that counts the blocks that are opened; each takes a while."""

    opened = 0

    def __init__(self, reader, clock, block_s):
        self._reader, self._clock, self._block_s = reader, clock, block_s

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._reader.__exit__(*raised)

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def block(self, first_sequence):
        CountedReader.opened += 1
        self._clock.sleep(self._block_s)
        return self._reader.block(first_sequence)


def search(store, clock=None, block_s=0.0):
    clock = clock or ManualClock(NOON)
    CountedReader.opened = 0
    return MissingDocumentSearch(
        lambda: CountedReader(store.reader().__enter__(), clock, block_s), PIPELINE, clock
    )


def in_small_blocks(root, blocks, pipeline="docs"):
    """Queries an eighth of which lie after noon, when one of thirty documents went."""
    rig = Rig(root, PIPELINE)
    rng = np.random.default_rng(4)
    for block in range(blocks):
        at = NOON + 480.0 * (block - blocks * 7 / 8)
        rows = [rng.choice(30 if at < NOON else 29, 3, replace=False) for _ in range(60)]
        rig.commit(
            sent(
                *(
                    record(
                        f"q{block}-{number}",
                        at + number,
                        pipeline=pipeline,
                        tags={"tenant": "acme"},
                        chunks=chunks(*(f"kb-{one}" for one in row)),
                    )
                    for number, row in enumerate(rows)
                )
            )
        )
    return rig


def missing(store, metric="hit", **where):
    return search(store).find(alert(metric, **where), lambda: True).missing


def test_documents_that_went_at_the_change_are_named(store):
    found = missing(store)
    assert set(found.ids) == {"kb-3", "kb-7"}
    assert (found.count, found.regular) == (2, 30)
    assert NOON - 300.0 < found.since < NOON


def test_a_slice_looks_at_its_own_queries(store):
    assert set(missing(store, dimension="tenant", value="acme").ids) >= {"kb-3"}


def test_a_version_is_compared_with_the_others(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    rng = np.random.default_rng(2)
    records = []
    for number in range(600):
        version = "v2" if number % 3 == 0 else "v1"
        ids = rng.choice(8 if version == "v2" else 12, 3, replace=False).tolist()
        asked = record(
            f"q{number}",
            NOON + number,
            pipeline="docs",
            version=version,
            chunks=chunks(*(f"kb-{one}" for one in ids)),
        )
        records.append(asked)
    rig.commit(sent(*records))
    found = missing(rig.store, dimension="version", value="v2")
    assert (set(found.ids), found.count, found.since) == (
        {"kb-8", "kb-9", "kb-10", "kb-11"},
        4,
        None,
    )
    assert missing(rig.store, dimension="version", value="v1") is None
    rig.store.close()


@pytest.mark.parametrize(
    "of",
    [
        pytest.param({"metric": "slow"}, id="a metric that documents do not explain"),
        pytest.param({"kind": "no_data"}, id="no data at all"),
        pytest.param({"dimension": "tenant", "value": "nobody"}, id="a slice without queries"),
    ],
)
def test_other_alerts_name_none(store, of):
    assert missing(store, **of) is None


def test_nothing_is_named_where_nothing_went(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    rng = np.random.default_rng(3)
    rig.commit(
        sent(
            *(
                record(
                    f"q{number}",
                    NOON - 3_600.0 + 7.0 * number,
                    pipeline="docs",
                    chunks=chunks(*(f"kb-{one}" for one in rng.choice(30, 3, replace=False))),
                )
                for number in range(600)
            )
        )
    )
    assert missing(rig.store) is None
    rig.store.close()


def test_the_sentence_names_them_with_their_moment():
    few = MissingDocuments(2, 340, ("kb-17", "kb-18"), NOON + 660.0)
    assert missing_text(few) == (
        "2 of 340 documents are no longer retrieved since 2023-11-15 12:11 UTC: kb-17, kb-18"
    )
    many = MissingDocuments(12, 20, ("kb-1", "kb\n2" + "x" * 100))
    text = missing_text(many)
    assert text.startswith("12 of 20 documents are never retrieved, although other versions")
    assert ", such as kb-1, kb 2xxx" in text
    assert len(text) < 200


def test_a_search_goes_on_where_the_turn_before_ended(tmp_path):
    rig, clock = in_small_blocks(tmp_path, 48), ManualClock(NOON)
    whole = search(rig.store).find(alert("hit"), lambda: True)
    assert whole.missing.ids == ("kb-29",)
    opened = CountedReader.opened

    turns, searched = 0, search(rig.store, clock, block_s=0.1)
    while True:
        turns, until = turns + 1, clock.monotonic() + 0.5
        found = searched.find(alert("hit"), lambda end=until: clock.monotonic() < end)
        assert clock.monotonic() < until + 0.1
        if found.state != "waiting":
            break
    assert found == whole
    assert CountedReader.opened == opened
    assert turns == -(-opened // 5)
    rig.store.close()


def test_a_search_that_takes_too_long_ends_with_what_it_read(tmp_path):
    rig, clock = in_small_blocks(tmp_path, 48), ManualClock(NOON)
    found = search(rig.store, clock, block_s=MOST_S / 30).find(alert("hit"), lambda: True)
    assert found.state == "part"
    assert found.missing.ids == ("kb-29",)
    assert CountedReader.opened < 36
    assert clock.monotonic() < MOST_S + MOST_S / 30 + 1e-6
    rig.store.close()


def test_alerts_of_one_slice_and_time_share_a_search(store):
    searched = search(store)
    first = searched.find(alert("hit"), lambda: True)
    opened = CountedReader.opened
    assert opened > 0
    assert searched.find(alert("zero_result"), lambda: True) == first
    assert CountedReader.opened == opened
    searched.find(alert("hit", dimension="tenant", value="acme"), lambda: True)
    assert CountedReader.opened == 2 * opened


def test_outcomes_that_are_kept_are_few(store):
    searched = search(store)
    for number in range(100):
        searched.find(alert("hit", dimension="tenant", value=f"t{number}"), lambda: True)
    assert len(searched._outcomes) == 32
