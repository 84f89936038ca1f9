"""The OTLP routes: raw ASGI, as the routes of ``ragmon/sources/http.py`` are.

200 means durable: spans are in the store, feedback is committed.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from msgspec import Struct

from ragmon.access import Permit
from ragmon.asgi import (
    READ_BYTES,
    BodyLimits,
    Problem,
    ReadGate,
    Receive,
    Scope,
    Send,
    check_headers,
    header,
    over_memory,
    read_body,
    send_json,
    send_problem,
    unavailable,
)
from ragmon.clock import Clock
from ragmon.errors import MemoryLimitError, RecordError, StoreError
from ragmon.memory import MemoryBudget, MemoryReservation
from ragmon.query_string import check_names
from ragmon.records import Feedback, Label
from ragmon.sources import (
    IngestCounters,
    IngestOutcome,
    RecordSink,
    Submission,
    commit,
    count_outcome,
    resolver,
)
from ragmon.sources.bodies import TOO_MANY
from ragmon.sources.otlp import doctor
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.receiver import logs, scores
from ragmon.sources.otlp.receiver.assembly import TraceSizes, TraceTimeouts
from ragmon.sources.otlp.receiver.batch import MappingOptions
from ragmon.sources.otlp.receiver.journal import Journal
from ragmon.sources.otlp.receiver.permitted import admit
from ragmon.sources.otlp.receiver.responses import (
    Encoding,
    Kind,
    encoding_of,
    failure,
    send_answer,
    success,
)
from ragmon.sources.otlp.receiver.scrub import scrub
from ragmon.sources.otlp.receiver.worker import MappingWorker
from ragmon.sources.otlp.spans import DecodedSpans, pack
from ragmon.sources.otlp.traces.feedback import changes_for, stamped
from ragmon.sources.otlp.wire import json, protobuf
from ragmon.stores.protocols import SpanRow, Spans
from ragmon.threads import OnWriter

TRACES = frozenset({"/v1/traces", "/api/public/otel/v1/traces"})
LOGS = frozenset({"/v1/logs", "/api/public/otel/v1/logs"})
METRICS = frozenset({"/v1/metrics", "/api/public/otel/v1/metrics"})
SIGNALS = TRACES | LOGS | METRICS
PATHS = SIGNALS | {scores.LANGFUSE} | scores.PHOENIX.keys()
"""Every path that is answered here."""

_MOST_SHOWN = 100
_PER_RECORD = 10
"""Spans or log records for each record of ``limits.records``: the OpenTelemetry Collector sends
batches of 8,192 and, where it joins those of others, more; ragmon's default allows 100,000."""
_CHANGE_BYTES = 200  # about, for the queue's account


class Options(Struct, frozen=True, kw_only=True):
    """Limits and privacy of the routes."""

    limits: BodyLimits
    records: int  # scores of one request; of spans and log records ten times as many
    mapping: MappingOptions
    timeouts: TraceTimeouts = TraceTimeouts()
    redact: Callable[[str], str] | None = None  # of texts that wait on disk; None: keep them


