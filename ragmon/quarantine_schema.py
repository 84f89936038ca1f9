"""Answers of the HTTP API about the quarantine, as structs; the others are in ``api_schema``."""

from typing import Any

from msgspec import Struct

from ragmon.stores.quarantine import Stage


class QuarantineEntry(Struct, frozen=True, kw_only=True):
    """Something that could not be decoded, mapped, judged or sent."""

    id: str  # a number; of a notification with send- before it
    stage: Stage
    reason: str  # for example defect, timeout, killed or invalid
    at: float  # unix seconds
    name: str  # a trace id, a file with its byte, a query id, or sink and alert
    error: str
    attempts: int  # made since then
    size_bytes: int
    under_way: bool = False  # a retry is; then it goes, or says why it failed again


class QuarantineList(Struct, frozen=True, kw_only=True):
    """Entries in quarantine, and how many there are of each stage."""

    counts: dict[str, int]
    kept_seconds: float  # then an entry is deleted
    entries: list[QuarantineEntry]  # the newest first


class QuarantineDetail(QuarantineEntry, frozen=True, kw_only=True):
    """One entry with its content, as `privacy.text` lets it be shown."""

    content: dict[str, Any] | None  # by stage: a line, spans, a query id or a transition
    note: str  # reason why the content is missing or cut; empty otherwise


class RetriedEntry(Struct, frozen=True, kw_only=True):
    """Outcome of a retry; an entry that succeeded is no longer in quarantine."""

    id: str
    done: bool
    detail: str
    under_way: bool = False  # its outcome is not known yet: see the entry


class DeletedEntry(Struct, frozen=True, kw_only=True):
    """Id of the entry that was deleted."""

    deleted: str
