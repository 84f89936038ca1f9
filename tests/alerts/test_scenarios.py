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
        for event in heard:
            if event.change != "renotified" and event.alert.name == expected.alert:
                _compare(event, expected, (START + story.history) * 60.0)


def _compare(event, expected, start):
    minutes = (event.at - start) / 60.0
    if event.change == "resolved":
        assert expected.resolves is not None
        assert expected.resolves[0] <= minutes <= expected.resolves[1]
        return
    assert expected.opens[0] <= minutes <= expected.opens[1]
    evidence = event.alert.evidence
    assert expected.says in f"{evidence.sentence}\n{evidence.detail}"
