"""E-mail by SMTP: plain text and HTML, an incident is one thread."""

import html
import io
import smtplib
import ssl
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import structlog
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from ragmon.alerts.example_texts import clip
from ragmon.alerts.message import Message, message, plain
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SettingsError, SinkError
from ragmon.http_client import check_secret, secret
from ragmon.sinks import SinkContext
from ragmon.terminal import one_line
from ragmon.timed_http import TimedReader

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_MOST_SUBJECT = 200
_MOST_REASON = 200
_PERMANENT = 500
_COLOURS = {"info": "#3b82f6", "warning": "#b45309", "critical": "#dc2626"}
_RESOLVED = "#15803d"


def _checked(value: str) -> str:
    """An address such as ``ann@example.org``.

    Raises:
        ValueError: it is none.
    """
    try:
        address = Address(addr_spec=value)
    except (ValueError, IndexError, MessageError) as error:
        raise ValueError(f"{value[:100]!r} is no address such as ann@example.org") from error
    if not address.username or not address.domain or not value.isascii():
        raise ValueError(f"{value[:100]!r} is no address such as ann@example.org")
    return value


MailAddress = Annotated[str, AfterValidator(_checked)]


class Options(BaseModel):
    """``sinks: [{kind: email, host: smtp.example.org, sender: …, to: [ann@example.org]}]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    host: Annotated[str, Field(min_length=1)]
    """Name or address of the mail server."""
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """Port of the mail server; none: 587 with starttls, 465 with tls, 25 with none."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """starttls: encrypted after the greeting, or not at all sent; tls: from the beginning; none:
    never, for a server on the same machine."""
    sender: MailAddress
    """Address that mails come from."""
    to: Annotated[tuple[MailAddress, ...], Field(min_length=1, max_length=50)]
    """Addresses that mails go to."""
    username: str | None = None
    """User name at the mail server; none: without authentication."""
    password: SecretStr | None = None
    """Password at the mail server. A secret: prefer password_file or password_env."""
    password_file: Path | None = None
    """File that holds the password; it is read again before each mail."""
    password_env: str | None = None
    """Environment variable that holds the password."""
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0
    """Seconds within which the server must take a mail."""
    ca_file: Path | None = None
    """PEM file of certificates to trust instead of those of the system."""

    @model_validator(mode="after")
    def _is_safe(self) -> "Options":
        has_password = check_secret(self, "password", required=self.username is not None)
        if has_password and self.username is None:
            raise ValueError("give username and password")
        if self.username is not None and self.security == "none":
            raise ValueError("security: none would send the password in the clear; use starttls")
        return self


def build(options: Options, context: SinkContext) -> "Email":
    """A sink that sends mails through one server."""
    return Email(options, context)


class Email:
    """One mail a notice, each over a connection of its own: minutes lie between them."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context
        self._tls: ssl.SSLContext | None = None
        if options.security != "none":
            if options.ca_file is not None and not options.ca_file.is_file():
                raise SettingsError(f"ca_file: {options.ca_file} is not a file")
            self._tls = ssl.create_default_context(cafile=options.ca_file)
        self._log = structlog.get_logger("email").bind(host=options.host)

    def deliver(self, notice: IncidentNotice) -> None:
        """Send one mail; a repeat has the same ``Message-ID``."""
        options = self._options
        mail = composed(notice, self._context, options)
        password = secret(options, "password") if options.username is not None else ""
        try:
            with self._connected() as server:
                if options.username is not None:
                    server.login(options.username, password)
                refused = server.send_message(mail, options.sender, options.to)
        except smtplib.SMTPRecipientsRefused as error:
            code, reason = max(error.recipients.values(), key=lambda answer: answer[0])
            raise self._refusal(code, reason, password) from None
        except smtplib.SMTPResponseException as error:
            raise self._refusal(error.smtp_code, error.smtp_error, password) from None
        except smtplib.SMTPNotSupportedError as error:
            hint = "Set security to tls or none, or username to nothing, as the server has it"
            raise SinkError(f"{options.host}: {error}", retryable=True, hint=hint) from None
        except ssl.SSLError as error:
            hint = "Check port and security; give the server's own authority as ca_file"
            raise SinkError(
                f"no TLS with {options.host} ({error.reason})", retryable=True, hint=hint
            ) from None
        except (smtplib.SMTPException, OSError) as error:
            why = type(error).__name__
            raise SinkError(f"no connection to {options.host} ({why})", retryable=True) from None
        if refused:  # it went to the others: to send it again would tell them twice
            self._log.warning("recipients_refused", refused=len(refused), of=len(options.to))

    def _connected(self) -> smtplib.SMTP:
        options = self._options
        port = options.port or _PORTS[options.security]
        if options.security == "tls":
            assert self._tls is not None
            return _TimedTls(options.host, port, timeout=options.timeout_s, context=self._tls)
        server = _TimedSmtp(options.host, port, timeout=options.timeout_s)
        if self._tls is not None:
            try:
                server.starttls(context=self._tls)
            except BaseException:
                server.close()
                raise
        return server

    def _refusal(self, code: int, reason: bytes | str, password: str) -> SinkError:
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        text = text.replace(password, "***") if password else text
        return SinkError(
            f"{self._options.host} answered {code}: {one_line(text)[:_MOST_REASON]}",
            status=code,
            retryable=code < _PERMANENT,
        )


