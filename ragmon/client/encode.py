"""From one call to one line of NDJSON, on the worker's thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragmon.client.batch import RecordKind
from ragmon.client.counters import ErrorBoundary, LogAccounting
from ragmon.client.documents import DocumentReader
from ragmon.client.fields import CONVERTERS
from ragmon.client.inbox import Item

_NEEDED = {
    RecordKind.QUERY: ("query_id",),
    RecordKind.FEEDBACK: ("rating",),
    RecordKind.LABEL: ("relevant_ids", "grades", "faithful", "scores"),
}
"""Beside the id of its query a record needs one of these."""

_FIELD = {"retrieved_docs": "chunks", "user_feedback": "feedback"}
"""Arguments whose field on the wire has another name."""


class Encoder:
    """Encodes what can be used of a record: a bad argument is left out, counted and logged once.

    Left out means not recorded, never zero; the query still counts as traffic.

    Args:
        accounting: counts arguments that cannot be used.
        defaults: arguments of every query that does not give them.
    """

    def __init__(self, accounting: LogAccounting, defaults: Mapping[str, object]) -> None:
        self._accounting = accounting
        self._defaults = defaults
        self._boundary = ErrorBoundary(accounting, "")
        import msgspec  # noqa: PLC0415 - half of the time that the import takes

        self._json = msgspec.json.Encoder(enc_hook=_refuse)

    def encode(self, item: Item) -> bytes | None:
        """One JSON object; ``None``, counted as dropped, when the record holds nothing usable."""
        line = None
        self._boundary.place = item.kind.value
        with self._boundary:
            wire = self._wire(self._completed(item))
            if _usable(item.kind, wire):
                line = self._line(wire)
        if line is None:
            self._accounting.drop("invalid", 1, item.weight)
        else:
            self._accounting.resized(len(line) - item.weight)
        return line

    def _completed(self, item: Item) -> dict[str, object]:
        """The arguments, with the defaults for those that were not given."""
        arguments = item.arguments
        if item.kind is RecordKind.QUERY:
            for name, value in self._defaults.items():
                if arguments.get(name) is None:
                    arguments[name] = value
        return arguments

    def _wire(self, arguments: dict[str, object]) -> dict[str, Any]:
        """Usable values by field; documents come before the citations that may name them."""
        wire: dict[str, Any] = {}
        reader = DocumentReader()
        for argument, value in arguments.items():
            if value is None:
                continue
            field = _FIELD.get(argument, argument)
            self._boundary.place = argument
            with self._boundary:
                if field == "chunks":
                    wire[field] = reader.chunks(value)
                elif field == "citations":
                    wire[field] = reader.citations(value)
                elif field == "steps":
                    wire[field] = reader.steps(value)
                elif field in CONVERTERS:
                    wire[field] = CONVERTERS[field](value)
                else:
                    self._json.encode(value)  # Raises here, where only this field is lost.
                    wire[field] = value
        for score in reader.unusable:
            problem = f"expected a number, got {type(score).__name__}"
            self._accounting.bad_argument("retrieved_docs.score", problem)
        return {field: value for field, value in wire.items() if value is not None}

    def _line(self, wire: dict[str, Any]) -> bytes:
        try:
            return self._json.encode(wire)
        except UnicodeEncodeError:  # Half a surrogate pair, as found in scraped text.
            return self._json.encode(_repaired(wire))


def _usable(kind: RecordKind, wire: dict[str, Any]) -> bool:
    return "query_id" in wire and any(field in wire for field in _NEEDED[kind])


def _refuse(value: Any) -> Any:
    raise ValueError(f"{type(value).__name__} has no JSON form")


def _repaired(value: Any) -> Any:
    """The same with a question mark for each character that UTF-8 cannot express."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_repaired(key): _repaired(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_repaired(each) for each in value]
    return value
