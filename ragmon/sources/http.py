"""``POST /v1/queries``, ``/v1/feedback`` and ``/v1/labels``: 200 only after the batch is durable.

Raw ASGI, since this is the path that every record takes.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from ragmon.access import Permit, Pipelines
from ragmon.api_schema import IngestAnswer, RejectedRecord
from ragmon.asgi import (
    BodyLimits,
    Problem,
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
from ragmon.decode import Decoder, Rejection, ignored_fields
from ragmon.errors import MemoryLimitError, RecordError
from ragmon.event_time import Bounds
from ragmon.memory import MemoryReservation
from ragmon.privacy import Policy, redact_text
from ragmon.query_string import check_names
from ragmon.records import Feedback, Label, QueryRecord
from ragmon.sources import IngestCounters, IngestOutcome, RecordSink, Submission, commit
from ragmon.sources.bodies import TOO_MANY, RejectedLines, Terms, decode_body

_STRETCHES = 8  # of a body, decoded before other requests get a turn


class Options(Struct, frozen=True, kw_only=True):
    """Limits of the routes."""

    limits: BodyLimits
    records: int  # of one request
    listed_errors: int
    retention_s: float
    max_skew_s: float
    text: Policy = "keep"  # for the examples of what was refused


class IngestPath(NamedTuple):
    """One of the three paths."""

    source: str  # label in the metrics
    kind: type[Struct]
    decode: Decoder[Any]
    allow: str = "POST"


ENDPOINTS = {
    "/v1/queries": IngestPath("http", QueryRecord, Decoder(QueryRecord), "GET, HEAD, POST"),
    "/v1/feedback": IngestPath("feedback", Feedback, Decoder(Feedback)),
    "/v1/labels": IngestPath("label", Label, Decoder(Label)),
}


class BodyContents(NamedTuple):
    """Records, refused lines and unknown fields of a body."""

    records: list[Any]
    lines: list[int]
    refusals: RejectedLines
    ignored: dict[str, str | None]


class IngestSinks(NamedTuple):
    """Receivers of batches: the daemon's writer, or for queries a topic."""

    queries: RecordSink
    changes: RecordSink


