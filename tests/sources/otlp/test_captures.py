"""Real exports of unmodified instrumentations, against what is known to have happened."""

import random

import pytest

from tests.support.otlp import FOLDERS, captured, replay, rig, truth
from tests.support.otlp_table import checked_fields, producers, shares

SEEDS = {"as captured": None, "shuffled and doubled": 7, "shuffled otherwise": 20}


def test_there_are_captures():
    assert len(FOLDERS) == 89


def test_every_capture_is_described():
    assert sorted(name for producer in producers() for name in producer.folders) == FOLDERS


def test_of_the_documented_fields_99_percent_are_right():
    right, held = shares()
    assert held > 2_000
    assert right / held >= 0.99


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
    return {
        field: (wanted, got)
        for field, (known, wanted, got) in checked_fields(expected, record).items()
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
