"""Golden sets put to the live service on a schedule; imported only where probes are configured.

One run at a time, in a process of its own. The schedule only looks whether one is due, so that a
restart goes on in the rhythm of the last run.
"""

import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec
import structlog
from msgspec.structs import replace

from ragmon.clock import Clock
from ragmon.config.sections import ProbeSettings
from ragmon.daemon.component import Context
from ragmon.daemon.probes import findings
from ragmon.daemon.probes.state import Planned, ProbeState
from ragmon.daemon.schedule import Schedule
from ragmon.detectors import Finding
from ragmon.errors import SettingsError, StoreError
from ragmon.evaluate.run.endpoint import Template
from ragmon.evaluate.run.probe import ProbeJob, ProbeOutcome
from ragmon.exposition.probes import Fall, ProbeMetrics, ProbeView, Quality
from ragmon.loops import BEAT_EVERY_S, Loop, LoopOptions, LoopOwner
from ragmon.stores.protocols import ProbeRuns
from ragmon.threads import OnWriter

_decode = msgspec.msgpack.Decoder(ProbeOutcome).decode
_COMMAND = (sys.executable, "-m", "ragmon.evaluate.run.probe_process")
_LOOK_EVERY_S = 5.0
_SKEW_S = 60.0
_STALL_S = 300.0  # beyond the time that a run may take


class Runner(Protocol):
    """Runs a probe's job."""

    def run(self, job: ProbeJob, timeout_s: float) -> ProbeOutcome:
        """One run; never longer than the timeout."""
        ...

    def stop(self) -> None:
        """End what is under way."""
        ...


class Probes(LoopOwner):
    """Runs each probe when it is due, one run at a time."""

    def __init__(
        self,
        planned: Sequence[Planned],
        *,
        runner: Runner,
        runs: OnWriter[ProbeRuns],
        schedule: Schedule,
        clock: Clock,
        allowed: findings.Allowance,
    ) -> None:
        self._allowed = allowed
        self._planned = {each.job.probe: each for each in planned}
        self._runner = runner
        self._runs = runs
        self._schedule = schedule
        self._clock = clock
        self._due: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._waiting: set[str] = set()
        self._lock = threading.Lock()
        self._is_restored = False
        self._log = structlog.get_logger("probes")
        options = LoopOptions(
            stall_s=_STALL_S + max(each.every_s for each in planned), is_vital=False
        )
        self.loop = Loop("probes", self._turn, self._log, options=options)
        self.states: dict[str, ProbeState] = {name: ProbeState() for name in self._planned}

    def stop(self) -> None:
        """End; a run under way is given up and comes again after the restart."""
        self.loop.stop(0.0)
        self._due.put(None)
        self._runner.stop()
        self.loop.stop()

    def abort(self) -> None:
        """Kill the process of the run under way."""
        self._runner.stop()

    def run_due(self) -> None:
        """Have every probe run that is due."""
        for name, planned in self._planned.items():
            with self._lock:
                due = name not in self._waiting and self._is_due(name, planned.every_s)
                if due:
                    self._waiting.add(name)
            if due:
                self._due.put(name)

    def findings(self, _now: float) -> list[Finding]:
        """Metrics that got worse, until a run is better."""
        return findings.findings(list(self._planned.values()), self.states, self._allowed)

    def views(self) -> list[ProbeView]:
        """The state of each probe, as the metrics show it."""
        return [_view(name, state) for name, state in self.states.items()]

    def _is_due(self, name: str, every_s: float) -> bool:
        last = self.states[name].last
        if last is None:
            return True
        age_s = self._clock.now() - last.started_at
        return age_s >= every_s or age_s < -_SKEW_S  # the clock was set back

    def _turn(self) -> float:
        if not self._is_restored:
            self._restore()
            self._is_restored = True
            self._schedule.every(_LOOK_EVERY_S, "probes", self.run_due)
        try:
            name = self._due.get(timeout=BEAT_EVERY_S)
        except queue.Empty:
            return 0.0
        if name is not None and not self.loop.stopping.is_set():
            try:
                self._run(name)
            finally:
                with self._lock:
                    self._waiting.discard(name)
        return 0.0

    def _run(self, name: str) -> None:
        planned = self._planned[name]
        job = replace(planned.job, ids_match=self.states[name].reference is not None)
        outcome = self._runner.run(job, planned.every_s)
        if not self.loop.stopping.is_set():
            self._note(name, outcome)

    def _restore(self) -> None:
        try:
            saved = self._runs.ask(lambda runs: runs.load())
        except StoreError as error:
            self._log.warning("cannot_restore", error=str(error))
            return
        for name in self.states.keys() & saved.keys():
            try:
                self.states[name] = msgspec.msgpack.decode(saved[name], type=ProbeState)
            except msgspec.DecodeError as error:  # of another release
                self._log.warning("cannot_restore", probe=name, error=str(error))

    def _note(self, name: str, outcome: ProbeOutcome) -> None:
        state = self.states[name].after(outcome)
        self.states[name] = state
        event = {"probe": name, "seconds": round(outcome.duration_s, 3)}
        if outcome.error:
            self._log.warning("probe_failed", **event, error=outcome.error)
        else:
            self._log.info("probe_finished", **event, cases=outcome.cases, **outcome.failures)
        try:
            body = msgspec.msgpack.encode(state)
            self._runs.ask(lambda runs: runs.save(name, body))
        except StoreError as error:
            self._log.warning("cannot_save", probe=name, error=str(error))


