"""PagerDuty, Events API v2: an alert is an incident from trigger to resolve."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from pydantic import Field, SecretStr, model_validator

from ragmon.alerts import AlertEvent
from ragmon.alerts.message import Links, clip, description, message, rfc3339
from ragmon.http_client import HttpOptions, Poster, Url, check_secret, secret
from ragmon.sinks import SinkContext

_MOST_SUMMARY = 1_024


class Options(HttpOptions):
    """``sinks: [{kind: pagerduty, routing_key_file: /run/secrets/pagerduty}]``."""

    url: Annotated[Url, Field(validate_default=True)] = "https://events.pagerduty.com/v2/enqueue"
    """In the EU service region: https://events.eu.pagerduty.com/v2/enqueue."""
    routing_key: SecretStr | None = None
    """The integration key of a service; better by file or variable."""
    routing_key_file: Path | None = None
    """A file that holds it."""
    routing_key_env: str | None = None
    """A variable that holds it."""

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

    def deliver(self, event: AlertEvent) -> None:
        """Trigger or resolve; to trigger again what is open pages nobody anew."""
        key = secret(self._options, "routing_key")
        told = {"routing_key": key} | body(event, self._context.links)
        self._poster.post(self._options.url, msgspec.json.encode(told), {}, [key])


def body(event: AlertEvent, links: Links) -> dict[str, Any]:
    """The event without its routing key."""
    alert = event.alert
    told = message(event, links)
    if told.status == "resolved":
        return {"event_action": "resolve", "dedup_key": alert.episode}
    stream = alert.key.stream
    details = {fact.name: fact.value for fact in told.facts}
    return {
        "event_action": "trigger",
        "dedup_key": alert.episode,
        "payload": {
            "summary": clip(f"{told.title}: {told.sentence}", _MOST_SUMMARY),
            "source": stream.pipeline,
            "severity": told.severity,
            "timestamp": rfc3339(alert.fired_at or alert.began_at),
            "component": stream.metric,
            "group": stream.pipeline,
            "class": alert.key.kind,
            "custom_details": details | {"Description": description(told)},
        },
        "links": [{"href": each.url, "text": each.text} for each in (*told.links, *told.worst)],
        "client": "ragmon",
        "client_url": links.external_url,
    }
