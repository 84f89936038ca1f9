"""A Slack channel, by incoming webhook. Its URL is a secret: whoever has it can post."""

from pathlib import Path
from typing import Any

import msgspec
from pydantic import SecretStr, model_validator

from ragmon.alerts import AlertEvent
from ragmon.alerts.message import Link, Message, clip, message
from ragmon.errors import SettingsError
from ragmon.http_client import HttpOptions, Poster, check_secret, check_url, secret
from ragmon.sinks import SinkContext

_COLOURS = {"info": "#3b82f6", "warning": "#f59e0b", "critical": "#dc2626"}
_RESOLVED = "#16a34a"
# Slack refuses the whole message beyond 3,000 characters a text, 2,000 a field, 10 fields and
# about 13,000 in all; what is clipped here stays below that together.
_MOST_TITLE = 150
_MOST_SENTENCE = 1_500
_MOST_FIELD = 300
_MOST_FIELDS = 10
_MOST_TRY = 400
_MOST_QUERY = 150
_MOST_URL = 300
_MOST_LINES = 5


class Options(HttpOptions):
    """``sinks: [{kind: slack, webhook_url_file: /run/secrets/slack}]``."""

    webhook_url: SecretStr | None = None
    """Of the incoming webhook; better by file or variable."""
    webhook_url_file: Path | None = None
    """A file that holds it."""
    webhook_url_env: str | None = None
    """A variable that holds it."""

    @model_validator(mode="after")
    def _one_url(self) -> "Options":
        check_secret(self, "webhook_url", required=True)
        if self.webhook_url is not None:
            check_url(self.webhook_url.get_secret_value())
        return self


def build(options: Options, context: SinkContext) -> "Slack":
    """A sink that posts to one channel."""
    return Slack(options, context)


class Slack:
    """One message a transition: an incoming webhook cannot edit what it posted."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, event: AlertEvent) -> None:
        """Post one message."""
        url = secret(self._options, "webhook_url")
        try:
            check_url(url)
        except ValueError as error:
            raise SettingsError(f"webhook_url: {error}") from None
        told = body(message(event, self._context.links), event.id)
        self._poster.post(url, msgspec.json.encode(told), {})


def body(told: Message, event_id: str) -> dict[str, Any]:
    """The message: a line for the phone's lock screen, then everything under a coloured bar."""
    blocks: list[dict[str, Any]] = [_section(clip(_escaped(told.sentence), _MOST_SENTENCE))]
    if told.facts:
        fields = [
            _text(f"*{_escaped(fact.name)}*\n{clip(_escaped(fact.value), _MOST_FIELD)}")
            for fact in told.facts[:_MOST_FIELDS]
        ]
        blocks.append({"type": "section", "fields": fields})
    if told.tries:
        tries = [clip(_escaped(each), _MOST_TRY) for each in told.tries[:_MOST_LINES]]
        lines = (f"{at}. {each}" for at, each in enumerate(tries, 1))
        blocks.append(_section("*What to try*\n" + "\n".join(lines)))
    if told.worst:
        lines = (f"• {_linked(each)}" for each in told.worst[:_MOST_LINES])
        blocks.append(_section("*Worst queries*\n" + "\n".join(lines)))
    buttons = [_button(each.text, each.url) for each in told.links if len(each.url) <= _MOST_URL]
    if buttons:
        blocks.append({"type": "actions", "elements": buttons})
    blocks.append({"type": "context", "elements": [_text(f"{told.severity} · {event_id}")]})
    colour = _RESOLVED if told.status == "resolved" else _COLOURS[told.severity]
    title = clip(_escaped(f"{told.severity.upper()} {told.title}"), _MOST_TITLE)
    return {"text": f"*{title}*", "attachments": [{"color": colour, "blocks": blocks}]}


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> dict[str, str]:
    return {"type": "mrkdwn", "text": text}


def _button(text: str, url: str) -> dict[str, Any]:
    return {"type": "button", "text": {"type": "plain_text", "text": text}, "url": url}


def _linked(link: Link) -> str:
    """A link in a text; a bar or the end of the line would end it."""
    text = clip(_escaped(" ".join(link.text.replace("|", "¦").split())), _MOST_QUERY)
    return f"<{_escaped(link.url)}|{text}>" if len(link.url) <= _MOST_URL else text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
