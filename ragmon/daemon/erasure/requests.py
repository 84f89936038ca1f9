"""Requests to erase a user's or session's content: kept, carried out in turn, and proved.

A request stands in the store before it is acknowledged, with its subject in clear. Each block
is replaced in one transaction with the counts so far, so after a crash the request begins again,
finds what is left and adds to its counts. Once everything is erased a hash takes the place of the
subject, and free pages are overwritten; only then it is done.
"""

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial

import msgspec
import structlog
from msgspec.structs import replace

from ragmon.daemon.alerting.loop import Alerting
from ragmon.daemon.component import Context
from ragmon.daemon.erasure.blocks import BlockEraser, ErasureCounts, owned
from ragmon.daemon.erasure.evidence import EvidenceEraser
from ragmon.daemon.erasure.quarantine import QuarantineEraser
from ragmon.daemon.erasure.remaining import damaged_places, remaining_places
from ragmon.daemon.erasure.shard_requests import ShardAnswers, ShardRequests
from ragmon.daemon.ingest.lookup import stored_query
from ragmon.erasure_schema import ErasureReceipt
from ragmon.errors import StoreError
from ragmon.loops import BEAT_EVERY_S, Loop, LoopOwner, beat
from ragmon.privacy.erasure import Subject
from ragmon.sources.otlp.receiver.worker import MappingWorker
from ragmon.stores.erasure import ErasureRow

_IDLE_S = 60.0
_PURGE_AGAIN_S = 1.0  # a reader needs the log
_TRACES_TURNS = 300  # of waiting a second for the thread of traces
_PAUSE_S = 0.05  # between two steps of overwriting, for commits
_STOP_S = 5.0  # a block takes less; what is under way is taken up at the next start
_MOST_DRY = 100

_encode = msgspec.json.Encoder().encode
_receipt = msgspec.json.Decoder(ErasureReceipt)
_subject = msgspec.json.Decoder(Subject)


