"""PagerDuty, Events API v2: an incident is one from trigger to resolve."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field, SecretStr, model_validator

from ragmon.alerts.message import description, message, rfc3339
from ragmon.alerts.notices import IncidentNotice
from ragmon.http_client import HttpOptions, Poster, Url, check_secret, secret
from ragmon.sinks import SinkContext


class Options(HttpOptions):
    """``sinks: [{kind: pagerduty, routing_key_file: /run/secrets/pagerduty}]``."""

    url: Annotated[Url, Field(validate_default=True)] = "https://events.pagerduty.com/v2/enqueue"
    """The Events API; in the EU service region https://events.eu.pagerduty.com/v2/enqueue."""
    routing_key: SecretStr | None = None
    """Integration key of a service. A secret: prefer routing_key_file or routing_key_env."""
    routing_key_file: Path | None = None
    """File that holds the key; it is read again before each message."""
    routing_key_env: str | None = None
    """Environment variable that holds the key."""

    @model_validator(mode="after")
    def _one_key(self) -> "Options":
        check_secret(self, "routing_key", required=True)
        return self


def build(options: Options, context: SinkContext) -> "PagerDuty":
    """A sink that sends events to one service."""
    return PagerDuty(options, context)


class PagerDuty:
    """One service."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._poster = Poster(options, context.clock)

    def deliver(self, notice: IncidentNotice) -> None:
        """Trigger, acknowledge or resolve; a second trigger of an open incident pages nobody."""
        key = secret(self._options, "routing_key")
        payload = {"routing_key": key} | body(notice, self._context)
        self._poster.post(self._options.url, msgspec.json.encode(payload), {}, [key])


def body(notice: IncidentNotice, context: SinkContext) -> dict[str, Any]:
    """The event without its routing key."""
    alert, links = notice.alert, context.links
    words = message(notice, links, context.labels)
    if words.status == "resolved":
        return {"event_action": "resolve", "dedup_key": notice.incident_id}
    if notice.change == "acknowledged":  # there it cannot be taken back: then it is triggered again
        return {"event_action": "acknowledge", "dedup_key": notice.incident_id}
    stream = alert.key.stream
    details = {fact.name: fact.value for fact in words.facts}
    return {
        "event_action": "trigger",
        "dedup_key": notice.incident_id,
        "payload": {
            "summary": words.title,
            "source": stream.pipeline,
            "severity": words.severity,
            "timestamp": rfc3339(notice.opened_at),
            "component": stream.metric,
            "group": stream.pipeline,
            "class": alert.key.kind,
            "custom_details": details | {"Description": description(words)},
        },
        "links": [{"href": link.url, "text": link.text} for link in (*words.links, *words.worst)],
        "client": "ragmon",
        "client_url": links.external_url,
    }