class HttpSource:
    """Answers the ingest paths."""

    def __init__(
        self,
        options: Options,
        sinks: IngestSinks,
        counters: IngestCounters,
        authorize: Callable[[Scope, str], Permit],
        now: Callable[[], float],
        *,
        labelled: Callable[[Scope, Permit, str], None] = lambda _scope, _permit, _outcome: None,
    ) -> None:
        """Make it.

        Args:
            options: limits.
            sinks: take the batches.
            counters: of outcomes.
            authorize: checks a request for a scope.
            now: unix seconds.
            labelled: called with the counts of every batch of labels, for the audit log.
        """
        self._labelled = labelled
        self._options = options
        self._sinks = sinks
        self._counters = counters
        self._authorize = authorize
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        endpoint = ENDPOINTS[scope["path"]]
        try:
            check_headers(scope, self._options.limits)
            if scope["method"] != "POST":
                allow = {"allow": endpoint.allow}
                raise Problem(405, "use POST", reason="method", headers=allow)
            permit = self._authorize(scope, "ingest")
            check_names(scope, ())
            limits = self._options.limits
            with limits.memory.open() as memory:
                body = await read_body(scope, receive, limits, memory)
                content_type = header(scope, b"content-type")
                contents = await self._decode(endpoint, body, content_type, memory)
                permit.charge(len(contents.records) + contents.refusals.total)
                if permit.pipelines is not None and endpoint.kind is QueryRecord:
                    contents = _permitted(contents, permit.pipelines)
                counts = await self._answer(endpoint, contents, len(body), permit, send)
                if endpoint.kind is Label:
                    self._labelled(scope, permit, counts)
        except Problem as problem:
            await self._refuse(endpoint, problem, send)
        except MemoryLimitError as error:
            await self._refuse(endpoint, over_memory(error), send)
        except asyncio.CancelledError:  # the server ends and waits no longer; so does this task
            await self._refuse(endpoint, unavailable("ragmon is ending", "ending"), send)

    async def _refuse(self, endpoint: IngestPath, problem: Problem, send: Send) -> None:
        self._counters.rejected(endpoint.source, problem.reason)
        self._note(endpoint.source, problem.reason, "", str(problem))
        await send_problem(send, problem)

    def _note(self, source: str, reason: str, field: str, error: str) -> None:
        """Keep an example, in which a message that may quote the sender is treated as a text."""
        policy = self._options.text
        if policy == "drop" and field:
            error = "(its message is not kept: privacy.text is drop)"
        text = f"{field}: {error}" if field else error
        text = redact_text(text) if policy == "redact" else text
        self._counters.note_refusal(source, reason, self._now(), text)

    async def _decode(
        self, endpoint: IngestPath, body: bytes, content_type: str, memory: MemoryReservation
    ) -> BodyContents:
        now, options = self._now(), self._options
        bounds = Bounds(now - options.retention_s, now + options.max_skew_s)
        terms = Terms(now, bounds, options.records, memory)
        contents = BodyContents([], [], RejectedLines(options.listed_errors), {})
        try:
            for at, part in enumerate(decode_body(endpoint.decode, body, content_type, terms)):
                if at == 0:
                    contents.ignored.update(ignored_fields(part.sample, endpoint.kind))
                contents.records.extend(part.records)
                contents.lines.extend(part.lines)
                contents.refusals.add(part.rejections)
                if at % _STRETCHES == _STRETCHES - 1:
                    await asyncio.sleep(0)
        except RecordError as error:
            status = 413 if error.reason == TOO_MANY else 400
            raise Problem(status, str(error), reason=error.reason) from None
        return contents

    async def _answer(
        self,
        endpoint: IngestPath,
        contents: BodyContents,
        size_bytes: int,
        permit: Permit,
        send: Send,
    ) -> str:
        """Commit and answer; returns the counts in words."""
        outcome = IngestOutcome()
        if contents.records:
            outcome = await self._commit(endpoint, contents.records, size_bytes, permit)
        refusals = contents.refusals
        refusals.add(
            [_late_rejection(contents.lines[at], reason) for at, reason in outcome.refused]
        )
        self._count(endpoint.source, outcome, refusals.by_reason)
        for refused in {each.reason: each for each in refusals.listed}.values():
            self._note(endpoint.source, refused.reason, refused.field, refused.error)
        total = refusals.total
        answer = IngestAnswer(
            accepted=outcome.accepted,
            duplicates=outcome.duplicates,
            rejected=[_listed(rejection) for rejection in refusals.listed],
            rejected_total=total if total > len(refusals.listed) else None,
            ignored_fields=contents.ignored or None,
        )
        nothing_good = total and not outcome.accepted and not outcome.duplicates
        await send_json(send, 422 if nothing_good else 200, answer)
        return f"{outcome.accepted} accepted, {outcome.duplicates} duplicates, {total} rejected"

    async def _commit(
        self, endpoint: IngestPath, records: Sequence[Any], size_bytes: int, permit: Permit
    ) -> IngestOutcome:
        def queries(reply: Callable[[IngestOutcome], None]) -> Submission:
            return Submission(endpoint.source, size_bytes, reply, records=records)

        def changes(reply: Callable[[IngestOutcome], None]) -> Submission:
            return Submission(
                endpoint.source, size_bytes, reply, changes=records, pipelines=permit.pipelines
            )

        if endpoint.kind is QueryRecord:
            return await commit(self._sinks.queries, queries)
        return await commit(self._sinks.changes, changes)

    def _count(self, source: str, outcome: IngestOutcome, refused: dict[str, int]) -> None:
        self._counters.accepted(source, outcome.accepted)
        self._counters.duplicated(source, outcome.duplicates)
        for reason, count in refused.items():
            self._counters.rejected(source, reason, count)


def _permitted(contents: BodyContents, pipelines: Pipelines) -> BodyContents:
    """The same, with the queries refused that are of other pipelines."""
    kept = BodyContents([], [], contents.refusals, contents.ignored)
    refused: list[Rejection] = []
    for line, record in zip(contents.lines, contents.records, strict=True):
        if pipelines(record.pipeline):
            kept.records.append(record)
            kept.lines.append(line)
        else:
            error = f"this token may write the pipelines {pipelines} only"
            remedy = "send it with another token, or add the pipeline to the token's `pipelines`"
            refused.append(Rejection(line, "pipeline", error, remedy, "pipeline_forbidden"))
    kept.refusals.add(refused)
    return kept


_LATE = {
    "too_large_for_topic": (
        "the topic that queries are written to takes no message of this size",
        "send less, or raise max.message.bytes of the topic",
    ),
    "waiting_full": (
        "too much feedback and too many labels wait for their query",
        "send the query first, or raise limits.waiting",
    ),
    "pipeline_forbidden": (
        "this token may not write to the pipeline of this query",
        "send it with another token, or add the pipeline to the token's `pipelines`",
    ),
    "labels_full": (
        "this query has a hundred labels already",
        "let a labeller revise a label instead: the same `labeller` again replaces it",
    ),
}
"""Error and remedy of refusals that only the commit can tell, by reason."""


def _late_rejection(line: int, reason: str) -> Rejection:
    error, remedy = _LATE[reason]
    return Rejection(line, "query_id", error, remedy, reason)


def _listed(rejection: Rejection) -> RejectedRecord:
    return RejectedRecord(
        line=rejection.line,
        field=rejection.field,
        error=rejection.error,
        remedy=rejection.remedy,
    )
