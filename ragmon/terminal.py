"""Text that is safe on a terminal, whatever a record, a span or a server holds.

Control characters move the cursor, hide text, write the clipboard or forge a line of output. Each
is replaced by one visible character, so that lengths stay.
"""

from typing import Any, TypeVar

_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_LINES = (0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029)

_HIDDEN = {code: chr(0x2400 + code) for code in range(0x20)}
_HIDDEN |= {0x7F: "\N{SYMBOL FOR DELETE}"}
_HIDDEN |= dict.fromkeys((*range(0x80, 0xA0), *_BIDI, 0x2028, 0x2029), _UNKNOWN)
_IN_LINES = {code: sign for code, sign in _HIDDEN.items() if code not in (0x09, 0x0A)}
_ON_ONE = _HIDDEN | dict.fromkeys(_LINES, " ") | {0x09: " "}

_IN_JSON = {code: f"\\u{code:04x}" for code in _IN_LINES}

T = TypeVar("T")


def printable(text: str) -> str:
    """A text of several lines without control characters but tabs and line feeds."""
    return text.translate(_IN_LINES)


def one_line(text: str) -> str:
    """A text on one line, without control characters."""
    return text.translate(_ON_ONE)


def one_line_each(value: T) -> T:
    """The same struct, or list of them, with every text in it on one line."""
    import msgspec  # noqa: PLC0415 - half of the time that `ragmon --help` would take

    if isinstance(value, list):
        return [one_line_each(item) for item in value]  # type: ignore[return-value]
    cleaned: T = msgspec.convert(_cleaned(msgspec.to_builtins(value)), type(value))
    return cleaned


def json_text(content: Any) -> str:
    """Indented JSON that a terminal shows as it is; readers get every character back."""
    import msgspec  # noqa: PLC0415 - see above

    return _visible(msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


def json_line(content: Any) -> str:
    """The same on one line."""
    import msgspec  # noqa: PLC0415 - see above

    return _visible(msgspec.json.encode(content).decode())


def _visible(text: str) -> str:
    return text.translate(_IN_JSON)


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value
