"""Rows to cases and records, with the field names of other tools as aliases."""

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ragmon.evaluate.cases import Case, id_of, text_id
from ragmon.evaluate.errors import DataError
from ragmon.evaluate.loaders.rows import Row, ending
from ragmon.records import QueryRecord

Kind = TypeVar("Kind", Case, QueryRecord)

_QUERY = ("question", "user_input", "input")
_CASE = {
    "case_id": ("id", "query_id", "qid", "question_id", "_id"),
    "query": _QUERY,
    "ground_truth_answer": (
        *("ground_truth", "ground_truths", "reference", "reference_answer"),
        *("expected_output", "expected_answer"),
    ),
    "relevant_doc_ids": ("relevant_ids", "relevant_chunk_ids", "reference_context_ids"),
    "metadata": ("tags",),
}
_RECORD = {
    "query_id": ("case_id", "id", "qid", "question_id", "_id"),
    "query": _QUERY,
    "answer": ("response", "actual_output", "prediction"),
    "citations": ("cited", "cited_ids"),
}
_TEXTS = ("retrieved_contexts", "contexts", "retrieval_context")  # lists of passages
_IDS = ("retrieved_ids", "retrieved_context_ids", "retrieved_doc_ids", "retrieved")
_REFERENCES = ("reference_contexts",)
_CHUNK = {
    "id": ("chunk_id", "doc_id", "document_id", "_id"),
    "text": ("content", "page_content", "passage"),
}
_LISTS = frozenset(
    {"relevant_doc_ids", "relevant_ids", "keywords", "nuggets", "claims", "citations", *_IDS}
)
_REMEDIES = {
    **dict.fromkeys(("relevant_doc_ids", "citations"), 'Write ids: ["doc-1", "doc-2"]'),
    **dict.fromkeys(("keywords", "nuggets", "claims"), 'Write texts: ["one", "another"]'),
    "grades": 'Write a number for each id: {"doc-1": 2, "doc-2": 0}',
    "facets": 'Write the ids for each side of the question: {"cost": ["doc-1"]}',
    "chunks": 'Write them best first: [{"id": "doc-1", "score": 0.8, "text": "…"}]',
    "metadata": 'Write a value for each key: {"kind": "factoid"}',
    "latency_ms": 'Write a number, or {"total": 900, "retrieval": 80}',
}
"""Correct form of a field, by name."""
_PLACE = re.compile(r" - at `\$\.?([^`]*)`\Z")


class Ignored:
    """Fields that nothing reads, each reported once with the nearest known name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def add(self, name: str, known: list[str]) -> None:
        """Note a field."""
        if name not in self._names:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
            self._names[name] = f" (did you mean {near[0]}?)" if near else ""

    def __iter__(self) -> Iterator[str]:
        return (f"field {name!r} is not read{near}" for name, near in self._names.items())


def case_of(row: Row, path: Path, line: int, ignored: Ignored) -> Case:
    """One case.

    Raises:
        DataError: with file, line and field.
    """
    row = _unwrapped(row)
    named = _named(row, _CASE)
    references = _listed(row, _REFERENCES, path, line)
    if references and "relevant_doc_ids" not in named:
        named["relevant_doc_ids"] = [text_id(str(text)) for text in references]
    if isinstance(named.get("ground_truth_answer"), list):
        named["ground_truth_answer"] = next(iter(named["ground_truth_answer"]), None)
    rest = _unread(row, named)
    if ending(path) in (".csv", ".tsv"):
        named["metadata"] = {**rest, **named.get("metadata", {})}
    else:
        for name in rest:
            ignored.add(name, [*Case.__struct_fields__])
    if named.get("query") is None:
        raise DataError(
            "is missing", path=path, line=line, field="query", hint=_missing_question_hint(row)
        )
    case = _converted(named, Case, path, line)
    if case.query and case.case_id:
        return case
    if not case.query:
        raise DataError("is empty", path=path, line=line, field="query")
    return msgspec.structs.replace(case, case_id=id_of(case.query))


def record_of(row: Row, path: Path, line: int) -> QueryRecord:
    """One result of a run.

    Raises:
        DataError: with file, line and field.
    """
    row = _unwrapped(row)
    named = _named(row, _RECORD)
    chunks = _chunks(row, path, line)
    if chunks is not None:
        named["chunks"] = chunks
    if not named.get("query_id") and not named.get("query"):
        raise DataError(
            "is missing", path=path, line=line, field="query_id", hint="Name the case or its query"
        )
    return _converted(named, QueryRecord, path, line)


def _missing_question_hint(row: Row) -> str:
    """Hint where no field is the question."""
    fields = ", ".join(map(str, row)) or "nothing"
    return f"Call the question query, {', '.join(_QUERY[:-1])} or {_QUERY[-1]}; this has {fields}"


def _unwrapped(row: Row) -> Row:
    """A query of ragmon's own export stands under ``record``."""
    inner = row.get("record")
    return inner if isinstance(inner, dict) else row


