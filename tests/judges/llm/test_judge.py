"""What the language model is asked, and what is made of its answers."""

import json
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from ragmon.clock import ManualClock
from ragmon.errors import SettingsError
from ragmon.judges.llm import (
    Claim,
    Failure,
    JudgedAnswer,
    Judgement,
    LruCache,
    Noise,
    Options,
    Price,
    build,
    noise_sensitivity,
)
from ragmon.judges.llm.claims import claims_at_most
from ragmon.judges.llm.grades import context_precision
from tests.support.llm_server import says, serving, with_fields
from tests.support.wait import eventually

CHUNKS = (("a", "Ann wrote it. Bob printed it."), ("b", "Rain fell."), ("c", "Cid wrote too."))
CASE = JudgedAnswer("Who wrote this book?", "Ann wrote it. Bob burnt it. Rain fell.", CHUNKS)


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def judging(server):
    """Builds judges of the server, and closes them."""
    built = []

    def make(clock=None, cache=None, **options):
        named = {"base_url": server.url, "model": "tiny"} | options
        built.append(build(Options(**named), clock or ManualClock(), cache))
        return built[-1]

    yield make
    for judge in built:
        judge.close()


def test_claims_that_the_chunks_do_not_support_are_looked_up_in_the_turns_before(server, judging):
    alone = judging(modes=("claims",)).judge(CASE)
    case = replace(CASE, earlier=(("before", "Bob burnt it, they say."),))
    got = judging(modes=("claims",)).judge(case)
    assert [claim.supported for claim in alone.claims] == [True, False, True]
    assert got.claims == (
        Claim("Ann wrote it", True, "a"),
        Claim("Bob burnt it", True, "before"),
        Claim("Rain fell", True, "b"),
    )
    assert got.scores == {"faithfulness": 1.0}
    judge = judging(modes=("claims",))
    assert judge.forecast(case).completion > judge.forecast(CASE).completion


def test_the_turns_before_are_left_out_where_they_make_a_case_too_long(server, judging):
    case = replace(CASE, earlier=(("before", "Bob burnt it. " * 1_000),))
    got = judging(modes=("claims",), max_characters=10_000).judge(case)
    assert [claim.supported for claim in got.claims] == [True, False, True]


def test_the_turns_before_are_graded_with_but_are_no_useful_chunks(server, judging):
    case = replace(CASE, earlier=(("before", "Cid burnt it."),))
    judge = judging(modes=("rubric", "useful_chunks"))
    got = judge.judge(case)
    rubric, useful = (str(chat.body) for chat in server.chats)
    assert "passage of an earlier turn 1" in rubric
    assert "earlier turn" not in useful
    assert got.useful == ("a", "c")


def test_all_modes_at_once(server, judging):
    modes = ("claims", "rubric", "useful_chunks", "context_recall")
    judge = judging(modes=modes, prices={"tiny": Price(prompt=2.0, completion=10.0)})
    case = JudgedAnswer(CASE.query, CASE.answer, CHUNKS, reference="Ann wrote it. Dan wrote too")
    got = judge.judge(case)
    assert isinstance(got, Judgement)
    assert got.scores == pytest.approx(
        {
            "faithfulness": 2 / 3,
            "rubric_faithfulness": 0.75,
            "answer_relevance": 1.0,
            "completeness": 0.5,
            "conciseness": 0.0,
            "context_precision": 5 / 6,
            "context_recall": 0.5,
        }
    )
    assert got.claims == (
        Claim("Ann wrote it", True, "a"),
        Claim("Bob burnt it", False, None),
        Claim("Rain fell", True, "b"),
    )
    assert got.useful == ("a", "c")
    assert got.rationale == "It is so."
    assert (got.tokens.prompt, got.tokens.completion) == (600, 120)
    assert got.cost_usd == pytest.approx(600 * 2e-6 + 120 * 10e-6)
    assert (got.model, got.prompt_version) == ("tiny", "v1")
    assert server.tasks == ["rubric", "extract", "verify", "useful", "extract", "verify"]


@pytest.mark.parametrize(
    ("modes", "fields", "scores"),
    [
        pytest.param(("claims",), {"claims": []}, {}, id="no claims are not zero faithfulness"),
        pytest.param(
            ("rubric",),
            {"faithfulness": 1},
            {"faithfulness": 0, "answer_relevance": 1, "completeness": 0.5, "conciseness": 0},
            id="alone, the rubric's faithfulness is the faithfulness",
        ),
        pytest.param(
            ("useful_chunks",),
            {"useful": [3, 1]},
            {"context_precision": 5 / 6},
            id="usefulness counts by rank",
        ),
        pytest.param(
            ("useful_chunks",),
            {"useful": []},
            {"context_precision": 0},
            id="nothing useful is zero precision",
        ),
    ],
)
def test_one_mode(server, judging, modes, fields, scores):
    server.always = with_fields(**fields)
    got = judging(modes=modes).judge(CASE)
    assert got.scores == pytest.approx(scores)


