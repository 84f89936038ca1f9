"""Metadata under a key prefix of its own: session, user and tags."""

from ragmon.sources.otlp.reading.facts import SpanFacts
from ragmon.sources.otlp.reading.values import first, name, tags_of
from ragmon.sources.otlp.spans import Attributes


def read_metadata(
    attributes: Attributes,
    prefix: str,
    facts: SpanFacts,
    *,
    sessions: tuple[str, ...],
    users: tuple[str, ...] = ("user_id",),
    noise: str | None = None,
) -> None:
    """Note the metadata below a prefix.

    Args:
        attributes: of the span.
        prefix: of the keys, with its dot.
        facts: receives the values.
        sessions: possible names of the session; the first that is set counts.
        users: possible names of the user.
        noise: beginning of names that are not tags.
    """
    values = {
        key.removeprefix(prefix): value
        for key, value in attributes.items()
        if key.startswith(prefix)
    }
    for field, keys in (("session_id", sessions), ("user_id", users)):
        if entry := first(values, *keys):
            facts.set(field, name(entry[0]), prefix + entry[1])
    own = {key: value for key, value in values.items() if not (noise and key.startswith(noise))}
    facts.set_lazily("tags", tags_of, own or None, f"{prefix}*")
