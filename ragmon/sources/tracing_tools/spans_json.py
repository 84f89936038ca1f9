"""Spans of a tracing tool's API as an ``ExportTraceServiceRequest`` in JSON."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

Item = TypeVar("Item")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def grouped(spans: Sequence[dict[str, Any]]) -> bytes:
    """The request; each span has its resource and scope besides the fields of the wire."""
    groups: dict[bytes, dict[str, Any]] = {}
    for span in spans:
        resource, scope = span.pop("resource"), span.pop("scope")
        key = msgspec.json.encode((resource, scope), order="sorted")
        group = groups.setdefault(
            key,
            {
                "resource": {"attributes": pairs(resource)},
                "scopeSpans": [{"scope": {"name": scope}, "spans": []}],
            },
        )
        group["scopeSpans"][0]["spans"].append(span)
    return msgspec.json.encode({"resourceSpans": list(groups.values())})


def readable(
    items: Iterable[Item], make: Callable[[Item], Mapping[str, Any]]
) -> tuple[list[msgspec.Raw], int]:
    """Items as they would be sent, and the number of those that cannot be read.

    Args:
        items: as the tool has them, which may be anything.
        make: what is sent of an item; raises whatever an odd one causes.
    """
    made, odd = [], 0
    for item in items:
        try:
            made.append(msgspec.Raw(msgspec.json.encode(make(item))))
        except Exception:  # noqa: BLE001 - one costs no other
            odd += 1
    return made, odd


def pairs(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Attributes as the wire has them."""
    return [
        {"key": key, "value": any_value(value)}
        for key, value in attributes.items()
        if value is not None
    ]


def any_value(value: Any) -> dict[str, Any]:
    """A value as the wire has it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(entry) for entry in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": str(value)}


def otlp_time(text: str) -> str:
    """Nanoseconds since 1970 of a time in ISO 8601; 0 for what is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return "0"
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return str((moment - _EPOCH) // _MICROSECOND * 1_000)


def iso_time(unix_s: float) -> str:
    """A moment in ISO 8601 with milliseconds, the rest cut off."""
    moment = _EPOCH + timedelta(milliseconds=int(unix_s * 1_000))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
