"""Questions that were asked of two versions: what is looked through, and what is left alone."""

import pytest

from ragmon.queries import QuerySearch, shared
from ragmon.queries.blocks import QueryFilter
from ragmon.queries.shared import LEAST_BLOCKS, shared_questions
from ragmon.records import Label
from tests.support.examples import NOON, pipeline, record
from tests.support.rig import Rig, sent

PIPELINE = pipeline()
BLOCKS = 12


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path, PIPELINE)
    for at in range(BLOCKS):
        asked = [("v1", f"Common question {at}"), ("v2", f"common  question {at}?")]
        asked += [("v1", "Always"), ("v2", f"only of v2 {at}")]
        rig.commit(
            sent(
                *(
                    record(f"{at}-{place}", at=NOON + at, version=version, query=query)
                    for place, (version, query) in enumerate(asked)
                )
            )
        )
    yield rig
    rig.store.close()


def look(rig, goes_on=lambda: True, limit=100):
    """Compare both versions; the answer, and the blocks whose texts were read."""
    read = []
    with rig.store.reader() as reader:
        contents = reader.contents
        reader.contents = lambda first: read.append(first) or contents(first)
        one, other = (
            QuerySearch(
                reader,
                PIPELINE,
                QueryFilter(0.0, 2e9, "", (), limit, version=version),
                goes_on=goes_on,
            )
            for version in ("v1", "v2")
        )
        return shared_questions(one, other), read


def test_the_texts_of_a_block_are_read_once_for_both(rig):
    rig.commit(sent(changes=[Label(query_id="3-1", faithful=0.0, timestamp=NOON)]))
    answer, read = look(rig)
    assert read == sorted(read, reverse=True)
    assert len(read) == BLOCKS
    assert [one.text for one in answer.questions] == [
        f"common  question {at}?" for at in reversed(range(BLOCKS))
    ]
    assert (answer.reference_read, answer.candidate_read) == (2 * BLOCKS, 2 * BLOCKS)
    assert answer.questions[BLOCKS - 4].candidate.labels[0].faithful == 0.0


def test_enough_is_enough_but_some_blocks_are_read_however_long_it_takes(rig):
    answer, read = look(rig, goes_on=lambda: False)
    assert len(read) == LEAST_BLOCKS < BLOCKS
    assert len(answer.questions) == LEAST_BLOCKS
    assert answer.reference_read == 2 * LEAST_BLOCKS


def test_no_more_of_a_side_is_read_than_its_limit(rig):
    answer, _ = look(rig, limit=5)
    assert (answer.reference_read, answer.candidate_read) == (5, 5)


def test_a_question_counts_how_often_it_was_asked(rig):
    rig.commit(sent(record("late", at=NOON + 99, version="v2", query="ALWAYS!")))
    answer, _ = look(rig)
    always = answer.questions[0]
    assert (always.text, always.reference_times, always.candidate_times) == ("ALWAYS!", BLOCKS, 1)
    assert always.reference.record.timestamp == NOON + BLOCKS - 1
    assert shared.normal_question("ALWAYS!") == "always"
