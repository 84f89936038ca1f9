"""An erased record has no content, and every signal says of it what it said before."""

import numpy as np
import pytest

from ragmon.privacy.erasure import Aliases, Subject, erase, erase_amendments, erased_id, is_erased
from ragmon.records import (
    Amendments,
    AnswerStep,
    Chunk,
    Doubt,
    Draw,
    Feedback,
    Label,
    Tokens,
    Verdict,
)
from tests.support.examples import NOON, pipeline, record

FULL = record(
    "q1",
    pipeline="docs",
    version="v2",
    tags={"team": "secret-tag"},
    query="secret question",
    retrieval_query="secret rewriting",
    answer="secret answer [file-a]",
    chunks=[Chunk("file-a", 0.9, "secret text", "secret.pdf"), Chunk("file-b", 0.4, "more", None)],
    citations=["file-a", "file-c"],
    relevant_ids=["file-b", "file-z"],
    grades={"file-b": 2.0},
    feedback=-1.0,
    error="secret failure",
    user_id="secret-user",
    session_id="secret-session",
    trace_id="secret-trace",
    span_id="secret-span",
    steps=[
        AnswerStep(tool="secret-tool", chunk_ids=["file-b", "file-a"]),
        AnswerStep(kind="tool", failed=True),
    ],
    query_answer_similarity=0.7,
    model="m-1",
    tokens=Tokens(10, 20),
    cost_usd=0.5,
    environment="prod",
)
KNOWN = Amendments(
    feedback=Feedback(query_id="q1", rating=1.0, comment="secret comment", timestamp=NOON),
    labels=(Label(query_id="q1", labeller="ann", relevant_ids=["file-b"], timestamp=NOON),),
    verdicts=(
        Verdict(
            query_id="q1",
            judge="grounding",
            score=0.25,
            doubts=(Doubt(0, 6, "number", "secret quotation", 0.1),),
            useful=("file-b",),
            rationale="secret reasons",
        ),
    ),
    draw=Draw(query_id="q1", probability=0.5, proxy=0.3),
)


def erased():
    aliases = Aliases()
    name = erased_id(77)
    return erase(FULL, name, aliases), erase_amendments(KNOWN, name, aliases)


def test_no_content_is_left():
    text = repr(erased())
    for word in ("secret", "file-", "q1"):
        assert word in repr((FULL, KNOWN))
        assert word not in text


@pytest.mark.parametrize("known", [None, [KNOWN]], ids=["as logged", "as amended"])
def test_the_signals_say_the_same(known):
    stage = pipeline(ks=(1, 3), relevant_score=0.5)
    before = stage.observe([FULL], known)
    after = stage.observe([erased()[0]], known and [erased()[1]])
    judgeable = [key.startswith("grounding_coverage") for key in stage.columns]
    assert sum(judgeable) == 1  # there is no answer to judge any more; the blocks keep what was
    same = ~np.array(judgeable)
    np.testing.assert_array_equal(before.values[:, same], after.values[:, same])
    assert before.dims == after.dims
    assert not np.isnan(before.values).all()


@pytest.mark.parametrize(
    ("subject", "owns"),
    [
        pytest.param(Subject(kind="user", id="u"), True, id="the user"),
        pytest.param(Subject(kind="session", id="s"), True, id="the session"),
        pytest.param(Subject(kind="user", id="s"), False, id="a user named like the session"),
        pytest.param(Subject(kind="user", id="u", pipeline="docs"), True, id="in the pipeline"),
        pytest.param(Subject(kind="user", id="u", pipeline="doc"), False, id="in another one"),
    ],
)
def test_whose_a_record_is(subject, owns):
    assert subject.owns("u", "s", "docs") is owns


def test_an_erased_id_is_known_as_one():
    assert is_erased(erased_id(2**64 - 1))
    assert not is_erased("q1")
