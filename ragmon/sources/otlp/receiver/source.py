"""The OTLP routes: raw ASGI, as the routes of ``ragmon/sources/http.py`` are.

200 means durable: spans are in the store, feedback is committed.
"""

import asyncio
import base64
import binascii
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from ragmon.access import Permit
from ragmon.api_schema import TraceExplanation
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
)
from ragmon.clock import Clock
from ragmon.errors import MemoryLimitError, RecordError
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
)
from ragmon.sources.bodies import TOO_MANY
from ragmon.sources.otlp import doctor
from ragmon.sources.otlp.reading.facts import SpanEvaluation
from ragmon.sources.otlp.receiver import logs, metrics, scores
from ragmon.sources.otlp.receiver.assembly import TraceTimeouts
from ragmon.sources.otlp.receiver.batch import MappingOptions
from ragmon.sources.otlp.receiver.intake import SpanIntake
from ragmon.sources.otlp.receiver.journal import Journal
from ragmon.sources.otlp.receiver.logged_scores import LoggedScores
from ragmon.sources.otlp.receiver.logged_spans import LoggedSpans
from ragmon.sources.otlp.receiver.responses import (
    Encoding,
    Kind,
    encoding_of,
    failure,
    send_answer,
    success,
)
from ragmon.sources.otlp.receiver.worker import MappingWorker
from ragmon.sources.otlp.traces.feedback import all_changes, stamped
from ragmon.sources.otlp.wire import json, protobuf
from ragmon.stores.protocols import Spans
from ragmon.threads import OnWriter

TRACES = frozenset({"/v1/traces", "/api/public/otel/v1/traces", "/api/otel/v1/traces"})
LOGS = frozenset({"/v1/logs", "/api/public/otel/v1/logs"})
METRICS = frozenset({"/v1/metrics", "/api/public/otel/v1/metrics"})
SIGNALS = TRACES | LOGS | METRICS
PATHS = SIGNALS | {scores.LANGFUSE} | scores.PHOENIX.keys()
"""Every path that is answered here."""

LOG_RECORDS, DATA_POINTS = "log_record", "metric_point"
"""Kinds of what is left alone, as they are counted."""

