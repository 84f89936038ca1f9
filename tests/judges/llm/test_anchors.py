"""The anchors show the judge's drift, not the answers'."""

import json

import pytest

from ragmon.clock import ManualClock
from ragmon.errors import SettingsError
from ragmon.judges.llm import LruCache, Options, build
from ragmon.judges.llm.anchors import drift, judge_anchors, read
from tests.support.llm_server import says, serving, with_fields

GOOD = {
    "query": "Who?",
    "answer": "Ann wrote it.",
    "faithful": 1.0,
    "chunks": [{"id": "a", "text": "Ann wrote it."}],
}
BAD = GOOD | {"answer": "Bob wrote it.", "faithful": 0.0}
UNLABELLED = {name: GOOD[name] for name in ("query", "answer", "chunks")}


def written(path, *lines):
    path.write_text(
        "\n".join(each if isinstance(each, str) else json.dumps(each) for each in lines)
    )
    return path


def test_rounds_and_their_drift(tmp_path):
    anchors = read(written(tmp_path / "anchors.jsonl", GOOD, "", BAD, UNLABELLED))
    assert [anchor.faithful for anchor in anchors] == [1.0, 0.0, None]
    with serving() as server:
        options = Options(base_url=server.url, model="tiny", modes=("claims",))
        judge = build(options, ManualClock(), LruCache(0))
        before = judge_anchors(judge, anchors)
        lenient = [
            with_fields(),
            with_fields(verdicts=[{"claim": 1, "supported": "yes", "chunk": 1}]),
        ]
        server.script = [*lenient, *lenient, says("?"), says("?")]
        after = judge_anchors(judge, anchors)
        judge.close()
    assert (before.scores, before.failed) == ((1.0, 0.0, 1.0), 0)
    assert before.mean == pytest.approx(2 / 3)
    assert before.agreement.labels == 2
    assert before.agreement.balanced_accuracy.value == 1.0
    assert (after.scores, after.failed) == ((1.0, 1.0, None), 1)
    assert drift(before, after) == pytest.approx(0.5)
    assert drift(before, before) == 0.0


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        pytest.param([], "is empty", id="empty"),
        pytest.param([GOOD, "{"], "line 2", id="not JSON"),
        pytest.param([GOOD | {"faithful": 3}], "line 1", id="out of range"),
        pytest.param([GOOD | {"faithfull": 1}], "faithfull", id="a typo"),
        pytest.param([{"query": "q"}], "answer", id="something is missing"),
    ],
)
def test_files_that_are_no_anchors(tmp_path, lines, complaint):
    with pytest.raises(SettingsError, match=complaint):
        read(written(tmp_path / "anchors.jsonl", *lines))


def test_no_file(tmp_path):
    with pytest.raises(SettingsError, match=r"judge\.anchors"):
        read(tmp_path / "none.jsonl")
