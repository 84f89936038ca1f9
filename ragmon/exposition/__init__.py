"""``/metrics``: the windows, the counters, and the monitor itself, as Prometheus reads them."""

from collections.abc import Iterable

from ragmon.exposition.text import Family, render

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def wants_openmetrics(accept: str) -> bool:
    """True when a scraper accepts OpenMetrics."""
    return "application/openmetrics-text" in accept


def page(families: Iterable[Family], *, openmetrics: bool) -> bytes:
    """The whole answer of ``/metrics``."""
    text = render(families, openmetrics=openmetrics)
    return text + b"# EOF\n" if openmetrics else text
