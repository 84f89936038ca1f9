"""What a language model replied, kept in a file: the same question is never paid for twice.

A line a reply: the hash of what was asked, and the answer as JSON. Lines are only appended, so a
run that is broken off goes on where it was; a torn or foreign line is passed over.
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
        """Read what is there.

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
        found = (_LINE.fullmatch(line) for line in lines)
        self._kept = {
            bytes.fromhex(each[1].decode()): each[2] for each in found if each and _whole(each[2])
        }

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: bytes) -> bytes | None:
        """What was put under a key."""
        return self._kept.get(key)

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep a reply."""
        with self._lock:
            self._kept[key] = reply
            self._file.write(key.hex().encode() + b" " + reply + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _whole(reply: bytes) -> bool:
    """Whether nothing was torn off."""
    try:
        msgspec.json.decode(reply)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True
