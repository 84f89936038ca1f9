"""Names that are not of the old alphabet (``[a-zA-Z_:][a-zA-Z0-9_:]*``), as scrapers take them."""

import re
from functools import lru_cache

from prometheus_client.openmetrics.exposition import escape_label_name, escape_metric_name

UTF8 = "allow-utf-8"

_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@lru_cache(4_096)
def is_plain_metric(name: str) -> bool:
    """True for a metric name that every format takes as it is."""
    return _METRIC.fullmatch(name) is not None


@lru_cache(4_096)
def is_plain_label(name: str) -> bool:
    """True for a label name that every format takes as it is."""
    return _LABEL.fullmatch(name) is not None


def metric_name(name: str, escaping: str) -> str:
    """A metric name for a text format: as it is, escaped, or, for ``allow-utf-8``, in quotes."""
    return name if is_plain_metric(name) else escape_metric_name(name, escaping)


def label_name(name: str, escaping: str) -> str:
    """The same of a label name."""
    return name if is_plain_label(name) else escape_label_name(name, escaping)
