"""A language model judges a golden run: scores, failures, tokens, memory, patience."""

import pytest

from ragmon.clock import ManualClock
from ragmon.evaluate.cases import Case, CaseSet
from ragmon.evaluate.compare.pairwise_judge import PairwiseJudge
from ragmon.evaluate.compare.preference import CandidatePair, preferences
from ragmon.evaluate.document import describe
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.score.judge_usage import UsageSummary
from ragmon.evaluate.score.llm import (
    LlmGrader,
    LlmGraderOptions,
    distractors_of,
    pool_of,
)
from ragmon.evaluate.score.reply_cache import FileCache
from ragmon.evaluate.score.scoring import ScoringOptions, score
from ragmon.judges import llm
from ragmon.records import Chunk, QueryRecord
from tests.support.llm_server import error, says, serving, with_fields

CHUNKS = [
    Chunk(id="a", text="Ann wrote the book. Bob printed it."),
    Chunk(id="b", text="Rain fell."),
    Chunk(id="c", text="Cid wrote another book."),
]
CASE = Case(
    query="Who wrote this book?",
    case_id="1",
    ground_truth_answer="Ann wrote the book. Dan bound it",
)
RECORD = QueryRecord(
    query_id="1",
    timestamp=1.0,
    query=CASE.query,
    answer="Ann wrote the book. Bob burnt it.",
    chunks=CHUNKS,
)


@pytest.fixture
def server():
    with serving() as running:
        yield running


@pytest.fixture
def judging(server):
    """Builds judges of the server, and closes them."""
    built = []

    def make(kind=LlmGrader, clock=None, cache=None, distractors=0, pool=(), **given):
        options = llm.Options(**{"base_url": server.url, "model": "tiny"} | given)
        clock = clock or ManualClock()
        if kind is LlmGrader:
            options = LlmGraderOptions(options=options, distractors=distractors, pool=pool)
        built.append(kind(options, clock, cache))
        return built[-1]

    yield make
    for judge in built:
        judge.close()


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        pytest.param(
            None,
            {
                "faithfulness": 0.5,
                "answer_relevance": 1.0,
                "completeness": 0.5,
                "conciseness": 0.0,
                "context_precision": 5 / 6,
                "context_recall": 0.5,
                "context_utilization": 0.5,
            },
            id="everything, and the truth against the context, unless told otherwise",
        ),
        pytest.param(
            ["rubric"],
            {
                "faithfulness": 0.75,
                "answer_relevance": 1.0,
                "completeness": 0.5,
                "conciseness": 0.0,
            },
            id="the rubric alone",
        ),
        pytest.param(["claims"], {"faithfulness": 0.5}, id="claims alone"),
    ],
)
def test_what_the_modes_give(judging, modes, expected):
    judge = judging(**({} if modes is None else {"modes": modes}))
    assert judge.grade(CASE, RECORD) == pytest.approx(expected)
    assert set(judge.metrics) == set(expected)


def test_scores_and_account_reach_the_report(judging):
    judge = judging(concurrency=2, prices={"tiny": {"prompt": 1.0, "completion": 10.0}})
    run = {"1": RECORD, "2": QueryRecord(query_id="2", timestamp=1.0, error="timeout")}
    cases = CaseSet((CASE, Case(query="another", case_id="2")))
    found = describe(score(cases, run, ScoringOptions(), [judge]), "run", 0.0)
    assert found.scores["faithfulness/llm"] == [0.5, None]
    assert found.summary("completeness/llm").band == "poor"
    assert "the LLM judge was not asked for it" in found.absent["noise_sensitivity"]
    assert "completeness" not in found.absent
    assert found.cases[0].answer == RECORD.answer
    assert found.cases[0].truth == CASE.ground_truth_answer
    (usage,) = found.judges
    assert usage == UsageSummary(
        name="llm", judged=1, model="tiny", prompt_version=llm_version(),
        prompt_tokens=600, completion_tokens=120, cost_usd=pytest.approx(0.0018),
    )  # fmt: skip
    assert str(usage) == "llm (tiny) judged 1; 720 tokens; $0.0018"


