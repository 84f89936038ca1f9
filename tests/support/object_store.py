"""Real servers that speak S3, which can be killed, stopped and started again."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from ragmon.clock import SystemClock
from ragmon.s3 import S3Error
from ragmon.s3.client import S3Bucket, S3Client, S3Limits
from ragmon.s3.credentials import Credentials
from tests.support.tools import OWN
from tests.support.wait import eventually

KEY, SECRET = "key", "secret-of-the-tests"
_MOTO = Path(sys.prefix) / "bin" / "moto_server"
_S3S = OWN / "s3s-fs"


class ObjectStore:
    """A server on a port of its own."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        """Start nothing yet.

        Args:
            command: of the server; ``{port}`` in it stands for the port.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [str(word).replace("{port}", str(self.port)) for word in command]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        eventually(self._answers, "the object store answers", timeout_s=60)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)

    def stop(self) -> None:
        """Have it hang: it takes connections and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a hang."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def client(self, bucket: str) -> S3Client:
        """A client with the right key."""
        place = S3Bucket(
            name=bucket, endpoint=self.url, credentials=lambda: Credentials(KEY, SECRET)
        )
        return S3Client(place, SystemClock(), S3Limits(tries=1))

    def make(self, bucket: str) -> None:
        """Make a bucket, where it is not there."""
        try:
            self.client(bucket).ask("PUT", "")
        except S3Error as error:
            if error.status != 409:
                raise

    def keys(self, bucket: str, prefix: str = "") -> dict[str, int]:
        """Sizes of the objects, by key."""
        listed = self.client(bucket).listed({"prefix": prefix})
        return {item.findtext("{*}Key", ""): int(item.findtext("{*}Size", "0")) for item in listed}

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._command
        with contextlib.suppress(requests.ConnectionError, requests.Timeout):
            return requests.get(self.url, timeout=10).status_code < 500
        return False


@contextmanager
def moto() -> Iterator[ObjectStore]:
    """moto, which keeps objects in memory and believes every key."""
    _needed(_MOTO, "moto_server is missing: install the extra dev", in_ci=True)
    with _running(ObjectStore([_MOTO, "-H", "127.0.0.1", "-p", "{port}"])) as store:
        yield store


@contextmanager
def s3s(folder: Path) -> Iterator[ObjectStore]:
    """s3s-fs, which keeps objects in files and checks signatures.

    Args:
        folder: of the buckets.
    """
    _needed(_S3S, "s3s-fs is not installed; run `make tools` where there is cargo", in_ci=False)
    words = ["--host", "127.0.0.1", "--port", "{port}", "--access-key", KEY]
    with _running(ObjectStore([_S3S, *words, "--secret-key", SECRET, folder])) as store:
        yield store


@contextmanager
def _running(store: ObjectStore) -> Iterator[ObjectStore]:
    try:
        store.start()
        yield store
    finally:
        store.kill()


def _needed(program: Path, missing: str, *, in_ci: bool) -> None:
    if not program.exists():
        if in_ci and os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
