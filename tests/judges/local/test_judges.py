"""Judges over a stand-in for the model, which knows words and nothing else."""

import re

import pytest

from ragmon.judges.local.findings import TokenScore, doubted_spans
from ragmon.judges.local.pair_judge import (
    MOST_SENTENCES,
    PairScore,
    SupportJudge,
    chunks_apart,
    documents,
    whole_context,
)
from ragmon.judges.local.prompts import LettucePrompt, hhem, minicheck
from ragmon.judges.local.token_judge import TokenJudge
from ragmon.judges.worker import AnswerToRead

CHUNKS = ["The office opens at nine.", "Paris is the capital of France."]


def words(text):
    return re.findall(r"\w+|[^\w\s]", text)


class Words:
    """A word is supported where the text before it holds it, a sentence where all its words are."""

    version = "words 1"

    def __init__(self, window=512):
        self.window = window
        self.read = []

    def count(self, text):
        return len(words(text))

    def tokens(self, pairs):
        self.read += pairs
        return [
            [
                TokenScore(found.start(), found.end(), 0.1 if found[0] in words(prompt) else 0.9)
                for found in re.finditer(r"\w+|[^\w\s]", answer)
            ]
            for prompt, answer in pairs
        ]

    def pairs(self, pairs):
        self.read += pairs
        return [
            PairScore(
                sum(word in words(premise) for word in words(claim)) / len(words(claim)),
                0.9 * ("not" in words(premise)),
            )
            for premise, claim in pairs
        ]


def token_judge(window=512, prompt=None):
    model = Words(window)
    return model, TokenJudge(model, prompt or LettucePrompt())


def test_words_that_no_passage_holds_are_named():
    answer = "The office opens at ten thirty. Paris is the capital of Spain."
    _, judge = token_judge()
    (result,) = judge.judge([AnswerToRead("When?", answer, CHUNKS)])
    assert result.score == pytest.approx(0.1)
    assert [answer[doubt.start : doubt.end] for doubt in result.doubts] == ["ten thirty", "Spain"]
    assert {(doubt.reason, doubt.support) for doubt in result.doubts} == {("unsupported_span", 0.1)}
    assert result.version == "words 1"


def test_an_answer_that_is_all_there_has_no_doubts():
    _, judge = token_judge()
    (result,) = judge.judge([AnswerToRead("When?", "The office opens at nine.", CHUNKS)])
    assert (result.score, result.doubts) == (pytest.approx(0.9), ())


@pytest.mark.parametrize(
    ("answer", "chunks", "reason"),
    [
        pytest.param("", CHUNKS, "empty_answer", id="no answer"),
        pytest.param("At nine.", [" "], "no_context", id="no text"),
        pytest.param("I do not know.", CHUNKS, "refusal", id="a refusal"),
    ],
)
def test_what_cannot_be_judged_has_a_reason_and_costs_its_neighbours_nothing(
    answer, chunks, reason
):
    cases = [
        AnswerToRead("", "The office opens at nine.", CHUNKS),
        AnswerToRead("", answer, chunks),
        AnswerToRead("", "Paris is the capital of Spain.", CHUNKS),
    ]
    support = SupportJudge(Words(), chunks_apart(512, len), scores_whole=False)
    for judge in (token_judge()[1], support):
        first, none, last = judge.judge(cases)
        assert (none.score, none.reason_none, none.doubts) == (None, reason, ())
        assert first.score > last.score


def test_passages_beyond_the_window_are_read_in_groups_each_in_the_whole_prompt():
    model, judge = token_judge(window=256)
    chunks = [f"Passage about {n}: {'filler ' * 40}" for n in range(8)]
    question = "What about 7?"
    judge.judge([AnswerToRead(question, "It is about 7.", chunks)])
    assert len(model.read) > 1
    for prompt, _ in model.read:
        assert model.count(prompt) <= 256
        assert question in prompt
        assert "passage 1: " in prompt
    together = "".join(prompt for prompt, _ in model.read)
    assert all(f"Passage about {n}:" in together for n in range(8))


def test_a_token_is_as_unsupported_as_the_worst_group_says():
    model, judge = token_judge(window=256)
    filler = "filler " * 150
    (result,) = judge.judge([AnswerToRead("", "nine", [f"{filler} nine", f"{filler} ten"])])
    assert len(model.read) == 2
    assert result.score == pytest.approx(0.1)


def test_a_long_answer_is_read_in_parts_and_doubted_at_its_own_places():
    model, judge = token_judge(window=256)
    answer = "The office opens at nine. " * 40 + "Penguins dance. " + "It opens at nine. " * 40
    (result,) = judge.judge([AnswerToRead("", answer, ["The office opens at nine. It opens."])])
    assert [answer[doubt.start : doubt.end] for doubt in result.doubts] == ["Penguins dance"]
    assert len(model.read) > 3
    assert all(model.count(prompt) + model.count(text) + 3 <= 256 for prompt, text in model.read)