def llm_version():
    from ragmon.judges.llm import prompts

    return prompts.VERSION


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param(error(401, "no such key"), "auth", id="a wrong key"),
        pytest.param(says("five stars"), "malformed", id="no JSON"),
        pytest.param(says("{}", refusal="no"), "refusal", id="a refusal"),
    ],
)
def test_a_failure_is_counted_and_never_a_score(server, judging, fault, reason):
    server.always = fault
    judge = judging(attempts=1)
    found = describe(score(CaseSet((CASE,)), {"1": RECORD}, ScoringOptions(), [judge]), "run", 0.0)
    assert not [each.name for each in found.metrics if each.name.endswith("/llm")]
    assert found.absent["faithfulness/llm"] == f"could not be judged: {reason} 1"
    assert found.judges[0].failed == {reason: 1}
    assert found.judges[0].judged == 0
    assert found.judges[0].example


def test_chunks_without_texts_cannot_be_judged(server, judging):
    judge = judging()
    bare = QueryRecord(query_id="1", timestamp=1.0, answer="x", chunks=[Chunk(id="a")])
    assert judge.grade(CASE, bare) == {}
    assert judge.usage().failed == {"unjudgeable": 1}
    assert server.chats == []


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(QueryRecord(query_id="1", timestamp=1.0, chunks=CHUNKS), id="no answer"),
        pytest.param(
            QueryRecord(query_id="1", timestamp=1.0, answer="x", error="cut"), id="it failed"
        ),
    ],
)
def test_what_has_no_answer_is_no_failure_of_the_judge(server, judging, record):
    judge = judging()
    assert judge.grade(CASE, record) == {}
    assert judge.usage() == UsageSummary(name="llm", prompt_version=llm_version())
    assert server.chats == []


def test_noise_is_what_faithfulness_loses_to_distractors(server, judging):
    pool = [*CHUNKS, *(Chunk(id=f"x{at}", text=f"Noise {at}.") for at in range(9))]
    judge = judging(modes=["claims"], distractors=2, pool=pool)
    assert judge.grade(CASE, RECORD)["noise_sensitivity"] == 0.0
    assert server.tasks == ["extract", "verify", "verify"]  # the claims were remembered
    assert len(server.chats[-1].numbered("passage")) == 5
    server.script = [with_fields(), with_fields(), with_fields(verdicts=[NO])]
    other = QueryRecord(query_id="2", timestamp=1.0, answer="Rain fell.", chunks=CHUNKS)
    assert judge.grade(CASE, other)["noise_sensitivity"] == 1.0


NO = {"claim": 1, "supported": "no", "chunk": None}


def test_distractors_are_foreign_spread_and_the_same_each_time():
    pool = pool_of({"1": RECORD, "2": QueryRecord(query_id="2", timestamp=1.0, chunks=FAR)})
    assert [chunk.id for chunk in pool] == sorted([*"abc", *(f"f{at}" for at in range(9))])
    case = Case(query="?", case_id="1", relevant_doc_ids=["f0"])
    chosen = [chunk.id for chunk in distractors_of(case, RECORD, pool, 3)]
    assert len(set(chosen)) == 3
    assert not {*"abc", "f0"} & set(chosen)
    assert chosen == [chunk.id for chunk in distractors_of(case, RECORD, pool, 3)]
    other = Case(query="?", case_id="another", relevant_doc_ids=["f0"])
    assert chosen != [chunk.id for chunk in distractors_of(other, RECORD, pool, 3)]
    assert len(distractors_of(case, RECORD, pool, 100)) == 8


FAR = [Chunk(id=f"f{at}", text="far") for at in range(9)] + [Chunk(id="bare")]


def test_no_reply_is_paid_for_twice(server, judging, tmp_path):
    path = tmp_path / "kept" / "replies"
    first = FileCache(path)
    judging(cache=first).grade(CASE, RECORD)
    first.close()
    asked = len(server.chats)
    with path.open("ab") as file:  # broken off in the middle of a line, twice
        file.write(b"0" * 32 + b' {"claims": [{}\n')
        file.write(b"0" * 32 + b' {"claims": [')
    again = FileCache(path)
    judge = judging(cache=again)
    assert judge.grade(CASE, RECORD)["faithfulness"] == 0.5
    assert (len(server.chats), len(again)) == (asked, asked)
    assert judge.usage().prompt_tokens == 0
    again.put(b"k" * 16, b"{}")
    again.close()
    whole = FileCache(path)
    assert len(whole) == asked + 1
    whole.close()


