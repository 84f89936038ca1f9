"""A few hours of simulated traffic, and a judgement that can fail."""

from collections.abc import Sequence

import pytest

from tests.faults import library
from tests.soak.month import Month, Sample
from tests.soak.verdict import problems
from tests.support.receiver import receiving

DISK = 8 << 20
STEPS = 18


@pytest.mark.end_to_end
def test_hours_of_traffic_leave_the_daemon_as_it_was(tmp_path):
    library.required()
    with (
        receiving() as receiver,
        Month(tmp_path, receiver, max_disk=DISK, records="2h") as month,
    ):
        samples = list(month.run(STEPS))
        month.finish()
    assert len(samples) == STEPS
    assert month.sent > 1_000
    assert [finding for finding in problems(samples, DISK, 6) if "rss_bytes" not in finding] == []


def steady(count: int = 30, **growing: int) -> Sequence[Sample]:
    """Samples of a daemon, some of whose figures grow by so much at each step."""
    plain = {"rss_bytes": 100_000_000, "threads": 20, "descriptors": 30, "disk_bytes": 5_000_000}
    return [
        Sample(step, **{name: value + step * growing.get(name, 0) for name, value in plain.items()})
        for step in range(count)
    ]


def test_a_steady_daemon_has_no_problem():
    assert problems(steady(), DISK, 6) == []
    assert problems(steady(rss_bytes=100_000), DISK, 6) == []  # 2 %


@pytest.mark.parametrize(
    ("growing", "finding"),
    [
        pytest.param({"rss_bytes": 1_000_000}, "rss_bytes grew from", id="memory"),
        pytest.param({"threads": 1}, "threads grew from", id="a thread a step"),
        pytest.param({"descriptors": 1}, "descriptors grew from", id="a descriptor a step"),
        pytest.param({"disk_bytes": 2_000_000}, "the store took", id="disk"),
    ],
)
def test_growth_is_named(growing, finding):
    assert [text.startswith(finding) for text in problems(steady(**growing), DISK, 6)] == [True]


def test_what_happens_while_it_warms_up_does_not_count():
    early = steady(6, rss_bytes=20_000_000)
    assert problems([*early, *steady(24)], DISK, 6) == []
