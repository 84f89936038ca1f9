"""Gauges and counters of the engine, which knows nothing of Prometheus."""

from collections.abc import Callable

from ragmon.config import Settings
from ragmon.daemon.ingest.engine import Engine
from ragmon.exposition.own import OwnMetrics
from ragmon.loops import Supervisor
from ragmon.memory import MemoryBudget
from ragmon.stores.body_figures import BodyFigures
from ragmon.stores.ports import Store


def limits(settings: Settings, store: Store) -> dict[str, float]:
    """The limits in bytes by name, so that alerting rules need not repeat the settings.

    ``disk`` is what the store holds plus what its disk has free; it is left out for a database
    server, and while the disk does not answer.
    """
    limits_bytes = {"queue": float(settings.limits.queue)}
    if settings.retention.max_disk is not None:
        limits_bytes["max_disk"] = float(settings.retention.max_disk)
    free_bytes = store.free_bytes()
    if free_bytes is not None:
        limits_bytes["disk"] = float(store.size_bytes() + free_bytes)
    return limits_bytes


LEADER = "ragmon_leader"
LEADER_HELP = (
    "1 on the process that has the store: it counts, judges and notifies; 0 on a standby. Summed "
    "over all that share a store it is 1, and 0 for a moment while one takes over. 0 for longer is "
    "bad: nothing is counted; see what the standby says on /readyz."
)

STORE_UP = "ragmon_store_up"
STORE_UP_HELP = (
    "1 while the server of the store answers this process, on a standby too; 0 is bad: see the "
    "runbook RagmonStoreDown. Always 1 where the store is embedded."
)

FENCED = "ragmon_fenced"
FENCED_HELP = (
    "Writes to the store that were refused because another process has taken over: commits "
    "(shard), and windows, alerts and notifications (evaluator). A few at a take-over are what "
    "keeps everything counted once; an evaluator then ends, a worker joins its group again."
)


CLOCK_AHEAD = "ragmon_clock_ahead_seconds"
CLOCK_AHEAD_HELP = (
    "Seconds by which the clock of this machine is ahead of the database server's; negative: "
    "behind. Always 0 where the store is embedded. More than a few seconds is bad: minutes are "
    "judged too early or too late; have NTP set both clocks."
)


def watch(own: OwnMetrics, engine: Engine, settings: Settings) -> None:
    """Have the engine asked at each scrape."""
    own.watch_each(
        "ragmon_limit_bytes",
        "Upper limits: limits.queue, retention.max_disk, what the store's disk has room for (disk;"
        " an embedded store only), and store.bodies.max_pending_bytes (bodies_pending).",
        "limit",
        lambda: limits(settings, engine.store) | _pending_limit(engine.store),
    )
    own.watch(
        "ragmon_ingest_queue_bytes",
        "Bytes of batches that wait to be written to the store.",
        lambda: engine.writer.queued_bytes,
    )
    watch_lease(own, engine.store)
    own.watch("ragmon_store_bytes", "Size of the store on disk.", engine.store.size_bytes)
    own.watch(
        "ragmon_watermark_timestamp_seconds",
        "Timestamp of the newest query counted.",
        lambda: engine.windows.watermark,
    )
    _watch_waiting(own, engine)
    own.watch_total(
        "ragmon_window_restatements",
        "Queries whose counts were corrected after late feedback or labels.",
        lambda: engine.windows.restatements,
    )
    _watch_recounts(own, engine)
    own.watch_total(
        "ragmon_series_dropped",
        "Observations counted under the pipeline other because max_series was reached; raise "
        "max_series, or take a tag out of slices.",
        lambda: engine.windows.dropped,
    )
    _watch_repeats(own, engine)
    own.watch_total(
        "ragmon_commits_uncounted",
        "Commits that are stored and in no window, because counting them failed again and again: "
        "a defect of ragmon; report it with the traceback of commit_left_out in the log.",
        lambda: engine.counting.left_out,
    )
    own.watch_total(
        "ragmon_commit_failures",
        "Commits that the store refused; senders were told to retry.",
        lambda: engine.writer.stats.failures,
    )
    watch_bodies(own, engine.store.bodies)
    _watch_damage(own, engine.store)
    _watch_recovery(own, engine.store)


