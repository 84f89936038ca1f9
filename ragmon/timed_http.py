"""Answers over HTTP that must be whole within their timeout; nothing but the standard library."""

import http.client
import io
import socket
from typing import Any

from ragmon.clock import SystemClock


class TimedReader(io.RawIOBase):
    """The bytes of one answer, until its time is over."""

    def __init__(self, sock: socket.socket, stream: io.BufferedReader) -> None:
        super().__init__()
        self._sock = sock
        self._stream = stream
        self._clock = SystemClock()  # sockets wait in real time
        timeout = sock.gettimeout()
        self._until = None if timeout is None else self._clock.monotonic() + timeout

    def readable(self) -> bool:
        """True: it is for reading."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read some bytes; a ``TimeoutError`` once the time is over."""
        if self._until is not None:
            left = self._until - self._clock.monotonic()
            if left <= 0.0:
                raise TimeoutError("the answer did not end in time")
            self._sock.settimeout(left)
        return self._stream.raw.readinto(buffer)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
        super().close()


class TimedResponse(http.client.HTTPResponse):
    """An answer whose headers and body must arrive within the timeout, both together."""

    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp = io.BufferedReader(TimedReader(sock, self.fp))
