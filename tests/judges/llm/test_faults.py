"""Endpoints that refuse, break, hang and babble: each is a reason, never a score."""

import json
import time
from email.utils import formatdate

import pytest

from ragmon.clock import ManualClock, SystemClock
from ragmon.judges.llm import REASONS, JudgedAnswer, Judgement, Options, build
from ragmon.judges.llm.breaker import Breaker
from ragmon.judges.llm.dialect import Dialect
from tests.support.llm_server import Fault, completion, error, honest, says, serving, with_fields

CASE = JudgedAnswer("Who wrote it?", "Ann wrote it.", (("a", "Ann wrote it."), ("b", "Rain fell.")))
NOW = 1_800_000_000.0
OK = with_fields()


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def clock():
    return ManualClock(NOW)


@pytest.fixture
def judging(server, clock):
    built = []

    def make(**options):
        named = {"base_url": server.url, "model": "tiny", "modes": ("rubric",)} | options
        built.append(build(Options(**named), clock))
        return built[-1]

    yield make
    for judge in built:
        judge.close()


def own(change):
    """A reply made from the honest one, as text."""
    return lambda chat: completion(change({"check": chat.check} | honest(chat)))


@pytest.mark.parametrize(
    ("script", "requests", "waited"),
    [
        pytest.param([error(500, "oops"), OK], 2, 0.5, id="a server error"),
        pytest.param([error(503, "busy"), error(502, "bad"), OK], 3, 1.5, id="twice"),
        pytest.param([error(408, "slow"), OK], 2, 0.5, id="a request timeout"),
        pytest.param([error(429, "slow down", Retry_After="7"), OK], 2, 7.0, id="as long as told"),
        pytest.param([error(503, "later", Retry_After="3"), OK], 2, 3.0, id="also with 503"),
        pytest.param(
            [error(429, "x", Retry_After=formatdate(NOW + 9, usegmt=True)), OK],
            2,
            9.0,
            id="until a date",
        ),
        pytest.param([error(429, "x", Retry_After="soon"), OK], 2, 0.5, id="a strange Retry-After"),
        pytest.param([Fault(200, completion("x"), cut=True), OK], 2, 0.5, id="a truncated stream"),
        pytest.param([says("not JSON"), OK], 2, 0.0, id="prose once"),
    ],
)
def test_tried_again(server, judging, clock, script, requests, waited):
    server.script = list(script)
    assert isinstance(judging().judge(CASE), Judgement)
    assert len(server.chats) == requests
    assert clock.monotonic() == pytest.approx(waited)


@pytest.mark.parametrize(
    ("step", "reason", "requests"),
    [
        pytest.param(error(500, "oops"), "server_error", 3, id="keeps breaking"),
        pytest.param(error(429, "slow down"), "rate_limited", 3, id="keeps refusing"),
        pytest.param(error(429, "quota", Retry_After="3600"), "rate_limited", 1, id="an hour"),
        pytest.param(error(401, "bad key"), "auth", 1, id="a wrong key"),
        pytest.param(error(403, "forbidden"), "auth", 1, id="not allowed"),
        pytest.param(error(404, "no such model"), "not_found", 1, id="a wrong model or URL"),
        pytest.param(Fault(307, "", {"Location": "/"}), "not_found", 1, id="redirected"),
        pytest.param(error(413, "large"), "too_long", 1, id="too large"),
        pytest.param(
            error(400, "maximum context length is 4096 tokens"),
            "too_long",
            1,
            id="too long for the model",
        ),
        pytest.param(
            error(400, "filtered by content management policy"),
            "refusal",
            1,
            id="filtered by Azure",
        ),
        pytest.param(error(400, "no"), "bad_request", 3, id="whatever the format"),
        pytest.param(says("", refusal="I cannot help"), "refusal", 1, id="a refusal"),
        pytest.param(says("", finish_reason="content_filter"), "refusal", 1, id="filtered"),
        pytest.param(says("{", finish_reason="length"), "truncated", 1, id="cut at max_tokens"),
        pytest.param(Fault(200, "<html>"), "malformed", 1, id="not a completion"),
        pytest.param(Fault(200, {"choices": []}), "malformed", 1, id="no choices"),
        pytest.param(
            Fault(200, {"choices": [{"message": {"content": 5}}]}),
            "malformed",
            1,
            id="a number as content",
        ),
        pytest.param(
            Fault(200, "plain", {"Content-Encoding": "gzip"}), "network", 3, id="not as encoded"
        ),
        pytest.param(Fault(200, "x" * (5 << 20)), "network", 3, id="endless"),
        pytest.param(says("I'd say four."), "malformed", 2, id="prose"),
        pytest.param(says(""), "malformed", 2, id="silence"),
    ],
)
def test_failures(server, judging, step, reason, requests):
    server.always = step
    got = judging().judge(CASE)
    assert (got.reason, got.retryable) == (reason, REASONS[reason])
    assert len(server.chats) == requests


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(hang=True), id="hangs"),
        pytest.param(Fault(200, completion("x" * 1_000), drip=True), id="drips"),
        pytest.param(Fault(drip_headers=True), id="drips headers"),
    ],
)
def test_a_server_that_does_not_come_to_an_end(server, fault):
    server.always = fault
    judge = build(
        Options(base_url=server.url, model="tiny", modes=("rubric",), timeout_s=0.2, attempts=1),
        SystemClock(),
    )
    before = time.monotonic()
    got = judge.judge(CASE)
    judge.close()
    assert got.reason == "timeout"
    assert time.monotonic() - before < 2.0


