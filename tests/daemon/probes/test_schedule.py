"""When golden probes run, what survives a restart, and how a run ends."""

import subprocess
import sys
import threading

import msgspec
import pytest

from ragmon.clock import ManualClock
from ragmon.daemon.probes.findings import allowance
from ragmon.daemon.probes.scheduler import Probes, Process
from ragmon.daemon.probes.state import Planned, ProbeState
from ragmon.errors import StoreFullError
from tests.support.probes import job, outcome, scored
from tests.support.rag_service import answering, golden_lines
from tests.support.threads import bound
from tests.support.wait import eventually


@pytest.fixture
def service():
    with answering() as found:
        yield found


@pytest.fixture
def golden(tmp_path):
    path = tmp_path / "golden.jsonl"
    path.write_text(golden_lines(40))
    return path


class Hand:
    """A runner that does what the test says; refuses two runs at a time."""

    def __init__(self, clock):
        self.clock = clock
        self.jobs = []
        self.busy = threading.Lock()
        self.gate = threading.Event()
        self.gate.set()
        self.golden = scored([1.0])

    def run(self, job, timeout_s):
        assert self.busy.acquire(blocking=False)
        try:
            self.jobs.append((job.probe, timeout_s))
            assert self.gate.wait(20)
            return outcome(self.golden, self.clock.now())
        finally:
            self.busy.release()

    def stop(self):
        self.gate.set()


class Runs:
    def __init__(self):
        self.kept = {}
        self.error = None

    def load(self):
        return dict(self.kept)

    def save(self, name, body):
        if self.error is not None:
            raise self.error
        self.kept[name] = body


class Asked:
    """A schedule that runs nothing by itself."""

    def every(self, seconds, name, job):
        self.run_due = job


class Site:
    """Probes with everything around them in the test's hand."""

    def __init__(self, clock, runs, *names, every_s=600.0):
        self.clock, self.hand, self.asked = clock, Hand(clock), Asked()
        planned = [Planned(job(probe=name), every_s) for name in names]
        self.probes = Probes(
            planned,
            runner=self.hand,
            runs=bound(runs),
            schedule=self.asked,
            clock=clock,
            allowed=allowance(1.0),
        )
        self.probes.start()
        eventually(lambda: hasattr(self.asked, "run_due"), "what was found before is loaded")
        self.before = self.runs()

    def runs(self):
        return sum(sum(state.runs.values()) for state in self.probes.states.values())

    def look(self, *, done):
        self.asked.run_due()
        eventually(lambda: self.runs() - self.before == done, f"{done} runs are done")
        assert eventually(lambda: not self.probes._waiting, "nothing waits") is True


@pytest.fixture
def site():
    made = []

    def make(*args, **more):
        made.append(Site(*args, **more))
        return made[-1]

    yield make
    for each in made:
        each.probes.stop()


def test_a_run_is_due_when_the_last_began_long_enough_ago(site):
    clock = ManualClock(1_000.0)
    found = site(clock, Runs(), "faq")
    found.look(done=1)
    clock.sleep(599.0)
    found.look(done=1)
    clock.sleep(1.0)
    found.look(done=2)
    assert found.hand.jobs == [("faq", 600.0)] * 2


def test_the_rhythm_and_the_results_survive_a_restart(site):
    clock, runs = ManualClock(1_000.0), Runs()
    site(clock, runs, "faq").look(done=1)
    clock.sleep(300.0)
    again = site(clock, runs, "faq", "new")
    assert again.probes.states["faq"].runs == {"finished": 1, "failed": 0}
    again.look(done=1)
    assert again.hand.jobs == [("new", 600.0)]
    (view, _) = again.probes.views()
    assert (view.probe, view.started_at) == ("faq", 1_000.0)


def test_a_clock_that_is_set_back_does_not_stop_the_probes(site):
    found = site(ManualClock(10_000.0), Runs(), "faq")
    found.look(done=1)
    found.clock.step(-5_000.0)
    found.look(done=2)


def test_never_two_runs_at_a_time(site):
    found = site(ManualClock(0.0), Runs(), "a", "b")
    found.hand.gate.clear()
    found.asked.run_due()
    eventually(lambda: found.hand.jobs, "the first run began")
    found.asked.run_due()  # due as well, and neither begun twice nor beside the other
    found.hand.gate.set()
    eventually(lambda: found.runs() == 2, "both are done")
    assert sorted(name for name, _ in found.hand.jobs) == ["a", "b"]


def test_a_store_that_refuses_costs_no_result(site):
    runs = Runs()
    runs.error = StoreFullError("disk full")
    found = site(ManualClock(0.0), runs, "faq")
    found.look(done=1)
    assert found.probes.states["faq"].last is not None


def test_what_another_release_saved_is_passed_over(site):
    runs = Runs()
    runs.kept["faq"] = msgspec.msgpack.encode({"last": 7})
    assert site(ManualClock(0.0), runs, "faq").probes.states["faq"] == ProbeState()


def test_the_end_does_not_wait_for_a_run(service, golden):
    service.gate = threading.Event()
    process = Process(ManualClock())
    found = []
    thread = threading.Thread(
        target=lambda: found.append(process.run(job(service.url, golden), 60.0))
    )
    thread.start()
    eventually(lambda: service.asked, "the run is under way")
    process.stop()
    thread.join(5)
    assert not thread.is_alive()
    assert "ended with status -9" in found[0].error
    assert process.run(job(service.url, golden), 60.0).error == "stopped"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        pytest.param(["echo", "hello"], "gave no result", id="something else on its output"),
        pytest.param(["false"], "ended with status 1", id="it failed"),
        pytest.param(["no-such-program"], "gave no result", id="it cannot be started"),
    ],
)
def test_a_process_that_gives_no_result_is_a_failed_run(command, said):
    found = Process(ManualClock(7.0), command).run(job(), 60.0)
    assert (found.end, found.started_at) == ("failed", 7.0)
    assert said in found.error


def test_a_run_ends_with_the_daemon_that_asked_for_it(service, golden):
    """Also when that was killed: whoever reads its output sees the end of it."""
    service.gate = threading.Event()
    code = (
        "import subprocess, sys; process = subprocess.Popen([sys.executable, '-m', "
        "'ragmon.evaluate.run.probe_process'], stdin=subprocess.PIPE); "
        "process.stdin.write(sys.stdin.buffer.read()); process.stdin.close(); process.wait()"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with daemon:
        daemon.stdin.write(msgspec.msgpack.encode(job(service.url, golden)))
        daemon.stdin.close()
        eventually(lambda: service.asked, "the run is under way")
        daemon.kill()
        reading = threading.Thread(target=daemon.stdout.read)  # until nobody holds it any more
        reading.start()
        reading.join(10)
        assert not reading.is_alive()


def test_a_run_is_bounded_in_time(service, golden):
    service.gate = threading.Event()
    found = Process(ManualClock()).run(job(service.url, golden), 0.5)
    assert "not done within 0.5 s" in found.error
