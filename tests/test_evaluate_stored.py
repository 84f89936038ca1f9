"""Labelled production queries as cases, out of a store that a daemon wrote."""

import pytest

from ragmon.evaluate.errors import DataError
from ragmon.evaluate.scoring import Options, score
from ragmon.evaluate.stored import labelled
from ragmon.stores.sqlite.reader import SqliteReader
from ragmon.stores.sqlite.store import FILE
from tests.support.daemons import running

NOW = 1_800_000_000.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    from ragmon.clock import ManualClock

    data_dir = tmp_path_factory.mktemp("stored") / "data"
    chunks = [{"id": "a"}, {"id": "b"}]
    queries = [
        {"query_id": "born", "query": "with labels", "relevant_ids": ["b"], "tags": {"team": "x"}},
        {"query_id": "later", "query": "labelled later", "pipeline": "docs"},
        {"query_id": "never", "query": "never labelled"},
        {"query_id": "old", "relevant_ids": ["a"], "timestamp": NOW - 86_400},
    ]
    filled = [{"chunks": chunks, "timestamp": NOW - 60, **query} for query in queries]
    with running(data_dir, ManualClock(NOW)) as site:
        assert site.post("/v1/queries", filled).json["accepted"] == 4
        label = {"query_id": "later", "grades": {"a": 2, "z": 0}}
        assert site.post("/v1/labels", [label]).json["accepted"] == 1
    return data_dir


def read(directory, since=NOW - 3600, pipeline=""):
    with SqliteReader(directory / FILE) as reader:
        return labelled(reader, since, NOW, pipeline)


def test_what_was_labelled_and_when(directory):
    case_set, run = read(directory)
    assert {case.case_id: case.judgements for case in case_set.cases} == {
        "born": {"b": 1.0},
        "later": {"a": 2.0, "z": 0.0},
    }
    assert case_set.cases[0].metadata == {"pipeline": "default", "version": "", "team": "x"}
    found = score(case_set, run, Options())
    assert dict(zip(run, found.column("reciprocal_rank").tolist(), strict=True)) == {
        "born": 0.5,
        "later": 1.0,
    }


def test_only_one_pipeline(directory):
    assert list(read(directory, pipeline="docs")[1]) == ["later"]


def test_as_far_back_as_asked(directory):
    assert set(read(directory, since=0.0)[1]) == {"born", "later", "old"}


def test_nothing_labelled(directory):
    with pytest.raises(DataError, match="no stored query of that time has a label"):
        read(directory, pipeline="another")
