"""The embedded judge: what it doubts, what it refuses to judge, what it guarantees."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.judges import grounding
from ragmon.judges.grounding import doubts, evidence, scope
from ragmon.judges.grounding.passages import PassageCache
from ragmon.judges.grounding.words import Vocabulary

TOWER = [
    "The Eiffel Tower in Paris is 330 metres tall and opened in March 1889.",
    "It was built by the company of Gustave Eiffel.",
    "Tickets cost 29 euros. The tower is not open at night. It is painted every seven years.",
]
ROOMS = ['{"name": "Sea Hotel", "OutdoorSeating": true, "stars": 4, "parking": {"garage": false}}']
WARRANTY = [
    "Das Gerät ist in Rot und in Grün erhältlich. Die Garantie ist auf zwei Jahre begrenzt."
]
NAMES = " ".join(f"Tower{number}x." for number in range(3_000)) * 5
PREY = ["Foxes hunt mice. Owls eat snakes."]


@pytest.fixture(scope="module")
def judge():
    return grounding.load()


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param("It is 330 metres tall.", "It is 350 metres tall.", id="a wrong number"),
        pytest.param(
            "Gustave Eiffel built the tower.", "Antoni Gaudí built the tower.", id="a wrong name"
        ),
        pytest.param(
            "The tower opened in March 1889.",
            "The tower delights millions of romantic visitors.",
            id="other words",
        ),
        pytest.param(
            "It is painted every seven years.",
            "Tickets opened the metres every March.",
            id="words of the context, thrown together",
        ),
        pytest.param(
            "The towers are painted every 7 years.",
            "The towers are cleaned every 9 years.",
            id="the same in another writing",
        ),
        pytest.param(
            "Tickets cost 29 euros [2].", "Tickets cost 29 dollars [2].", id="citation markers"
        ),
    ],
)
def test_supported_answers_score_higher(judge, better, worse):
    assert judge.score("", better, TOWER).score > judge.score("", worse, TOWER).score + 0.05


@pytest.mark.parametrize(
    ("answer", "sentence", "reason", "detail"),
    [
        pytest.param(
            "It opened in March 1889. It is 350 metres tall.",
            "It is 350 metres tall.",
            "novel_number",
            "not in the context: 350",
            id="a number",
        ),
        pytest.param(
            "It was built by the company of Antoni Gaudi.",
            "It was built by the company of Antoni Gaudi.",
            "novel_name",
            "not in the context: Antoni, Gaudi",
            id="a name",
        ),
        pytest.param(
            "It delights romantic visitors.",
            "It delights romantic visitors.",
            "novel_terms",
            "not in the context: delights, romantic, visitors",
            id="other words",
        ),
        pytest.param(
            "The tower is open at night.",
            "The tower is open at night.",
            "negation_mismatch",
            "the closest sentence of the context differs in its negation",
            id="the contrary",
        ),
    ],
)
def test_a_doubt_names_the_sentence_and_the_reason(judge, answer, sentence, reason, detail):
    (doubt,) = judge.score("", answer, TOWER).doubts
    assert (answer[doubt.start : doubt.end], doubt.reason, doubt.detail) == (
        sentence,
        reason,
        detail,
    )


@pytest.mark.parametrize(
    ("share", "answer", "chunks", "expected"),
    [
        pytest.param("apart", "Foxes hunt mice.", PREY, 0.0, id="words of one sentence"),
        pytest.param("apart", "Foxes eat snakes.", PREY, 2 / 3, id="one pair of three"),
        pytest.param("apart", "Foxes eat.", PREY, 1.0, id="words of two sentences"),
        pytest.param("apart", "Foxes eat.", ["Foxes hunt.", "Owls eat."], 1.0, id="of two chunks"),
        pytest.param("apart", "Foxes.", PREY, 0.0, id="a word alone"),
        pytest.param("apart", "Wolves.", PREY, 1.0, id="a novel word alone"),
        pytest.param("unsaid", "Foxes hunt mice.", PREY, 0.0, id="the whole sentence"),
        pytest.param("unsaid", "Foxes hunt.", PREY, 1 / 5, id="a word left out"),
        pytest.param("unsaid", "Wolves.", PREY, 1.0, id="no sentence"),
    ],
)
def test_what_the_context_does_not_hold_together(share, answer, chunks, expected):
    vocabulary = Vocabulary({})
    (line,) = evidence.weigh(answer, "", PassageCache(vocabulary).context(chunks), vocabulary)
    assert line.shares[evidence.SHARES.index(share)] == pytest.approx(expected)


def test_a_short_answer_is_judged_with_its_question(judge):
    asked = judge.score("Who built the Eiffel Tower?", "Gustave Eiffel", TOWER).score
    beside = judge.score("Who sings in Madama Butterfly?", "Gustave Eiffel", TOWER).score
    assert asked > beside + 0.2


def test_the_question_is_no_novelty(judge):
    answer = "Visitors delight romantic elephants everywhere."
    (alone,) = judge.score("", answer, TOWER).doubts
    (asked,) = judge.score("Do elephants delight?", answer, TOWER).doubts
    assert "elephants" in alone.detail
    assert "elephants" not in asked.detail


@pytest.mark.parametrize(
    ("answer", "chunks", "reason"),
    [
        pytest.param("", TOWER, "empty_answer", id="empty"),
        pytest.param(None, TOWER, "empty_answer", id="not recorded"),
        pytest.param("?!", TOWER, "empty_answer", id="no word"),
        pytest.param("It is the one.", TOWER, "empty_answer", id="no content word"),
        pytest.param("It is tall.", [], "no_context", id="nothing retrieved"),
        pytest.param("It is tall.", ["", ""], "no_context", id="empty chunks"),
        pytest.param("It is tall.", ["tall tower"], "short_context", id="two words"),
        pytest.param("I don't know.", TOWER, "refusal", id="does not know"),
        pytest.param(
            "The provided documents do not mention elevators.", TOWER, "refusal", id="not told"
        ),
        pytest.param("Unable to answer based on given passages.", TOWER, "refusal", id="unable"),
        pytest.param(
            "Der Turm ist 330 Meter hoch und wurde von der Firma Eiffel gebaut.",
            TOWER,
            "language",
            id="German on English",
        ),
        pytest.param("Башня была открыта в марте в Париже.", TOWER, "language", id="Russian"),
        pytest.param("塔高三百三十米，位于巴黎。", TOWER, "script", id="Chinese"),
        pytest.param("It is tall.", ["塔高三百三十米，位于巴黎。"], "script", id="from Chinese"),
    ],
)  # fmt: skip
def test_no_score_without_ground(judge, answer, chunks, reason):
    result = judge.score("How tall?", answer, chunks)
    assert (result.score, result.reason_none, result.doubts) == (None, reason, ())
    assert reason in scope.REASONS


@pytest.mark.parametrize(
    ("answer", "chunks", "low", "high"),
    [
        pytest.param(
            "The documents do not mention a lift. It opened in March 1889.", TOWER, 0.3, 1.0,
            id="a refusal inside an answer is judged with it",
        ),
        pytest.param("It has outdoor seating.", ROOMS, 0.5, 0.95, id="a key of JSON"),
        pytest.param("It has a heated pool and a spa.", ROOMS, 0.05, 0.5, id="not in the JSON"),
        pytest.param(
            "Die Garantie ist auf zwei Jahre begrenzt.", WARRANTY, 0.5, 0.95, id="German on German"
        ),
        pytest.param(
            "Die Garantie ist auf fünf Monate in Österreich begrenzt.", WARRANTY, 0.2, 0.8,
            id="German, partly",
        ),
        pytest.param("1. March 1889\n2. Gustave Eiffel", TOWER, 0.5, 1.0, id="a list"),
    ],
)  # fmt: skip
def test_unusual_texts_get_no_false_certainty(judge, answer, chunks, low, high):
    assert low <= judge.score("", answer, chunks).score <= high


def test_json_negates_nothing(judge):
    answer = "Sea Hotel has outdoor seating, parking and no garage."
    reasons = [doubt.reason for doubt in judge.score("", answer, ROOMS).doubts]
    assert "negation_mismatch" not in reasons


def test_less_text_is_less_certain(judge):
    short = judge.score("", "Gustave Eiffel.", TOWER).score
    longer = judge.score("", "It was built by the company of Gustave Eiffel.", TOWER).score
    assert 0.5 < short < longer


def test_what_was_not_read_cannot_be_held_against_an_answer(judge):
    filler = "Nothing to see here, only words that go on and on about the weather. " * 8_000
    fully = judge.score("", "Elephants delight romantic visitors.", [TOWER[0]]).score
    partly = judge.score("", "Elephants delight romantic visitors.", [TOWER[0], filler]).score
    assert fully < partly < 0.5


texts = st.text(max_size=300) | st.text("aA1.,!? \n\t[]{}\"'éß¿中اह😀-", max_size=300)


@settings(max_examples=300, deadline=None)
@given(query=texts, answer=texts, chunks=st.lists(texts, max_size=4))
def test_any_text_is_judged_the_same_twice(query, answer, chunks):
    fresh, used = grounding.load(), grounding.load()
    used.score(answer, query, [*chunks, answer])
    result = fresh.score(query, answer, chunks)
    assert used.score(query, answer, chunks) == result
    assert (result.score is None) == (result.reason_none is not None)
    assert result.score is None or 0.0 <= result.score <= 1.0
    for doubt in result.doubts:
        assert 0 <= doubt.start < doubt.end <= len(answer)
        assert doubt.reason in doubts.REASONS
        assert 0.0 <= doubt.support <= 1.0


@pytest.mark.parametrize(
    ("answer", "chunks"),
    [
        pytest.param("It is 330 metres tall.", ["word " * 600_000], id="a word forever"),
        pytest.param("The tower is tall. " * 40_000, TOWER, id="an endless answer"),
        pytest.param("[" * 200_000, ["]" * 200_000], id="brackets"),
        pytest.param("tower " * 100_000, ["tower. Tower " * 100_000], id="one long sentence"),
        pytest.param("." * 300_000 + "a", [" ." * 300_000], id="stops"),
        pytest.param("a1" * 200_000, ["1,1" * 200_000], id="one long token"),
        pytest.param("The tower is tall.", ["tower"] * 1_000, id="a thousand chunks"),
        pytest.param(NAMES, [NAMES], id="sentences of one word"),
    ],
)
def test_time_is_bounded(judge, answer, chunks):
    start = time.process_time()
    judge.score("", answer, chunks)
    assert time.process_time() - start < 2.0  # about 0.1 s; quadratic work would take minutes


def test_the_cache_is_bounded():
    judge = grounding.load(cache_characters=1_000)
    for number in range(200):
        judge.score("", "It is 330 metres tall.", [f"{number} {TOWER[0]}"])
    assert 1 <= judge.cached_chunks <= 15


def test_the_artefact_tells_where_it_comes_from():
    artefact = grounding.load_artefact()
    assert artefact.version
    assert artefact.provenance.licence == "Apache-2.0"
    assert all("Apache-2.0" in data for data in artefact.provenance.data)
    assert artefact.provenance.script.endswith(".py")
    assert sum(artefact.weights.values()) == pytest.approx(1.0, abs=1e-3)
    assert min(artefact.weights.values()) >= 0.0


@pytest.mark.parametrize(
    "text",
    [
        "Die Gebühr für die Rückgabe beträgt 24 Euro und fällt für Geräte in Österreich an.",
        "La garantie dure deux années et couvre l'écran réparé à Orléans.",
        "Gwarancja trwa 24 miesiące i obejmuje także łódź oraz żółtą część.",
        "A garantia não é válida após a avaliação técnica.",
        "보증 기간은 24개월이며 배터리를 포함합니다.",
    ],
)
def test_accents_written_apart_are_the_same_text(judge, text):
    """What macOS and many PDF files write (NFD) was taken for other words, whose score was 0.2."""
    composed, apart = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    scores = {
        judge.score("?", answer, [chunk]).score
        for answer in (composed, apart)
        for chunk in (composed, apart)
    }
    assert len(scores) == 1
    assert scores.pop() > 0.6


def test_digits_of_another_script_are_the_same_number(judge):
    def score(answer, context):
        text = f"الضمان {answer} شهرا ويشمل البطارية"
        return judge.score("?", text, [f"الضمان {context} شهرا ويشمل البطارية والشاشة"]).score

    right, wrong = score("24", "24"), score("36", "24")
    assert right > wrong + 0.1
    assert (score("٢٤", "24"), score("24", "٢٤")) == (right, right)
    assert (score("٣٦", "24"), score("36", "٢٤")) == (wrong, wrong)
