"""Runs of all targets, some at a time: inputs, findings, and the corpora that grow from them."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.fuzz import corpora
from tests.support.paths import ROOT

WORK = ROOT / ".fuzz"
_HANG_S = 120  # wall clock, on a busy machine; the guard in the process counts CPU
_MOST_MB = 3_000
_MOST_INPUT = 4_096
_EXECUTED = re.compile(rb"stat::number_of_executed_units:\s+(\d+)")
_COVERED = re.compile(rb"\bcov: (\d+)")


class Outcome(NamedTuple):
    """A target's run."""

    target: str
    inputs: int
    seconds: float
    covered: int  # edges of the package
    finding: str  # the end of the log; empty when nothing was found
    artifact: Path | None = None  # the input that failed

    @property
    def rate(self) -> float:
        """Inputs a second."""
        return self.inputs / max(self.seconds, 1e-9)


def lasting(seconds: float) -> list[str]:
    """The limit of a run that lasts so long, from chances of its own."""
    return [f"-max_total_time={max(1, round(seconds))}"]


def repeatable(inputs: int) -> list[str]:
    """The limit of a run of so many inputs, the same ones each time."""
    return [f"-runs={inputs}", "-seed=1"]


def fuzz(
    names: Sequence[str], limit: Sequence[str], at_once: int, work: Path = WORK
) -> list[Outcome]:
    """Run each target up to a limit.

    Args:
        names: of the targets.
        limit: of each, ``lasting`` or ``repeatable``.
        at_once: processes that run beside one another.
        work: folder of corpora, logs and failing inputs.
    """
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda name: fuzz_one(name, limit, work), names))


def fuzz_one(name: str, limit: Sequence[str], work: Path) -> Outcome:
    """Run one target."""
    corpus, seeds, failing = work / "corpus" / name, work / "seeds" / name, work / "failing" / name
    for folder in (corpus, failing):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(seeds, ignore_errors=True)
    corpora.unpack(name, seeds)
    flags = [
        *limit,
        f"-timeout={_HANG_S}",
        f"-rss_limit_mb={_MOST_MB}",
        f"-max_len={_MOST_INPUT}",
        f"-artifact_prefix={failing}/",
        "-print_final_stats=1",
        "-reload=0",
        *_dictionary(name, work),
        _in_order(seeds, work / f"{name}.seeds"),
    ]
    before = set(failing.iterdir())
    started = time.monotonic()
    status, log = _run(name, [*flags, str(corpus)], work)
    took = time.monotonic() - started
    finding = "" if status == 0 else log[-4_000:].decode("utf-8", "replace")
    new = sorted(set(failing.iterdir()) - before)
    executed, covered = _EXECUTED.findall(log), _COVERED.findall(log)
    return Outcome(
        name,
        int(executed[-1]) if executed else 0,
        took,
        int(covered[-1]) if covered else 0,
        finding,
        new[0] if new else None,
    )


def _in_order(seeds: Path, list_of_files: Path) -> str:
    """The option that names the seeds: a folder is read in an order that depends on its disk."""
    list_of_files.write_text(",".join(str(path) for path in sorted(seeds.iterdir())))
    return f"-seed_inputs=@{list_of_files}"


def _run(name: str, arguments: Sequence[str], work: Path) -> tuple[int, bytes]:
    """Exit status and log of the process; what it leaves in its temporary folder goes."""
    with tempfile.TemporaryDirectory(dir=_memory()) as scratch:
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.worker", name, *arguments],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": scratch, "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
    (work / f"{name}.log").write_bytes(done.stdout)
    return done.returncode, done.stdout


def _memory() -> str | None:
    """A folder in memory, where there is one: targets write many small files."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _dictionary(name: str, work: Path) -> list[str]:
    words = corpora.target(name).WORDS
    if not words:
        return []
    path = work / f"{name}.dict"
    path.write_text("".join(f'"{_escaped(word)}"\n' for word in words if len(word) < 64), "ascii")
    return [f"-dict={path}"]


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def minimised(name: str, work: Path = WORK) -> list[bytes]:
    """The fewest inputs of the grown corpus that reach the same branches."""
    target = work / "minimised" / name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    seeds = work / "seeds" / name
    corpora.unpack(name, seeds)
    _run(
        name,
        [
            "-merge=1",
            f"-max_len={_MOST_INPUT}",
            str(target),
            str(work / "corpus" / name),
            str(seeds),
        ],
        work,
    )
    return [path.read_bytes() for path in target.iterdir()]


def table(outcomes: Iterable[Outcome]) -> str:
    """The outcomes as Markdown."""
    lines = [
        "| target | inputs | inputs/s | branches | findings |",
        "| --- | --- | --- | --- | --- |",
    ]
    outcomes = list(outcomes)
    lines += [
        f"| {each.target} | {each.inputs:,} | {each.rate:,.0f} | {each.covered:,}"
        f" | {int(bool(each.finding))} |"
        for each in outcomes
    ]
    total, found = (
        sum(each.inputs for each in outcomes),
        sum(bool(each.finding) for each in outcomes),
    )
    return "\n".join([*lines, f"| **all** | **{total:,}** | | | **{found}** |"])
