"""The stories of ``tests/scenarios``: what is heard, when, and nothing else."""

import pytest

from tests.scenarios.story import START, STORIES, load, notified

FILES = sorted(STORIES.glob("*.yaml"))


def test_the_stories_are_there():
    assert len(FILES) >= 9


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_what_is_heard(path):
    story = load(path)
    heard = notified(story)
    opened = [event for event in heard if event.change == "opened"]
    assert sorted(event.alert.name for event in opened) == sorted(
        expected.alert for expected in story.expect
    ), [event.alert.evidence.sentence for event in opened]
    for expected in story.expect:
        told = [event for event in heard if is_of(event, expected)]
        assert told
        for event in told:
            minutes = (event.at - (START + story.history) * 60.0) / 60.0
            due = expected.resolves if event.change == "resolved" else expected.opens
            assert due is not None
            assert due[0] <= minutes <= due[1]


def is_of(event, expected) -> bool:
    """True for a change that the story expects of this alert."""
    evidence = event.alert.evidence
    text = f"{evidence.sentence}\n{evidence.detail}"
    of_alert = event.change != "renotified" and event.alert.name == expected.alert
    return of_alert and expected.says in text
