"""An address before several replicas, as a Service of Kubernetes: connections go to a ready one."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

import requests

from tests.support.http import Site


class Service:
    """Carries bytes between clients and ready replicas, in turn; without one it hangs up."""

    def __init__(self) -> None:
        self.replicas: Sequence[Site] = ()
        self._turns = itertools.count()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def ready(self) -> Site | None:
        """The next replica that says so."""
        turn, replicas = next(self._turns), self.replicas
        for at in range(len(replicas)):
            replica = replicas[(turn + at) % len(replicas)]
            with contextlib.suppress(requests.RequestException):
                if replica.get("/readyz").status == 200:
                    return replica
        return None

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with contextlib.closing(client), contextlib.suppress(OSError):
            if (replica := self.ready()) is None:
                return
            place = urlsplit(replica.url)
            with socket.create_connection((place.hostname, place.port), timeout=10) as server:
                back = threading.Thread(target=_pump, args=(server, client), daemon=True)
                back.start()
                _pump(client, server)
                back.join(10)


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way; whichever end closes, both do."""
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def service() -> Iterator[Service]:
    """One that runs."""
    running = Service()
    running.start()
    try:
        yield running
    finally:
        running.stop()
