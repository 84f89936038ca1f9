"""Run against a live RAG service: asks every question and records the answer."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import local
from typing import Any, Literal

import msgspec
import requests
from msgspec import Struct

from ragmon.clock import Clock
from ragmon.evaluate.cases import Case, Run, text_id
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders import yaml_files
from ragmon.evaluate.loaders.fields import chunk_of
from ragmon.http_client import retry_after_s, timed_session
from ragmon.records import QueryRecord

RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 60.0
_ERROR_CHARACTERS = 500
FAILURES = ("network", "timeout", "refused", "server_error", "malformed")
"""Reasons for a missing answer: no connection, timeout, 4xx, 5xx, or an unusable answer."""
_MALFORMED = ("no JSON", "unusable answer", "the answer holds")
_EXAMPLE = 'url: http://localhost:8000/ask and body: {q: "{query}"}'
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Template(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Request to a service, and the paths of its answer, such as ``data.0.text``.

    ``{query}`` and ``{case_id}`` in the body are filled in; ``${NAME}`` in a header is taken from
    the environment, so that a file holds no secret.
    """

    url: str
    method: Literal["POST", "GET", "PUT"] = "POST"
    headers: dict[str, str] = {}
    body: Any = msgspec.field(default_factory=lambda: {"query": "{query}"})  # GET: parameters
    answer: str = "answer"
    chunks: str = "chunks"  # a list of objects, of passages, or of ids (see ``chunks_are``)
    chunks_are: Literal["texts", "ids"] = "texts"  # what plain strings in that list are
    chunk: dict[Literal["id", "text", "score", "source"], str] = {}  # paths inside one object
    citations: str = "citations"
    timeout_s: float = 60.0


class RequestPolicy(Struct, frozen=True, kw_only=True):
    """Concurrency and retries of the requests."""

    concurrency: int = 4
    attempts: int = 3
    backoff_s: float = 1.0  # before the second attempt; doubled before each further one


def read_template(path: Path) -> Template:
    """A template from a YAML or JSON file.

    Raises:
        DataError: unreadable, or not of that form.
    """
    return yaml_files.read(path, Template, Template.__struct_fields__, _EXAMPLE)


def drive(
    cases: Sequence[Case],
    template: Template,
    policy: RequestPolicy,
    clock: Clock,
    done: Callable[[], None] = lambda: None,
) -> Run:
    """Ask every question; a query that fails is recorded with its error.

    Args:
        cases: what to ask.
        template: the request.
        policy: concurrency and retries.
        clock: measures latency, waits between attempts.
        done: called after each case, in this thread.

    Returns:
        One record a case, in the order of the cases; latency is that of the last attempt.

    Raises:
        DataError: a header names an unset variable, the URL is none, or every query failed.
    """
    run = ask_all(cases, template, policy, clock, done)
    failed = [record for record in run.values() if record.error is not None]
    if run and len(failed) == len(run):
        raise DataError(f"{template.url}: every query failed; the first: {failed[0].error}")
    return run


def ask_all(
    cases: Sequence[Case],
    template: Template,
    policy: RequestPolicy,
    clock: Clock,
    done: Callable[[], None] = lambda: None,
) -> Run:
    """As ``drive``, but a run in which every query failed is a result too.

    When it is interrupted, questions that were not sent yet never are.

    Raises:
        DataError: a header names an unset variable, or the URL is none.
    """
    if not template.url.startswith(("http://", "https://")):
        hint = "Begin it with http:// or https://"
        raise DataError(f"{template.url!r} is not a URL", field="url", hint=hint)
    service = _Service(template, policy, clock)
    pool = ThreadPoolExecutor(policy.concurrency, thread_name_prefix="endpoint")
    try:
        futures = {pool.submit(service.ask, case): case.case_id for case in cases}
        records = {}
        for future in as_completed(futures):
            records[futures[future]] = future.result()
            done()
    finally:
        pool.shutdown(cancel_futures=True)
    return {case.case_id: records[case.case_id] for case in cases}


def failure_of(error: str) -> str:
    """The one of ``FAILURES`` that the error of a recorded query is."""
    if error[:1].isdigit():
        return "server_error" if error.startswith("5") else "refused"
    if error.partition(":")[0].endswith("Timeout"):
        return "timeout"
    return "malformed" if error.startswith(_MALFORMED) else "network"


