"""A Slack channel, by incoming webhook. Its URL is a secret: whoever has it can post."""

import re
from typing import Any

import msgspec

from ragmon.alerts.example_texts import clip
from ragmon.alerts.message import Link, Message, message
from ragmon.alerts.notices import IncidentNotice
from ragmon.http_client import Poster, SecretUrlOptions
from ragmon.sinks import SinkContext

_COLOURS = {"info": "#3b82f6", "warning": "#f59e0b", "critical": "#dc2626"}
_RESOLVED = "#16a34a"
# Slack refuses the whole message beyond 3,000 characters a text, 2,000 a field, 10 fields and
# about 13,000 in all; what is clipped here stays below that together.
_MOST_TITLE = 180  # 140, and some that are escaped
_MOST_DETAIL = 1_500
_MOST_FIELD = 300
_MOST_FIELDS = 10  # of a section
_MOST_FACTS = 16
_MOST_TRY = 400
_MOST_QUERY = 150
_MOST_URL = 300
_MOST_LINES = 5


class Options(SecretUrlOptions):
    """``sinks: [{kind: slack, webhook_url_file: /run/secrets/slack}]``."""


def build(options: Options, context: SinkContext) -> "Slack":
    """A sink that posts to one channel."""
    return Slack(options, context)


class Slack:
    """One message a notice: an incoming webhook cannot edit what it posted."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, notice: IncidentNotice) -> None:
        """Post one message."""
        url = self._options.url()
        payload = body(message(notice, self._context.links, self._context.labels), notice.id)
        self._poster.post(url, msgspec.json.encode(payload), {})


def body(words: Message, notice_id: str) -> dict[str, Any]:
    """The payload: a first line for the lock screen, then everything under a coloured bar."""
    blocks: list[dict[str, Any]] = []
    if words.detail:
        blocks.append(_section(_clipped(words.detail, _MOST_DETAIL)))
    if words.facts:
        fields = [
            _text(f"*{_escaped(fact.name)}*\n{_clipped(fact.value, _MOST_FIELD)}")
            for fact in words.facts[:_MOST_FACTS]
        ]
        for first in range(0, len(fields), _MOST_FIELDS):
            part = fields[first : first + _MOST_FIELDS]
            blocks.append({"type": "section", "fields": part})
    if words.tries:
        tries = [_clipped(step, _MOST_TRY) for step in words.tries[:_MOST_LINES]]
        lines = (f"{number}. {step}" for number, step in enumerate(tries, 1))
        blocks.append(_section("*What to try*\n" + "\n".join(lines)))
    if words.worst:
        lines = (f"• {_linked(query)}" for query in words.worst[:_MOST_LINES])
        blocks.append(_section("*Worst queries*\n" + "\n".join(lines)))
    buttons = [_button(link.text, link.url) for link in words.links if len(link.url) <= _MOST_URL]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    blocks.append({"type": "context", "elements": [_text(f"{words.severity} · {notice_id}")]})
    colour = _RESOLVED if words.status == "resolved" else _COLOURS[words.severity]
    title = _clipped(f"{words.severity.upper()} {words.title}", _MOST_TITLE)
    return {"text": f"*{title}*", "attachments": [{"color": colour, "blocks": blocks}]}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> dict[str, str]:
    return {"type": "mrkdwn", "text": text}


def _button(text: str, url: str) -> dict[str, Any]:
    return {"type": "button", "text": {"type": "plain_text", "text": text}, "url": url}


def _linked(link: Link) -> str:
    """A link in a text; a bar or the end of the line would end it."""
    text = _clipped(" ".join(link.text.replace("|", "¦").split()), _MOST_QUERY)
    return f"<{_escaped(link.url)}|{text}>" if len(link.url) <= _MOST_URL else text


def _clipped(text: str, most: int) -> str:
    """Escaped text of at most that many characters, with no entity cut in two."""
    return re.sub(r"&[a-z]*…$", "…", clip(_escaped(text), most))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
