"""Hints for requests whose path is not quite one that is answered."""

import difflib
from collections.abc import Sequence

_SIGNALS = ("traces", "logs", "metrics")
_BASES = frozenset({"/", "/v1", "/otlp", "/otlp/v1", "/api/public/otel", "/api/public/otel/v1"})
_LONGEST = 200  # characters of a path that is compared with others


def path_hint(method: str, path: str, known: Sequence[str] = ()) -> str:
    """The path that was meant, as the end of a sentence; empty for one that is like none.

    Args:
        method: of the request.
        path: of the request.
        known: paths that are answered.
    """
    last = path.rstrip("/").rpartition("/")[2]
    signal = last.removesuffix("s") + "s"
    if signal in _SIGNALS:
        return f"; OTLP is taken at /v1/{signal}: let the endpoint of your exporter end with it"
    if method == "POST" and (path.rstrip("/") or "/") in _BASES:
        return (
            "; send OTLP to /v1/traces, /v1/logs or /v1/metrics (an SDK adds them by itself to "
            "OTEL_EXPORTER_OTLP_ENDPOINT, and to no endpoint of one signal), records to /v1/queries"
        )
    near = difflib.get_close_matches(path[:_LONGEST].rstrip("/"), known, n=1, cutoff=0.7)
    ending = [each for each in known if last and each.endswith(f"/{last}")]
    same = [each for each in ending if each in near] or ending
    return f"; did you mean {next(iter(same or near))}?" if same or near else ""
