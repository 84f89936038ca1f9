"""Settings of access: tokens, TLS and the audit log."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from ragmon.config.sections import Listed, SettingsSection
from ragmon.config.units import Bytes, Seconds, moment

Scope = Literal["ingest", "read", "admin"]
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class RateSettings(SettingsSection):
    """Rates of one token; bursts of ten seconds' worth pass."""

    requests_per_second: Annotated[float, Field(gt=0)] | None = None
    """Most requests a second, as an average; none: any."""
    records_per_second: Annotated[float, Field(gt=0)] | None = None
    """Most queries, feedback, labels and spans a second, as an average; none: any."""


class TokenSettings(SettingsSection):
    """A bearer token: exactly one of ``token``, ``token_file``, ``sha256`` and ``generate``."""

    name: str
    """Name of the user or application, shown in error messages, metrics and the audit log."""
    scopes: tuple[Scope, ...] = ("ingest",)
    """ingest: send queries; read: report, queries, alerts; admin: everything."""
    token: SecretStr | None = None
    """The token itself."""
    token_file: Path | None = None
    """File that holds the token. It is read again when it changes; while a token is replaced it
    may hold the old and the new one, each on its own line."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the token in hexadecimal, as `ragmon token` prints it."""
    generate: bool = False
    """Have ragmon make the token at its first start, in `tokens/NAME` of `data_dir`; `ragmon token
    show NAME` prints it there, and `ragmon token rotate NAME` replaces it."""
    expires: Annotated[float | None, BeforeValidator(moment)] = None
    """Time from which the token is refused, such as 2027-06-30 or 2027-06-30T12:00:00Z; none:
    never."""
    pipelines: Annotated[tuple[str, ...], Listed] = ()
    """Pipelines that the token may write and read, `*` standing for any text, such as docs-*;
    none: all."""
    rate: RateSettings = RateSettings()
    """Rates of this token, such as {requests_per_second: 20, records_per_second: 500}; beyond
    them requests are refused (429)."""

    @model_validator(mode="after")
    def _one(self) -> "TokenSettings":
        forms = [self.token, self.token_file, self.sha256, self.generate or None]
        if sum(form is not None for form in forms) != 1:
            raise ValueError("give exactly one of token, token_file, sha256 and generate")
        if self.generate and not _FILE_NAME.fullmatch(self.name):
            raise ValueError(
                f"generate makes a file of this name, which {self.name!r} cannot be: "
                "use letters, digits, - and _"
            )
        if self.pipelines and "admin" in self.scopes:
            raise ValueError("scope admin covers every pipeline: take out `pipelines` or `admin`")
        return self


class AuthSettings(SettingsSection):
    """Access control. Without tokens ragmon listens on loopback only."""

    tokens: tuple[TokenSettings, ...] = ()
    """Bearer tokens and their scopes, for example {name: app, token_file: /run/secrets/ragmon,
    scopes: [ingest]}."""
    allow_anonymous: bool = False
    """Allow a `host` other than loopback although no token is configured: anybody who reaches
    the port can then read and write."""
    protect_metrics: bool = False
    """Require a token with scope read for /metrics too."""
    protect_probes: bool = False
    """Require a token with scope read for /livez and /readyz too; the probes of Kubernetes cannot
    send one."""
    session_lifetime: Annotated[Seconds, Field(ge=60, le=30 * 86_400)] = 12 * 3_600.0
    """Time after which a person who signed in on the pages has to give the token again. Signing
    out, the token's end and a restart of ragmon end a session before."""

    @model_validator(mode="after")
    def _check_names(self) -> "AuthSettings":
        names = [token.name for token in self.tokens]
        if len(set(names)) < len(names):
            raise ValueError("auth.tokens: two have the same name")
        return self


class AuditSettings(SettingsSection):
    """The audit log: `audit.jsonl` in `data_dir`, a line for each change."""

    max_size: Annotated[Bytes, Field(ge=10_000)] = 10_000_000
    """Size at which the file is rotated."""
    files: Annotated[int, Field(ge=1, le=100)] = 5
    """Rotated files that are kept; older ones are deleted."""


class TlsSettings(SettingsSection):
    """TLS of ragmon's own ports, HTTP and OTLP over gRPC; 1.2 or later."""

    cert_file: Path | None = None
    """PEM file of the certificate and the chain up to its issuer; none: plain HTTP. Certificate,
    key and authorities are read again when they are renewed."""
    key_file: Path | None = None
    """PEM file of the certificate's private key, without a passphrase."""
    client_ca_file: Path | None = None
    """PEM file of authorities: every client, probes and Prometheus too, then needs a certificate
    that one of them signed; none: clients need no certificate."""

    @model_validator(mode="after")
    def _whole(self) -> "TlsSettings":
        if (self.cert_file is None) is not (self.key_file is None):
            raise ValueError("tls: give cert_file and key_file")
        if self.client_ca_file is not None and self.cert_file is None:
            raise ValueError("tls: client_ca_file needs cert_file and key_file")
        return self
