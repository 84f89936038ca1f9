"""Settings of a gate or a request, as YAML or JSON."""

import difflib
import re
from collections.abc import Collection
from pathlib import Path
from typing import TypeVar

import msgspec
import yaml

from ragmon.evaluate.errors import DataError

Kind = TypeVar("Kind")

_UNKNOWN = re.compile(r"unknown field `(\w+)`")
_PLACE = re.compile(r" - at `\$\.?([^`]*)`\Z")


def read(path: Path, kind: type[Kind], names: Collection[str], example: str) -> Kind:
    """Read a file into a struct.

    Args:
        path: the file.
        kind: a struct.
        names: fields to suggest for a misspelt one.
        example: a valid file, for the hint of an error.

    Raises:
        DataError: unreadable, or not of that form.
    """
    try:
        return msgspec.convert(yaml.safe_load(path.read_text()), kind)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"is no YAML: {error}", path=path, hint=f"Write {example}") from error
    except msgspec.ValidationError as error:
        message = str(error)
        place = _PLACE.search(message)
        text = (
            (message[: place.start()] if place else message)
            .replace("`", "")
            .replace("Expected", "expected")
        )
        unknown = _UNKNOWN.search(message)
        near = difflib.get_close_matches(unknown[1], names, n=1) if unknown else []
        hint = f"Did you mean {near[0]}?" if near else f"Write {example}"
        raise DataError(text, path=path, field=place[1] if place else "", hint=hint) from error
