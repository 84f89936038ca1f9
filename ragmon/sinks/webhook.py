"""Webhook with the payload of Alertmanager's (version 4), signed by Standard Webhooks 1.0.

A receiver of Alertmanager's webhooks takes these as well. Each post holds one incident, as one
alert and a group of its own.
"""

import base64
import binascii
import hashlib
import hmac
from pathlib import Path
from typing import Any

import msgspec
from pydantic import SecretStr, model_validator

from ragmon.alerts.message import annotations, rfc3339
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SettingsError
from ragmon.http_client import Access, Poster, Url, check_secret, secret
from ragmon.sinks import SinkContext

_PREFIX = "whsec_"
_KEY_BYTES = (24, 64)
_NEVER = "0001-01-01T00:00:00Z"


class Options(Access):
    """``sinks: [{kind: webhook, url: https://…, secret_file: /run/secrets/webhook}]``."""

    url: Url
    """URL that each notification is posted to."""
    secret: SecretStr | None = None
    """Signs every post: ``whsec_…``; during a rotation old and new, separated by a space."""
    secret_file: Path | None = None
    """File that holds the secret; it is read again before each post."""
    secret_env: str | None = None
    """Environment variable that holds the secret."""

    @model_validator(mode="after")
    def _one_secret(self) -> "Options":
        check_secret(self, "secret", required=False)
        if self.secret is not None:
            keys(self.secret.get_secret_value())
        return self


def build(options: Options, context: SinkContext) -> "Webhook":
    """A sink that posts to one URL."""
    return Webhook(options, context)


class Webhook:
    """One receiver; signed if there is a secret."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._signed = check_secret(options, "secret", required=False)
        self._poster = Poster(options, context.clock)
        if self._signed:
            _keys(secret(options, "secret"))  # a malformed one fails here, not with the first alert

    def deliver(self, notice: IncidentNotice) -> None:
        """Post one notice; a repeat has the same ``webhook-id`` and a fresh signature."""
        payload = msgspec.json.encode(body(notice, self._context))
        now = int(self._context.clock.now())
        headers = {"webhook-id": notice.id, "webhook-timestamp": str(now)}
        text = secret(self._options, "secret") if self._signed else ""
        if text:
            headers["webhook-signature"] = signature(notice.id, now, payload, _keys(text))
        self._poster.post(self._options.url, payload, headers, text.split())


def body(notice: IncidentNotice, context: SinkContext) -> dict[str, Any]:
    """The payload of one incident; its id is its group and its fingerprint."""
    links = context.links
    texts = annotations(notice, links)
    labels = {**context.labels, **notice.labels}
    group = {**context.labels, "incident_id": notice.incident_id}
    words = ", ".join(f'{name}="{_quoted(value)}"' for name, value in sorted(group.items()))
    one = {
        "status": notice.status,
        "labels": labels,
        "annotations": texts,
        "startsAt": rfc3339(notice.opened_at),
        "endsAt": _NEVER if notice.ended_at is None else rfc3339(notice.ended_at),
        "generatorURL": links.incident(notice.incident_id),
        "fingerprint": notice.incident_id,
    }
    return {
        "version": "4",
        "groupKey": f"{{}}:{{{words}}}",
        "truncatedAlerts": 0,
        "status": notice.status,
        "receiver": "ragmon",
        "groupLabels": group,
        "commonLabels": labels,
        "commonAnnotations": texts,
        "externalURL": links.external_url,
        "alerts": [one],
    }


def signature(message_id: str, timestamp: int, payload: bytes, keys: list[bytes]) -> str:
    """One signature a key, separated by spaces, as Standard Webhooks 1.0 has it."""
    signed = f"{message_id}.{timestamp}.".encode() + payload
    digests = (hmac.digest(key, signed, hashlib.sha256) for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def keys(text: str) -> list[bytes]:
    """The keys of one or more secrets with white space between.

    Raises:
        ValueError: one of them is malformed; the message does not quote it.
    """
    decoded = []
    for word in text.split():
        text64 = word.removeprefix(_PREFIX).rstrip("=")
        try:
            key = base64.b64decode(text64 + "=" * (-len(text64) % 4), validate=True)
        except binascii.Error:
            key = b""
        if not word.startswith(_PREFIX) or not _KEY_BYTES[0] <= len(key) <= _KEY_BYTES[1]:
            raise ValueError("a secret is whsec_ and the base64 of 24 to 64 random bytes")
        decoded.append(key)
    return decoded


def _keys(text: str) -> list[bytes]:
    try:
        return keys(text)
    except ValueError as error:
        raise SettingsError(f"secret: {error}") from None


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