def test_nobody_listens(judging):
    got = judging(base_url="http://127.0.0.1:1/v1").judge(CASE)
    assert (got.reason, got.retryable) == ("network", True)


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(json.dumps, id="plain"),
        pytest.param(lambda it: f"```json\n{json.dumps(it, indent=1)}\n```", id="a code fence"),
        pytest.param(lambda it: f"Sure! Here:\n{json.dumps(it)}\nHope it helps {{}}", id="prose"),
        pytest.param(
            lambda it: f"<think>{json.dumps(it | {'faithfulness': 1})}</think>{json.dumps(it)}",
            id="a visible train of thought",
        ),
        pytest.param(lambda it: json.dumps(it | {"confidence": 0.9}), id="an extra field"),
        pytest.param(lambda it: json.dumps(it) * 2, id="the same twice"),
        pytest.param(lambda it: "{" * 50 + json.dumps(it), id="stray braces"),
    ],
)
def test_forms_that_are_understood(server, judging, reply):
    server.script = [own(reply)]
    got = judging().judge(CASE)
    assert got.scores["faithfulness"] == 0.75
    assert len(server.chats) == 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"faithfulness": 6}, id="above the scale"),
        pytest.param({"faithfulness": 0}, id="below the scale"),
        pytest.param({"faithfulness": 4.5}, id="between two grades"),
        pytest.param({"faithfulness": "good"}, id="a word"),
        pytest.param({"faithfulness": True}, id="a boolean"),
        pytest.param({"faithfulness": None}, id="null"),
        pytest.param({"check": "000000000000"}, id="another token"),
        pytest.param({"check": None}, id="no token"),
    ],
)
def test_rubrics_out_of_range(server, judging, change):
    server.always = own(lambda it: json.dumps(it | change))
    got = judging().judge(CASE)
    assert got.reason == "malformed"
    assert len(server.chats) == 2


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(
            lambda it: json.dumps({k: v for k, v in it.items() if k != "relevance"}),
            id="a field is missing",
        ),
        pytest.param(lambda it: json.dumps(it)[:-1], id="an open object"),
        pytest.param(
            lambda it: json.dumps(it) + json.dumps(it | {"faithfulness": 5}), id="two that differ"
        ),
        pytest.param(lambda it: json.dumps(it)[:-1] + ', "faithfulness": 5}', id="a field twice"),
        pytest.param(lambda it: json.dumps({"verdict": it}), id="wrapped"),
        pytest.param(lambda it: json.dumps(it | {"faithfulness": float("nan")}), id="not JSON"),
        pytest.param(lambda it: '{"a":' * 5_000, id="absurdly deep"),
    ],
)
def test_replies_that_say_nothing_certain(server, judging, reply):
    server.always = own(reply)
    assert judging().judge(CASE).reason == "malformed"
    assert len(server.chats) == 2


@pytest.mark.parametrize(
    ("mode", "at", "fields"),
    [
        pytest.param("claims", 0, {"claims": ["c"] * 50}, id="more claims than words"),
        pytest.param("claims", 0, {"claims": [""]}, id="an empty claim"),
        pytest.param("claims", 0, {"claims": "Ann"}, id="claims are no list"),
        pytest.param("claims", 1, {"verdicts": []}, id="no verdicts"),
        pytest.param(
            "claims",
            1,
            {"verdicts": [{"claim": 2, "supported": "no", "chunk": None}]},
            id="a verdict on another claim",
        ),
        pytest.param(
            "claims",
            1,
            {"verdicts": [{"claim": 1, "supported": "no", "chunk": None}] * 2},
            id="two verdicts on one claim",
        ),
        pytest.param(
            "claims", 1, {"verdicts": [{"claim": 1, "supported": "maybe", "chunk": 1}]}, id="maybe"
        ),
        pytest.param(
            "claims",
            1,
            {"verdicts": [{"claim": 1, "supported": "yes", "chunk": 3}]},
            id="a passage that is not there",
        ),
        pytest.param(
            "claims",
            1,
            {"verdicts": [{"claim": 1, "supported": "yes", "chunk": None}]},
            id="supported by nothing",
        ),
        pytest.param("useful_chunks", 0, {"useful": [3]}, id="a useful passage that is not there"),
        pytest.param("useful_chunks", 0, {"useful": [0]}, id="counted from zero"),
        pytest.param("useful_chunks", 0, {"useful": [1, 1]}, id="useful twice"),
    ],
)
def test_answers_that_do_not_fit_the_question(server, judging, mode, at, fields):
    server.script = [OK] * at + [with_fields(**fields)] * 2
    assert judging(modes=(mode,)).judge(CASE).reason == "malformed"
    assert len(server.chats) == at + 2


