"""Objects that hold bodies of blocks: reads with a deadline and a cache, writes, deletions."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple
from xml.etree import ElementTree

from ragmon.clock import Clock
from ragmon.errors import SettingsError, StoreBodiesError, StoreCorruptError
from ragmon.s3 import S3Error
from ragmon.s3.client import S3Client, S3Limits
from ragmon.stores.postgresql.bodies import S3Bodies

OPERATIONS = ("get", "put", "delete", "list")
OUTCOMES = ("ok", "refused", "unreachable", "missing", "damaged")

_WRITER_S = 1.0  # that the writer's thread waits for a body: commits wait behind it
_BUCKET_EVERY_S = 60.0
_GONE = ("NoSuchKey", "NoSuchVersion")


class BodyPlace(NamedTuple):
    """Place of a body within an object."""

    key: str
    start: int
    length: int


class ListedKey(NamedTuple):
    """One object of a list."""

    key: str
    modified: str  # ISO 8601


class BodyCache:
    """Bodies that were read, the latest of them; for any thread."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bodies: OrderedDict[BodyPlace, bytes] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, place: BodyPlace) -> bytes | None:
        """One of them; None when it has to be read."""
        with self._lock:
            if place in self._bodies:
                self._bodies.move_to_end(place)
            return self._bodies.get(place)

    def keep(self, place: BodyPlace, body: bytes) -> None:
        """Remember one; those not used for longest make room."""
        with self._lock:
            if len(body) > self._most_bytes or place in self._bodies:
                return
            self._bodies[place] = body
            self._size += len(body)
            while self._size > self._most_bytes:
                self._size -= len(self._bodies.popitem(last=False)[1])

    def clear(self) -> None:
        """Forget them, because some were erased."""
        with self._lock:
            self._bodies.clear()
            self._size = 0


