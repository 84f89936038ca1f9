"""Requests and answers of the HTTP API about silences; the others are in ``api_schema``."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ragmon.alerts.silences import Matcher

ShortText = Annotated[str, Meta(max_length=1_000)]


class SilenceRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A silence to be made: conditions that an alert's labels must all meet, and for how long."""

    matchers: Annotated[tuple[Matcher, ...], Meta(min_length=1, max_length=50)]
    duration: Annotated[str, Meta(max_length=20)]  # for example 2h
    starts_at: float | None = None  # unix seconds; now
    created_by: ShortText = ""
    comment: ShortText = ""


class SilenceView(Struct, frozen=True, kw_only=True):
    """A silence with its state: pending, active or expired."""

    id: str
    matchers: tuple[Matcher, ...]
    starts_at: float  # unix seconds
    ends_at: float
    created_by: str
    comment: str
    state: Literal["pending", "active", "expired"]


class SilenceList(Struct, frozen=True, kw_only=True):
    """Every silence, the newest first."""

    silences: list[SilenceView]


class DeletedSilence(Struct, frozen=True, kw_only=True):
    """Id of the silence that was deleted."""

    deleted: str
