"""The ground truth holds on the running Python."""

from collections import Counter

import pytest

from ragmon.demo.corpus import corpus
from ragmon.demo.questions import CorpusSection, Question, known, load
from ragmon.records import Chunk

CHUNKS = corpus()
QUESTIONS = load()
ON_TOPIC = [question for question in QUESTIONS if question.sections]


def test_every_phrase_is_found_in_its_topic():
    sections = [section for question in ON_TOPIC for section in question.sections]
    probes = [Question(section.phrase, "howto", "easy", (section,)) for section in sections]
    assert len(probes) > len(ON_TOPIC)
    found = {question.query for question in known(probes, CHUNKS)}
    assert [section for section in sections if section.phrase not in found] == []


def test_a_phrase_points_at_few_chunks():
    found = list(known(ON_TOPIC, CHUNKS))
    assert len(found) == len(ON_TOPIC)
    assert max(len(question.relevant) for question in found) <= 4


def test_there_are_enough_questions_of_every_kind():
    kinds = Counter(question.kind for question in QUESTIONS)
    assert len(ON_TOPIC) >= 160
    assert min(kinds.values()) >= 8
    assert len({question.query for question in QUESTIONS}) == len(QUESTIONS)
    assert {question.kind for question in QUESTIONS if not question.sections} == {"offtopic"}


@pytest.mark.parametrize(
    ("sections", "relevant"),
    [
        pytest.param(
            [("a", "Quoted WORDS, here")], {"a#1"}, id="case and punctuation do not count"
        ),
        pytest.param([("b", "quoted words")], None, id="another topic does not count"),
        pytest.param([("a", "oted words")], None, id="half a word does not count"),
        pytest.param([("b", "lost"), ("a", "quoted words")], {"a#1"}, id="one phrase is enough"),
    ],
)
def test_which_chunks_a_question_knows(sections, relevant):
    chunk = Chunk(id="a#1", text='Some "quoted" `words` here.', source="a")
    question = Question(
        "?", "howto", "easy", tuple(CorpusSection(*section) for section in sections)
    )
    assert [found.relevant for found in known([question], [chunk])] == (
        [relevant] if relevant else []
    )


def test_a_question_without_sections_has_unknown_answers_not_none():
    (found,) = known([Question("?", "offtopic", "hard")], CHUNKS)
    assert found.relevant is None