class ObjectBodies:
    """Objects of one bucket; for any thread."""

    def __init__(self, client: S3Client, prefix: str, options: S3Bodies, clock: Clock) -> None:
        """Nothing is asked yet.

        Args:
            client: of the bucket.
            prefix: of the keys, without a slash at its end.
            options: of the settings.
            clock: for how long the server is left alone after it did not answer.
        """
        self.options = options
        self.place = client.place
        self.cache = BodyCache(options.cache_bytes)
        self._client = client
        self._prefix = f"{prefix}/" if prefix else ""
        self._clock = clock
        self._headers = _encryption(options)
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._silent_until = 0.0  # monotonic: it is left alone after a failure
        self._quick_silent_until = 0.0  # by the writer's thread
        self._failure = ""
        self._bucket_seen_until = 0.0  # monotonic: it was there

    def get(self, place: BodyPlace, *, is_quick: bool = False) -> bytes:
        """One body.

        Args:
            place: of it.
            is_quick: for the writer's thread, which may not wait for long.

        Raises:
            StoreBodiesError: the server refused, or did not answer in time.
            StoreCorruptError: the object is missing, or shorter than it was.
        """
        now = self._clock.monotonic()
        if now < max(self._silent_until, self._quick_silent_until if is_quick else 0.0):
            raise StoreBodiesError(self._failure)
        most_s = self.options.read_timeout_s
        seconds = min(_WRITER_S, most_s) if is_quick else most_s
        try:
            body = self.read(place.key, place.start, place.start + place.length, seconds)
        except StoreBodiesError as error:
            self._failure = str(error)
            if is_quick:
                self._quick_silent_until = now + seconds + most_s
            else:
                self._silent_until = now + seconds + most_s
            raise
        if len(body) != place.length:
            self.note_damage()
            raise StoreCorruptError(f"object {place.key} of {self.place} is shorter than it was")
        return body

    def read(self, key: str, start: int, end: int, seconds: float) -> bytes:
        """Some bytes of an object, as many as there are.

        Raises:
            StoreBodiesError: the server refused, or did not answer in time.
            StoreCorruptError: the object is missing.
        """
        limits = S3Limits(tries=1, timeout_s=(min(2.0, seconds), seconds))
        headers = {"Range": f"bytes={start}-{end - 1}"}
        with self._asked("get"):
            answer = self._client.ask("GET", self._prefix + key, headers=headers, limits=limits)
            content = answer.content
        return content if answer.status_code == 206 else content[start:end]

    def put(self, key: str, body: bytes) -> None:
        """Write an object: it is there as a whole, or not at all.

        Raises:
            StoreBodiesError: the server refused, or did not answer; it may be there.
        """
        with self._asked("put"):
            self._client.ask("PUT", self._prefix + key, body=body, headers=self._headers)

    def delete(self, key: str) -> None:
        """Delete an object with all its versions; nothing happens where there is none.

        Raises:
            StoreBodiesError: the server refused, or did not answer.
        """
        with self._asked("delete"):
            headers = self._client.ask("DELETE", self._prefix + key).headers
            if "x-amz-version-id" in headers or "x-amz-delete-marker" in headers:
                self._delete_versions(self._prefix + key)

    def is_gone(self, key: str) -> bool:
        """True when an object cannot be read any more.

        Raises:
            StoreBodiesError: the server refused, or did not answer.
        """
        try:
            self.read(key, 0, 1, self.options.read_timeout_s)
        except StoreCorruptError:
            return True
        return False

    def text(self, key: str) -> str | None:
        """A small object; None where there is none.

        Raises:
            StoreBodiesError: the server refused, or did not answer.
        """
        try:
            return self.read(key, 0, 4_096, self.options.read_timeout_s).decode(errors="replace")
        except StoreCorruptError:
            return None

    def listed(self, folder: str, after: str, most: int) -> list[ListedKey]:
        """Some objects of a folder behind a key, in order.

        Raises:
            StoreBodiesError: the server refused, or did not answer.
        """
        asked = {"list-type": "2", "prefix": f"{self._prefix}{folder}/", "max-keys": str(most)}
        if after:
            asked["start-after"] = self._prefix + after
        with self._asked("list"):
            answer = self._client.xml(self._client.ask("GET", "", asked))
        return [
            ListedKey(
                item.findtext("{*}Key", "").removeprefix(self._prefix),
                item.findtext("{*}LastModified", ""),
            )
            for item in answer.iterfind("{*}Contents")
        ]

    def note_damage(self) -> None:
        """Count a body that is not what was written."""
        self._count("get", "damaged")

    def counts(self) -> dict[tuple[str, ...], float]:
        """Requests by operation and outcome."""
        with self._lock:
            return {
                (operation, outcome): float(self._counts[operation, outcome])
                for operation in OPERATIONS
                for outcome in OUTCOMES
            }

    def _delete_versions(self, name: str) -> None:
        """Delete what a bucket with versions keeps behind a deletion."""
        answer = self._client.xml(self._client.ask("GET", "", {"versions": "", "prefix": name}))
        items: list[ElementTree.Element] = [
            *answer.iterfind("{*}Version"),
            *answer.iterfind("{*}DeleteMarker"),
        ]
        for item in items:
            if item.findtext("{*}Key") == name:
                version = item.findtext("{*}VersionId", "null")
                self._client.ask("DELETE", name, {"versionId": version})

    @contextmanager
    def _asked(self, operation: str) -> Iterator[None]:
        try:
            yield
        except S3Error as error:
            raise self._refused(operation, error) from error
        except SettingsError as error:  # a file with a key that is being replaced
            self._count(operation, "refused")
            raise StoreBodiesError(f"store.bodies: {error}") from error
        self._count(operation, "ok")

    def _refused(self, operation: str, error: S3Error) -> StoreBodiesError | StoreCorruptError:
        if error.code in _GONE and (no_bucket := self._missing_bucket()) is not None:
            error = no_bucket
        if error.code in _GONE:
            self._count(operation, "missing")
            return StoreCorruptError(f"an object of {self.place} is missing: {error.args[0]}")
        if error.status == 416:  # it ends before the first of these bytes
            self._count(operation, "damaged")
            return StoreCorruptError(f"an object of {self.place} is shorter than it was")
        is_mute = error.status == 0 or error.status >= 500
        self._count(operation, "unreachable" if is_mute else "refused")
        return StoreBodiesError(f"the bodies of queries are not to be had: {error}")

    def _missing_bucket(self) -> S3Error | None:
        """The error of a missing bucket, which some servers tell as that of a missing object.

        It is asked once a minute.
        """
        now = self._clock.monotonic()
        if now < self._bucket_seen_until:
            return None
        try:
            self._client.ask("GET", "", {"list-type": "2", "prefix": self._prefix, "max-keys": "1"})
        except S3Error as error:
            return error if error.code == "NoSuchBucket" else None
        self._bucket_seen_until = now + _BUCKET_EVERY_S
        return None

    def _count(self, operation: str, outcome: str) -> None:
        with self._lock:
            self._counts[operation, outcome] += 1


def _encryption(options: S3Bodies) -> dict[str, str]:
    if not options.encryption:
        return {}
    headers: dict[str, str] = {"x-amz-server-side-encryption": options.encryption}
    if options.kms_key:
        headers["x-amz-server-side-encryption-aws-kms-key-id"] = options.kms_key
    return headers
