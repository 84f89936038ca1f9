"""Replies remembered by the content they were about, so that nothing is paid for twice."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol


class Cache(Protocol):
    """Where replies are kept; called from several threads."""

    def get(self, key: bytes) -> bytes | None:
        """What was put under a key, if it is still there."""
        ...

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep a reply."""
        ...


class LruCache:
    """The most recently used replies, in memory."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """What was put under a key, if it is still there."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key]

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep a reply, at the cost of the one unused for longest."""
        with self._lock:
            self._kept[key] = reply
            self._kept.move_to_end(key)
            while len(self._kept) > self._entries:
                self._kept.popitem(last=False)


def content_key(parts: Iterable[str]) -> bytes:
    """A key of 16 bytes; parts are told apart by their lengths."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()
