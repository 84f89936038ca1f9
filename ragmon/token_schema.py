"""Answers of the HTTP API about tokens and the audit log; the others are in ``api_schema``."""

from msgspec import Struct


class TokenView(Struct, frozen=True, kw_only=True):
    """One token, without its secret; times are unix seconds."""

    name: str
    scopes: list[str]
    pipelines: list[str]  # that it may write and read; none: all
    secrets: int  # accepted now; more than one while the token is being replaced
    expires: float | None
    last_used: float | None  # null: never
    requests_per_second: float | None
    records_per_second: float | None


class TokenList(Struct, frozen=True, kw_only=True):
    """Every token of ``auth.tokens``."""

    tokens: list[TokenView]


class AuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change, or one token that was refused."""

    at: float = 0.0  # unix seconds
    who: str  # name of the token; anonymous: none is configured; ragmon: by itself
    what: str  # operationId of the endpoint, useToken, start, stop or the files that were reloaded
    outcome: str = ""  # status of the answer, counts, or the reason of a refusal
    remote: str = ""  # address of the sender, or of the proxy in front
    path: str = ""  # method, path and query
    request: str = ""  # beginning of the body
    repeated: int = 0  # refusals of the same kind since the last entry


class AuditList(Struct, frozen=True, kw_only=True):
    """Entries of the audit log, newest first."""

    entries: list[AuditEntry]
