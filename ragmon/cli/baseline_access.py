"""Saved baselines for the commands: from a store that no daemon has open, or from a daemon."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from ragmon.alerts.timeline import AlertTimeline
from ragmon.api_schema import BaselineDetail, BaselineList, DeletedBaselines
from ragmon.backtest import from_store
from ragmon.backtest.run import replay
from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.clock import Clock, SystemClock
from ragmon.config import Settings
from ragmon.config.units import seconds
from ragmon.daemon.baselines import BaselineService, Minutes, NoTrafficError, describe, listed
from ragmon.daemon.build import build_pipeline
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.errors import SettingsError, StoreBusyError
from ragmon.pipeline import Pipeline
from ragmon.plugins import resolve
from ragmon.stores.ports import Store
from ragmon.stores.protocols import BaselineRow

_LATENCY = "latency_ms{stage=total}"


class BaselineAccess(Protocol):
    """Baselines of one store, wherever it is; every method may raise RagmonError."""

    def listed(self) -> BaselineList:
        """Every version of every baseline, and the one that traffic is compared with."""
        ...

    def shown(self, name: str, version: int | None) -> BaselineDetail:
        """One version with its content; None: the promoted one, else the newest."""
        ...

    def keep(self, name: str, *, window: str = "", run: bytes = b"") -> BaselineRow:
        """Save another version, of a window of traffic or of a run."""
        ...

    def promote(self, name: str, version: int | None) -> BaselineRow:
        """Compare with this one from now on."""
        ...

    def delete(self, name: str, version: int | None) -> int:
        """Delete one version, or all; returns the number of versions."""
        ...


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the daemon to ask; without one the store in ``data_dir`` is opened."""
    remote.arguments(parser)
    parser.set_defaults(url="")


@contextmanager
def opened(args: argparse.Namespace, settings: Settings) -> Iterator[BaselineAccess]:
    """Baselines of ``--url``, else of the store in ``data_dir``, through its daemon if one runs.

    Raises:
        RagmonError: neither can be reached.
    """
    if args.url:
        yield RemoteBaselines(args.url, remote.session(args))
        return
    module, options = resolve("ragmon.stores", "store", settings.store)
    try:
        store: Store = module.build(options, settings.data_dir)
    except StoreBusyError:  # a daemon runs there: it is the one to ask
        scheme = "http" if settings.tls.cert_file is None else "https"
        host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
        yield RemoteBaselines(f"{scheme}://{host}:{settings.port}", remote.session(args))
        return
    try:
        hint = (
            f"No daemon is running on {settings.data_dir}, so its store was read; --url asks a"
            " running daemon"
        )
        yield StoreBaselines(store, build_pipeline(settings), SystemClock(), hint)
    finally:
        store.close()


class StoreBaselines:
    """Baselines of a store that this process has open."""

    def __init__(self, store: Store, pipeline: Pipeline, clock: Clock, hint: str = "") -> None:
        """Baselines of ``store``; ``hint`` goes with the error when it has no traffic."""
        self._store = store
        self._hint = hint
        self._pipeline = pipeline
        self._clock = clock
        self._service = BaselineService(store.state.baselines(), self._minutes)

    def listed(self) -> BaselineList:
        """Every version of every baseline, and the one that traffic is compared with."""
        return listed(self._service, self._service.promoted())

    def shown(self, name: str, version: int | None) -> BaselineDetail:
        """One version with its content."""
        saved = self._service.find(name, version)
        if saved is None:
            raise _missing(name)
        return describe(*saved)

    def keep(self, name: str, *, window: str = "", run: bytes = b"") -> BaselineRow:
        """Save another version."""
        now, by = self._clock.now(), remote.user()
        try:
            if run:
                return self._service.keep_run(name, run, now, by)
            return self._service.keep_window(name, seconds(window), now, by)
        except NoTrafficError as error:
            raise SettingsError(str(error), hint=self._hint) from error
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def promote(self, name: str, version: int | None) -> BaselineRow:
        """Compare with this one from now on."""
        try:
            return self._service.promote(name, version)
        except KeyError:
            raise _missing(name) from None

    def delete(self, name: str, version: int | None) -> int:
        """Delete one version, or all."""
        try:
            return self._service.delete(name, version)
        except KeyError:
            raise _missing(name) from None

    def _minutes(self) -> Minutes:
        """Minutes of the stored queries.

        Latency is left out: it is compared with a usual level that only the daemon learns.
        """
        with self._store.reader() as reader:
            queries = from_store.read(reader, self._pipeline, 0.0, float("inf"))
        columns = ["" if name == _LATENCY else name for name in queries.columns]
        options = DetectionOptions(first_days=0)
        timeline = AlertTimeline(lambda: Detection(columns, [], options), finished_log=True)
        for _ in replay(timeline, queries.observations):
            pass
        return Minutes(timeline.detection.log, timeline.detection.streams)


class RemoteBaselines:
    """Baselines of a running daemon."""

    def __init__(self, url: str, session: Connection) -> None:
        self._url = url.rstrip("/")
        self._session = session

    def listed(self) -> BaselineList:
        """Every version of every baseline, and the one that traffic is compared with."""
        return self._ask("GET", "", BaselineList)

    def shown(self, name: str, version: int | None) -> BaselineDetail:
        """One version with its content."""
        return self._ask("GET", _path(name), BaselineDetail, version)

    def keep(self, name: str, *, window: str = "", run: bytes = b"") -> BaselineRow:
        """Save another version."""
        request: dict[str, Any] = {"by": remote.user()}
        request |= {"run": msgspec.Raw(run)} if run else {"from": window}
        return self._ask("PUT", _path(name), BaselineRow, body=msgspec.json.encode(request))

    def promote(self, name: str, version: int | None) -> BaselineRow:
        """Compare with this one from now on."""
        return self._ask("POST", f"{_path(name)}/promote", BaselineRow, version)

    def delete(self, name: str, version: int | None) -> int:
        """Delete one version, or all."""
        return self._ask("DELETE", _path(name), DeletedBaselines, version).deleted

    def _ask(
        self,
        method: str,
        path: str,
        kind: type[remote.Content],
        version: int | None = None,
        body: bytes | None = None,
    ) -> remote.Content:
        params = {} if version is None else {"version": str(version)}
        path = f"/v1/baselines{path}"
        return remote.ask(self._session, method, self._url, path, kind, params=params, body=body)


def read_run(path: Path) -> bytes:
    """Evaluation that ``ragmon evaluate --json`` wrote.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error


def _path(name: str) -> str:
    return f"/{quote(name, safe='')}"


def _missing(name: str) -> SettingsError:
    return SettingsError(f"there is no baseline {name!r}", hint="`ragmon baseline list` shows all")