class _Timed:
    """Answers that end in time altogether, or a server that drips could hold the thread."""

    file: Any
    sock: Any

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None:
            stream = self.sock.makefile("rb")
            self.file = io.BufferedReader(TimedReader(self.sock, stream))
        answer: tuple[int, bytes] = super().getreply()  # type: ignore[misc]
        return answer


class _TimedSmtp(_Timed, smtplib.SMTP):
    pass


class _TimedTls(_Timed, smtplib.SMTP_SSL):
    pass


def composed(notice: IncidentNotice, context: SinkContext, options: Options) -> EmailMessage:
    """The mail of a notice."""
    words = message(notice, context.links, context.labels)
    domain = options.sender.rpartition("@")[2]
    mail = EmailMessage(policy=SMTP)
    subject = clip(one_line(f"[ragmon] {words.severity.upper()} {words.title}"), _MOST_SUBJECT)
    mail["Subject"] = subject
    mail["From"] = options.sender
    mail["To"] = ", ".join(options.to)
    mail["Date"] = format_datetime(datetime.fromtimestamp(notice.at, UTC))
    mail["Message-ID"] = f"<{notice.id}@{domain}>"
    mail["References"] = f"<{notice.incident_id}@{domain}>"  # one thread an incident
    mail["Auto-Submitted"] = "auto-generated"
    mail["X-Ragmon-Incident"] = notice.incident_id
    mail.set_content(plain(words), cte="quoted-printable")
    mail.add_alternative(page(words, notice.id), subtype="html", cte="quoted-printable")
    return mail


def page(words: Message, notice_id: str) -> str:
    """The same as HTML that every mail program shows; whatever texts hold is escaped."""
    colour = _RESOLVED if words.status == "resolved" else _COLOURS[words.severity]
    parts = [f'<h2 style="color:{colour}">{_escaped(words.title)}</h2>']
    if words.detail:
        parts.append(f"<p>{_escaped(words.detail)}</p>")
    rows = (
        f'<tr><th align="left" valign="top">{_escaped(fact.name)}</th>'
        f"<td>{_escaped(fact.value)}</td></tr>"
        for fact in words.facts
    )
    parts.append(f'<table cellpadding="4">{"".join(rows)}</table>')
    if words.tries:
        steps = "".join(f"<li>{_escaped(step)}</li>" for step in words.tries)
        parts.append(f"<h3>What to try</h3><ol>{steps}</ol>")
    if words.worst:
        queries = "".join(f"<li>{_link(query.text, query.url)}</li>" for query in words.worst)
        parts.append(f"<h3>Worst queries</h3><ul>{queries}</ul>")
    links = " · ".join(_link(link.text, link.url) for link in words.links)
    parts.append(f"<p>{links}</p><p><small>{_escaped(notice_id)}</small></p>")
    return f"<html><body>{''.join(parts)}</body></html>\n"


def _link(text: str, url: str) -> str:
    return f'<a href="{_escaped(url)}">{_escaped(text)}</a>'


def _escaped(text: str) -> str:
    return html.escape(text)