def test_context_recall_needs_a_reference(server, judging):
    got = judging(modes=("context_recall", "useful_chunks")).judge(CASE)
    assert set(got.scores) == {"context_precision"}
    assert server.tasks == ["useful"]


def test_claims_are_verified_in_batches(server, judging):
    server.script = [with_fields(claims=[f"claim {n}" for n in range(7)])]
    got = judging(modes=("claims",), claims_per_request=3).judge(
        JudgedAnswer("q", "word " * 40, CHUNKS)
    )
    assert [len(chat.numbered("claim")) for chat in server.chats[1:]] == [3, 3, 1]
    assert len(got.claims) == 7


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        pytest.param(JudgedAnswer("q", " ", CHUNKS), "unjudgeable", id="no answer"),
        pytest.param(JudgedAnswer("q", "a", ()), "unjudgeable", id="no chunks"),
        pytest.param(JudgedAnswer("q", "a", (("x", ""),)), "unjudgeable", id="chunks without text"),
        pytest.param(
            JudgedAnswer("q", "a", (("x", "t" * 2_000),)), "too_long", id="too long to judge"
        ),
    ],
)
def test_what_cannot_be_judged_is_not_sent(server, judging, case, reason):
    got = judging(max_characters=1_000).judge(case)
    assert (got.reason, got.retryable) == (reason, False)
    assert got.tokens.prompt == 0
    assert server.chats == []


def test_the_same_content_is_paid_for_once(server, judging):
    cache = LruCache(100)
    first = judging(cache=cache).judge(CASE)
    second = judging(cache=cache).judge(CASE)
    assert len(server.chats) == 4
    assert second.scores == first.scores
    assert second.tokens.prompt == 0
    judging(cache=cache).judge(JudgedAnswer(CASE.query, CASE.answer + " Ever.", CHUNKS))
    assert len(server.chats) == 7  # which chunks are useful does not depend on the answer
    judging(cache=cache, model="other").judge(CASE)
    assert len(server.chats) == 11


def test_the_cache_forgets_what_was_unused_for_longest():
    cache = LruCache(2)
    cache.put(b"1", b"one")
    cache.put(b"2", b"two")
    assert cache.get(b"1") == b"one"
    cache.put(b"3", b"three")
    assert [cache.get(key) for key in (b"1", b"2", b"3")] == [b"one", None, b"three"]


def test_failures_cost_too(server, judging):
    server.always = says("no json")
    judge = judging(modes=("rubric",), prices={"tiny": Price(prompt=1.0, completion=1.0)})
    got = judge.judge(CASE)
    assert got.reason == "malformed"
    assert got.tokens.prompt == 200
    assert got.cost_usd == pytest.approx(240e-6)


def test_a_model_without_price_has_no_cost(judging):
    assert judging().judge(CASE).cost_usd is None


def test_the_model_is_found_out(server, judging):
    got = judging(model=None).judge(CASE)
    assert got.model == "tiny"
    assert server.chats[0].body["model"] == "tiny"


def test_the_forecast_is_an_upper_bound(judging):
    modes = ("claims", "rubric", "useful_chunks", "context_recall")
    judge = judging(modes=modes)
    case = JudgedAnswer(CASE.query, CASE.answer, CHUNKS, "Ann wrote it.")
    most, took = judge.forecast(case), judge.judge(case).tokens
    assert most.prompt >= took.prompt
    assert most.completion >= took.completion
    priced = judging(modes=("rubric",), prices={"tiny": Price(prompt=1e6, completion=0)})
    assert priced.forecast_usd(CASE) == priced.forecast(CASE).prompt


def test_no_more_at_once_than_allowed(server, judging):
    server.gate = Event()
    judge = judging(concurrency=2, modes=("rubric",))
    cases = [JudgedAnswer(f"question {n}", "a", CHUNKS) for n in range(6)]
    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(judge.judge, case) for case in cases]
        eventually(lambda: server.most_at_once == 2)
        server.gate.set()
        assert all(isinstance(each.result(10), Judgement) for each in running)
    assert server.most_at_once == 2
    assert len(server.chats) == 6


@pytest.mark.parametrize(
    ("answer", "distractors", "expected"),
    [
        pytest.param("Ann wrote it.", [("x", "Noise.")], Noise(1.0, 1.0), id="a steady judge"),
        pytest.param("", [], "unjudgeable", id="nothing to judge"),
        pytest.param(".", [], "unjudgeable", id="no claims"),
    ],
)
def test_noise(judging, answer, distractors, expected):
    got = noise_sensitivity(
        judging(modes=("claims",)), JudgedAnswer("q", answer, CHUNKS), distractors
    )
    assert (got.reason if isinstance(got, Failure) else got) == expected


