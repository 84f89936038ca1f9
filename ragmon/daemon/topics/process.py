"""The process that finds topics, as the daemon drives it: started for one analysis, then gone."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

import msgspec

from ragmon.daemon.topics.worker import AddedQueries, TopicsAsked, grouping_of
from ragmon.errors import RagmonError
from ragmon.judges.worker import read, write
from ragmon.topics.grouping import Grouping, KeptModel

_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class TopicsFailedError(RagmonError):
    """The process that finds topics ended, or took too long."""


class TopicProcess:
    """One analysis."""

    def __init__(self, max_cpu: float, most_s: float) -> None:
        """Start it.

        Args:
            max_cpu: share of a core that it may take.
            most_s: after which it is ended, also where it only does not read.
        """
        self._process = subprocess.Popen(  # noqa: S603 - our own module, our own interpreter
            [sys.executable, "-m", "ragmon.daemon.topics.worker", str(max_cpu)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ENVIRONMENT,
        )

        self._timer = self._ending(most_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):  # what it never read
                    stream.close()

    def kill(self) -> None:
        """End it; whoever waits for it gets TopicsFailedError."""
        self._process.kill()

    def add(self, queries: AddedQueries) -> None:
        """Send some queries.

        Raises:
            TopicsFailedError: the process ended.
        """
        self._send(queries)

    def find(self, earlier: KeptModel, now: float, most_s: float) -> Grouping:
        """The topics of everything that was sent.

        Args:
            earlier: the topics of an earlier day.
            now: unix seconds.
            most_s: that it may take.

        Raises:
            TopicsFailedError: the process ended or took longer.
        """
        with self._limited(most_s):
            self._send(TopicsAsked(earlier, now))
            assert self._process.stdout is not None
            body = read(self._process.stdout)
        if body is None:
            raise _failed()
        try:
            return grouping_of(body)
        except msgspec.MsgspecError:
            raise _failed() from None

    def _send(self, message: AddedQueries | TopicsAsked) -> None:
        assert self._process.stdin is not None
        try:
            write(self._process.stdin, message)
        except OSError:
            raise _failed() from None

    @contextmanager
    def _limited(self, most_s: float) -> Iterator[None]:
        timer = self._ending(most_s)
        try:
            yield
        finally:
            timer.cancel()

    def _ending(self, most_s: float) -> threading.Timer:
        timer = threading.Timer(most_s, self._process.kill)
        timer.daemon = True
        timer.start()
        return timer


def _failed() -> TopicsFailedError:
    return TopicsFailedError(
        "the process that finds topics ended or took too long",
        hint="Ask for less time, or lower topics.max_queries or raise topics.max_cpu",
    )
