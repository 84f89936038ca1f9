"""``make soak``: a month in an hour, or ``MINUTES=`` of one in as many minutes."""

import argparse
import sys
import tempfile
from pathlib import Path

from ragmon.clock import SystemClock
from tests.soak.month import DAY_S, STEP_S, Month, Sample
from tests.soak.verdict import problems
from tests.support.receiver import receiving

_MAX_DISK = 12 << 20
_WARM_UP = int(10.5 * DAY_S / STEP_S)  # the windows of ten days are full
_SHOWN_EVERY = 58  # steps: a day


def main() -> int:
    """The exit status: 1 when the daemon has grown."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--steps", type=int, default=0, help="0: a month's share of the minutes")
    asked = parser.parse_args()
    month_steps = int(30 * DAY_S / STEP_S)
    steps = asked.steps or max(10, int(month_steps * asked.minutes / 60.0))
    started = SystemClock().monotonic()
    samples: list[Sample] = []
    print("| day | memory | threads | descriptors | disk |\n| --- | --- | --- | --- | --- |")
    with (
        tempfile.TemporaryDirectory(prefix="ragmon-soak-") as folder,
        receiving() as receiver,
        Month(Path(folder), receiver, max_disk=_MAX_DISK, records="2d") as month,
    ):
        for sample in month.run(steps):
            samples.append(sample)
            if sample.step % _SHOWN_EVERY == 0:
                print(_row(sample), flush=True)
            if SystemClock().monotonic() - started > 60.0 * asked.minutes:
                break
        assert month.oldest_s() < 3 * DAY_S, "retention does not keep up"
        month.finish()
        days = len(samples) * STEP_S / DAY_S
        print(
            f"\n{days:.1f} days in {(SystemClock().monotonic() - started) / 60:.1f} minutes:"
            f" {month.sent:,} queries sent, {month.followed:,} lines followed,"
            f" {month.restarts} restarts, {len(receiver.accepted)} notifications"
        )
    found = problems(samples, _MAX_DISK, min(_WARM_UP, len(samples) // 2))
    print("\n".join(found) or "nothing has grown")
    return int(bool(found))


def _row(sample: Sample) -> str:
    day = sample.step * STEP_S / DAY_S
    return (
        f"| {day:.1f} | {sample.rss_bytes / 1e6:.0f} MB | {sample.threads} |"
        f" {sample.descriptors} | {sample.disk_bytes / 1e6:.1f} MB |"
    )


if __name__ == "__main__":
    sys.exit(main())
