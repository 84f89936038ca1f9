"""Saved baselines, for the commands: of a store that no daemon holds, or of a running ragmon."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
import requests
from msgspec.structs import asdict

from ragmon.alerts.timeline import AlertTimeline
from ragmon.backtest import from_store
from ragmon.backtest.run import replay
from ragmon.cli import remote
from ragmon.clock import Clock, SystemClock
from ragmon.config import Settings
from ragmon.config.units import seconds
from ragmon.daemon.baselines import BaselineService, Minutes, NoTrafficError, describe
from ragmon.daemon.build import build_pipeline
from ragmon.daemon.lock import DirectoryLock
from ragmon.detectors.detection import Detection, DetectionOptions
from ragmon.errors import SettingsError, StoreBusyError
from ragmon.pipeline import Pipeline
from ragmon.plugins import resolve
from ragmon.stores import Store

_LATENCY = "latency_ms{stage=total}"


class BaselineAccess(Protocol):
    """What the commands ask; RagmonError for what cannot be done."""

    def listed(self) -> dict[str, Any]:
        """Every version of every baseline, and what is compared with now."""
        ...

    def shown(self, name: str, version: int | None) -> dict[str, Any]:
        """One version with what it says; None: the promoted one, else the newest."""
        ...

    def keep(self, name: str, *, window: str = "", run: bytes = b"") -> dict[str, Any]:
        """Save another version, of a window of traffic or of a run."""
        ...

    def promote(self, name: str, version: int | None) -> dict[str, Any]:
        """Compare with this one from now on."""
        ...

    def delete(self, name: str, version: int | None) -> int:
        """Forget one version, or all; returns how many."""
        ...


def arguments(parser: argparse.ArgumentParser) -> None:
    """Where the baselines are."""
    remote.arguments(parser)
    parser.set_defaults(url="")


@contextmanager
def opened(args: argparse.Namespace, settings: Settings) -> Iterator[BaselineAccess]:
    """Those of ``--url``; else of the store in ``data_dir``, through the daemon that holds it.

    Raises:
        RagmonError: neither is to be had.
    """
    if args.url:
        yield RemoteBaselines(args.url, remote.session(args))
        return
    try:
        lock = DirectoryLock(settings.data_dir)
    except StoreBusyError:  # a daemon runs there: it is the one to ask
        host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
        yield RemoteBaselines(f"http://{host}:{settings.port}", remote.session(args))
        return
    try:
        module, options = resolve("ragmon.stores", "store", settings.store)
        store: Store = module.build(options, settings.data_dir)
        try:
            asked = f"No daemon holds {settings.data_dir}, so its store was asked"
            hint = f"{asked}; --url asks a running ragmon"
            yield StoreBaselines(store, build_pipeline(settings), SystemClock(), hint)
        finally:
            store.close()
    finally:
        lock.release()


class StoreBaselines:
    """Of a store."""

    def __init__(self, store: Store, pipeline: Pipeline, clock: Clock, hint: str = "") -> None:
        """Of this store; ``hint`` is said where it holds no traffic."""
        self._store = store
        self._hint = hint
        self._pipeline = pipeline
        self._clock = clock
        self._shelf = BaselineService(store.baselines(), self._minutes)

    def listed(self) -> dict[str, Any]:
        """Every version of every baseline, and what is compared with now."""
        promoted = self._shelf.promoted()
        active = promoted and {"name": promoted.name, "provenance": promoted.provenance}
        return {"baselines": [asdict(row) for row in self._shelf.rows()], "active": active}

    def shown(self, name: str, version: int | None) -> dict[str, Any]:
        """One version with what it says."""
        found = self._shelf.find(name, version)
        if found is None:
            raise _missing(name)
        return describe(*found)

    def keep(self, name: str, *, window: str = "", run: bytes = b"") -> dict[str, Any]:
        """Save another version."""
        now, by = self._clock.now(), remote.user()
        try:
            if run:
                return asdict(self._shelf.keep_run(name, run, now, by))
            return asdict(self._shelf.keep_window(name, seconds(window), now, by))
        except NoTrafficError as error:
            raise SettingsError(str(error), hint=self._hint) from error
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def promote(self, name: str, version: int | None) -> dict[str, Any]:
        """Compare with this one from now on."""
        try:
            return asdict(self._shelf.promote(name, version))
        except KeyError:
            raise _missing(name) from None

    def delete(self, name: str, version: int | None) -> int:
        """Forget one version, or all."""
        try:
            return self._shelf.delete(name, version)
        except KeyError:
            raise _missing(name) from None

    def _minutes(self) -> Minutes:
        """Of the stored queries.

        Without latencies against usual ones: what is usual is learned by the daemon.
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
    """Of a running ragmon."""

    def __init__(self, url: str, session: requests.Session) -> None:
        self._url = url.rstrip("/")
        self._session = session

    def listed(self) -> dict[str, Any]:
        """Every version of every baseline, and what is compared with now."""
        return self._ask("GET", "")

    def shown(self, name: str, version: int | None) -> dict[str, Any]:
        """One version with what it says."""
        return self._ask("GET", _path(name), version)

    def keep(self, name: str, *, window: str = "", run: bytes = b"") -> dict[str, Any]:
        """Save another version."""
        wanted: dict[str, Any] = {"by": remote.user()}
        wanted |= {"run": msgspec.Raw(run)} if run else {"from": window}
        return self._ask("PUT", _path(name), body=msgspec.json.encode(wanted))

    def promote(self, name: str, version: int | None) -> dict[str, Any]:
        """Compare with this one from now on."""
        return self._ask("POST", f"{_path(name)}/promote", version)

    def delete(self, name: str, version: int | None) -> int:
        """Forget one version, or all."""
        return int(self._ask("DELETE", _path(name), version)["deleted"])

    def _ask(
        self, method: str, path: str, version: int | None = None, body: bytes | None = None
    ) -> dict[str, Any]:
        asked = {} if version is None else {"version": str(version)}
        path = f"/v1/baselines{path}"
        found: dict[str, Any] = remote.ask(
            self._session, method, self._url, path, params=asked, data=body
        )
        return found


def read_run(path: Path) -> bytes:
    """What ``ragmon evaluate --json`` wrote.

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
