"""Standbys in threads of this process, of a store that somebody has."""

import threading

from ragmon.clock import SystemClock
from ragmon.config import load
from ragmon.daemon import http
from ragmon.daemon.standby import Standby
from ragmon.errors import StoreBusyError
from tests.support.http import Site


def settings(data_dir, **flags):
    """Those of a daemon on a free port, without a judge."""
    flags = {"port": 0, "data_dir": str(data_dir), "judge.grounding.enabled": False} | flags
    return load(None, flags, {}).settings


class Stores:
    """Opens nothing while somebody has the store."""

    def __init__(self, addresses: str = "") -> None:
        self.error: Exception | None = StoreBusyError(
            "in use by another ragmon (process 7)", addresses=addresses
        )
        self.attempts = 0
        self.closed = 0

    def open(self):
        self.attempts += 1
        if self.error is not None:
            raise self.error
        return self

    def close(self) -> None:
        self.closed += 1


class WaitingSite(Site):
    """A standby in a thread."""

    def __init__(self, tmp_path, stores: Stores, **flags) -> None:
        self.bound = http.bind("127.0.0.1", 0)
        chosen = settings(tmp_path / "data", **flags)
        self.standby = Standby(self.bound, stores.open, SystemClock(), chosen)
        self.outcome: list[object] = []
        self.thread = threading.Thread(target=self._wait)
        self.thread.start()
        super().__init__(http.url_of(self.bound))

    def _wait(self) -> None:
        try:
            self.outcome.append(self.standby.wait())
        except Exception as error:  # noqa: BLE001 - for the test to look at
            self.outcome.append(error)

    def end(self) -> object:
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.outcome[0]
