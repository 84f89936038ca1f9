"""Opsgenie and Jira Service Management, Alert API v2: an incident is one alert until its end."""

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
from pydantic import Field, SecretStr, model_validator

from ragmon.alerts.example_texts import clip
from ragmon.alerts.message import acknowledged_text, description, message
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SinkError
from ragmon.http_client import HttpOptions, Poster, Url, check_secret, secret
from ragmon.sinks import SinkContext

_PRIORITIES = {"info": "P5", "warning": "P3", "critical": "P1"}
_SOURCE = "ragmon"
_ACTIONS = {
    "acknowledged": "acknowledge",
    "unacknowledged": "unacknowledge",
    "resolved": "close",
}
_MOST_USER = 100
_NOT_FOUND = 404
# The limits of the API; what is longer is refused or cut without a sign.
_MOST_MESSAGE = 130
_MOST_DESCRIPTION = 15_000
_MOST_DETAILS = 8_000  # characters of all details together
_MOST_DETAIL = 700
_MOST_TAG = 50
_MOST_TAGS = 20
_MOST_ENTITY = 512
_MOST_NOTE = 25_000


class Options(HttpOptions):
    """``sinks: [{kind: opsgenie, api_key_file: /run/secrets/opsgenie}]``."""

    url: Annotated[Url, Field(validate_default=True)] = "https://api.opsgenie.com"
    """Base URL of the API; in the EU https://api.eu.opsgenie.com, in Jira Service Management
    https://api.atlassian.com/jsm/ops/integration."""
    api_key: SecretStr | None = None
    """Key of an API integration. A secret: prefer api_key_file or api_key_env."""
    api_key_file: Path | None = None
    """File that holds the key; it is read again before each message."""
    api_key_env: str | None = None
    """Environment variable that holds the key."""
    tags: tuple[str, ...] = ()
    """Tags of every alert, besides its severity and pipelines."""

    @model_validator(mode="after")
    def _one_key(self) -> "Options":
        check_secret(self, "api_key", required=True)
        return self


def build(options: Options, context: SinkContext) -> "Opsgenie":
    """A sink that creates and closes alerts of one integration."""
    return Opsgenie(options, context)


class Opsgenie:
    """One integration, which knows an incident by its id as the alias of the alert."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._alerts = options.url.rstrip("/") + "/v2/alerts"
        self._poster = Poster(options, context.clock)

    def deliver(self, notice: IncidentNotice) -> None:
        """Create, acknowledge or close the alert; one that is open is not created twice."""
        one = f"{self._alerts}/{quote(notice.incident_id, safe='')}"
        if action := _ACTIONS.get(notice.change):
            try:
                self._send(f"{one}/{action}?identifierType=alias", self._noted(notice))
            except SinkError as error:
                if error.status != _NOT_FOUND:  # somebody deleted it
                    raise
            return
        self._send(self._alerts, body(notice, self._context, self._options.tags))
        if notice.change == "escalated":  # creating it again changes nothing but a count
            priority = {"priority": _PRIORITIES[notice.severity]}
            self._send(f"{one}/priority?identifierType=alias", priority, "PUT")

    def _noted(self, notice: IncidentNotice) -> dict[str, str]:
        words = message(notice, self._context.links, self._context.labels)
        if notice.acknowledged is None or notice.change != "acknowledged":
            return {"source": _SOURCE, "note": clip(words.title, _MOST_NOTE)}
        note = clip(acknowledged_text(notice.acknowledged), _MOST_NOTE)
        return {"source": _SOURCE, "user": clip(notice.acknowledged.by, _MOST_USER), "note": note}

    def _send(self, url: str, content: dict[str, Any], method: str = "POST") -> None:
        key = secret(self._options, "api_key")
        headers = {"Authorization": f"GenieKey {key}"}
        self._poster.post(url, msgspec.json.encode(content), headers, [key], method=method)


def body(
    notice: IncidentNotice, context: SinkContext, tags: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The alert of an open incident."""
    words = message(notice, context.links, context.labels)
    stream = notice.alert.key.stream
    links = "\n".join(f"{link.text}: {link.url}" for link in words.links)
    every = (notice.severity, *notice.pipelines, *tags)
    return {
        "message": clip(words.title, _MOST_MESSAGE),
        "alias": notice.incident_id,
        "description": clip(f"{links}\n\n{description(words)}".strip(), _MOST_DESCRIPTION),
        "priority": _PRIORITIES[words.severity],
        "source": _SOURCE,
        "entity": clip(stream.pipeline, _MOST_ENTITY),
        "tags": [clip(tag, _MOST_TAG) for tag in dict.fromkeys(every)][:_MOST_TAGS],
        "details": _details([(fact.name, fact.value) for fact in words.facts]),
    }


def _details(facts: list[tuple[str, str]]) -> dict[str, str]:
    """Facts as far as the API takes them, the first ones first."""
    details: dict[str, str] = {}
    room = _MOST_DETAILS
    for name, value in facts:
        text = clip(value, _MOST_DETAIL)
        room -= len(name) + len(text)
        if room < 0:
            break
        details[name] = text
    return details
