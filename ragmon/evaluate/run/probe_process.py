"""One run of a probe, as a process: a job on standard input, its outcome on standard output.

A process of its own takes its memory with it when it ends, keeps the daemon's interpreter free,
and can be ended at any moment.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import msgspec
from msgspec.structs import replace

from ragmon.clock import Clock, SystemClock
from ragmon.errors import RagmonError
from ragmon.evaluate.cases import CaseSet, Run
from ragmon.evaluate.document import Evaluation, describe, load
from ragmon.evaluate.loaders import read_cases
from ragmon.evaluate.run.endpoint import RequestPolicy, ask_all, failure_of
from ragmon.evaluate.run.probe import Golden, ProbeJob, ProbeMean, ProbeOutcome, is_shown
from ragmon.evaluate.score.graders import AnswerGrader, GroundingGrader
from ragmon.evaluate.score.scoring import ScoringOptions, score

_PARENT_CHECK_S = 1.0


def run(job: ProbeJob, clock: Clock) -> ProbeOutcome:
    """Ask every question and score the answers; a failure becomes the outcome's error."""
    started_at, began = clock.now(), clock.monotonic()
    try:
        baseline = golden_of(load(Path(job.baseline))) if job.baseline else None
        whole = read_cases(Path(job.cases))
        cases = replace(whole, cases=whole.cases[: job.most_cases])
        answers = ask_all(cases.cases, job.template, _request_policy(job), clock)
        evaluation = _evaluated(job, cases, answers, started_at)
    except RagmonError as error:
        took_s = clock.monotonic() - began
        return ProbeOutcome(
            probe=job.probe, started_at=started_at, duration_s=took_s, error=str(error)
        )
    failures: dict[str, int] = {}
    for record in answers.values():
        if record.error is not None:
            reason = failure_of(record.error)
            failures[reason] = failures.get(reason, 0) + 1
    return ProbeOutcome(
        probe=job.probe,
        started_at=started_at,
        duration_s=clock.monotonic() - began,
        cases=len(cases.cases),
        means=tuple(
            ProbeMean(metric.name, metric.mean, metric.lower, metric.upper, metric.samples)
            for metric in evaluation.metrics
        ),
        failures=failures,
        golden=golden_of(evaluation),
        baseline=baseline,
    )


def golden_of(evaluation: Evaluation) -> Golden:
    """Per-case scores that later runs are compared with."""
    return Golden(
        name=evaluation.name,
        created_at=evaluation.created_at,
        case_ids=tuple(case.case_id for case in evaluation.cases),
        scores={
            name: tuple(column) for name, column in evaluation.scores.items() if is_shown(name)
        },
    )


def _request_policy(job: ProbeJob) -> RequestPolicy:
    return RequestPolicy(concurrency=job.concurrency, attempts=job.attempts)


def _evaluated(job: ProbeJob, cases: CaseSet, answers: Run, now: float) -> Evaluation:
    judges: list[AnswerGrader] = [GroundingGrader()] if job.grounding else []
    scored = score(cases, answers, ScoringOptions(ks=job.ks, ids_match=job.ids_match), judges)
    shown = [at for at, metric in enumerate(scored.metrics) if is_shown(metric.name)]
    selected = replace(
        scored,
        metrics=tuple(scored.metrics[at] for at in shown),
        values=scored.values[:, shown],
    )
    return describe(selected, job.probe, now, keys=[])


def main() -> None:
    """Run the job on standard input and write its outcome to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches it too, but is for the daemon
    os.nice(10)
    clock = SystemClock()
    parent = os.getppid()
    threading.Thread(target=_exit_with, args=(parent, clock), daemon=True).start()
    job = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=ProbeJob)
    sys.stdout.buffer.write(msgspec.msgpack.encode(run(job, clock)))


def _exit_with(parent: int, clock: Clock) -> None:
    """End this process when its parent died, so that a killed daemon sends no more requests."""
    while os.getppid() == parent:
        clock.sleep(_PARENT_CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    main()
