"""Quarantine of a running daemon: what is in it, and trying that again.

Notifications that were given up are shown beside the entries, with ``send-`` before their number;
they stay where they are, in the dead letters of the outbox.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from ragmon import quarantine
from ragmon.alerts.as_json import notification
from ragmon.alerts.notices import IncidentNotice
from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.component import Context
from ragmon.daemon.judging.answer_retries import AnswerRetries
from ragmon.daemon.notify.delivery import Delivery
from ragmon.decode import Decoder
from ragmon.errors import RecordError
from ragmon.event_time import Bounds
from ragmon.exposition.own import OwnMetrics
from ragmon.quarantine import (
    AnswerContent,
    Content,
    DamagedContent,
    LineContent,
    RetryFailedError,
    TraceContent,
)
from ragmon.quarantine_schema import (
    QuarantineDetail,
    QuarantineEntry,
    QuarantineList,
    RetriedEntry,
)
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.sources import IngestOutcome, Submission, commit, count_outcome
from ragmon.sources.otlp.receiver import isolated
from ragmon.sources.otlp.receiver.shown import shown_spans
from ragmon.stores.protocols import DeadLetter
from ragmon.stores.quarantine import QuarantineRow

SEND = "send-"
_KINDS: Mapping[str, Any] = {"queries": QueryRecord, "feedback": Feedback, "labels": Label}
_DROPPED = "no text is shown or kept, since privacy.text is drop"

_decode_notice = msgspec.msgpack.Decoder(IncidentNotice).decode


class QuarantineApi:
    """Implements ``ragmon.web.quarantine.QuarantineSource``."""

    def __init__(self, context: Context, delivery: Delivery, answers: AnswerRetries) -> None:
        """Make it.

        Args:
            context: of the daemon.
            delivery: of notifications.
            answers: judges those that are retried.
        """
        engine = context.engine
        self._answers = answers
        self._settings: Settings = context.settings
        self._clock: Clock = context.clock
        self._own: OwnMetrics = context.own
        self._writer = engine.writer
        self._entries = engine.thread.bind(engine.quarantine)
        self._outbox = engine.thread.bind(engine.state.outbox())
        self._delivery = delivery
        self._turn = asyncio.Lock()  # one retry at a time: each may start a process
        self._kept = engine.quarantine  # only its counts are looked at here
        _watch(context.own, lambda: engine.quarantine.totals, self._counts)

    async def entries(self, stage: str, limit: int) -> QuarantineList:
        """The newest entries of a stage, or of all."""
        listed: list[QuarantineEntry] = []
        if stage != "send":
            rows = await self._entries.ask_async(lambda entries: entries.rows(limit, stage))
            listed += [self._entry(row) for row in rows]
        if stage in ("", "send"):
            letters = await self._outbox.ask_async(lambda outbox: outbox.dead(limit))
            listed += [_letter(letter) for letter in letters]
        dead = await self._outbox.ask_async(lambda outbox: outbox.undelivered().dead)
        listed.sort(key=lambda entry: -entry.at)
        return QuarantineList(
            counts={**self._kept.counts, "send": dead},
            kept_seconds=self._settings.quarantine.keep,
            entries=listed[:limit],
        )

    async def entry(self, name: str) -> QuarantineDetail:
        """One entry with its content.

        Raises:
            KeyError: there is none.
        """
        if name.startswith(SEND):
            letter = await self._dead_letter(name)
            notice = msgspec.to_builtins(notification(_decode_notice(letter.body)))
            return QuarantineDetail(**asdict(_letter(letter)), content=notice, note="")
        row, body = await self._find(name)
        content, note = self._shown(quarantine.decode(body))
        return QuarantineDetail(**asdict(self._entry(row)), content=content, note=note)

    async def delete(self, name: str) -> None:
        """Delete one entry.

        Raises:
            KeyError: there is none.
        """
        number = _number(name)
        if name.startswith(SEND):
            was_there = await self._outbox.ask_async(lambda outbox: outbox.forget_dead(number))
        else:
            was_there = await self._entries.ask_async(lambda e: e.delete([number])) > 0
        if not was_there:
            raise KeyError(name)

    async def retry(self, name: str) -> RetriedEntry:
        """Try again what failed; an entry that succeeds is removed.

        An answer is judged after this returns: its entry says that a retry is under way.

        Raises:
            KeyError: there is none.
            Problem: 503, the results could not be stored.
        """
        async with self._turn:
            if name.startswith(SEND):
                return await self._send_again(name)
            row, body = await self._find(name)
            if self._answers.is_under_way(row.number):
                return _judging(name)
            await self._entries.ask_async(lambda entries: entries.note_attempt(row.number))
            try:
                content = quarantine.decode(body)
                if isinstance(content, AnswerContent):
                    await asyncio.to_thread(self._answers.check, content)
                    self._answers.begin(row.number, content)
                    return _judging(name)
                detail = await self._again(content)
            except RetryFailedError as error:
                text = str(error)
                await self._entries.ask_async(lambda e: e.note_attempt(row.number, text))
                return RetriedEntry(id=name, done=False, detail=text)
            await self._entries.ask_async(lambda entries: entries.delete([row.number]))
            return RetriedEntry(id=name, done=True, detail=detail)

    async def _again(self, content: LineContent | TraceContent | DamagedContent | None) -> str:
        match content:
            case LineContent():
                return await self._decode_again(content)
            case TraceContent():
                return await self._map_again(content)
            case DamagedContent():
                raise RetryFailedError("these spans cannot be read any more; delete the entry")
            case None:
                raise RetryFailedError("another version of ragmon wrote this entry")

    async def _decode_again(self, content: LineContent) -> str:
        if content.dropped:
            raise RetryFailedError(_DROPPED)
        if not content.whole:
            limit = quarantine.MOST_LINE_BYTES >> 20
            raise RetryFailedError(f"only its beginning was kept: it is longer than {limit} MiB")
        now = self._clock.now()
        decoder: Decoder[Any] = Decoder(_KINDS[content.records])
        try:
            record = decoder(content.line, now, self._bounds(now))
        except RecordError as error:
            raise RetryFailedError(quarantine.explain(error, self._settings.privacy.text)) from None
        if content.records == "queries":
            return await self._commit("jsonl", len(content.line), records=[record])
        return await self._commit("jsonl", len(content.line), changes=[record])

    async def _map_again(self, content: TraceContent) -> str:
        now = self._clock.now()
        request = isolated.IsolatedRequest(
            [content.bodies],
            now,
            self._bounds(now),
            self._settings.otlp.mapping_timeout,
            self._settings.privacy.text,
        )
        try:
            [mapped] = await asyncio.to_thread(isolated.map_isolated, request)
        except OSError as error:
            raise RetryFailedError(str(error)) from None
        if mapped.reason:
            raise RetryFailedError(mapped.error)
        size_bytes = sum(map(len, content.bodies))
        changes = [*mapped.feedback, *mapped.labels]
        return await self._commit("otlp", size_bytes, records=mapped.records, changes=changes)

    async def _commit(self, source: str, size_bytes: int, **batch: Any) -> str:
        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            return Submission(source, size_bytes, reply, **batch)

        outcome = await commit(self._writer, make)
        count_outcome(self._own, source, outcome)
        if outcome.refused and not outcome.accepted:
            raise RetryFailedError(f"refused: {outcome.refused[0][1]}")
        parts = [f"{outcome.accepted} stored"]
        if outcome.duplicates:
            parts.append(f"{outcome.duplicates} known before")
        return ", ".join(parts)

    async def _send_again(self, name: str) -> RetriedEntry:
        letter = await self._dead_letter(name)
        sinks = [route.name for route in self._delivery.routes]
        if letter.sink not in sinks:
            detail = f"there is no sink {letter.sink!r} any more; configure it, or delete the entry"
            return RetriedEntry(id=name, done=False, detail=detail)
        now = self._clock.now()
        await self._outbox.ask_async(lambda outbox: outbox.revive(letter.number, now))
        self._delivery.wake()
        return RetriedEntry(id=name, done=True, detail=f"it waits for sink {letter.sink} again")

    async def _find(self, name: str) -> tuple[QuarantineRow, bytes]:
        number = _number(name)
        stored = await self._entries.ask_async(lambda entries: entries.find(number))
        if stored is None:
            raise KeyError(name)
        return stored

    async def _dead_letter(self, name: str) -> DeadLetter:
        number = _number(name)
        letter = await self._outbox.ask_async(lambda outbox: outbox.dead_letter(number))
        if letter is None:
            raise KeyError(name)
        return letter

    def _shown(self, content: Content | None) -> tuple[dict[str, Any] | None, str]:
        """The content as it may be shown now, and why something of it is missing."""
        text = self._settings.privacy.text
        match content:
            case LineContent(dropped=True) | LineContent() | TraceContent() if text == "drop":
                return None, _DROPPED
            case LineContent():
                note = "" if content.whole else "only its beginning was kept"
                line = quarantine.plain(content.line, text)
                return {"records": content.records, "line": line}, note
            case TraceContent():
                spans, left_out = shown_spans(content.bodies, text)
                note = f"{left_out} more spans are not shown" if left_out else ""
                return {"spans": spans}, note
            case AnswerContent():
                shown = {"query_id": content.query_id, "judge": content.judge}
                return shown, "its texts are those of the stored query"
            case DamagedContent():
                return {"size_bytes": len(content.packed)}, "these spans cannot be read"
            case None:
                return None, "another version of ragmon wrote this entry"

    def _entry(self, row: QuarantineRow) -> QuarantineEntry:
        fields = row._asdict()
        number = fields.pop("number")
        is_under_way = self._answers.is_under_way(number)
        return QuarantineEntry(id=str(number), under_way=is_under_way, **fields)

    def _bounds(self, now: float) -> Bounds:
        settings = self._settings
        return Bounds(now - settings.retention.records, now + settings.max_clock_skew)

    def _counts(self) -> dict[str, float]:
        return {**self._kept.counts, "send": float(self._delivery.undelivered.dead)}


def _watch(
    own: OwnMetrics,
    totals: Callable[[], Mapping[tuple[str, ...], float]],
    counts: Callable[[], Mapping[str, float]],
) -> None:
    """Have the quarantine asked at each scrape; the usual counters are there from the start."""
    reasons = quarantine.REASONS
    zeros: dict[tuple[str, ...], float] = {
        (stage, reason): 0.0 for stage in reasons for reason in reasons[stage]
    }
    own.watch_labelled(
        "ragmon_quarantined",
        "Lines, traces, answers and notifications that could not be decoded, mapped, judged or "
        "sent, by stage and reason; ragmon quarantine list shows them, retry tries them again.",
        ("stage", "reason"),
        lambda: {**zeros, **totals(), ("send", "dead_letter"): own.dead_letters},
    )
    own.watch_each(
        "ragmon_quarantine_entries",
        "Entries in quarantine, by stage; they are deleted after quarantine.keep at the latest.",
        "stage",
        counts,
    )


def _judging(name: str) -> RetriedEntry:
    detail = "the answer is being judged; the entry goes if that succeeds, else it says why"
    return RetriedEntry(id=name, done=False, detail=detail, under_way=True)


def _letter(letter: DeadLetter) -> QuarantineEntry:
    notice = _decode_notice(letter.body)
    return QuarantineEntry(
        id=f"{SEND}{letter.number}",
        stage="send",
        reason="dead_letter",
        at=letter.buried_at,
        name=f"{letter.sink}: {notice.incident_id}",
        error=letter.reason,
        attempts=letter.attempts,
        size_bytes=len(letter.body),
    )


def _number(name: str) -> int:
    digits = name.removeprefix(SEND)
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 18:
        raise KeyError(name)
    return int(digits)
