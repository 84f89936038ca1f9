"""Topics that drive a change."""

import pytest

from ragmon.topics.driving import MOST_DRIVING, asked_queries, drivers

THINGS = ("shoes", "books", "lamps", "coats", "bikes", "tents", "rings", "vases")
TOPICS = ("refund deadline", "shipping cost", "password reset", "gift voucher", "parking lot")


def driving(fails):
    """Drivers where ``fails(topic, is_since)`` tells of each query if it fails."""
    asked = [
        (topic, f"{topic} of {thing} {other}", is_since)
        for is_since in (False, True)
        for topic in TOPICS
        for thing in THINGS
        for other in THINGS
    ]
    return drivers(
        asked_queries(
            [text for _, text, _ in asked],
            [is_since for *_, is_since in asked],
            [fails(topic, is_since) for topic, _, is_since in asked],
        )
    )


@pytest.mark.parametrize(
    ("customers", "is_named"),
    [pytest.param(1, False, id="of one person"), pytest.param(3, True, id="of three")],
)
def test_an_incident_is_named_by_words_of_several_people_alone(customers, is_named):
    lost = [f"zwicky {thing} {other} account" for thing in THINGS for other in THINGS]
    fine = [f"{topic} of {thing} {other}" for topic in TOPICS for thing in THINGS
            for other in THINGS]  # fmt: skip
    texts = (lost + fine) * 2
    people = [at % customers + 1 for at in range(len(lost))]
    people = (people + list(range(100, 100 + len(fine)))) * 2
    is_since = [at >= len(texts) // 2 for at in range(len(texts))]
    fails = [is_after and "zwicky" in text for text, is_after in zip(texts, is_since, strict=True)]
    named = {word for one in drivers(asked_queries(texts, is_since, fails, people))
             for word in one.words}  # fmt: skip
    assert ("zwicky" in named) is is_named


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        pytest.param(TOPICS[:1], [{"refund", "deadline"}], id="one"),
        pytest.param(TOPICS[1:3], [{"shipping", "cost"}, {"password", "reset"}], id="two"),
    ],
)
def test_topics_that_fail_since_the_change_drive_it(failing, expected):
    found = driving(lambda topic, is_since: is_since and topic in failing)
    named = [set(one.words) for one in found]
    assert len(named) == len(expected)
    assert all(any(words <= one for one in named) for words in expected)
    assert sum(one.of_failing for one in found) == pytest.approx(1.0)
    assert sum(one.of_queries for one in found) == pytest.approx(len(expected) / len(TOPICS))


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda _, is_since: is_since, id="everything fails"),
        pytest.param(lambda *_: False, id="nothing fails"),
        pytest.param(lambda topic, _: topic == TOPICS[0], id="one failed before as well"),
    ],
)
def test_no_topic_is_named_where_none_stands_out(fails):
    assert driving(fails) == ()


def test_no_more_than_a_few_are_named():
    assert len(driving(lambda topic, is_since: is_since and topic != TOPICS[0])) == MOST_DRIVING


def test_queries_without_a_question_drive_nothing():
    assert drivers(asked_queries([None, None], [False, True], [False, True])) == ()