@pytest.mark.parametrize(
    ("refuses", "expected"),
    [
        pytest.param(
            [("json_schema", "response_format.type must be text", 400)],
            Dialect(format="json_object"),
            id="no schemas",
        ),
        pytest.param(
            [("response_format", "Extra inputs are not permitted", 422)],
            Dialect(format="text"),
            id="no formats at all, and no good word for it",
        ),
        pytest.param(
            [("json_schema", "json_schema is not supported", 500)],
            Dialect(format="json_object"),
            id="a server that breaks on schemas",
        ),
        pytest.param(
            [
                ('"max_tokens"', "'max_tokens' is not supported, use 'max_completion_tokens'", 400),
                ("temperature", "'temperature' does not support 0 with this model", 400),
            ],
            Dialect(tokens="max_completion_tokens", temperature=False),
            id="new models of OpenAI",
        ),
        pytest.param(
            [('"system"', "System role not supported", 400)],
            Dialect(system=False),
            id="a model without system messages",
        ),
    ],
)
def test_the_dialect_is_learnt_once(server, judging, refuses, expected):
    def step(chat):
        for sign, complaint, status in refuses:
            if sign in json.dumps(chat.body):
                return error(status, complaint)
        return Fault(200, OK(chat))

    server.always = step
    judge = judging()
    assert isinstance(judge.judge(CASE), Judgement)
    assert judge._endpoint.dialect == expected
    before = len(server.chats)
    assert isinstance(judge.judge(JudgedAnswer("Other?", CASE.answer, CASE.chunks)), Judgement)
    assert len(server.chats) == before + 1


def test_a_request_refused_for_itself_teaches_nothing(server, judging):
    server.script = [error(400, "no")] * 3
    judge = judging()
    assert judge.judge(CASE).reason == "bad_request"
    assert judge._endpoint.dialect == Dialect()


def test_the_breaker_leaves_a_broken_endpoint_alone(server, judging, clock):
    server.always = error(500, "oops")
    judge = judging(attempts=1, breaker_failures=2, breaker_s=30.0)
    reasons = [judge.judge(CASE).reason for _ in range(4)]
    assert reasons == ["server_error", "server_error", "circuit_open", "circuit_open"]
    assert judge.opens_in() == pytest.approx(30.0)
    clock.sleep(30.0)
    assert judge.judge(CASE).reason == "server_error"
    assert judge.judge(CASE).reason == "circuit_open"
    clock.sleep(30.0)
    server.always = None
    assert isinstance(judge.judge(CASE), Judgement)
    assert judge.opens_in() == 0.0
    assert len(server.chats) == 4


def test_a_long_retry_after_pauses_the_judge(server, judging, clock):
    server.script = [error(429, "quota", Retry_After="600")]
    judge = judging()
    assert judge.judge(CASE).reason == "rate_limited"
    assert judge.opens_in() == pytest.approx(600.0)
    clock.sleep(599.0)
    assert judge.judge(CASE).reason == "circuit_open"
    clock.sleep(1.0)
    assert isinstance(judge.judge(CASE), Judgement)


def test_after_a_pause_one_request_tries_first():
    breaker = Breaker(1, 10.0)
    breaker.failed(0.0)
    assert [breaker.allows(now) for now in (9.9, 10.0, 10.0, 19.9, 20.0)] == [
        False,
        True,
        False,
        False,
        True,
    ]
    breaker.succeeded()
    assert breaker.allows(20.0)
    assert breaker.allows(20.0)


def test_the_key_does_not_come_back_in_messages(server, judging):
    server.always = error(401, "Incorrect API key provided: sk-very-secret. Find yours at …")
    got = judging(api_key="sk-very-secret").judge(CASE)
    assert "sk-very-secret" not in got.detail
    assert "Incorrect API key" in got.detail
