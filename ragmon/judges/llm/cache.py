"""Cache of replies by the content that was asked about, so that nothing is paid for twice."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Protocol


class Cache(Protocol):
    """Store of replies by key; called from several threads."""

    def get(self, key: bytes) -> bytes | None:
        """The reply under a key; None when there is none (any more)."""
        ...

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep a reply."""
        ...


class LruCache:
    """The most recently used replies, in memory."""

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._replies: OrderedDict[bytes, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        """The reply under a key; None when there is none (any more)."""
        with self._lock:
            if key not in self._replies:
                return None
            self._replies.move_to_end(key)
            return self._replies[key]

    def put(self, key: bytes, reply: bytes) -> None:
        """Keep a reply; the least recently used one makes room."""
        with self._lock:
            self._replies[key] = reply
            self._replies.move_to_end(key)
            while len(self._replies) > self._entries:
                self._replies.popitem(last=False)

    def clear(self) -> None:
        """Let go of every reply."""
        with self._lock:
            self._replies.clear()


def content_key(parts: Iterable[str]) -> bytes:
    """A key of 16 bytes; parts are told apart by their lengths."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return digest.digest()
