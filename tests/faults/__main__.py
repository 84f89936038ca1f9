"""``make faults``: many sudden ends and every fault of disk and clock, as a table."""

import argparse
import sys
import tempfile
from pathlib import Path

from ragmon.clock import SystemClock
from tests.faults import io, power
from tests.faults.rounds import Crashes, Totals, killed, terminated, unplugged
from tests.support.receiver import receiving

_KINDS = {"kill -9": killed, "power loss": unplugged, "SIGTERM": terminated}


def main() -> None:
    """Run the rounds and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("--kills", type=int, default=100, help="rounds of kill -9")
    parser.add_argument("--losses", type=int, default=100, help="rounds of power loss")
    parser.add_argument("--terms", type=int, default=15, help="of SIGTERM")
    parser.add_argument("--minutes", type=float, default=600.0, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-io", action="store_true", help="only the sudden ends")
    asked = parser.parse_args()
    counts = {"kill -9": asked.kills, "power loss": asked.losses, "SIGTERM": asked.terms}
    print(
        "| fault | rounds | acknowledged | lost | doubled | notifications | unsynced bytes lost |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, count in counts.items():
        if count:
            print(_row(name, _run(name, count, asked.seed, asked.minutes)), flush=True)
    if not asked.no_io:
        _io(asked.seed)


def _run(name: str, count: int, seed: int, minutes: float) -> Totals:
    """The outcome of some rounds of one kind."""
    losing_power = name == "power loss"
    with (
        tempfile.TemporaryDirectory(prefix="ragmon-faults-") as folder,
        receiving() as receiver,
        Crashes(Path(folder), receiver, seed, losing_power=losing_power) as crashes,
    ):
        started = SystemClock().monotonic()
        done = 0
        while done < count and SystemClock().monotonic() - started < 60.0 * minutes:
            crashes.round(_KINDS[name])
            done += 1
            if done % 10 == 0:
                took = SystemClock().monotonic() - started
                print(f"{name}: {done} rounds in {took:.0f} s", file=sys.stderr, flush=True)
        crashes.finish()
        return crashes.totals(done)


def _io(seed: int) -> None:
    """Print what every fault of the disk and the clock does, and what a kill leaves after them."""
    print("\n| fault | injected | requests taken | refused with 503 | ready again after |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="ragmon-faults-") as folder,
        receiving() as receiver,
        Crashes(Path(folder), receiver, seed, losing_power=True) as crashes,
    ):
        power.begin(crashes.data_dir, crashes.faults.durable)
        with crashes.daemon() as site:
            for _ in range(20):
                crashes.workload.send_one(site)
            for outcome in io.faults_of_the_disk(crashes, site):
                print(
                    f"| {outcome.fault} | {outcome.injected} | {outcome.accepted} |"
                    f" {outcome.refused} | {outcome.recovered_s:.1f} s |",
                    flush=True,
                )
            for name in io.steps_of_the_clock(crashes, site):
                print(
                    f"| clock {name}, and right again | 2 | all | 0 | nothing deleted |", flush=True
                )
            unplugged(crashes, site)
        crashes.finish()
        print("| loss of power after all of them | 1 | 0 lost | 0 doubled | |")


def _row(name: str, totals: Totals) -> str:
    sums = ", ".join(f"{count:,} {kind}" for kind, count in totals.acknowledged.items())
    return (
        f"| {name} | {totals.rounds} | {sums} | {totals.lost} | {totals.doubled} |"
        f" {totals.notifications} | {totals.lost_bytes:,} |"
    )


if __name__ == "__main__":
    main()
