"""Erasure of one user's or session's traces that are not complete, on disk and in memory."""

from collections.abc import Sequence

from ragmon.privacy.erasure import Subject
from ragmon.sources.otlp.spans import unpack
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.sources.otlp.traces.tree import everything

_ID_FIELDS = {"user": "user_id", "session": "session_id"}


def is_owned(bodies: Sequence[bytes], subject: Subject) -> bool:
    """True for a trace of the subject, as far as its spans have come.

    Args:
        bodies: of its spans, as stored.
        subject: user or session.
    """
    needle = subject.id.encode()
    if not any(needle in body for body in bodies):
        return False
    try:
        trace = map_trace(unpack(bodies), 0.0)
        for query in trace.queries:
            record = query.record
            if subject.owns(record.user_id, record.session_id, record.pipeline):
                return True
        if trace.queries:
            return False
        # Its beginning is still to come, so whose it is only a span can tell.
        field = _ID_FIELDS[subject.kind]
        return any(node.facts.value(field) == subject.id for node in everything(trace.tops))
    except Exception:  # noqa: BLE001 - whatever its mapping raised
        return True  # it holds the id, and nobody can tell as what
