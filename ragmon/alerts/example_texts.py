"""Evidence that was looked up in the store, in words."""

from collections.abc import Sequence

from ragmon.alerts import DrivingTopic, Evidence, MissingDocuments
from ragmon.alerts.sentences import share
from ragmon.durations import minute_text

_LOOKUPS = {
    "part": "from the newest queries only, as there were too many to read them all in time",
    "skipped": "not looked up: too many alerts waited for it, or the store could not be read",
}
_FAILING = {
    "zero_result": "queries without a result",
    "hit": "misses",
    "low_score": "queries with a low score",
    "uncited": "answers without citations",
    "refusal": "answers that decline",
    "positive_feedback": "answers that are not liked",
}
_MOST_ID = 60


def missing_text(missing: MissingDocuments) -> str:
    """``2 of 340 documents are no longer retrieved since 22:11 UTC: kb-17, kb-18``."""
    since = (
        "are never retrieved, although other versions retrieve them"
        if missing.since is None
        else f"are no longer retrieved since {minute_text(missing.since)}"
    )
    named = ", ".join(clip(" ".join(name.split()), _MOST_ID) for name in missing.ids)
    such = ": " if missing.count == len(missing.ids) else ", such as "
    return f"{missing.count:,} of {missing.regular:,} documents {since}{such}{named}"


def topics_text(topics: Sequence[DrivingTopic], metric: str) -> str:
    """``91 % of the misses ask about “refund deadline” (8 % of the queries); …``.

    Args:
        topics: that drive a change.
        metric: of the alert.
    """
    failing = _FAILING.get(metric, "queries that fail")
    parts = [
        f"{share(topic.of_failing)} {f'of the {failing} ask ' if at == 0 else ''}about"
        f" “{clip(' '.join(topic.words), _MOST_ID)}” ({share(topic.of_queries)} of the queries)"
        for at, topic in enumerate(topics)
    ]
    return "; ".join(parts)


def lookup_text(evidence: Evidence) -> str:
    """Reason why examples may be missing: ``still being looked up; …``; empty where none are."""
    if evidence.lookup == "waiting":
        looked_for = "documents and topics" if evidence.worst else "worst queries"
        return f"{looked_for} are still being looked up; the page of the incident will show them"
    return _LOOKUPS.get(evidence.lookup, "")


def clip(text: str, most: int) -> str:
    """A text, shortened visibly if it must be."""
    return text if len(text) <= most else text[: most - 1] + "…"
