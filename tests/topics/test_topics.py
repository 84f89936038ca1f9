"""Topics of questions: found without their number, the same each time, compared and recognized."""

import random

import numpy as np
import pytest

from ragmon.topics.analysis import QueriesRead, topic_list
from ragmon.topics.corpus import CorpusBuilder, sample_of
from ragmon.topics.grouping import KeptModel, group, shared_terms
from ragmon.topics.model import LEAST_LIKENESS, fit, kept
from ragmon.topics.naming import names
from ragmon.topics.outcomes import outcomes
from ragmon.topics.terms import TermReader, term_of, words_of

NOTHING_KEPT = KeptModel(made_at=0.0)
SUBJECTS = {
    "refund": ["refund", "deadline", "money", "back", "return", "receipt"],
    "login": ["password", "login", "account", "locked", "reset", "email"],
    "shipping": ["parcel", "shipping", "courier", "tracking", "arrive", "delivery"],
    "warranty": ["warranty", "broken", "repair", "blender", "guarantee", "years"],
}
FRAMES = ["how do I {} {} {}", "what about {} {} {}", "{} {} and {} please", "is {} {} {} possible"]


def asked(
    count: int, seed: int = 0, subjects=tuple(SUBJECTS), frames=FRAMES
) -> tuple[list[str], list[str]]:
    """Questions and their subjects."""
    chance = random.Random(seed)
    truth = [chance.choice(subjects) for _ in range(count)]
    texts = [
        chance.choice(frames).format(*chance.sample(SUBJECTS[subject], 3)) for subject in truth
    ]
    return texts, truth


def grouped(texts, earlier=NOTHING_KEPT, now=1.0):
    builder = CorpusBuilder()
    builder.add(list(range(len(texts))), texts)
    return group(builder.corpus(), builder.texts, earlier, now)


def labels_of(grouping) -> np.ndarray:
    return np.frombuffer(grouping.grouped.labels, dtype=np.int32)


def purity(labels, truth) -> float:
    """Share of the queries whose topic mostly asks about their subject."""
    right = 0
    for label in set(labels.tolist()) - {-1, -2}:
        within = [one for one, at in zip(truth, labels.tolist(), strict=True) if at == label]
        right += max(within.count(subject) for subject in set(within))
    return right / len(truth)


def test_subjects_are_found_without_their_number():
    texts, truth = asked(800)
    grouping = grouped(texts)
    assert len(grouping.grouped.groups) == len(SUBJECTS)
    assert purity(labels_of(grouping), truth) > 0.97


def test_the_words_of_a_subject_name_its_topic():
    for topic in grouped(asked(800)[0]).grouped.groups:
        (subject,) = [name for name, words in SUBJECTS.items() if topic.words[0] in words]
        assert set(topic.words) <= set(SUBJECTS[subject])


def test_the_same_questions_give_the_same_topics():
    texts, _ = asked(500)
    assert grouped(texts) == grouped(texts)


def test_a_new_language_is_a_topic_of_its_own():
    texts, _ = asked(400)
    foreign = [
        f"wie lange {verb} die {noun} nach dem {other}"
        for verb in ("dauert", "gilt", "braucht", "hält")
        for noun in ("Erstattung", "Lieferung", "Garantie", "Anmeldung", "Rechnung")
        for other in ("Kauf", "Umtausch", "Versand", "Umzug")
    ]
    labels = labels_of(grouped(texts + foreign))
    own = set(labels[400:].tolist())
    assert len(own) == 1
    assert not own & set(labels[:400].tolist())


def test_what_shares_no_word_has_no_topic():
    labels = labels_of(grouped([*asked(400)[0], "xyzzy", None]))
    assert labels[-2:].tolist() == [-1, -2]


@pytest.mark.parametrize("texts", [[], [None], ["hello"], ["", "?!"], ["a b"] * 50])
def test_few_questions_make_no_topic(texts):
    grouping = grouped(texts)
    assert grouping.grouped.groups == ()
    assert len(labels_of(grouping)) == len(texts)


def test_unspaced_scripts_are_read_as_pairs():
    assert list(words_of("退款期限 ok")) == ["退款", "款期", "期限", "ok"]


def test_an_inflected_word_shares_its_beginning():
    reader = TermReader()
    assert set(reader.terms("refunded")) & set(reader.terms("refunding"))
    assert not set(reader.terms("refunded")) & set(reader.terms("shipping"))


def test_what_is_asked_more_often_is_likelier_in_the_sample():
    builder = CorpusBuilder()
    texts = [f"word{at}" for at in range(2_000)]
    builder.add(list(range(4_000)), texts + ["word0"] * 2_000)
    corpus = builder.corpus()
    chosen = sample_of(corpus, seed=1, most=100)
    assert len(chosen) == 100
    assert 0 in chosen
    assert chosen.tolist() == sample_of(corpus, seed=1, most=100).tolist()
    assert chosen.tolist() != sample_of(corpus, seed=2, most=100).tolist()