def _named(row: Row, names: dict[str, tuple[str, ...]]) -> Row:
    """The row under our names; ours come first where both are given."""
    aliases = {alias: name for name, others in names.items() for alias in others}
    named = {
        aliases[key]: value for key, value in row.items() if key in aliases and value is not None
    }
    named |= {key: value for key, value in row.items() if key not in aliases and value is not None}
    for name in _LISTS & named.keys():
        if isinstance(named[name], str):
            named[name] = [part.strip() for part in named[name].split("|") if part.strip()]
    return named


def _unread(row: Row, named: Row) -> Row:
    """Fields that neither a case nor a run reads."""
    read = {*Case.__struct_fields__, *QueryRecord.__struct_fields__, *_TEXTS, *_IDS, *_REFERENCES}
    for names in (_CASE, _RECORD):
        read.update(alias for others in names.values() for alias in others)
    return {key: value for key, value in row.items() if key not in read and key in named}


def _chunks(row: Row, path: Path, line: int) -> list[Any] | None:
    objects = row.get("chunks")
    if isinstance(objects, list):
        return [chunk_of(value) for value in objects]
    texts = _listed(row, _TEXTS, path, line)
    ids = _listed(_named(row, {}), _IDS, path, line)
    if ids is not None and texts is not None and len(ids) == len(texts):
        return [{"id": str(key), "text": text} for key, text in zip(ids, texts, strict=True)]
    if ids is not None:
        return [chunk_of(key) for key in ids]
    if texts is not None:
        return [{"id": text_id(str(text)), "text": text} for text in texts]
    return None


def _listed(row: Row, names: tuple[str, ...], path: Path, line: int) -> list[Any] | None:
    """The list under the first of these names; None without any."""
    name = next((alias for alias in names if row.get(alias) is not None), None)
    if name is None:
        return None
    value = row[name]
    if not isinstance(value, list):
        kind = {"dict": "object"}.get(type(value).__name__, type(value).__name__)
        hint = "Write a list, in CSV as JSON"
        message = f"expected array, got {kind}"
        raise DataError(message, path=path, line=line, field=name, hint=hint)
    return value


def chunk_of(value: Any) -> Any:
    """A retrieved chunk as our field names have it: of an object, an id, or ``{text: …}``."""
    if isinstance(value, str | int):
        return {"id": str(value)}
    if not isinstance(value, dict):
        return value
    named = _named(value, _CHUNK)
    if "id" not in named and isinstance(named.get("text"), str):
        named["id"] = text_id(named["text"])
    if isinstance(named.get("id"), int):
        named["id"] = str(named["id"])
    return named


def _converted(named: Row, kind: type[Kind], path: Path, line: int) -> Kind:
    try:
        return msgspec.convert(_as_text(named), kind, strict=ending(path) not in (".csv", ".tsv"))
    except msgspec.ValidationError as error:
        message = str(error)
        place = _PLACE.search(message)
        field = place[1] if place else ""
        text = message[: place.start()] if place else message
        missing = re.search(r"missing required field `(\w+)`", text)
        if missing:
            field, text = f"{field}.{missing[1]}".lstrip("."), "is missing"
        text = text.replace("`", "").replace("Expected", "expected").replace(" | null", "")
        hint = _REMEDIES.get(re.split(r"\W", field)[0], "")
        raise DataError(text, path=path, line=line, field=field, hint=hint) from error


def _as_text(named: Row) -> Row:
    """Ids are text, also where a file holds numbers."""
    for name in ("case_id", "query_id"):
        if isinstance(named.get(name), int):
            named[name] = str(named[name])
    ids = named.get("relevant_doc_ids")
    if isinstance(ids, list):
        named["relevant_doc_ids"] = [str(key) if isinstance(key, int) else key for key in ids]
    return named