def test_distractors_stand_between_the_chunks(server, judging):
    noise_sensitivity(
        judging(modes=("rubric",)), CASE, [("x", "Noise."), ("y", "More."), ("z", "Most.")]
    )
    assert server.chats[1].numbered("passage") == [
        CHUNKS[0][1],
        "Noise.",
        CHUNKS[1][1],
        "More.",
        CHUNKS[2][1],
        "Most.",
    ]


@pytest.mark.parametrize(
    ("noise", "expected"), [(Noise(0.8, 0.4), 0.5), (Noise(0.5, 1.0), -1.0), (Noise(0, 1), None)]
)
def test_sensitivity(noise, expected):
    assert noise.sensitivity == expected


@pytest.mark.parametrize(
    ("useful", "expected"),
    [((1,), 1.0), ((2,), 0.5), ((1, 3), 5 / 6), ((), 0.0), ((1, 2, 3), 1.0)],
)
def test_context_precision(useful, expected):
    assert context_precision(useful) == pytest.approx(expected)


@pytest.mark.parametrize(("words", "most"), [(0, 3), (8, 5), (1_000, 40)])
def test_short_texts_make_few_claims(words, most):
    assert claims_at_most("word " * words, 40) == most


SECRET = "sk-very-secret"


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        pytest.param({"api_key": SECRET}, "authorization", f"Bearer {SECRET}", id="bearer"),
        pytest.param(
            {"api_key": SECRET, "api_version": "2024-10-21"}, "api-key", SECRET, id="azure"
        ),
        pytest.param({"headers": {"X-Team": SECRET}}, "x-team", SECRET, id="extra header"),
        pytest.param({}, "authorization", None, id="no key"),
    ],
)
def test_authentication(server, judging, options, name, value):
    judging(modes=("rubric",), **options).judge(CASE)
    (chat,) = server.chats
    assert chat.headers.get(name) == value
    azure = "api_version" in options
    assert chat.path == "/v1/chat/completions" + ("?api-version=2024-10-21" if azure else "")


def test_the_key_file(server, judging, tmp_path):
    path = tmp_path / "key"
    path.write_text(SECRET + "\n")
    judging(modes=("rubric",), api_key_file=path).judge(CASE)
    assert server.chats[0].headers["authorization"] == f"Bearer {SECRET}"
    with pytest.raises(SettingsError, match="api_key_file"):
        judging(api_key_file=tmp_path / "none")


def test_secrets_are_never_printed(server):
    options = Options(base_url=server.url, api_key=SECRET, headers={"X-Key": SECRET})
    assert SECRET not in repr(options) + str(options) + options.model_dump_json()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"base_url": "localhost:8000"}, id="not a URL"),
        pytest.param({"base_url": "http://user:pw@host/v1"}, id="credentials in the URL"),
        pytest.param({"base_url": "http://host/v1?key=1"}, id="a query in the URL"),
        pytest.param({"base_url": "http://host", "modle": "x"}, id="a typo"),
        pytest.param({"base_url": "http://host", "modes": ["vibes"]}, id="an unknown mode"),
        pytest.param({"base_url": "http://host", "modes": []}, id="no mode"),
        pytest.param({"base_url": "http://h", "api_key": "k", "api_key_file": "f"}, id="two keys"),
        pytest.param(
            {"base_url": "http://h", "prices": {"m": {"prompt": -1, "completion": 0}}},
            id="a negative price",
        ),
    ],
)
def test_settings_that_cannot_be_meant(options):
    with pytest.raises(ValidationError):
        Options(**options)


@pytest.mark.parametrize("suffix", ["", "/", "/chat/completions"])
def test_base_urls_as_people_write_them(server, judging, suffix):
    judging(base_url=server.url + suffix, modes=("rubric",)).judge(CASE)
    assert server.chats[0].path == "/v1/chat/completions"


def test_the_request_is_what_openai_expects(server, judging):
    judging(modes=("claims",)).judge(CASE)
    extract, verify = (chat.body for chat in server.chats)
    assert [message["role"] for message in extract["messages"]] == ["system", "user"]
    assert (extract["temperature"], extract["max_tokens"]) == (0, 2_048)
    schema = verify["response_format"]["json_schema"]
    assert (schema["strict"], schema["name"]) == (True, "verdict")
    assert list(schema["schema"]["properties"]) == ["check", "verdicts"]
    _assert_strict(schema["schema"])
    assert len(schema["schema"]["$defs"]) == 1
    _assert_strict(*schema["schema"]["$defs"].values())
    assert "0x" not in json.dumps(schema)


def _assert_strict(part):
    """Source: OpenAI, Structured outputs, supported schemas."""
    assert part["type"] == "object"
    assert part["additionalProperties"] is False
    assert part["required"] == list(part["properties"])