class _Service:
    """The service behind a template."""

    def __init__(self, template: Template, policy: RequestPolicy, clock: Clock) -> None:
        self._template, self._policy, self._clock = template, policy, clock
        self._headers = {name: _from_environment(value) for name, value in template.headers.items()}
        self._local = local()

    def ask(self, case: Case) -> QueryRecord:
        """Ask one question, retrying errors that may pass."""
        asked_at = self._clock.now()
        for wait_s in self._waits():
            started = self._clock.monotonic()
            outcome, retry_s = self._attempt(case)
            took_ms = 1000.0 * (self._clock.monotonic() - started)
            if retry_s is None:
                break
            if wait_s is not None:
                self._clock.sleep(min(max(wait_s, retry_s), _LONGEST_WAIT_S))
        fields = {"query_id": case.case_id, "query": case.query, "timestamp": asked_at}
        try:
            return msgspec.convert(fields | {"latency_ms": took_ms} | outcome, QueryRecord)
        except msgspec.ValidationError as error:
            return msgspec.convert(
                fields | {"latency_ms": took_ms, "error": f"unusable answer: {error}"}, QueryRecord
            )

    def _waits(self) -> Iterator[float | None]:
        """Seconds to wait after each attempt; None after the last."""
        for attempt in range(self._policy.attempts - 1):
            yield self._policy.backoff_s * 2**attempt
        yield None

    def _attempt(self, case: Case) -> tuple[dict[str, Any], float | None]:
        """(fields of the record, seconds that the service asks to wait; None: final)."""
        try:
            response = self._send(case)
        except requests.RequestException as error:
            return {"error": f"{type(error).__name__}: {error}"[:_ERROR_CHARACTERS]}, 0.0
        if response.status_code in RETRIED:
            after = response.headers.get("Retry-After", "")
            return {"error": _refusal(response)}, retry_after_s(after, self._clock.now())
        if not response.ok or response.is_redirect:
            return {"error": _refusal(response)}, None
        try:
            return _read(response.json(), self._template), None
        except requests.JSONDecodeError:
            return {"error": f"no JSON: {response.text[:_ERROR_CHARACTERS]}"}, None

    def _send(self, case: Case) -> requests.Response:
        if not hasattr(self._local, "session"):
            self._local.session = timed_session()
        session: requests.Session = self._local.session
        template = self._template
        body = _filled(template.body, {"query": case.query, "case_id": case.case_id})
        return session.request(
            template.method,
            template.url,
            headers=self._headers,
            params=body if template.method == "GET" else None,
            json=None if template.method == "GET" else body,
            timeout=template.timeout_s,
            allow_redirects=False,  # the headers may hold a key, and a POST would become a GET
        )


def _filled(body: Any, values: Mapping[str, str]) -> Any:
    """The body with its placeholders filled in."""
    if isinstance(body, str):
        for name, value in values.items():
            body = body.replace(f"{{{name}}}", value)
        return body
    if isinstance(body, dict):
        return {key: _filled(value, values) for key, value in body.items()}
    if isinstance(body, list):
        return [_filled(value, values) for value in body]
    return body


def _read(answer: Any, template: Template) -> dict[str, Any]:
    """The fields of a record in a service's answer."""
    text, chunks = _at(answer, template.answer), _at(answer, template.chunks)
    if text is None and chunks is None:
        keys = ", ".join(map(str, answer)) if isinstance(answer, dict) else type(answer).__name__
        paths = f"{template.answer!r} nor {template.chunks!r}"
        return {"error": f"the answer holds neither {paths}; it holds {keys}"}
    fields: dict[str, Any] = {}
    if text is not None:
        fields["answer"] = text
    if isinstance(chunks, list):
        fields["chunks"] = [_chunk(value, template) for value in chunks]
    citations = _at(answer, template.citations)
    if isinstance(citations, list):
        fields["citations"] = [str(key) for key in citations]
    return fields


def _chunk(item: Any, template: Template) -> Any:
    if isinstance(item, str) and template.chunks_are == "texts":
        return {"id": text_id(item), "text": item}
    if isinstance(item, dict) and template.chunk:
        named = {name: _at(item, path) for name, path in template.chunk.items()}
        item = item | {name: value for name, value in named.items() if value is not None}
    return chunk_of(item)


def _at(value: Any, path: str) -> Any:
    """The value at a path; None when there is none."""
    for step in path.split("."):
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _refusal(response: requests.Response) -> str:
    detail = response.headers["Location"] if response.is_redirect else response.text
    return f"{response.status_code} {response.reason}: {detail[:_ERROR_CHARACTERS]}"


def _from_environment(header: str) -> str:
    def value(match: re.Match[str]) -> str:
        try:
            return os.environ[match[1]]
        except KeyError as error:
            raise DataError(
                f"environment variable {match[1]} is not set", field="headers"
            ) from error

    return _VARIABLE.sub(value, header)