def test_a_passage_and_a_question_longer_than_the_window_are_cut():
    model, judge = token_judge(window=256)
    chunk = "filler " * 600 + "nine"
    (result,) = judge.judge([AnswerToRead("why " * 900, "filler", [chunk])])
    assert result.score is not None
    assert all(model.count(prompt) + model.count(text) + 3 <= 256 for prompt, text in model.read)
    assert any("nine" in prompt for prompt, _ in model.read)


def test_the_gravest_doubts_are_kept_in_order():
    answer = " ".join(f"w{n}" for n in range(120))
    tokens = [
        TokenScore(found.start(), found.end(), 0.6 + n / 1_000 if n % 2 else 0.0)
        for n, found in enumerate(re.finditer(r"\w+", answer))
    ]
    assert len(doubted_spans(answer, tokens)) == 60

    class Fixed(Words):
        def tokens(self, pairs):
            return [tokens for _ in pairs]

    (result,) = TokenJudge(Fixed(), LettucePrompt()).judge([AnswerToRead("", answer, CHUNKS)])
    assert [answer[doubt.start : doubt.end] for doubt in result.doubts] == [
        f"w{n}" for n in range(81, 120, 2)
    ]


def test_the_worst_sentence_makes_the_score_and_is_doubted():
    answer = "The office opens at nine. Penguins dance over bridges. "
    model = Words()
    judge = SupportJudge(model, chunks_apart(512, model.count), scores_whole=False)
    (result,) = judge.judge([AnswerToRead("", answer, CHUNKS)])
    (doubt,) = result.doubts
    assert answer[doubt.start : doubt.end] == "Penguins dance over bridges."
    assert (doubt.reason, doubt.support) == ("unsupported_sentence", 0.2)  # the full stop
    assert result.score == pytest.approx(0.2)


def test_a_sentence_that_a_passage_contradicts_is_called_so():
    model = Words()
    judge = SupportJudge(model, chunks_apart(512, model.count), scores_whole=False)
    chunks = ["Penguins do not swim.", "Cats do."]
    (result,) = judge.judge([AnswerToRead("", "Geese dance.", chunks)])
    assert [doubt.reason for doubt in result.doubts] == ["contradicted"]


def test_hhem_scores_the_answer_as_a_whole_and_doubts_its_sentences():
    answer = "The office opens at nine. Penguins dance over bridges."
    model = Words()
    judge = SupportJudge(model, whole_context(512, model.count), scores_whole=True)
    (result,) = judge.judge([AnswerToRead("", answer, CHUNKS)])
    assert model.read[0] == ("\n".join(CHUNKS), answer)
    assert result.score == pytest.approx(7 / 11)
    assert [answer[d.start : d.end] for d in result.doubts] == ["Penguins dance over bridges."]


def test_contexts_are_cut_as_each_model_reads_them():
    count = Words().count
    chunks = ["One two. Three four.", "Five six."]
    assert whole_context(512, count)(chunks) == ["One two. Three four.\nFive six."]
    assert documents(6, count)(chunks) == ["One two. Three four.", "Five six."]
    assert chunks_apart(512, count)([*chunks, " "]) == chunks
    long = "word " * 1_000
    assert all(count(part) <= 512 for part in whole_context(512, count)([long]))
    assert all(count(part) <= 512 for part in chunks_apart(512, count)([long]))


def test_of_a_very_long_answer_sentences_are_read_at_even_distances():
    model = Words()
    judge = SupportJudge(model, chunks_apart(512, model.count), scores_whole=False)
    answer = " ".join(f"Sentence {n} is here." for n in range(1_000))
    judge.judge([AnswerToRead("", answer, ["Sentence."])])
    read = [claim for _, claim in model.read]
    assert len(read) <= MOST_SENTENCES
    assert read[0] == "Sentence 0 is here."
    assert int(words(read[-1])[1]) > 900


def test_prompts_are_those_of_the_models():
    assert LettucePrompt().text("", ["a"]) == "Summarize the following text:\npassage 1: a\noutput:"
    own = LettucePrompt("Frage: $question\n$num_passages Passagen:\n$context\nAusgabe:", "Passage")
    assert own.text("Was?", ["a", "b"]) == (
        "Frage: Was?\n2 Passagen:\nPassage 1: a\nPassage 2: b\nAusgabe:"
    )
    assert own.text("Was kostet es in $?", ["$x"]) == (
        "Frage: Was kostet es in $?\n1 Passagen:\nPassage 1: $x\nAusgabe:"
    )
    assert hhem("{a}", "b").endswith("\n\nPremise: {a}\n\nHypothesis: b")
    assert minicheck("d", "c", "</s>", is_t5=True) == "predict: d</s>c"
    assert minicheck("d", "c", "[SEP]", is_t5=False) == "d[SEP]c"
