"""Answers of the HTTP API about erasure; the others are in ``api_schema``."""

from typing import Literal

from msgspec import Struct


class RemainingPlace(Struct, frozen=True, kw_only=True):
    """A place that ragmon cannot reach, where what was erased may still be."""

    place: str
    action: str  # what to do about it


class ErasureReceipt(Struct, frozen=True, kw_only=True):
    """One request to erase a user's or session's content, and the proof of what was removed.

    ``subject_sha256`` is the hash of salt, kind and id with a NUL between them, so whoever knows
    the id can tell that the receipt is about it.
    """

    request: str
    state: Literal["running", "purging", "done"]  # purging: freed disk pages are overwritten
    dry_run: bool
    subject_kind: Literal["user", "session"]
    subject_sha256: str
    salt: str
    pipeline: str  # empty: all
    requested_at: float  # unix seconds, as is the next
    finished_at: float | None = None
    removed: dict[str, int]  # by kind: records, changes, traces, waiting, alerts, quarantine
    remaining: list[RemainingPlace] = []


class ErasureList(Struct, frozen=True, kw_only=True):
    """Receipts of erasure, the newest first."""

    receipts: list[ErasureReceipt]
