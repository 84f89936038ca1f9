"""``make chaos``: a hundred thousand queries through a hundred kills, as a table."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ragmon.clock import SystemClock
from tests.chaos.fleet import PROTOCOLS, Fleet
from tests.chaos.storm import Outcome, Storm, traffic_for


def main() -> None:
    """Run the storms, one for each protocol of groups, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--ids", type=int, default=100_000, help="queries, in all")
    parser.add_argument("--kills", type=int, default=100, help="of processes, in all")
    parser.add_argument("--freezes", type=int, default=50, help="of daemons, in all")
    parser.add_argument("--gap", type=float, default=4.0, help="seconds between two of them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--protocol", choices=[*PROTOCOLS], help="only this one")
    asked = parser.parse_args()
    protocols = [asked.protocol] if asked.protocol else [*PROTOCOLS]
    print(
        "| group | queries | repeats | ratings | killed | frozen | commits forgotten | refused"
        " | lost | doubled | ratings without query | settled |"
    )
    print("| --- " * 12 + "|", flush=True)
    share = len(protocols)
    for number, protocol in enumerate(protocols):
        outcome = _storm(
            protocol,
            ids=asked.ids // share,
            kills=-(-asked.kills // share),
            freezes=-(-asked.freezes // share),
            gap_s=asked.gap,
            seed=asked.seed + number,
        )
        print(_row(protocol, outcome), flush=True)


def _storm(
    protocol: str, *, ids: int, kills: int, freezes: int, gap_s: float, seed: int
) -> Outcome:
    """The outcome of one storm."""
    lasts_s = gap_s * (kills + freezes)
    clock = SystemClock()
    folder = Path(tempfile.mkdtemp(prefix="ragmon-chaos-"))
    print(f"data and logs, kept where it fails: {folder}", file=sys.stderr, flush=True)
    with Fleet(folder, clock, protocol=protocol) as fleet:
        fleet.start()
        began = clock.monotonic()
        with traffic_for(fleet, ids=ids, lasts_s=lasts_s, seed=seed) as traffic:
            storm = Storm(fleet, traffic, kills=kills, freezes=freezes, seed=seed)
            storm.rage(lasts_s)
            took = clock.monotonic() - began
            print(f"{protocol}: {dict(storm.events)} in {took:.0f} s", file=sys.stderr, flush=True)
            outcome = storm.settle()
    shutil.rmtree(folder)
    return outcome


def _row(protocol: str, outcome: Outcome) -> str:
    return (
        f"| {protocol} | {outcome.ids:,} | {outcome.repeats:,} | {outcome.rated:,} |"
        f" {_told(outcome.events, frozen=False)} | {_told(outcome.events, frozen=True)} |"
        f" {outcome.forgotten:,} | {outcome.fenced} | {outcome.lost} | {outcome.doubled} |"
        f" {outcome.unjoined} | {outcome.settled_s:.1f} s |"
    )


def _told(events: Mapping[str, int], *, frozen: bool) -> str:
    counts = {
        kind.removeprefix("frozen "): count
        for kind, count in sorted(events.items())
        if kind.startswith("frozen") == frozen
    }
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


if __name__ == "__main__":
    main()
