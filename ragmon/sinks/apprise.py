"""Any service that Apprise speaks to: chat, paging, SMS, push; of the extra ``apprise``.

One URL a sink, so that a service that fails does not have another one notified twice. What a
service answered is known to Apprise alone, so that every failure is tried again.
"""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator

from ragmon.alerts.example_texts import clip
from ragmon.alerts.message import message, plain
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SettingsError, SinkError, extra_hint
from ragmon.http_client import check_secret, secret
from ragmon.sinks import SinkContext

_TYPES = {"info": "info", "warning": "warning", "critical": "failure"}
_RESOLVED = "success"
_MOST_TITLE = 200


class Options(BaseModel):
    """``sinks: [{kind: apprise, service_file: /run/secrets/apprise}]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    service: SecretStr | None = None
    """URL of the service in Apprise's form, such as discord://… or mailto://…; timeouts are part of
    it (?cto=4&rto=4). A secret: prefer service_file or service_env."""
    service_file: Path | None = None
    """File that holds the URL; it is read again before each message."""
    service_env: str | None = None
    """Environment variable that holds the URL."""

    @model_validator(mode="after")
    def _one_service(self) -> "Options":
        check_secret(self, "service", required=True)
        return self


def build(options: Options, context: SinkContext) -> "AppriseService":
    """A sink that notifies one service."""
    return AppriseService(options, context)


class AppriseService:
    """One service."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        _sender(secret(options, "service"))  # a malformed one fails here, not with the first alert

    def deliver(self, notice: IncidentNotice) -> None:
        """Send one message."""
        service = secret(self._options, "service")
        words = message(notice, self._context.links, self._context.labels)
        is_over = words.status == "resolved"
        accepted = _sender(service).notify(
            title=clip(" ".join(f"{words.severity.upper()} {words.title}".split()), _MOST_TITLE),
            body=plain(words),
            notify_type=_RESOLVED if is_over else _TYPES[words.severity],
            body_format="text",
        )
        if not accepted:
            scheme = service.partition("://")[0]
            hint = "Apprise logs the reason; check the service's URL with `apprise -vv -b test URL`"
            raise SinkError(f"{scheme[:40]} did not take it", retryable=True, hint=hint)


def _sender(service: str) -> Any:
    """Apprise with one service.

    Raises:
        SettingsError: it is not installed, or does not know such a URL.
    """
    try:
        import apprise  # noqa: PLC0415 - optional
    except ImportError:
        raise SettingsError(
            "the sink apprise needs Apprise, which is not installed",
            hint=extra_hint("apprise"),
        ) from None
    urls = service.split()
    asset = apprise.AppriseAsset(app_id="ragmon", async_mode=False, secure_logging=True)
    sender = apprise.Apprise(asset=asset)
    if len(urls) != 1 or not sender.add(urls[0]):
        raise SettingsError(
            "service: not one URL that Apprise knows", hint="Give each service a sink of its own"
        )
    return sender
