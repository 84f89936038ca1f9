"""Metadata in keys with a prefix of their own: who asked, and what becomes tags."""

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
    """Note what stands below a prefix.

    Args:
        attributes: of the span.
        prefix: of the keys, with its dot.
        facts: take what is found.
        sessions: names of the session, the first that is there counts.
        users: names of the user.
        noise: how names begin that are no tags.
    """
    held = {
        key.removeprefix(prefix): value
        for key, value in attributes.items()
        if key.startswith(prefix)
    }
    for field, keys in (("session_id", sessions), ("user_id", users)):
        if found := first(held, *keys):
            facts.say(field, name(found[0]), prefix + found[1])
    own = {key: value for key, value in held.items() if not (noise and key.startswith(noise))}
    facts.offer("tags", tags_of, own or None, f"{prefix}*")
