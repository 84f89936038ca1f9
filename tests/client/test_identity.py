"""Ids that sort by time, never repeat and fit the server."""

import random
import uuid

from hypothesis import given
from hypothesis import strategies as st

from ragmon.client.identity import QueryIds, wire_id


@given(st.lists(st.floats(0, 1e11), min_size=2))
def test_query_ids_sort_by_time_and_are_version_7(times):
    make = QueryIds()
    ids = [make.new(now) for now in sorted(times)]
    assert [each[:12] for each in ids] == sorted(each[:12] for each in ids)
    assert len(set(ids)) == len(ids)
    assert {(uuid.UUID(each).version, uuid.UUID(each).variant) for each in ids} == {
        (7, uuid.RFC_4122)
    }


@given(st.text(min_size=1))
def test_an_id_is_kept_or_hashed_to_one_the_server_admits(text):
    identity = wire_id(text)
    assert 1 <= len(identity) <= 256
    assert wire_id(identity) == identity == wire_id(text)


def test_seeding_the_random_numbers_of_the_application_repeats_no_id():
    made = []
    for _ in range(2):
        random.seed(0)
        made.append(QueryIds().new(0.0))
    assert made[0] != made[1]