def test_replies_that_cannot_be_kept(tmp_path):
    with pytest.raises(DataError, match="cannot be used"):
        FileCache(tmp_path)


def test_an_endpoint_that_pauses_is_waited_for(server, judging):
    server.script = [error(503, "busy")]
    clock = ManualClock()
    judge = judging(clock=clock, modes=["claims"], attempts=1, breaker_failures=1, breaker_s=30.0)
    assert judge.grade(CASE, RECORD) == {}  # what failed opened the breaker
    assert judge.grade(CASE, RECORD) == {"faithfulness": 0.5}
    assert clock.monotonic() == 30.0


def test_an_endpoint_that_stays_away_is_not_waited_for_for_ever(server, judging):
    server.always = error(503, "gone")
    clock = ManualClock()
    judge = judging(clock=clock, modes=["claims"], attempts=1, breaker_failures=1, breaker_s=30.0)
    for _ in range(20):
        assert judge.grade(CASE, RECORD) == {}
    assert 60.0 <= clock.monotonic() <= 120.0
    assert sum(judge.usage().failed.values()) == 20


def test_the_forecast_bounds_what_it_takes(server, judging):
    prices = {"tiny": {"prompt": 1.0, "completion": 10.0}}
    judge = judging(prices=prices, distractors=1, pool=FAR)
    expected = judge.forecast([(CASE, RECORD)] * 3)
    judge.grade(CASE, RECORD)
    took = judge.usage()
    assert expected.answers == 3
    assert expected.most_tokens > expected.tokens
    assert expected.most_tokens >= 3 * (took.prompt_tokens + took.completion_tokens)
    assert expected.most_cost_usd >= max(expected.cost_usd, 3 * took.cost_usd)
    assert judging().forecast([(CASE, RECORD)]).cost_usd is None


def test_nothing_more_is_asked_when_the_money_is_spent(server):
    prices = {"tiny": {"prompt": 1.0, "completion": 10.0}}
    options = llm.Options(base_url=server.url, model="tiny", modes=["claims"], prices=prices)
    judge = LlmGrader(LlmGraderOptions(options=options, max_cost_usd=0.0005), ManualClock())
    assert judge.grade(CASE, RECORD) == {"faithfulness": 0.5}
    assert judge.grade(CASE, RECORD) == {}
    assert judge.usage().failed == {"budget_spent": 1}
    judge.close()
    judge = PairwiseJudge(options, ManualClock(), max_cost_usd=0.0)
    assert preferences(PAIRS, judge).failed == 3
    assert judge.usage().failed == {"budget_spent": 3}
    judge.close()


PAIRS = [
    CandidatePair("q", "bad", "good", "good"),
    CandidatePair("r", "good", "bad", "good"),
    CandidatePair("q", "one", "two"),
    CandidatePair("q", "same", "same", "good"),
]


def test_a_model_prefers_both_ways_round(server, judging):
    judge = judging(PairwiseJudge, concurrency=2)
    found = preferences(PAIRS, judge)
    assert (found.wins, found.losses, found.ties, found.inconsistent) == (1, 1, 2, 0)
    assert (found.won, found.lost) == (("q",), ("r",))
    assert server.tasks == ["prefer"] * 6
    assert found.usage.judged == 6
    expected = judge.forecast(PAIRS)
    assert (expected.answers, expected.cost_usd) == (4, None)
    assert expected.tokens > found.usage.prompt_tokens


def test_a_model_that_takes_what_stands_first(server, judging):
    server.always = with_fields(better="first")
    found = preferences(PAIRS, judging(PairwiseJudge))
    assert (found.wins, found.losses, found.inconsistent) == (0, 0, 3)
    assert found.position_bias == 1.0


def test_pairs_that_cannot_be_judged(server, judging):
    server.always = says("nothing")
    judge = judging(PairwiseJudge)
    found = preferences(PAIRS, judge)
    assert (found.failed, found.ties) == (3, 1)
    assert judge.usage().failed == {"malformed": 3}
    long = CandidatePair("q", "x" * 1_000, "y" * 1_000)
    strict = judging(PairwiseJudge, max_characters=1_000)
    assert preferences([long], strict).failed == 1
    assert strict.usage().failed == {"too_long": 1}
