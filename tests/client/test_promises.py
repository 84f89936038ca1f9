"""Whatever happens: everything logged is taken once by the server, or counted as dropped."""

from collections import Counter

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.client.address import address
from ragmon.client.batch import RecordKind
from ragmon.client.engine import EnginePlan, build
from ragmon.client.options import Options
from ragmon.client.responses import ServerResponse
from ragmon.clock import ManualClock


class Chance:
    """A transport to a ragmon with a fate for each request; what it took, it never takes again."""

    def __init__(self, fates):
        self._fates = iter(fates)
        self.calm = False
        self.taken = Counter()

    def post(self, path, body, timeout_s=None):
        fate = "ok" if self.calm else next(self._fates, "ok")
        ids = [msgspec.json.decode(line)["query_id"] for line in body.splitlines()]
        if fate == "413":
            return ServerResponse(status=413)
        if fate in ("503", "401"):
            return ServerResponse(status=int(fate), retry_after="2")
        if fate == "unreachable":
            return ServerResponse(error="ConnectionRefusedError")
        if fate == "rejected":
            return ServerResponse(status=422, body=b"{}")
        fresh = [each for each in ids if each not in self.taken]
        self.taken.update(fresh)
        if fate == "answer lost":
            return ServerResponse(error="TimeoutError")
        receipt = {"accepted": len(fresh), "duplicates": len(ids) - len(fresh)}
        return ServerResponse(status=200, body=msgspec.json.encode(receipt))

    def abort(self):
        pass

    close = forget = abort


FATES = st.sampled_from(["ok", "ok", "413", "503", "401", "unreachable", "rejected", "answer lost"])
EVENTS = st.sampled_from(
    ["log", "log many", "turn", "turn", "second", "minute", "hurry", "restart"]
)


class Application:
    """Logs through one engine after another, as a process that is restarted does."""

    def __init__(self, transport, spool_dir):
        self.clock = ManualClock(1e9)
        self._plan = EnginePlan(
            address=address("http://ragmon.invalid", {}),
            token=None,
            spool_dir=spool_dir,
            options=Options(max_batch_records=3, max_buffer_records=12),
            clock=self.clock,
        )
        self._transport = transport
        self.logged = []
        self.dropped = Counter()
        self.begin()

    def begin(self):
        self.engine = build(self._plan, self._transport)

    def log(self, count=1):
        for _ in range(count):
            self.logged.append(f"q{len(self.logged)}")
            self.engine.inbox.put(RecordKind.QUERY, {"query_id": self.logged[-1]}, 100)

    def turn(self):
        return self.engine.worker.turn()

    def end(self):
        self.engine.leave()
        self.dropped.update(self.engine.stats().dropped)

    def restart(self):
        self.end()
        self.begin()

    def settle(self):
        """Turn until nothing waits."""
        for _ in range(60):
            self.clock.sleep(100.0)
            while self.turn() == 0.0:
                pass


@settings(deadline=None)
@given(
    events=st.lists(EVENTS, max_size=60),
    spooled=st.booleans(),
    fates=st.lists(FATES, max_size=60),
)
def test_everything_logged_is_taken_once_or_counted_as_dropped(
    tmp_path_factory, events, spooled, fates
):
    server = Chance(fates)
    client = Application(server, tmp_path_factory.mktemp("spool") if spooled else None)
    act = {
        "log": client.log,
        "log many": lambda: client.log(7),
        "turn": client.turn,
        "second": lambda: client.clock.sleep(1.0),
        "minute": lambda: client.clock.sleep(60.0),
        "hurry": lambda: client.engine.worker.request_retry(),  # noqa: PLW0108 - the newest engine
        "restart": client.restart,
    }
    for event in events:
        act[event]()
        stats = client.engine.stats()
        held = stats.queued + stats.spooled + sum(stats.dropped.values())
        assert stats.logged + stats.recovered == stats.sent + held
    server.calm = True
    client.settle()
    stats = client.engine.stats()
    assert stats.queued == stats.queued_bytes == stats.spooled == 0
    client.end()
    assert set(server.taken.values()) <= {1}
    lost = set(client.logged) - set(server.taken)
    assert len(lost) <= sum(client.dropped.values())
    if "restart" not in events:
        assert stats.sent + sum(client.dropped.values()) == len(client.logged)
