"""Hints for exporters whose endpoint is not quite a path of OTLP."""

_SIGNALS = ("traces", "logs", "metrics")


def path_hint(path: str) -> str:
    """The path that was meant, as the end of a sentence; empty for one that is like none."""
    last = path.rstrip("/").rpartition("/")[2]
    signal = last.removesuffix("s") + "s"
    if signal not in _SIGNALS:
        return ""
    return f"; OTLP is taken at /v1/{signal}: let the endpoint of your exporter end with it"
