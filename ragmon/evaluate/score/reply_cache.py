"""Replies of a language model in a file, so that the same question is never paid for twice.

A line a reply: the hash of the question, and the answer as JSON. Lines are only appended, so an
interrupted run continues where it stopped; a torn or foreign line is skipped.
"""

import re
import threading
from pathlib import Path

import msgspec

from ragmon.evaluate.errors import DataError

_LINE = re.compile(rb"([0-9a-f]{32}) (\{.*\})\n")


class FileCache:
    """A ``ragmon.judges.llm.Cache`` in one file."""

    def __init__(self, path: Path) -> None:
        """Open a file, or create it.

        Raises:
            DataError: the file cannot be read or written.
        """
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b", buffering=0)
            self._file.seek(0)
            lines = self._file.readall().splitlines(keepends=True)
            if lines and not lines[-1].endswith(b"\n"):
                self._file.write(b"\n")
        except OSError as error:
            raise DataError(f"cannot be used: {error.strerror}", path=path) from error
        matches = (_LINE.fullmatch(line) for line in lines)
        self._replies = {
            bytes.fromhex(match[1].decode()): match[2]
            for match in matches
            if match and _is_json(match[2])
        }

    def __len__(self) -> int:
        return len(self._replies)

    def get(self, key: bytes) -> bytes | None:
        """The reply under a key; None when there is none."""
        return self._replies.get(key)

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep a reply."""
        with self._lock:
            self._replies[key] = reply
            self._file.write(key.hex().encode() + b" " + reply + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _is_json(reply: bytes) -> bool:
    """False for a line that was torn off."""
    try:
        msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