def test_a_model_assigns_what_it_was_not_made_of():
    texts, _ = asked(400)
    later, truth = asked(200, seed=5)
    model, _ = fit(TermReader().read(texts), seed=0)
    assert purity(model.assign(TermReader().read(later)), truth) > 0.97


def test_names_leave_out_words_of_all_topics():
    texts = ["the refund policy", "the refund date", "the parcel date", "the parcel policy"] * 3
    people = [[at + 1] for at in range(len(texts))]
    assert names(texts, [0, 0, 1, 1] * 3, 2, people) == [("refund",), ("parcel",)]


def test_a_word_asked_mostly_in_other_topics_names_one_last():
    texts = [f"what about {thing}" for thing in ("alpha", "beta", "delta") * 3]
    labels = [0] * 9
    for topic in range(1, 6):
        texts += [f"what about thing{topic}" for _ in range(4)]
        texts += [f"why no thing{topic}" for _ in range(8)]
        labels += [topic] * 12
    people = [[at + 1] for at in range(len(texts))]
    assert names(texts, labels, 6, people)[0] == ("alpha", "beta", "delta", "about")


@pytest.mark.parametrize(
    ("people", "expected"),
    [
        pytest.param([[1, 0], [1, 0], [1, 0], [1, 0]], (), id="one asks in four ways"),
        pytest.param([[1, 0], [2, 0], [1, 0], [2, 0]], (), id="two"),
        pytest.param([[1, 0], [2, 0], [3, 0], [1, 0]], ("zwicky",), id="three"),
        pytest.param([[1, 2], [1, 0], [3, 0], [1, 0]], ("zwicky",), id="two ask the same"),
    ],
)
def test_a_word_of_fewer_than_three_people_names_no_topic(people, expected):
    texts = [f"zwicky {thing}" for thing in ("account", "balance", "limit", "card")]
    others = [f"parcel {thing}" for thing in ("account", "balance", "limit", "card")]
    askers = people + [[at, 0] for at in range(10, 14)]
    assert names(texts + others, [0] * 4 + [1] * 4, 2, askers)[0] == expected


def test_who_asked_is_told_apart_by_number_and_else_by_query():
    builder = CorpusBuilder()
    builder.add([7, 8, 9, 10], ["the same"] * 4, [5, 5, 6, 0])
    builder.add([11, 12, 13, 14], ["another"] * 4)
    same, another = builder.corpus().askers.tolist()
    assert same[:2] == [5, 6]
    assert len({*same, *another} - {0, 5, 6}) == 4, "whoever is not recorded is somebody else"


# ---- outcomes ---------------------------------------------------------------------------------


def fares(rates, queries=400, seed=0):
    """Outcomes of topics with these hit rates."""
    chance = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(rates), dtype=np.int32), queries)
    hits = (chance.random(len(labels)) < np.array(rates)[labels]).astype(float)
    return outcomes(labels, len(rates), {"hit_rate": hits})


def test_a_topic_that_misses_more_is_worse():
    found = fares([0.9, 0.9, 0.6, 0.9])
    assert [one["hit_rate"].is_worse for one in found] == [False, False, True, False]
    worse = found[2]["hit_rate"]
    assert worse.difference == pytest.approx(-0.3, abs=0.06)
    assert worse.lower < worse.difference < worse.upper < 0
    assert worse.failures_in_excess == pytest.approx(-worse.difference * 400)


def test_a_topic_that_hits_more_is_no_gap():
    assert not any(one["hit_rate"].is_worse for one in fares([0.7, 0.99, 0.7, 0.7])[1:2])


def test_equal_topics_are_rarely_called_worse():
    weeks = [fares([0.8] * 20, 100, seed=seed) for seed in range(100)]
    false = sum(any(one["hit_rate"].is_worse for one in week) for week in weeks)
    assert false <= 5


def test_unknown_outcomes_are_absent():
    labels = np.array([0, 0, 1, -1], dtype=np.int32)
    found = outcomes(labels, 2, {"disliked": np.array([np.nan, np.nan, 1.0, 0.0])})
    assert "disliked" not in found[0]
    assert found[1]["disliked"].false_discovery_rate is None  # too few for a test


