"""Stand-ins for tracing tools on loopback: they answer GET as the API's documentation says.

Phoenix answers what a real one answered (tests/data/phoenix), page by page as it does. Langfuse,
whose server does not install here, is made after its published OpenAPI document: groups of fields,
limits of pages, cursors, Basic credentials.
"""

import base64
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

DATA = Path(__file__).parents[1] / "data/phoenix"

Parameters = dict[str, list[str]]
_CORE = {"id", "traceId", "startTime", "endTime", "projectId", "parentObservationId", "type"}
_GROUPS = {
    "basic": {"name", "level", "statusMessage", "version", "environment", "userId", "sessionId",
              "isRootObservation"},
    "io": {"input", "output"},
    "metadata": {"metadata"},
    "model": {"model"},
    "usage": {"usageDetails", "costDetails", "totalCost"},
    "trace_context": {"tags", "release", "traceName"},
    "time": {"completionStartTime", "createdAt", "updatedAt"},
}  # fmt: skip


class ToolAnswer(NamedTuple):
    """What goes back."""

    status: int
    content: Any
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Who hung up has its reasons."""


class ToolServer:
    """A server that counts its requests; ``trouble`` is answered first, one by one."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Parameters]] = []
        self.trouble: list[ToolAnswer] = []
        self.authorizations: list[str] = []
        self.server = _Server(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, parameters: Parameters) -> ToolAnswer:
        """The answer to one request."""
        raise NotImplementedError

    def respond(self, target: str, authorization: str) -> ToolAnswer:
        """The answer, or the trouble that stands before it."""
        parts = urlsplit(target)
        parameters = parse_qs(parts.query)
        self.asked.append((parts.path, parameters))
        self.authorizations.append(authorization)
        return self.trouble.pop(0) if self.trouble else self.answer(parts.path, parameters)

    def was_asked(self, times: int) -> bool:
        """True once so many requests came."""
        return len(self.asked) >= times

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        tool = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                reply = tool.respond(self.path, self.headers.get("authorization", ""))
                body = json.dumps(reply.content).encode()
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def serving(tool: ToolServer) -> Iterator[ToolServer]:
    """The server answers as long as the block runs."""
    thread = threading.Thread(target=tool.server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield tool
    finally:
        tool.server.shutdown()
        tool.server.server_close()
        thread.join(10)


class PhoenixServer(ToolServer):
    """Spans in the order of their coming; a cursor is the number of the next one, going back."""

    def __init__(self) -> None:
        super().__init__()
        recorded = json.loads(gzip.decompress((DATA / "spans.json.gz").read_bytes()))
        self.spans: list[dict[str, Any]] = recorded[::-1]
        self.annotations: dict[str, list[dict[str, Any]]] = json.loads(
            (DATA / "annotations.json").read_text(encoding="utf-8")
        )

    def answer(self, path: str, parameters: Parameters) -> ToolAnswer:
        prefix, project, rest = path.removeprefix("/v1/").split("/", 2)
        assert prefix == "projects"
        if project != "default":
            return ToolAnswer(404, f"Project with name {project} not found")
        if rest == "spans/otlpv1":
            return self._spans(parameters)
        assert rest in ("span_annotations", "trace_annotations"), rest
        return self._annotations(rest.removesuffix("_annotations"), parameters)

    def _spans(self, parameters: Parameters) -> ToolAnswer:
        limit = int(parameters.get("limit", ["100"])[0])
        assert limit <= 1_000
        cursor = parameters.get("cursor", [str(len(self.spans))])[0]
        if not cursor.isdecimal():
            return ToolAnswer(422, "Invalid cursor")
        start, end = (nanoseconds(parameters[name][0]) for name in ("start_time", "end_time"))
        matching = [
            (number, span)
            for number, span in reversed(list(enumerate(self.spans)))
            if number <= int(cursor) and start <= span["start_time_unix_nano"] < end
        ]
        after = matching[limit : limit + 1]
        return ToolAnswer(
            200,
            {
                "data": [span for _, span in matching[:limit]],
                "next_cursor": str(after[0][0]) if after else None,
            },
        )

    def _annotations(self, of: str, parameters: Parameters) -> ToolAnswer:
        ids = set(parameters[f"{of}_ids"])
        assert ids
        assert len(ids) <= 100
        data = [each for each in self.annotations[of] if each[f"{of}_id"] in ids]
        return ToolAnswer(200, {"data": data, "next_cursor": None})


class LangfuseServer(ToolServer):
    """A project. ``is_old``: with the endpoints of version 3 only."""

    keys = ("pk-lf-1", "sk-lf-2")

    def __init__(self) -> None:
        super().__init__()
        self.observations: list[dict[str, Any]] = []
        self.scores: list[dict[str, Any]] = []
        self.is_old = False

    def respond(self, target: str, authorization: str) -> ToolAnswer:
        expected = base64.b64encode(":".join(self.keys).encode()).decode()
        if authorization != f"Basic {expected}":
            return ToolAnswer(401, {"message": "Invalid credentials. Confirm that keys are right."})
        return super().respond(target, authorization)

    def answer(self, path: str, parameters: Parameters) -> ToolAnswer:
        endpoints: dict[str, Callable[[Parameters], ToolAnswer]] = {
            "/api/public/v2/observations": self._observations,
            "/api/public/v3/scores": self._scores,
        }
        if self.is_old:
            endpoints = {
                "/api/public/observations": self._old_observations,
                "/api/public/v2/scores": self._old_scores,
            }
        endpoint = endpoints.get(path)
        return endpoint(parameters) if endpoint else ToolAnswer(404, {"message": "Not found"})

    def _observations(self, parameters: Parameters) -> ToolAnswer:
        groups = parameters["fields"][0].split(",")
        fields = _CORE.union(*(_GROUPS[group] for group in groups if group != "core"))
        whole = parameters.get("expandMetadata", [""])[0].split(",")
        rows = _between(self.observations, "startTime", parameters, "Start")
        data = [
            {
                key: _cut(value, whole) if key == "metadata" else value
                for key, value in row.items()
                if key in fields
            }
            for row in rows
        ]
        return _cursor_page(data, parameters, 1_000)

    def _scores(self, parameters: Parameters) -> ToolAnswer:
        details = {"comment", "metadata", "configId", "subject"}
        wanted = parameters.get("fields", [""])[0].split(",")
        assert set(wanted) <= {"details", "subject", "annotation"}
        hidden = details if wanted == [""] else set()
        rows = _between(self.scores, "timestamp", parameters, "")
        data = [{key: row[key] for key in row.keys() - hidden} for row in rows]
        return _cursor_page(data, parameters, 100)

    def _old_observations(self, parameters: Parameters) -> ToolAnswer:
        rows = _between(self.observations, "startTime", parameters, "Start")
        parsed = [{**row, "input": _parsed(row["input"]), "output": _parsed(row["output"])}
                  for row in rows]  # fmt: skip
        return _numbered_page(parsed, parameters)

    def _old_scores(self, parameters: Parameters) -> ToolAnswer:
        rows = _between(self.scores, "timestamp", parameters, "")
        data = []
        for row in rows:
            subject = row["subject"]
            is_trace = subject["kind"] == "trace"
            ids = {
                "traceId": subject["id"] if is_trace else subject.get("traceId"),
                "observationId": None if is_trace else subject["id"],
            }
            data.append({key: value for key, value in row.items() if key != "subject"} | ids)
        return _numbered_page(data, parameters)


def nanoseconds(text: str) -> int:
    """Of a time in ISO 8601, since 1970."""
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return int(moment.timestamp() * 1_000) * 1_000_000


def _between(
    rows: list[dict[str, Any]], field: str, parameters: Parameters, word: str
) -> list[dict[str, Any]]:
    ends = ("Time", "Time") if word else ("Timestamp", "Timestamp")
    start = nanoseconds(parameters[f"from{word}{ends[0]}"][0])
    end = nanoseconds(parameters[f"to{word}{ends[1]}"][0])
    within = [row for row in rows if start <= nanoseconds(row[field]) < end]
    return sorted(within, key=lambda row: str(row[field]), reverse=True)


def _cursor_page(rows: list[dict[str, Any]], parameters: Parameters, most: int) -> ToolAnswer:
    limit = int(parameters.get("limit", ["50"])[0])
    if limit > most:
        return ToolAnswer(400, {"message": f"limit is at most {most}"})
    text = parameters.get("cursor", [base64.urlsafe_b64encode(b"0").decode()])[0]
    try:
        begin = int(base64.urlsafe_b64decode(text))
    except ValueError:
        return ToolAnswer(400, {"message": "Invalid cursor"})
    meta: dict[str, Any] = {"limit": limit}
    if begin + limit < len(rows):
        meta["cursor"] = base64.urlsafe_b64encode(str(begin + limit).encode()).decode()
    return ToolAnswer(200, {"data": rows[begin : begin + limit], "meta": meta})


def _numbered_page(rows: list[dict[str, Any]], parameters: Parameters) -> ToolAnswer:
    limit, page = int(parameters["limit"][0]), int(parameters["page"][0])
    assert limit <= 100
    total = -(-len(rows) // limit)
    meta = {"page": page, "limit": limit, "totalItems": len(rows), "totalPages": total}
    return ToolAnswer(200, {"data": rows[(page - 1) * limit : page * limit], "meta": meta})


def _cut(metadata: dict[str, Any], whole: list[str]) -> dict[str, Any]:
    return {
        key: value if key in whole or not isinstance(value, str) else value[:200]
        for key, value in metadata.items()
    }


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text) if text else text
    except ValueError:
        return text
