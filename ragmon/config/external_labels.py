"""External labels of notifications: their names, checked."""

import re

from ragmon.alerts import LABELS

_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OWN = frozenset({*LABELS, "incident_id", "cause"})
_MOST = 20
_MOST_VALUE = 200  # characters


def external_labels(labels: dict[str, str]) -> dict[str, str]:
    """The labels, if receivers can take them.

    Raises:
        ValueError: one has the name of an alert's own label, or Prometheus would not take it.
    """
    if len(labels) > _MOST:
        raise ValueError(f"at most {_MOST} labels, not {len(labels)}")
    for name, value in labels.items():
        if not _NAME.fullmatch(name) or name.startswith("__"):
            raise ValueError(
                f"{name!r} is no name of a label: write letters, digits and _, for example cluster"
            )
        if name in _OWN:
            raise ValueError(f"{name!r} is a label that ragmon sets itself: choose another name")
        if not value or len(value) > _MOST_VALUE:
            raise ValueError(f"{name}: write 1 to {_MOST_VALUE} characters")
    return labels
