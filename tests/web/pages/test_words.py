"""Sentences of alerts on a page: their moments can be told in the reader's zone."""

import html
import re
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from ragmon.web.pages.words import headline, sentence

NEAR = datetime(2026, 11, 25, 19, 27, tzinfo=UTC).timestamp()


def moments(markup: str) -> list[str]:
    return re.findall(r'<time datetime="([^"]+)"', markup)


def plain(markup: str) -> str:
    return html.unescape(re.sub("<[^>]+>", "", markup))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("fell to 61 % since 19:27 UTC", ["2026-11-25T19:27:00Z"]),
        ("since 08:00 UTC", ["2026-11-25T08:00:00Z"]),
        ("since 04:10 UTC", ["2026-11-26T04:10:00Z"]),  # nearer than the same of the day before
        ("before 2026-11-02 19:23 UTC, 27 times", ["2026-11-02T19:23:00Z"]),
        ("19:00 UTC until 20:30 UTC", ["2026-11-25T19:00:00Z", "2026-11-25T20:30:00Z"]),
        ("24:00 UTC, 2026-13-45 19:23 UTC", []),
        ("no moment in it", []),
    ],
)
def test_a_moment_in_a_sentence_is_one_that_the_script_can_tell_elsewhere(text, expected):
    assert moments(sentence(text, NEAR)) == expected


def test_a_clock_without_a_day_near_by_stays_as_it_is():
    assert sentence("since 19:27 UTC", None) == "<bdi>since 19:27 UTC</bdi>"


def test_what_stands_around_a_moment_is_text():
    shown = sentence("<b>x</b> since 19:27 UTC & <i>more</i>", NEAR)
    assert plain(shown) == "<b>x</b> since 25 Nov 19:27 UTC & <i>more</i>"
    assert "<b>" not in shown
    assert "<i>" not in shown


def test_a_headline_says_what_was_expected_and_is_in_the_past_once_it_ended():
    text = "shop is worse since 19:27 UTC: hit rate 61 % (79 %)"
    incident = SimpleNamespace(headline=text, began_at=NEAR, ended_at=None)
    shown = "shop is worse since 25 Nov 19:27 UTC: hit rate 61 % (expected 79 %)"
    assert plain(headline(incident)) == shown
    incident.ended_at = NEAR + 60.0
    assert plain(headline(incident)) == shown.replace("is worse since", "was worse from")