class Process:
    """A ``Runner``: a new interpreter for each run."""

    def __init__(self, clock: Clock, command: Sequence[str] = _COMMAND) -> None:
        self._clock = clock
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def run(self, job: ProbeJob, timeout_s: float) -> ProbeOutcome:
        """One run; never longer than the timeout."""
        started_at, began = self._clock.now(), self._clock.monotonic()
        try:
            error, body = self._outcome(job, timeout_s)
            if body is not None:
                return replace(_decode(body), started_at=started_at)
        except (OSError, msgspec.MsgspecError) as problem:
            error = f"the process gave no result: {problem}"
        took_s = self._clock.monotonic() - began
        return ProbeOutcome(probe=job.probe, started_at=started_at, duration_s=took_s, error=error)

    def stop(self) -> None:
        """End what is under way."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def _outcome(self, job: ProbeJob, timeout_s: float) -> tuple[str, bytes | None]:
        """(what went wrong, the outcome)."""
        with self._lock:
            if self._stopped:
                return "stopped", None
            process = self._process = subprocess.Popen(  # noqa: S603 - our own module
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        with process:
            try:
                body, _ = process.communicate(msgspec.msgpack.encode(job), timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                return f"not done within {timeout_s:g} s, when the next run is due", None
        if process.returncode != 0:
            return f"the process ended with status {process.returncode}", None
        return "", body


def build(context: Context) -> Probes:
    """The configured probes.

    Raises:
        SettingsError: see ``plan``.
    """
    grounding = context.settings.judge.grounding.enabled
    probes = Probes(
        [plan(probe, grounding=grounding) for probe in context.settings.probes],
        runner=Process(context.clock),
        runs=context.engine.thread.bind(context.engine.state.probe_runs()),
        schedule=context.schedule,
        clock=context.clock,
        allowed=findings.allowance(context.settings.detectors.false_alarms_per_month),
    )
    context.own.registry.register(ProbeMetrics(probes.views))
    return probes


def plan(probe: ProbeSettings, *, grounding: bool) -> Planned:
    """A probe as it is run.

    Raises:
        SettingsError: its cases are not there, or ``request`` is not as `evaluate --request` takes.
    """
    where = f"probes ({probe.name})"
    for name, path in (("cases", probe.cases), ("baseline", probe.baseline)):
        if path is not None and not path.exists():
            raise SettingsError(f"{where}: {name}: {path} is not there")
    request: dict[str, Any] = {"timeout_s": probe.timeout} | probe.request | {"url": probe.endpoint}
    try:
        template = msgspec.convert(request, Template)
    except msgspec.ValidationError as error:
        hint = "It takes what a file of `ragmon evaluate --request` holds"
        raise SettingsError(f"{where}: request: {error}", hint=hint) from None
    job = ProbeJob(
        probe=probe.name,
        cases=str(probe.cases),
        template=template,
        concurrency=probe.concurrency,
        attempts=probe.attempts,
        ks=tuple(sorted(set(probe.ks))),
        most_cases=probe.limit,
        grounding=grounding,
        baseline="" if probe.baseline is None else str(probe.baseline),
    )
    return Planned(job, probe.every)


def _view(name: str, state: ProbeState) -> ProbeView:
    if state.last is None:
        return ProbeView(name, runs=state.runs, failures=state.failures)
    return ProbeView(
        probe=name,
        started_at=state.last.started_at,
        duration_s=state.last.duration_s,
        cases=state.last.cases,
        quality=[Quality(*msgspec.structs.astuple(each)) for each in state.last.means],
        falls=[
            Fall(metric, compared.paired.fall, compared.paired.p_value)
            for metric, compared in state.falls.items()
        ],
        runs=state.runs,
        failures=state.failures,
    )