def _watch_recounts(own: OwnMetrics, engine: Engine) -> None:
    own.watch_total(
        "ragmon_windows_recounted",
        "Times the windows were counted anew from the store because queries of the future were in "
        "them: the clock of this machine was wrong. Find out why, and have it set by NTP.",
        lambda: engine.recounts.times,
    )
    own.watch(
        "ragmon_queries_ahead",
        "Stored queries whose time lies further ahead of the clock than max_clock_skew and an "
        "hour, as of the last recount: windows count them once the clock gets there.",
        lambda: engine.recounts.left_out,
    )


def watch_lease(own: OwnMetrics, store: Store) -> None:
    """Have the lease of the store asked at each scrape."""
    own.watch_each(LEADER, LEADER_HELP, "lease", lambda: {"evaluator": float(store.lease.is_held)})
    own.watch_each(
        "ragmon_lease_epoch",
        "Number of this holding of the lease, by the name of the store; it rises with each "
        "take-over, and is absent where the store is embedded or the lease is not held. Two "
        "processes with the same name of the store are bad: see the runbook RagmonTwoLeaders.",
        "store",
        lambda: _epochs(store),
    )
    own.watch(STORE_UP, STORE_UP_HELP, lambda: float(store.lease.is_reachable))
    own.watch_each_total(
        FENCED,
        FENCED_HELP,
        "what",
        store.fenced,
    )
    own.watch(CLOCK_AHEAD, CLOCK_AHEAD_HELP, lambda: store.lease.clock_ahead_s)


def watch_bodies(own: OwnMetrics, bodies: BodyFigures | None) -> None:
    """Have the bodies that are moved to an object store asked at each scrape, if any are."""
    if bodies is None:
        return
    own.watch(
        "ragmon_bodies_pending_bytes",
        "Bytes of bodies (questions, answers, chunks) that are in the database: those of the last "
        "store.bodies.hot_s, and what could not be moved to the object store. Growing while "
        "ragmon_bodies_stalled_seconds does: see the runbook RagmonBodiesNotMoved.",
        lambda: float(bodies.pending_bytes),
    )
    own.watch(
        "ragmon_bodies_stalled_seconds",
        "Seconds since all bodies that were due could be moved to the object store, and all "
        "objects deleted that were over. More than some minutes is bad.",
        lambda: bodies.stalled_s,
    )
    own.watch(
        "ragmon_bodies_objects",
        "Objects that hold bodies in the object store.",
        lambda: float(bodies.objects),
    )
    own.watch(
        "ragmon_bodies_object_bytes",
        "Bytes of the objects that hold bodies in the object store.",
        lambda: float(bodies.object_bytes),
    )
    own.watch_total(
        "ragmon_bodies_moved_bytes",
        "Bytes of bodies that this process moved to the object store.",
        lambda: float(bodies.moved_bytes),
    )
    own.watch_labelled(
        "ragmon_bodies_requests",
        "Requests to the object store by operation, and by outcome: ok; refused, for example "
        "credentials or a missing bucket; unreachable, down or too slow; missing, an object that "
        "should be there; damaged, an object that is not what was written.",
        ("operation", "outcome"),
        bodies.requests,
    )


def _pending_limit(store: Store) -> dict[str, float]:
    most = None if store.bodies is None else store.bodies.most_pending_bytes
    return {} if most is None else {"bodies_pending": float(most)}


def _epochs(store: Store) -> dict[str, float]:
    lease = store.lease
    return {store.name: float(lease.epoch)} if lease.is_held and lease.epoch else {}


def _watch_repeats(own: OwnMetrics, engine: Engine) -> None:
    own.watch_total(
        "ragmon_repeats_untracked",
        "Queries whose question was not remembered, because its minute had more than 65,536 "
        "different ones: a repeat of it counts as another question in detection. Some are "
        "harmless: where there is so much traffic, one question says little.",
        lambda: engine.committer.repeats.untracked,
    )


