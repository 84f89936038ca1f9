"""A channel of Microsoft Teams, by a workflow that posts adaptive cards.

In Teams: Workflows, "Send webhook alerts to a channel". Its URL is a secret: whoever has it can
post.
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ragmon.alerts.example_texts import clip
from ragmon.alerts.message import Message, message
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SinkError
from ragmon.http_client import Poster, SecretUrlOptions
from ragmon.sinks import SinkContext

_COLOURS = {"info": "accent", "warning": "warning", "critical": "attention"}
_RESOLVED = "good"
_MOST_BYTES = 25_000  # Teams refuses a message of 28 KB
_MOST_TITLE = 180
_MOST_DETAIL = 1_500
_MOST_FACT = 300
_MOST_FACTS = 16
_MOST_TRY = 400
_MOST_QUERY = 150
_MOST_URL = 300
_MOST_LINES = 5
_MOST_ACTIONS = 6
# An older connector answers 200 and says in the text what Teams answered.
_REFUSED_INSIDE = re.compile(rb"endpoint returned HTTP error (\d{3})")
_LATER = (408, 425, 429)

Card = dict[str, Any]


class Options(SecretUrlOptions):
    """``sinks: [{kind: teams, webhook_url_file: /run/secrets/teams}]``."""


def build(options: Options, context: SinkContext) -> "Teams":
    """A sink that posts to one channel."""
    return Teams(options, context)


class Teams:
    """One message a notice: a workflow cannot edit what it posted."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, notice: IncidentNotice) -> None:
        """Post one message."""
        url = self._options.url()
        words = message(notice, self._context.links, self._context.labels)
        answer = self._poster.post(url, payload(words, notice.id), {})
        if refused := _REFUSED_INSIDE.search(answer):
            code = int(refused[1])
            raise SinkError(
                f"Teams answered {code}", status=code, retryable=code in _LATER or code >= 500
            )


def payload(words: Message, notice_id: str) -> bytes:
    """The body of a post; texts are shortened as far as Teams demands."""
    whole = msgspec.json.encode(body(words, notice_id))
    if len(whole) <= _MOST_BYTES:
        return whole
    return msgspec.json.encode(body(words, notice_id, 0.25))


def body(words: Message, notice_id: str, share: float = 1.0) -> Card:
    """A message with one card, whose texts are runs: those show whatever they hold as it is.

    Args:
        words: of the notification.
        notice_id: of the notification.
        share: of the usual length that texts may have, in (0, 1].
    """
    return {
        "type": "message",
        "attachments": [
            {
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": None,
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "msteams": {"width": "Full"},
                    "fallbackText": clip(words.title, _MOST_TITLE),
                    "body": [*_blocks(words, notice_id, share)],
                    "actions": [
                        {"type": "Action.OpenUrl", "title": link.text, "url": link.url}
                        for link in words.links[:_MOST_ACTIONS]
                        if len(link.url) <= _MOST_URL
                    ],
                },
            }
        ],
    }


def _blocks(words: Message, notice_id: str, share: float) -> Iterable[Card]:
    colour = _RESOLVED if words.status == "resolved" else _COLOURS[words.severity]
    title = clip(f"{words.severity.upper()} {words.title}", _MOST_TITLE)
    yield _block([_run(title, weight="bolder", size="medium", color=colour)])
    if words.detail:
        yield _block([_run(clip(words.detail, int(share * _MOST_DETAIL)))])
    for fact in words.facts[:_MOST_FACTS]:
        value = clip(fact.value, int(share * _MOST_FACT))
        yield _block([_run(f"{clip(fact.name, 100)}: ", weight="bolder"), _run(value)], "small")
    if words.tries:
        yield _block([_run("What to try", weight="bolder")])
        for number, step in enumerate(words.tries[:_MOST_LINES], 1):
            yield _block([_run(f"{number}. {clip(step, int(share * _MOST_TRY))}")], "none")
    if words.worst:
        yield _block([_run("Worst queries", weight="bolder")])
        for query in words.worst[:_MOST_LINES]:
            text = clip(" ".join(query.text.split()), int(share * _MOST_QUERY))
            yield _block([_run("• "), _linked(text, query.url)], "none")
    yield _block([_run(f"{words.severity} · {notice_id}", size="small", isSubtle=True)])


def _block(runs: list[Card], spacing: str = "default") -> Card:
    return {"type": "RichTextBlock", "spacing": spacing, "inlines": runs}


def _run(text: str, **look: Any) -> Card:
    return {"type": "TextRun", "text": text, **look}


def _linked(text: str, url: str) -> Card:
    if len(url) > _MOST_URL:
        return _run(text)
    return _run(text, selectAction={"type": "Action.OpenUrl", "url": url})