def test_what_fails_most_most_often_comes_first():
    texts, truth = asked(900, seed=2)
    grouping = grouped(texts)
    missed = {"refund": 0.5, "login": 0.3}
    chance = np.random.default_rng(3)
    hits = [float(chance.random() > missed.get(subject, 0.05)) for subject in truth]
    read = QueriesRead(0.0, 900.0, np.arange(900.0), {"hit_rate": np.array(hits)}, 1.0)
    listed = topic_list(grouping.grouped, read, {})
    assert set(listed.topics[0].words) <= set(SUBJECTS["refund"])
    assert [topic.is_gap for topic in listed.topics] == [True, True, False, False]
    assert sum(topic.queries for topic in listed.topics) + listed.without_topic == 900
    assert sum(map(sum, (topic.by_step for topic in listed.topics))) == 900 - listed.without_topic


def test_a_growing_topic_has_a_trend():
    early = asked(400, subjects=("login", "shipping", "warranty"))[0]
    late = asked(400, seed=1, subjects=("login", "refund", "warranty"))[0]
    grouping = grouped(early + late)
    read = QueriesRead(0.0, 800.0, np.arange(800.0), {}, 1.0)
    trends = {
        topic.words[0]: topic.trend for topic in topic_list(grouping.grouped, read, {}).topics
    }
    (refund,) = [trend for word, trend in trends.items() if word in SUBJECTS["refund"]]
    assert refund.is_more_than_chance
    assert refund.before == 0.0
    assert refund.after > 0.25


# ---- identity ---------------------------------------------------------------------------------


def by_subject(grouping) -> dict[str, object]:
    return {
        subject: topic
        for topic in grouping.grouped.groups
        for subject, words in SUBJECTS.items()
        if topic.words[0] in words
    }


def test_topics_keep_their_ids_from_day_to_day():
    first = grouped(asked(600)[0], now=1.0)
    second = grouped(asked(600, seed=9)[0], first.kept, now=2.0)
    before, after = by_subject(first), by_subject(second)
    assert {name: topic.id for name, topic in before.items()} == {
        name: topic.id for name, topic in after.items()
    }
    assert {topic.change for topic in after.values()} == {"same"}
    assert {topic.first_seen for topic in after.values()} == {1.0}


def test_a_topic_that_appears_is_new():
    bare = ["{} {} {}"]
    first = grouped(asked(600, subjects=("login", "shipping"), frames=bare)[0], now=1.0)
    second = by_subject(grouped(asked(600, seed=9, frames=bare)[0], first.kept, now=2.0))
    assert {name: topic.change for name, topic in second.items()} == {
        "login": "same", "shipping": "same", "refund": "new", "warranty": "new",
    }  # fmt: skip
    assert second["refund"].first_seen == 2.0
    assert len({topic.id for topic in second.values()}) == 4


def test_questions_between_two_topics_are_not_clear():
    things = ("shoes", "books", "lamps", "coats", "bikes", "tents", "rings", "vases")
    clear = [f"{topic} of {one} {other}" for topic in ("refund deadline", "shipping cost")
             for one in things for other in things]  # fmt: skip
    reader = TermReader()
    model, _ = fit(reader.read(clear), 1)
    nearest = model.nearest(reader.read([*clear, "refund shipping", "zebra"]))
    assert nearest.is_clear[:-2].mean() > 0.9
    assert nearest.is_clear[-2:].tolist() == [False, False]
    assert kept(nearest)[-2:].tolist()[1] == -1
    assert nearest.likeness[-2] > LEAST_LIKENESS


def test_what_is_kept_of_topics_are_terms_that_three_people_used():
    texts = [f"refund {thing} zwicky" for thing in ("account", "balance", "limit", "card")]
    texts += [f"parcel {thing} date" for thing in ("account", "balance", "limit", "card")]
    texts += [f"refund {thing} deadline" for thing in ("soon", "late", "long", "short")]
    texts += [f"parcel {thing} missing" for thing in ("soon", "late", "long", "short")]
    people = [1, 1, 2, 2, *range(10, 22)]
    builder = CorpusBuilder()
    builder.add(list(range(len(texts))), texts, people)
    kept_terms = {
        term
        for topic in group(builder.corpus(), builder.texts, NOTHING_KEPT, 1.0).kept.topics
        for term in topic.terms
    }
    assert term_of("refund") in kept_terms
    assert term_of("deadline") in kept_terms
    assert term_of("zwicky") not in kept_terms


def test_terms_are_shared_by_people_not_by_questions():
    questions = TermReader().read(["rare one", "rare two", "rare three", "parcel four"])
    askers = np.array([[1, 2, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0]], dtype=np.uint32)
    assert shared_terms(questions, askers).tolist() == []
    askers[2, 1] = 4
    assert shared_terms(questions, askers).tolist() == [term_of("rare")]
    assert shared_terms(TermReader().read([]), np.zeros((0, 3), np.uint32)).tolist() == []
