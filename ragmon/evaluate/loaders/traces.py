"""OpenTelemetry trace exports: each query of a trace is a result of the run."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from ragmon.errors import RagmonError
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders.rows import ending
from ragmon.records import QueryRecord
from ragmon.sources.otlp.spans import Span, pack, unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.sources.otlp.wire import json, protobuf

_MARK = b'"resourceSpans"'
_HEAD_BYTES = 4096
_BINARY = frozenset({".pb", ".bin", ".otlp", ".gz"})


def is_trace_export(path: Path) -> bool:
    """True if a file holds export requests: binary by its ending, JSON by its first bytes."""
    if ending(path) in _BINARY:
        return True
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            return _MARK in file.read(_HEAD_BYTES)
    except (OSError, EOFError, zlib.error):
        return False  # the reader raises the error


def read_run(path: Path) -> Iterator[QueryRecord]:
    """The queries of all traces; matched to cases by the text of the query.

    Raises:
        DataError: it cannot be read, or is no OTLP.
    """
    bodies: dict[bytes, list[bytes]] = {}
    try:
        for part in pack(_spans(path)):
            bodies.setdefault(part.trace_id, []).append(part.body)
    except (OSError, EOFError, zlib.error, RagmonError) as error:
        raise DataError(f"is not a trace export: {error}", path=path) from error
    for parts in bodies.values():
        for query in map_trace(unpack(parts), now=0.0).queries:
            yield query.record


def _spans(path: Path) -> Iterator[Span]:
    body = path.read_bytes()
    body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    if body.lstrip()[:1] != b"{":
        for decoded in protobuf.decode(body):
            yield from decoded.spans
        return
    lines = [line for line in body.splitlines() if line.strip()]
    is_lines = len(lines) > 1 and all(line.lstrip()[:1] == b"{" for line in lines)
    for request in lines if is_lines else [body]:
        for decoded in json.decode(request):
            yield from decoded.spans