class OtlpSource:
    """Answers the paths and drives the thread that completes traces."""

    def __init__(
        self,
        options: Options,
        *,
        sink: RecordSink,
        counters: IngestCounters,
        authorize: Callable[[Scope, str], Permit],
        clock: Clock,
        spans: OnWriter[Spans],
    ) -> None:
        self.worker = MappingWorker(
            sink=sink,
            counters=counters,
            clock=clock,
            spans=spans,
            timeouts=options.timeouts,
            options=options.mapping,
        )
        self._options = options
        self._sink = sink
        self._counters = counters
        self._authorize = authorize
        self._clock = clock
        self._journal = Journal(spans)
        self._gate = ReadGate(options.limits.reads)

    def start(self) -> None:
        """Begin to complete traces; requests are answered before it, too."""
        self.worker.start()

    def stop(self) -> None:
        """End; what is not complete stays in the store."""
        self.worker.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: str = scope["path"]
        if path not in SIGNALS:
            await self._answer_scores(path, scope, receive, send)
        elif path in TRACES and scope["method"] == "GET":
            await self._answer_recent(scope, send)
        else:
            await self._answer_signal(path, scope, receive, send)

    async def _answer_signal(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        encoding: Encoding = "protobuf"
        if "json" in header(scope, b"content-type"):
            encoding = "json"
        try:
            permit = self._check(scope)
            limits = self._options.limits
            with limits.memory.open() as memory:
                body = await read_body(scope, receive, limits, memory)
                encoding = encoding_of(header(scope, b"content-type"))
                refused = await self.take(path, body, encoding, permit, memory)
            kind: Kind = "logs" if path in LOGS else "spans"
            await send_answer(send, success(encoding, refused, kind))
        except (Problem, MemoryLimitError) as error:
            problem = over_memory(error) if isinstance(error, MemoryLimitError) else error
            self._counters.rejected("otlp", problem.reason)
            await send_answer(send, failure(encoding, problem), problem.headers)

    @property
    def limits(self) -> BodyLimits:
        """Limits of requests and connections."""
        return self._options.limits

    @property
    def memory(self) -> MemoryBudget:
        """The account that requests reserve from."""
        return self._options.limits.memory

    async def take(
        self,
        path: str,
        body: bytes,
        encoding: Encoding,
        permit: Permit,
        memory: MemoryReservation,
    ) -> dict[str, int]:
        """Make a request durable; returns the spans or log records refused, by reason.

        Raises:
            Problem: 400, 413 or 503.
            MemoryLimitError: it would take too much memory.
        """
        try:
            if path in TRACES:
                return await self._take_traces(body, encoding, permit, memory)
            if path in LOGS:
                return await self._take_logs(body, encoding, permit, memory)
        except RecordError as error:
            raise _refusal(error) from None
        return {}

    async def _take_traces(
        self, body: bytes, encoding: Encoding, permit: Permit, memory: MemoryReservation
    ) -> dict[str, int]:
        decode = json.decode if encoding == "json" else protobuf.decode
        parts: list[SpanRow] = []
        refused: dict[str, int] = {}
        door = TraceSizes(self.worker.assembly)
        for decoded in decode(body, _PER_RECORD * self._options.records, memory):
            permit.charge(len(decoded.spans))
            if permit.pipelines is not None:
                admit(decoded, permit.pipelines)
            redact = self._options.redact
            packed = pack(decoded.spans if redact is None else scrub(decoded.spans, redact))
            parts += door.admit(packed, decoded)
            self._count(decoded, refused)
            await asyncio.sleep(0)  # other requests get a turn
        if parts:
            await self._keep(parts)
        return refused

    def count_refused(self, reason: str) -> None:
        """Count a request that was refused as a whole."""
        self._counters.rejected("otlp", reason)

    def _count(self, decoded: DecodedSpans, refused: dict[str, int]) -> None:
        for reason, count in decoded.refused.items():
            refused[reason] = refused.get(reason, 0) + count
            self._counters.rejected("otlp_spans", reason, count)
        for reason, count in decoded.dropped.items():
            self._counters.rejected("otlp_attributes", reason, count)

    async def _keep(self, parts: Sequence[SpanRow]) -> None:
        if self.worker.is_behind:
            raise unavailable("traces come faster than they can be read", "overloaded")
        future: asyncio.Future[StoreError | None] = asyncio.get_running_loop().create_future()
        resolve = resolver(future)

        def done(error: StoreError | None) -> None:
            if error is None:
                self.worker.deliver(parts)
            resolve(error)

        try:
            self._journal.submit(parts, done)
        except StoreError as error:
            raise unavailable(str(error), error.reason) from None
        problem = await future
        if problem is not None:
            raise unavailable(str(problem), problem.reason)
        self._counters.accepted("otlp_spans", sum(part.spans for part in parts))

    async def _take_logs(
        self, body: bytes, encoding: Encoding, permit: Permit, memory: MemoryReservation
    ) -> dict[str, int]:
        targets = self.worker.targets
        stamp = self._stamp()
        refused: dict[str, int] = {}
        by_query: dict[str, list[SpanEvaluation]] = {}
        most = _PER_RECORD * self._options.records
        for logged in await _unhurried(logs.evaluations(body, encoding, most, memory)):
            query_id = logged.response_id and targets.find(f"response:{logged.response_id}")
            if not query_id and any(logged.trace_id):
                query_id = targets.of_span(logged.trace_id, logged.span_id)
            if not query_id or not logged.evaluation.name:
                self._counters.rejected("otlp_feedback", "no_target")
                continue
            try:
                evaluation = stamp(logged.evaluation)
            except RecordError as error:
                refused[error.reason] = refused.get(error.reason, 0) + 1
                self._counters.rejected("otlp_feedback", error.reason)
                continue
            by_query.setdefault(query_id, []).append(evaluation)
        await self._commit(_changes(by_query), permit)
        return refused

    async def _answer_scores(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            permit = self._check(scope)
            limits = self._options.limits
            with limits.memory.open() as memory:
                body = await read_body(scope, receive, limits, memory)
                scores.check(path, body, self._options.records, memory)
                accepted, refused = scores.read(path, body, self.worker.targets, self._stamp())
                by_query: dict[str, list[SpanEvaluation]] = {}
                for query_id, evaluation, _ in accepted:
                    by_query.setdefault(query_id, []).append(evaluation)
                await self._commit(_changes(by_query), permit)
            for refusal in refused:
                self._counters.rejected("otlp_feedback", refusal.reason)
            if refused and not accepted:
                await send_problem(send, _nothing_kept(refused[0]))
                return
            ids = [{"id": own_id} for _, _, own_id in accepted]
            one = path == scores.LANGFUSE and len(ids) == 1
            await send_json(send, 200, ids[0] if one else {"data": ids})
        except RecordError as error:
            self._counters.rejected("otlp_feedback", error.reason)
            await send_problem(send, _refusal(error))
        except (Problem, MemoryLimitError) as error:
            problem = over_memory(error) if isinstance(error, MemoryLimitError) else error
            self._counters.rejected("otlp_feedback", problem.reason)
            await send_problem(send, problem)

    def _stamp(self) -> scores.Stamp:
        now = self._clock.now()
        return partial(stamped, now=now, bounds=self._options.mapping.bounds(now))

    async def _commit(self, changes: Sequence[Feedback | Label], permit: Permit) -> None:
        permit.charge(len(changes))
        if not changes:
            return

        def make(reply: Callable[[IngestOutcome], None]) -> Submission:
            size_bytes = _CHANGE_BYTES * len(changes)
            return Submission(
                "otlp_feedback", size_bytes, reply, changes=changes, pipelines=permit.pipelines
            )

        count_outcome(self._counters, "otlp_feedback", await commit(self._sink, make))

    async def _answer_recent(self, scope: Scope, send: Send) -> None:
        """Answer ``ragmon trace-doctor --last``: the newest traces, explained."""
        try:
            check_headers(scope, self._options.limits)
            self._authorize(scope, "read").check_all()
            check_names(scope, ("last",))
            most = _most(scope["query_string"])
            recent = list(self.worker.recent)[-most:]
            now = self._clock.now()
            with self._options.limits.memory.open() as memory:
                async with self._gate.turn():
                    memory.take(READ_BYTES)
                    explained = await asyncio.to_thread(
                        lambda: [doctor.explain_packed(bodies, now) for _, bodies in recent]
                    )
                await send_json(send, 200, explained)
        except (Problem, MemoryLimitError) as error:
            problem = over_memory(error) if isinstance(error, MemoryLimitError) else error
            self._counters.rejected("otlp", problem.reason)
            await send_problem(send, problem)

    def _check(self, scope: Scope) -> Permit:
        check_headers(scope, self._options.limits)
        if scope["method"] != "POST":
            raise Problem(405, "use POST", reason="method", headers={"allow": "POST"})
        permit = self._authorize(_with_bearer(scope), "ingest")
        check_names(scope, scores.PARAMETERS if scope["path"] in scores.PHOENIX else ())
        return permit


async def _unhurried(parts: Iterator[list[logs.Logged]]) -> list[logs.Logged]:
    """All of them; other requests get a turn after each part."""
    logged: list[logs.Logged] = []
    for part in parts:
        logged += part
        await asyncio.sleep(0)
    return logged


def _nothing_kept(error: RecordError) -> Problem:
    """400 for a time that is not accepted, 404 for what names nothing that is known."""
    status = 400 if error.field == "timestamp" else 404
    detail = f"nothing was kept: {error.field} {error}".replace("  ", " ")
    return Problem(status, detail, reason=error.reason)


def _changes(by_query: dict[str, list[SpanEvaluation]]) -> list[Feedback | Label]:
    return [
        change
        for query_id, evaluations in by_query.items()
        for change in changes_for(query_id, evaluations)
    ]


def _refusal(error: RecordError) -> Problem:
    """400, or 413 for a request that holds too much."""
    status = 413 if error.reason == TOO_MANY else 400
    return Problem(status, str(error), reason=error.reason)


def _with_bearer(scope: Scope) -> Scope:
    """Basic credentials (Langfuse SDKs send public and secret key) as a token: the secret key."""
    kind, _, credentials = header(scope, b"authorization").partition(" ")
    if kind.lower() != "basic":
        return scope
    try:
        _, _, secret = base64.b64decode(credentials.strip(), validate=True).partition(b":")
    except binascii.Error:
        return scope
    others = [each for each in scope["headers"] if each[0] != b"authorization"]
    return {**scope, "headers": [*others, (b"authorization", b"Bearer " + secret)]}


def _most(query_string: bytes) -> int:
    for part in query_string.decode("latin-1").split("&"):
        if part.startswith("last=") and part[5:].isdecimal():
            return max(1, min(_MOST_SHOWN, int(part[5:9])))
    return _MOST_SHOWN
