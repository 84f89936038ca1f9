"""Real exports of unmodified instrumentations, against what is known to have happened."""

import random

import pytest

from tests.support.otlp import FOLDERS, captured, replay, rig, truth

SEEDS = {"as captured": None, "shuffled and doubled": 7, "shuffled otherwise": 20}


def test_there_are_captures():
    assert len(FOLDERS) == 67


@pytest.fixture(scope="module", params=SEEDS)
def order(request):
    return SEEDS[request.param]


@pytest.fixture(scope="module", params=FOLDERS)
def site(request, order, tmp_path_factory):
    """A capture, replayed and complete, with its truth."""
    requests = captured(request.param)
    if order is not None:
        requests = requests * 2
        random.Random(order).shuffle(requests)
    with rig(tmp_path_factory.mktemp("captures")) as built:
        replay(built, requests)
        built.wait()
        yield built, truth(request.param)


def mismatches(expected, record):
    """Every field that the truth marks as present and the record has otherwise."""
    found = {
        "query": (expected["query_in_payload"], expected["query"], record.query),
        "n_docs": (
            expected["n_docs_in_payload"],
            expected["n_docs"],
            None if record.chunks is None else len(record.chunks),
        ),
        "doc_ids": (
            expected["ids_in_payload"],
            expected["doc_ids"],
            [chunk.id for chunk in record.chunks or ()][: len(expected["doc_ids"])],
        ),
        "top_score": (
            expected["scores_in_payload"],
            pytest.approx(expected["top_score"]) if expected["top_score"] else None,
            record.chunks[0].score if record.chunks else None,
        ),
        "answer": (
            expected["answer_in_payload"],
            expected["answer_prefix"],
            record.answer and record.answer[: len(expected["answer_prefix"] or "")],
        ),
    }
    rewritten = expected["query_in_payload"] and expected["retrieval_query"]
    found["retrieval_query"] = (rewritten, rewritten, record.retrieval_query)
    for field in ("model", "session_id", "user_id"):
        found[field] = (expected[field], expected[field], getattr(record, field))
    for kind in ("prompt", "completion"):
        counted = expected[f"{kind}_tokens"]
        found[kind] = (counted, counted, record.tokens and getattr(record.tokens, kind))
    for stage in ("retrieval", "generation"):
        least = expected[f"min_{stage}_ms"]
        took = getattr(record.latency_ms, stage)
        found[stage] = (least, True, took is not None and least is not None and took >= least)
    return {
        field: (wanted, got)
        for field, (known, wanted, got) in found.items()
        if known and wanted != got
    }


def test_every_known_field_is_found(site):
    built, expected = site
    assert expected["traces"]
    wrong = {}
    for each in expected["traces"]:
        record = built.record(each["trace_id"])
        wrong[each["trace_id"]] = {"record": None} if record is None else mismatches(each, record)
    assert {trace: fields for trace, fields in wrong.items() if fields} == {}


def test_errors_say_where_and_why(site):
    built, expected = site
    wrong = []
    for each in expected["traces"]:
        said = built.record(each["trace_id"]).error
        error = each["error"]
        if error is None:
            wrong += [] if said is None else [said]
        elif (
            not said
            or not said.startswith(error["where"])
            or error["type"] not in said
            or error["message"] not in said
        ):
            wrong.append((error, said))
    assert wrong == []


def test_feedback_reaches_its_query(site):
    built, expected = site
    for each in expected["traces"]:
        feedback = built.query(each["trace_id"])["feedback"]
        if each["feedback"]:
            assert feedback["rating"] == pytest.approx(2 * each["feedback"][0]["score"] - 1)
        else:
            assert feedback is None


def test_nothing_else_is_a_query(site):
    built, expected = site
    assert built.stored() == len(expected["traces"])
    others = [trace for each in expected["traces"] for trace in each["other_trace_ids"]]
    for trace_id in expected["not_query_trace_ids"] + others:
        assert built.record(trace_id) is None


def test_no_span_is_left_behind(site):
    built, _ = site
    assert built.pending() == 0


def test_what_is_hidden_stays_hidden(site):
    built, expected = site
    for each in expected["traces"]:
        record = built.record(each["trace_id"])
        if not each["query_in_payload"]:
            assert record.query is None
        if not each["answer_in_payload"]:
            assert record.answer is None
        texts = [record.query, record.answer, *(chunk.text for chunk in record.chunks or ())]
        assert "__REDACTED__" not in texts


def test_queries_that_share_a_trace_without_a_root_are_told_apart(tmp_path):
    with rig(tmp_path) as built:
        replay(built, captured("tl-llamaindex-merged"))
        built.wait(30.0)
        assert built.stored() == 0  # a root may still come
        built.wait(31.0)
        found = [built.record(f"{MERGED}:{span_id}") for span_id in UNITS]
    assert [(each.query, len(each.chunks or ())) for each in found] == list(UNITS.values())
    streamed, _, empty, reranked, chat = found
    assert streamed.answer is None
    assert empty.answer == "Empty Response"
    assert reranked.answer.startswith("Answer 751dc8f2")
    assert chat.answer.startswith("Answer 0b52a0e0")


MERGED = "f1f33167e6751cd16649a4e0cae00843"
UNITS = {
    "a6cb7174b2552d5b": ("What is the request limit of the public API per minute?", 4),
    "e732f8b4a9bab391": ("How much storage does a workspace include?", 4),
    "675beef706268153": ("Can I enable two factor authentication with a hardware key?", 0),
    "3b903f9e3ab434d7": ("When do API tokens expire?", 4),
    "aaaa87c8412f36c0": ("Is single sign-on with SAML available?", 4),
}
