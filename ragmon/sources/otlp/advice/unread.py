"""Attributes that may hold a field that was not read, found by their names and values."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from ragmon.sources.otlp.advice.frameworks import framework_of
from ragmon.sources.otlp.conventions import conventions
from ragmon.sources.otlp.reading.values import answer, is_redacted, loads, question
from ragmon.sources.otlp.spans import Span

_SEPARATORS = re.compile(r"[^a-z0-9]+")
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OBJECT = re.compile(r"^<[\w. ]*(?:object|generator)\b[^>]*>$")
# First words of keys that describe no step of an application.
_ASIDE = frozenset(
    {"http", "url", "net", "network", "server", "client", "rpc", "messaging", "db", "k8s", "cloud",
     "faas", "code", "process", "host", "os", "peer", "telemetry", "exception", "error", "otel",
     "container", "tls", "dns"}
)  # fmt: skip
_MOST_VALUE = 20_000  # characters that are looked at
_MOST_KEYS = 2_000  # of one trace

_QUERY = frozenset({"question", "query", "prompt", "input", "utterance", "ask", "asked", "message"})
_ANSWER = frozenset(
    {"answer", "reply", "response", "output", "completion", "generation", "result", "generated"}
)
_DOCUMENTS = frozenset(
    {"documents", "docs", "chunks", "passages", "contexts", "context", "hits", "sources", "nodes",
     "results", "matches", "retrieved", "references", "snippets", "articles"}
)  # fmt: skip
_VAGUE = frozenset({"text", "value", "content", "str", "raw", "body", "message"})
_SESSION = frozenset({"session", "conversation", "thread", "chat", "dialog", "dialogue"})
_USER = frozenset({"user", "customer", "account", "visitor", "enduser", "member"})
_VERSION = frozenset({"version", "release", "revision"})
_ENVIRONMENT = frozenset({"environment", "env", "stage"})
_SCORES = ("score", "relevance_score", "similarity", "similarity_score", "_score")


class UnreadAttribute(NamedTuple):
    """An attribute that may hold a field, and why it was not taken."""

    span: str
    key: str
    why: str


def unread_attribute(field: str, spans: Iterable[Span]) -> UnreadAttribute | None:
    """The attribute that most likely holds a field; None when none looks like it."""
    fits = _FITS.get(field)
    if fits is None:
        return None
    looked = list(_attributes(spans))
    return next(
        (
            UnreadAttribute(span.name, key, _why(field, value))
            for span, key, value in looked
            if _is_own(span, key, value) and fits(_words(key), value)
        ),
        None,
    )


def hidden_attribute(spans: Iterable[Span]) -> UnreadAttribute | None:
    """An attribute of which a setting of the instrumentation hides the value."""
    return next(
        (
            UnreadAttribute(span.name, key, "its value is hidden by a setting")
            for span, key, value in _attributes(spans)
            if is_redacted(value)
        ),
        None,
    )


def number_beside(spans: Iterable[Span]) -> UnreadAttribute | None:
    """A number that each passage of a retrieval has under a name that is none of a score."""
    for span, key, value in _attributes(spans):
        passages = loads(value)
        if not isinstance(passages, list) or not passages:
            continue
        if not all(isinstance(passage, dict) for passage in passages):
            continue
        names = [
            name
            for name in passages[0]
            if name not in _SCORES
            and all(isinstance(passage.get(name), float) for passage in passages)
        ]
        if names:
            return UnreadAttribute(
                span.name, key, f"each passage has a number under `{names[0]}`: call it `score`"
            )
    return None


def _attributes(spans: Iterable[Span]) -> Iterator[tuple[Span, str, Any]]:
    """Attributes of spans and their events that say something of the application."""
    left = _MOST_KEYS
    for span in spans:
        for attributes in (span.attributes, *(event.attributes for event in span.events)):
            for key, value in attributes.items():
                left -= 1
                if left < 0:
                    return
                if isinstance(value, str) and len(value) > _MOST_VALUE:
                    continue
                if _words(key)[0] not in _ASIDE:
                    yield span, key, value


def _is_own(span: Span, key: str, value: Any) -> bool:
    """True for an attribute of the application, which no convention knows, or an empty one."""
    if isinstance(value, str) and (is_redacted(value) or _is_object(value)):
        return True
    return framework_of(span.scope) is None and key.partition(".")[0] not in _spoken()


@cache
def _spoken() -> frozenset[str]:
    """First words of the keys that the conventions read."""
    return frozenset().union(*(convention.SPEAKS for convention in conventions()))


def _words(key: str) -> list[str]:
    return _SEPARATORS.split(_NEW_WORD.sub("_", key[:200]).lower())


def _why(field: str, value: Any) -> str:
    if isinstance(value, str) and _is_object(value):
        return "it holds a Python object, not its text"
    if is_redacted(value):
        return "its value is hidden by a setting"
    return f"write it to {_STANDARD[field]}"


def _is_about(words: list[str], about: frozenset[str]) -> bool:
    """True when the last word says so, or the one before it where the last is vague."""
    return words[-1] in about or (words[-1] in _VAGUE and bool(about.intersection(words[-2:-1])))


def _fits_query(words: list[str], value: Any) -> bool:
    if not _is_about(words, _QUERY) or not isinstance(value, str):
        return False
    return is_redacted(value) or question(value) is not None or _is_object(value)


def _fits_answer(words: list[str], value: Any) -> bool:
    if not _is_about(words, _ANSWER) or not isinstance(value, str):
        return False
    return is_redacted(value) or answer(value) is not None or _is_object(value)


def _is_object(value: str) -> bool:
    return _OBJECT.match(value) is not None


def _fits_chunks(words: list[str], value: Any) -> bool:
    if not _DOCUMENTS.intersection(words[-3:]):
        return False
    passages = loads(value)
    return isinstance(passages, list) and bool(passages) and isinstance(passages[0], dict | str)


def _fits_model(words: list[str], value: Any) -> bool:
    is_name = isinstance(value, str) and 1 < len(value) < 200 and " " not in value
    return bool({"model", "deployment"}.intersection(words[-2:])) and is_name


def _fits_tokens(words: list[str], value: Any) -> bool:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return bool({"tokens", "token"}.intersection(words)) and is_count


def _id_of(whose: frozenset[str]) -> Callable[[list[str], Any], bool]:
    def fits(words: list[str], value: Any) -> bool:
        is_id = isinstance(value, int | str) and not isinstance(value, bool) and value != ""
        is_named = words[-1] in whose or (
            words[-1] in ("id", "uuid", "key", "name") and bool(whose.intersection(words[-3:]))
        )
        return is_named and is_id and " " not in str(value)

    return fits


def _named(words_of: frozenset[str]) -> Callable[[list[str], Any], bool]:
    def fits(words: list[str], value: Any) -> bool:
        return words[-1] in words_of and isinstance(value, str) and 0 < len(value) < 100

    return fits


_FITS: dict[str, Callable[[list[str], Any], bool]] = {
    "query": _fits_query,
    "answer": _fits_answer,
    "chunks": _fits_chunks,
    "model": _fits_model,
    "tokens": _fits_tokens,
    "session_id": _id_of(_SESSION),
    "user_id": _id_of(_USER),
    "version": _named(_VERSION),
    "environment": _named(_ENVIRONMENT),
}
_STANDARD = {
    "query": "`input.value`",
    "answer": "`output.value`",
    "chunks": "`output.value` of a span with `openinference.span.kind` = `RETRIEVER`",
    "model": "`llm.model_name`",
    "tokens": "`llm.token_count.prompt` and `llm.token_count.completion`",
    "session_id": "`session.id`",
    "user_id": "`user.id`",
    "version": "`service.version` of the resource",
    "environment": "`deployment.environment.name` of the resource",
}
