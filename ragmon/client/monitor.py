"""``Monitor``: the calls of an application."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ragmon.client.address import address
from ragmon.client.arguments import QueryFields
from ragmon.client.batch import RecordKind
from ragmon.client.clock import ClientClock, ProcessClock
from ragmon.client.counters import ErrorBoundary, Stats
from ragmon.client.engine import EnginePlan, build
from ragmon.client.identity import QueryIds, wire_id
from ragmon.client.lifecycle import at_exit, in_forked_child
from ragmon.client.options import Options
from ragmon.client.snapshot import (
    IMMUTABLE,
    RECORD_WEIGHT,
    copied,
    copied_documents,
    text_size,
    vectors_size,
)
from ragmon.client.termination import TERMINATION
from ragmon.client.timing import TimedQuery

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self, Unpack

_NOWHERE = "http://disabled.invalid"


class Monitor:
    """Logs the queries of a RAG application to ragmon.

    A call takes microseconds, never blocks and never raises: usable as it is from threads, from
    ``asyncio`` coroutines and from signal handlers. What happens to the records shows in
    ``stats()``; warnings for the operator are logged once, to the logger ``ragmon.client``.

    The first record of a process starts a daemon thread (the one call that takes longer), so a
    server that forks its workers may create the monitor before it forks. The end of the process,
    also by ``SIGTERM``, waits for delivery, at most ``Options.exit_timeout_s``. An abrupt end
    (``SIGKILL``, ``_exit``) loses what is in memory: in an outage with ``spool_dir`` the last
    ``Options.flush_interval_s``, otherwise also what waits for the server.

    Args:
        url: of ragmon, such as ``http://ragmon:8321``; ``None`` or empty turns logging off, so
            that a test or a laptop needs no server. The proxies of the environment are honoured.
        token: a bearer token with scope ``ingest``.
        pipeline: the application or route; default of every record.
        version: release, prompt or model version; default of every record.
        environment: such as ``production``; default of every record.
        spool_dir: keeps records on disk while the server is away, to be delivered in order by this
            process or, if it ends first, by another one; several processes may share it.
        options: limits and timeouts.
        clock: for tests.

    Raises:
        ValueError: ``url`` or ``token`` cannot be used; raised here only, where it is seen at once.
    """

    def __init__(
        self,
        url: str | None,
        *,
        token: str | None = None,
        pipeline: str | None = None,
        version: str | None = None,
        environment: str | None = None,
        spool_dir: str | os.PathLike[str] | None = None,
        options: Options | None = None,
        clock: ClientClock | None = None,
    ) -> None:
        self._clock = clock or ProcessClock()
        self._plan = EnginePlan(
            address=address(url or _NOWHERE, os.environ),
            token=token,
            spool_dir=None if spool_dir is None else _absolute(spool_dir),
            options=options or Options(),
            clock=self._clock,
            defaults={"pipeline": pipeline, "version": version, "environment": environment},
        )
        self._shut = "" if url else "disabled"
        self._over = not url
        self._awaits_exit = False
        self._begin()
        in_forked_child(self._forked)
        if not self._shut and self._plan.options.close_at_sigterm:
            TERMINATION.watch(self)

    def log_query(
        self,
        query: str | None = None,
        answer: str | None = None,
        retrieved_docs: Sequence[Any] | None = None,
        **fields: Unpack[QueryFields],
    ) -> str:
        """Log one query.

        Args:
            query: the question; text beyond a million characters is cut, here and below.
            answer: text shown to the user; ``None`` when the application gave up.
            retrieved_docs: best first: dictionaries (``id``, ``score``, ``text``, ``source`` and
                the spellings of common libraries), ``(id, score)`` or ``(document, score)`` pairs,
                strings (the id is then a hash of the text), or the documents of LangChain,
                LlamaIndex, Haystack and their like. ``None`` is unknown, ``[]`` is nothing found.
            **fields: see ``QueryFields``.

        Returns:
            The query's id, to be named by feedback and labels.
        """
        now = self._clock.now()
        # The documents stand before the citations, which may name their texts.
        arguments: dict[str, object] = {"retrieved_docs": None, "query": query, "answer": answer}
        arguments.update(fields)
        own_id = arguments.get("query_id")
        query_id = self._ids.new(now) if own_id is None else self._known_id(own_id, now)
        arguments["query_id"] = query_id
        self._detach(arguments, now)
        size = text_size(query) + text_size(answer) + vectors_size(fields.get("embeddings"))
        if retrieved_docs is not None:
            with self._documents_boundary:
                arguments["retrieved_docs"], documents_size = copied_documents(retrieved_docs)
                size += documents_size
        self._submit(RecordKind.QUERY, arguments, size)
        return query_id

    def log_feedback(
        self, query_id: str, rating: str | bool | float, comment: str | None = None
    ) -> None:
        """Log a user's rating of an answer; the newest rating of a query counts.

        Args:
            query_id: as ``log_query`` returned it.
            rating: ``positive``, ``negative``, a boolean or a number in [-1, 1].
            comment: the user's words; at most 10 000 characters are kept.
        """
        self._log(RecordKind.FEEDBACK, {"query_id": query_id, "rating": rating, "comment": comment})

    def log_label(
        self,
        query_id: str,
        *,
        relevant_ids: Iterable[str] | None = None,
        grades: Mapping[str, float] | None = None,
        faithful: float | None = None,
        scores: Mapping[str, float] | None = None,
        labeller: str | None = None,
    ) -> None:
        """Log ground truth; at least one of the first four.

        Args:
            query_id: as ``log_query`` returned it.
            relevant_ids: ids of the chunks that answer the question.
            grades: a grade for each chunk id, higher is better.
            faithful: how far the answer is borne out by its chunks, in [0, 1].
            scores: what a custom judge grades, in [0, 1], by the judge's name.
            labeller: name of the labeller; a newer label of the same one replaces the older.
        """
        arguments: dict[str, object] = {
            "query_id": query_id,
            "relevant_ids": relevant_ids,
            "grades": grades,
            "faithful": faithful,
            "scores": scores,
            "labeller": labeller,
        }
        self._log(RecordKind.LABEL, arguments)

    def query(self, query: str | None = None, **fields: Unpack[QueryFields]) -> TimedQuery:
        """Time one query and its stages, and log it when the ``with`` block ends.

            with monitor.query("Who pays?", pipeline="support") as q:
                with q.retrieval():
                    documents = search(…)
                q.retrieved(documents)
                with q.generation():
                    answer = generate(…)
                q.answered(answer, citations=["doc-1"])

        Args:
            query: the question.
            **fields: what else ``log_query`` takes.
        """
        own_id = fields.get("query_id")
        query_id = self.new_query_id() if own_id is None else own_id
        return TimedQuery(self.log_query, query_id, self._clock, {"query": query, **fields})

    def new_query_id(self) -> str:
        """An id for a query that is logged later: 32 hex digits, ordered by time."""
        return self._ids.new(self._clock.now())

    def stats(self) -> Stats:
        """Counts of the records so far, in this process."""
        return self._engine.stats()

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until what was logged so far is acknowledged, refused, or on disk.

        Returns:
            True when it was, within ``timeout_s``.
        """
        return bool(self._shut) or self._engine.worker.flush(timeout_s)

    def close(self, timeout_s: float | None = None) -> bool:
        """Deliver what is left, for at most ``Options.exit_timeout_s``, and stop.

        What is not delivered goes to the spool or is counted as dropped. Called at the end of the
        process if not before; further calls do nothing.

        Returns:
            True when nothing was left undelivered.
        """
        if self._over:
            return True
        self._shut = "closed"
        limit = self._plan.options.exit_timeout_s if timeout_s is None else timeout_s
        delivered = self._engine.close(limit)
        self._over = True  # Only now: a signal that comes before has it closed again, and waits.
        return delivered

    def hasten(self) -> None:
        """Deliver from now on at once, without waiting for further records: the end is near."""
        self._engine.worker.hasten()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _known_id(self, query_id: object, now: float) -> str:
        """The application's own id as the server admits it, or a new one."""
        with self._boundary:
            return wire_id(query_id)
        return self._ids.new(now)

    def _log(self, kind: RecordKind, arguments: dict[str, object]) -> None:
        self._detach(arguments, self._clock.now())
        self._submit(kind, arguments, 0)

    def _detach(self, arguments: dict[str, object], now: float) -> None:
        """Stamp a record, and copy what the application may still change."""
        for name, value in arguments.items():
            if type(value) not in IMMUTABLE:
                arguments[name] = None
                with self._boundary:
                    arguments[name] = copied(value)
        if arguments.get("timestamp") is None:
            arguments["timestamp"] = now

    def _submit(self, kind: RecordKind, arguments: dict[str, object], text_bytes: int) -> None:
        engine = self._engine
        if engine.inbox.put(kind, arguments, RECORD_WEIGHT + text_bytes):
            if not self._awaits_exit:
                self._awaits_exit = True
                at_exit(self.close)
                if self._plan.options.close_at_sigterm:  # A server that forked may have reset it.
                    TERMINATION.watch(self)
            engine.worker.wake()

    def _begin(self) -> None:
        self._engine = build(self._plan)
        self._boundary = ErrorBoundary(self._engine.accounting, "call")
        self._documents_boundary = ErrorBoundary(self._engine.accounting, "retrieved_docs")
        self._awaits_exit = False
        self._ids = QueryIds()
        if self._shut:
            self._engine.inbox.close(self._shut)

    def _forked(self) -> None:
        """Start anew in a forked child: the parent sends the records it logged."""
        parents = self._engine
        self._begin()
        parents.forget()


def _absolute(directory: str | os.PathLike[str]) -> Path:
    from pathlib import Path  # noqa: PLC0415 - a tenth of the time that the import takes

    return Path(directory).absolute()