_MOST_SHOWN = 100
_NOT_KNOWN = frozenset({"unknown_span", "no_target"})
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
        self.ignored: dict[str, int] = {}  # log records and data points, by what they are
        self._most = _PER_RECORD * options.records
        self._intake = SpanIntake(self.worker, Journal(spans), counters, options.redact)
        self._gate = ReadGate(options.limits.reads)
        self.logged = LoggedSpans(self.worker, self._intake, self.memory, self._most)
        self.logged_scores = LoggedScores(self.worker.targets, counters, self._stamp)

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
            await send_answer(send, success(encoding, refused, kind_of(path)))
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
        """Make a request durable; returns what was refused of it, by reason.

        Raises:
            Problem: 400, 413 or 503.
            MemoryLimitError: it would take too much memory.
        """
        try:
            if path in TRACES:
                return await self._take_traces(body, encoding, permit, memory)
            if path in LOGS:
                return await self._take_logs(body, encoding, permit, memory)
            return self._take_metrics(body, encoding, memory)
        except RecordError as error:
            raise _refusal(error) from None

    async def _take_traces(
        self, body: bytes, encoding: Encoding, permit: Permit, memory: MemoryReservation
    ) -> dict[str, int]:
        decode = json.decode if encoding == "json" else protobuf.decode
        spans = self._intake.request("otlp_spans", permit)
        for decoded in decode(body, self._most, memory):
            await spans.add(decoded)
        return await spans.keep()

    def count_refused(self, reason: str) -> None:
        """Count a request that was refused as a whole."""
        self._counters.rejected("otlp", reason)

    async def _take_logs(
        self, body: bytes, encoding: Encoding, permit: Permit, memory: MemoryReservation
    ) -> dict[str, int]:
        content = self._intake.request("otlp_logs", permit)
        evaluations: list[logs.LoggedEvaluation] = []
        for decoded in logs.decode(body, encoding, self._most, memory):
            evaluations += decoded.evaluations
            self._ignore(LOG_RECORDS, decoded.ignored)
            self._counters.rejected("otlp_logs", logs.NO_IDS, decoded.lost)
            await content.add(decoded.content)
        refused = await content.keep()
        by_query = self._by_query(evaluations, refused)
        await self._commit(all_changes(by_query), permit)
        return refused

    def _by_query(
        self, logged: Sequence[logs.LoggedEvaluation], refused: dict[str, int]
    ) -> dict[str, list[SpanEvaluation]]:
        targets, stamp = self.worker.targets, self._stamp()
        by_query: dict[str, list[SpanEvaluation]] = {}
        for evaluation, trace_id, span_id, response_id in logged:
            query_id = response_id and targets.find(f"response:{response_id}")
            if not query_id and any(trace_id):
                query_id = targets.of_span(trace_id, span_id)
            if not query_id or not evaluation.name:
                self._counters.rejected("otlp_feedback", "no_target")
                continue
            try:
                by_query.setdefault(query_id, []).append(stamp(evaluation))
            except RecordError as error:
                refused[error.reason] = refused.get(error.reason, 0) + 1
                self._counters.rejected("otlp_feedback", error.reason)
        return by_query

    def _ignore(self, kind: str, count: int) -> None:
        self.ignored[kind] = self.ignored.get(kind, 0) + count

    def _take_metrics(
        self, body: bytes, encoding: Encoding, memory: MemoryReservation
    ) -> dict[str, int]:
        points = metrics.count_points(body, encoding, self._most, memory)
        self._ignore(DATA_POINTS, points)
        return {metrics.NOT_KEPT: points} if points else {}

    async def _read_scores(
        self, path: str, body: bytes
    ) -> tuple[list[scores.Scored], list[RecordError]]:
        """All scores of a request; between some of them other requests get a turn."""
        accepted: list[scores.Scored] = []
        refused: list[RecordError] = []
        stamp = self._stamp()
        for part in scores.parts(path, body):
            some, others = scores.read(path, part, self.worker.targets, stamp)
            accepted += some
            refused += others
            await asyncio.sleep(0)
        return accepted, refused

    async def _answer_scores(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            permit = self._check(scope)
            limits = self._options.limits
            with limits.memory.open() as memory:
                body = await read_body(scope, receive, limits, memory)
                scores.check(path, body, self._options.records, memory)
                accepted, refused = await self._read_scores(path, body)
                by_query: dict[str, list[SpanEvaluation]] = {}
                for query_id, evaluation, _ in accepted:
                    by_query.setdefault(query_id, []).append(evaluation)
                await self._commit(all_changes(by_query), permit)
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
            with self._options.limits.memory.open() as memory:
                await send_json(send, 200, await self._explained(most, memory))
        except (Problem, MemoryLimitError) as error:
            problem = over_memory(error) if isinstance(error, MemoryLimitError) else error
            self._counters.rejected("otlp", problem.reason)
            await send_problem(send, problem)

    async def recent_traces(self, most: int) -> list[TraceExplanation]:
        """The newest complete traces, explained.

        Raises:
            Problem: there is no memory for it now.
        """
        try:
            with self._options.limits.memory.open() as memory:
                return await self._explained(most, memory)
        except MemoryLimitError as error:
            raise over_memory(error) from error

    async def _explained(self, most: int, memory: MemoryReservation) -> list[TraceExplanation]:
        recent, now = list(self.worker.recent)[-most:], self._clock.now()
        async with self._gate.turn():
            memory.take(READ_BYTES)
            return await asyncio.to_thread(
                lambda: [doctor.explain_packed(bodies, now) for _, bodies in recent]
            )

    def _check(self, scope: Scope) -> Permit:
        check_headers(scope, self._options.limits)
        if scope["method"] != "POST":
            raise Problem(405, "use POST", reason="method", headers={"allow": "POST"})
        permit = self._authorize(_with_bearer(scope), "ingest")
        check_names(scope, scores.PARAMETERS if scope["path"] in scores.PHOENIX else ())
        return permit


def kind_of(path: str) -> Kind:
    """The kind of what is sent to a path."""
    return "spans" if path in TRACES else "logs" if path in LOGS else "metrics"


def _nothing_kept(error: RecordError) -> Problem:
    """404 for what names nothing that is known, 400 for what is wrong in itself."""
    status = 404 if error.reason in _NOT_KNOWN else 400
    detail = f"nothing was kept: {error.field} {error}".replace("  ", " ")
    return Problem(status, detail, reason=error.reason)


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
