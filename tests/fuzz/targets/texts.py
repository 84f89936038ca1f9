"""Texts of users and models: citations, redaction, prompts, documents, metadata, expressions."""

import functools
from collections.abc import Callable
from typing import Any

import msgspec

from ragmon import citations
from ragmon.alerts.silences import Matcher
from ragmon.judges.grounding import judge
from ragmon.judges.grounding.judge import GroundingJudge
from ragmon.privacy import redact_text
from ragmon.sources.otlp.reading import documents, messages, reprs, usage, values
from tests.fuzz import json_text
from tests.fuzz.otlp import vocabulary
from tests.fuzz.source import Source

_PIECES = (
    *json_text.TEXTS, "[", "]", "[[ ## answer ## ]]", "[[ ## question ## ]]", "Question:",
    "Answer:",
    "\n\nQuestion:", "\nAnswer:", "Helpful Answer:", "Query :", "\n", " " * 40, "\n" * 40, "`",
    "```",
    "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a" * 36,
    "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", "password=", "token: ",
    "api_key=\"",
    "@", ".", "+", "4111 1111 1111 1111", "call me at 5551234567", "DE89 3704 0044 0532 0130 00",
    "078-05-1120", "Bearer ", "https://u:p@h/", "Document(id=", "page_content='", "metadata={", "'",
    "\"",
    "{", "}", "(", ")", ",", ":", "\\", "<b>", "&amp;", "\u200b", "１２３４", "a.b.c",
    "e.g.", "U.S.",
    "Paris is the capital of France.", "It has 2,102,650 inhabitants", "not", "never", "1999",
    "12 km",
)  # fmt: skip
WORDS = [each.encode("utf-8", "surrogatepass") for each in _PIECES if each]


def seeds() -> list[bytes]:
    """Each reader with choices of pieces."""
    return [bytes([reader]) + bytes((step * at + 9) % 256 for at in range(30))
            for reader in range(len(_READERS)) for step in (3, 29)]  # fmt: skip


def run(data: bytes) -> None:
    """Read without an error, and with what each reader promises."""
    source = Source(data)
    _READERS[source.below(len(_READERS))](source)


def _text(source: Source) -> str:
    kind = source.below(4)
    if kind == 3:
        return source.rest().decode("utf-8", "replace")
    if kind == 2:
        captured = source.choose(vocabulary()[1])
        return str(captured.get("stringValue", captured)) + source.text()
    pieces = [
        source.choose(_PIECES) * (1 + source.below(60) if source.chance(12) else 1)
        for _ in range(source.below(16))
    ]
    return "".join(pieces).encode("utf-8", "replace").decode()


def _citations(source: Source) -> None:
    ids = [source.choose(("c-1", "1", "x", "doc 7", "^1")) for _ in range(source.below(4))]
    answer = _text(source)
    cited = citations.parse(answer, ids)
    if cited is not None:
        assert len(set(cited)) == len(cited)
        assert set(cited) & set(ids)
    citations.without_markers(answer, ids)


def _redaction(source: Source) -> None:
    once = redact_text(_text(source))
    assert redact_text(once) == once, "redacting twice changes more"


def _values(source: Source) -> None:
    text = _text(source)
    for read in (values.loads, values.question, values.answer, values.plain, values.asked_in,
                 values.number, values.integer, values.name, values.tags_of):  # fmt: skip
        read(text)
    values.clean(text)
    values.asked(text)


def _documents(source: Source) -> None:
    text = _text(source)
    for read in (documents.documents_in, documents.passages_in, documents.some_documents_in):
        for item in read(text) or ():
            msgspec.json.encode(documents.chunks_of([item]))
    documents.document_of(text, texts=True)


def _structures(source: Source) -> None:
    content: Any = values.loads(_json(source))
    for read in (values.question, values.answer, documents.documents_in, messages.text_of,
                 usage.model_in, usage.prompt_tokens_in,
                 usage.completion_tokens_in, values.tags_of, values.name):  # fmt: skip
        read(content)
    if isinstance(content, list):
        messages.last_text(content, "user")


def _json(source: Source) -> str:
    text = json_text.value(source)
    return text.replace("'a'", '"role"').replace("nul", '"content"')


def _reprs(source: Source) -> None:
    text = _text(source)
    reprs.structure_in(text)
    reprs.fields_in(text)


def _expressions(source: Source) -> None:
    matcher = Matcher(source.choose(("pipeline", "alertname")), _text(source), regex=True)
    matcher.problem()
    matcher.matches({"pipeline": "a" * 40 + "!"})


@functools.cache
def _judge() -> GroundingJudge:
    return judge.load()


def _grounding(source: Source) -> None:
    chunks = [_text(source) for _ in range(source.below(3))]
    judged = _judge().score(_text(source), _text(source), chunks)
    assert judged.score is None or 0.0 <= judged.score <= 1.0
    assert (judged.score is None) is (judged.reason_none is not None)
    msgspec.json.encode(judged)


_READERS: tuple[Callable[[Source], None], ...] = (
    _citations, _redaction, _values, _documents, _structures, _reprs, _expressions, _grounding,
)  # fmt: skip