class ErasureRequests(LoopOwner):
    """Component that carries out requests, one after the other; implements ``ErasureSource``."""

    def __init__(self, context: Context, alerting: Alerting, traces: MappingWorker) -> None:
        self._context = context
        self._engine = context.engine
        self._traces = traces
        self._blocks = BlockEraser(context.engine)
        self.evidence = EvidenceEraser(context.engine, alerting)
        engine = context.engine
        self._quarantine = QuarantineEraser(
            engine.thread.bind(engine.quarantine),
            engine.store.reader,
            partial(stored_query, engine),
        )
        self._shards = ShardRequests(engine)
        self._rows = context.engine.thread.bind(context.engine.state.erasure())
        self._of_shard = context.engine.thread.bind(context.engine.shard.erasure())
        self._dry: OrderedDict[str, tuple[ErasureReceipt, Subject]] = OrderedDict()
        self._dry_number = 0
        self._log = structlog.get_logger("erasure")
        self.loop = Loop("erasure", self._turn, self._log)
        context.own.watch(
            "ragmon_erasures_open",
            "Requests to erase a user's or session's content that are not done yet. One that stays "
            "for hours cannot be finished: see `erasure` in the log.",
            lambda: self.unfinished,
        )
        self.unfinished = 0

    def stop(self) -> None:
        """End after the block under way; the next start goes on."""
        self.loop.stop(_STOP_S)

    async def request(self, subject: Subject, *, dry_run: bool) -> ErasureReceipt:
        """Keep a request and begin; the receipt as it is now."""
        receipt = _new_receipt(subject, self._context.clock.now(), dry_run=dry_run)
        if dry_run:
            self._dry_number += 1
            receipt = replace(receipt, request=f"dry-{self._dry_number}")
            self._dry[receipt.request] = receipt, subject
            while len(self._dry) > _MOST_DRY:
                self._dry.popitem(last=False)
        else:
            text, body = _encode(subject).decode(), _encode(receipt)
            number = await self._rows.ask_async(
                lambda rows: rows.add(receipt.requested_at, text, body)
            )
            receipt = replace(receipt, request=str(number))
            self._log.info("erasure_requested", request=receipt.request, kind=subject.kind)
        self.loop.wake()
        return receipt

    async def receipts(self) -> list[ErasureReceipt]:
        """Every receipt, the newest first; those of dry runs are not kept."""
        rows = await self._rows.ask_async(lambda rows: rows.rows())
        return [_of_row(row) for row in reversed(rows)]

    async def receipt(self, request: str) -> ErasureReceipt:
        """One receipt.

        Raises:
            KeyError: there is none.
        """
        if request in self._dry:
            return self._dry[request][0]
        return {each.request: each for each in await self.receipts()}[request]

    def _turn(self) -> float:
        for request, (receipt, subject) in list(self._dry.items()):
            if receipt.state == "running":
                self._count(request, receipt, subject)
        rows = self._rows.ask(lambda stored: stored.rows())
        unfinished = [row for row in rows if _of_row(row).state != "done"]
        self.unfinished = len(unfinished)
        for row in unfinished:
            if not self._carry_out(row):
                return _PURGE_AGAIN_S
            self.unfinished -= 1
        return _IDLE_S

    def _count(self, request: str, receipt: ErasureReceipt, subject: Subject) -> None:
        """Carry out a dry run."""
        removed = {"traces": len(self._erase_traces(subject, dry_run=True)), "records": 0}
        for records in self._blocks.count(owned(subject)):
            if self.loop.stopping.is_set():
                return
            beat()
            removed["records"] += records
        removed["quarantine"] = self._quarantine.erase(subject, dry_run=True)
        self._dry[request] = (self._finished(replace(receipt, removed=removed), subject), subject)

    def _carry_out(self, row: ErasureRow) -> bool:
        """Erase, prove and purge; False when it has to be tried again."""
        receipt = _of_row(row)
        if receipt.state == "running":
            subject = _subject.decode(row.subject)
            now = self._context.clock.now()
            answers = self._shards.ask(row.number, subject, receipt.requested_at, now)
            erased = self._erase(row, receipt, subject) if answers.is_complete else None
            if erased is None:
                return False
            erased = replace(erased, removed=_with_answers(erased.removed, answers))
            receipt = replace(self._finished(erased, subject), state="purging")
            row = row._replace(subject=f"sha256:{receipt.subject_sha256}")
            self._save(row, receipt)
        self._shards.settle(row.number)
        while not self._of_shard.ask(lambda stored: stored.purge()):
            if self.loop.stopping.wait(_PAUSE_S):
                return False
            beat()
        self._save(row, replace(receipt, state="done"))
        self._log.info("erasure_done", request=receipt.request, **receipt.removed)
        return True

    def _erase(
        self, row: ErasureRow, receipt: ErasureReceipt, subject: Subject
    ) -> ErasureReceipt | None:
        """Erase everywhere; the receipt with its counts, None when ragmon ends meanwhile."""
        removed = dict(receipt.removed)
        traces = self._erase_traces(subject, dry_run=False)
        hashes = [self._engine.shard.hash(trace_id.hex()) for trace_id in traces]
        waiting = self._of_shard.ask(lambda stored: stored.delete_waiting(hashes)) if hashes else 0
        _add(removed, traces=len(traces), waiting=waiting)
        before, counts = dict(removed), ErasureCounts()

        def progress() -> ErasureRow:
            now = dict(before)
            _add(now, records=counts.records, changes=counts.changes)
            return row._replace(body=_encode(replace(receipt, removed=now)))

        for _ in self._blocks.erase(owned(subject), counts, progress):
            if self.loop.stopping.is_set():
                return None
            beat()
        _add(removed, records=counts.records, changes=counts.changes)
        _add(removed, alerts=self.evidence.erase())
        # Behind the records: entries are found by whose queries they are about.
        _add(removed, quarantine=self._quarantine.erase(subject, dry_run=False))
        for let_go in self._engine.on_erased:
            let_go()
        return replace(receipt, removed=removed)

    def _erase_traces(self, subject: Subject, *, dry_run: bool) -> Sequence[bytes]:
        """Ids of the subject's incomplete traces, erased unless it is a dry run.

        Raises:
            StoreError: the thread that has them does not answer.
        """
        future = self._traces.erase(subject, dry_run=dry_run)
        for _ in range(_TRACES_TURNS):
            done, _ = wait((future,), BEAT_EVERY_S)
            if done or self.loop.stopping.is_set():
                break
            beat()
        if not future.done():
            raise StoreError("the thread that completes traces does not answer")
        return future.result()

    def _finished(self, receipt: ErasureReceipt, subject: Subject) -> ErasureReceipt:
        now = self._context.clock.now()
        settings, windows = self._context.settings, self._engine.windows
        places = self._engine.thread.ask(lambda: remaining_places(settings, windows, subject, now))
        places += damaged_places(self._engine.store.damage.rows())
        return replace(receipt, state="done", finished_at=now, remaining=places)

    def _save(self, row: ErasureRow, receipt: ErasureReceipt) -> None:
        changed = row._replace(body=_encode(receipt))
        self._rows.ask(lambda stored: stored.update(changed))


def _new_receipt(subject: Subject, now: float, *, dry_run: bool) -> ErasureReceipt:
    salt = secrets.token_hex(16)
    return ErasureReceipt(
        request="",
        state="running",
        dry_run=dry_run,
        subject_kind=subject.kind,
        subject_sha256=subject_hash(salt, subject.kind, subject.id),
        salt=salt,
        pipeline=subject.pipeline,
        requested_at=now,
        removed={},
    )


def subject_hash(salt: str, kind: str, name: str) -> str:
    """Hash by which whoever knows the id recognises a receipt; in hexadecimal."""
    return hashlib.sha256(f"{salt}\0{kind}\0{name}".encode()).hexdigest()


def _with_answers(removed: dict[str, int], answers: ShardAnswers) -> dict[str, int]:
    """The counts with those of the shards of workers."""
    total = dict(removed)
    for row in answers.rows.values():
        _add(total, records=row.records, changes=row.changes, quarantine=row.quarantine)
    return total


def _of_row(row: ErasureRow) -> ErasureReceipt:
    return replace(_receipt.decode(row.body), request=str(row.number))


def _add(removed: dict[str, int], **counts: int) -> None:
    for kind, count in counts.items():
        removed[kind] = removed.get(kind, 0) + count
