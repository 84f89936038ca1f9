"""Expressions and texts with the variables of a dashboard filled in, as Grafana does."""

DEFAULTS = {
    "job": ".+",
    "cluster": ".*",
    "namespace": ".*",
    "instance": ".*",  # what is filled in has none
    "pipeline": ".+",
    "window": "1h",
    "slice_window": "1h",
    "compare": "1d",
    "k": "3",
    "evidence": "label",
    "dimension": "version",
    "__rate_interval": "5m",
}


def filled(text: str, **variables: str) -> str:
    """``text`` with every ``$name`` replaced; ``variables`` go before the defaults."""
    chosen = {**DEFAULTS, **variables}
    for name in sorted(chosen, key=len, reverse=True):  # no name is cut short by another
        text = text.replace(f"${name}", chosen[name])
    return text