def _watch_waiting(own: OwnMetrics, engine: Engine) -> None:
    watch_waiting(own, engine.shard.waiting_count, lambda: engine.waiting_expired)
    own.watch_total(
        "ragmon_waiting_changes_forbidden",
        "Feedback and labels dropped because the query they waited for is of a pipeline that "
        "their token may not write.",
        lambda: engine.committer.forbidden,
    )


def watch_waiting(
    own: OwnMetrics, waiting: Callable[[], float], expired: Callable[[], float]
) -> None:
    """Have changes that wait for their query asked at each scrape."""
    own.watch(
        "ragmon_waiting_changes",
        "Feedback and labels that wait for their query; beyond limits.waiting more are refused.",
        waiting,
    )
    own.watch_total(
        "ragmon_waiting_expired",
        "Feedback and labels deleted because their query never came within retention.records. An "
        "increase is bad: they carry a query_id that no query has; see deploy/docs/guides/send.md.",
        expired,
    )


def _watch_damage(own: OwnMetrics, store: Store) -> None:
    own.watch_each_total(
        "ragmon_store_undecodable",
        "Rows of the store that were found damaged and are left out since the start, by kind: the "
        "disk or its memory is failing. Run ragmon verify, and restore a backup if much is lost.",
        "what",
        store.damage.counts,
    )


def _watch_recovery(own: OwnMetrics, store: Store) -> None:
    own.watch(
        "ragmon_store_recovered_commits",
        "Commits that the last start read back from the write-ahead log; more than 0 means that "
        "ragmon was killed, or the machine failed, which is safe.",
        lambda: store.recovery.commits,
    )
    own.watch(
        "ragmon_store_lost_commits",
        "Acknowledged commits that the last start did not find in the store. More than 0 is bad: "
        "the disk is failing, or an older copy was put in its place; see the runbook "
        "RagmonStoreLostCommits.",
        lambda: store.recovery.lost.commits,
    )
    own.watch(
        "ragmon_store_lost_queries",
        "Acknowledged queries in ragmon_store_lost_commits; have their senders send them again.",
        lambda: store.recovery.lost.queries,
    )


def watch_memory(own: OwnMetrics, memory: MemoryBudget) -> None:
    """Have the memory limiter asked at each scrape."""
    own.watch(
        "ragmon_memory_limit_bytes",
        "Memory that ragmon may use (limits.memory); near it, requests and reads are refused with "
        '503 and counted as ragmon_rejected_total{reason="memory"}.',
        lambda: memory.limit,
    )
    own.watch(
        "ragmon_memory_reserved_bytes",
        "Memory reserved for requests and reads in progress, by an estimate of what they need. If "
        "it stays near the limit, send smaller batches, read less at a time, or raise "
        "limits.memory.",
        lambda: memory.reserved,
    )
    own.watch(
        "ragmon_memory_base_bytes",
        "Memory used besides what is reserved, with the embedded judge: windows, caches and "
        "whatever is not estimated. If it stays above three quarters of the limit, lower "
        "max_series or raise limits.memory.",
        lambda: memory.base,
    )


def watch_loops(own: OwnMetrics, supervisor: Supervisor) -> None:
    """Have the loops asked at each scrape."""
    own.watch_each_total(
        "ragmon_loop_failures",
        "Turns of a loop that failed; it goes on after a pause. If it rises, something of ragmon "
        "does not work: see the log and the runbook RagmonLoopFailing.",
        "loop",
        supervisor.failures,
    )
    own.watch_each(
        "ragmon_loop_last_turn_timestamp_seconds",
        "Unix time at which a loop last turned or waited for work; compare it with "
        "ragmon_loop_stall_seconds.",
        "loop",
        supervisor.last_turns,
    )
    own.watch_each(
        "ragmon_loop_stall_seconds",
        "Seconds without a turn after which a loop hangs; then restart ragmon, which /livez asks "
        "for by itself where a restart helps.",
        "loop",
        supervisor.limits,
    )
