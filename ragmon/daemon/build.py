"""Pipeline, engine and access rights, built from the settings."""

from collections.abc import Callable

from ragmon.clock import Clock
from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.errors import SettingsError, StoreError
from ragmon.pipeline import Pipeline
from ragmon.plugins import resolve
from ragmon.signals import CustomJudge, SignalOptions
from ragmon.signals.catalogue import build as build_catalogue
from ragmon.stores import Reader
from ragmon.stores.copying import check_complete
from ragmon.stores.ports import ShardSet, Store
from ragmon.web.browsers import is_loopback
from ragmon.windows import Windows


def build_pipeline(settings: Settings) -> Pipeline:
    """The pipeline by these settings."""
    retrieval = settings.retrieval
    options = SignalOptions(
        ks=tuple(sorted(set(retrieval.ks))),
        slow_ms=settings.latency.slow_ms,
        relevant_score=retrieval.relevant_score,
        low_score=retrieval.low_score,
        diagnosis_k=retrieval.diagnosis_k,
        unfaithful_below=settings.judge.unfaithful_below,
        custom=tuple(CustomJudge(each.name, each.kind == "llm") for each in settings.judge.custom),
    )
    return Pipeline(build_catalogue(options), settings.slices, settings.privacy.text)


def build_windows(settings: Settings, pipeline: Pipeline) -> Windows:
    """Empty windows for what this pipeline observes."""
    return Windows(
        pipeline.catalogue.columns,
        slices=settings.slices,
        longest_s=max(settings.windows),
        limit=settings.max_series,
    )


def open_store(settings: Settings, *, waits: bool = True) -> Store:
    """The configured store, for this process alone.

    Args:
        settings: of the daemon.
        waits: for as long as a process that was killed may still have it.

    Raises:
        SettingsError: an unknown kind of store, or options it does not know.
        StoreBusyError: another process has it.
        StoreError: it cannot be opened.
    """
    module, options = resolve("ragmon.stores", "store", settings.store)
    store: Store = module.build(options, settings.data_dir, waits=waits)
    try:
        check_complete(store.tables())
    except StoreError:
        store.close()
        raise
    return store


def shared_source(settings: Settings) -> int | None:
    """Index of the source whose partitions workers share; None in a process that does it all.

    Raises:
        SettingsError: there is none, or the store is for one process.
    """
    role = settings.replica.role
    if role == "all":
        return None
    module, _ = resolve("ragmon.stores", "store", settings.store)
    if not hasattr(module, "open_shards"):
        raise SettingsError(
            f"replica.role {role} needs a store that several processes share",
            hint="Set store.kind: postgresql",
        )
    shared = []
    for at, source in enumerate(settings.sources):
        source_module, options = resolve("ragmon.sources", f"sources.{at}", source)
        if hasattr(source_module, "build_shared") and getattr(options, "format", "") == "queries":
            shared.append(at)
    if len(shared) != 1:
        raise SettingsError(
            f"replica.role {role} needs one source of kind kafka with the format queries,"
            f" and there are {len(shared)}",
            hint="Send queries and what follows them to one topic, keyed by the query's id",
        )
    return shared[0]


def open_shards(settings: Settings) -> ShardSet:
    """Shards of the configured store, for a worker.

    Raises:
        SettingsError: options that the store does not know.
        StoreError: the store cannot be opened.
    """
    module, options = resolve("ragmon.stores", "store", settings.store)
    shards: ShardSet = module.open_shards(options)
    return shards


def open_reader(settings: Settings) -> Reader:
    """A view of the configured store, beside a daemon that may run.

    Raises:
        SettingsError: an unknown kind of store, options it does not know, or there is none yet.
        StoreError: it cannot be read.
    """
    module, options = resolve("ragmon.stores", "store", settings.store)
    reader: Reader = module.open_reader(options, settings.data_dir)
    return reader


def build_engine(
    settings: Settings,
    clock: Clock,
    on_commit: Callable[[float], None] = lambda _seconds: None,
    store: Store | None = None,
) -> Engine:
    """Store, windows and writer.

    Args:
        settings: of the daemon.
        clock: of the daemon.
        on_commit: called with the seconds that each commit took.
        store: that was opened before; None opens it.

    Raises:
        SettingsError: an unknown kind of store, or options it does not know.
        StoreError: the store cannot be opened.
    """
    pipeline = build_pipeline(settings)
    windows = build_windows(settings, pipeline)
    store = store or open_store(settings)
    return Engine(store, pipeline, windows, clock, settings, on_commit=on_commit)


def check_exposure(settings: Settings) -> None:
    """Without tokens ragmon listens on loopback only.

    Raises:
        SettingsError: it would be open to the network.
    """
    if settings.auth.tokens or settings.auth.allow_anonymous:
        return
    addresses = {"host": settings.host}
    if settings.otlp.grpc:
        addresses["otlp.grpc"] = settings.otlp.grpc.rpartition(":")[0].strip("[]")
    for name, host in addresses.items():
        if not is_loopback(host):
            raise SettingsError(
                f"{name} {host} is reachable from other machines, but no token is configured",
                hint="Configure auth.tokens, or set auth.allow_anonymous: true to accept everybody",
            )
