"""Quotations of erased queries leave alerts: stored, on their way out, and in memory."""

import pytest

from ragmon.daemon.erasure.blocks import BlockEraser, ErasureCounts, owned
from ragmon.daemon.erasure.evidence import EvidenceEraser
from ragmon.privacy.erasure import Subject
from ragmon.stores.protocols import Notification
from tests.support.carve import carved
from tests.support.examples import NOON, chunks, record
from tests.support.vigil import Vigil

TYPED = "where-does-jane-live"


def query(name, at, *, found, user):
    return record(
        name,
        at=at,
        pipeline="docs",
        query=f"{TYPED if user == 'jane' else 'something else'} {name}",
        user_id=user,
        chunks=chunks("a") if found else [],
    )


def alarmed(root, user):
    """Hours of quiet, then forty minutes in which nothing is found, for one user."""
    vigil = Vigil(root, NOON, sinks=[{"kind": "stdout"}])
    start = NOON - 20 * 3_600.0
    for hour in range(20):
        first = start + hour * 3_600.0
        vigil.commit(
            [
                query(f"q{hour}-{at}", first + 10.0 * at, found=at % 60 > 0, user="john")
                for at in range(360)
            ]
        )
        vigil.tick()
    vigil.tick()
    for minute in range(20):
        vigil.clock.sleep(60.0)
        now = vigil.clock.now()
        vigil.commit(
            [query(f"bad{minute}-{at}", now - 50 + at, found=False, user=user) for at in range(6)]
        )
        vigil.tick()
    vigil.snapshot()
    return vigil


def buried(vigil):
    """Dead letters of all that waits, which waits on beside them."""
    outbox = vigil.engine.state.outbox()
    outbox.abandon([], vigil.clock.now(), "the sink was removed")
    letters = outbox.dead(100)
    outbox.put([Notification(*letter[:5]) for letter in letters])
    return letters


@pytest.fixture(scope="module")
def vigil(tmp_path_factory):
    opened = alarmed(tmp_path_factory.mktemp("alarmed"), "jane")
    yield opened
    opened.end()


def test_what_an_alert_quotes_goes_with_the_query(vigil):
    assert any(TYPED in str(event) for event in vigil.events())
    assert TYPED in str(vigil.alerting.book)
    assert vigil.notified()
    assert any(
        TYPED.encode() in letter.body for letter in vigil.engine.thread.ask(lambda: buried(vigil))
    )
    counts, eraser = ErasureCounts(), BlockEraser(vigil.engine)
    list(eraser.erase(owned(Subject(kind="user", id="jane")), counts))
    assert counts.records == 120
    before = len(vigil.events())
    changed = EvidenceEraser(vigil.engine, vigil.alerting).erase()
    assert changed > 0
    assert len(vigil.events()) == before
    erasure = vigil.engine.shard.erasure()
    vigil.engine.thread.ask(lambda: [None for _ in iter(erasure.purge, True)])
    assert TYPED.encode() not in carved(vigil.directory)
    assert TYPED not in str(vigil.alerting.book)
    vigil.tick(60.0)  # the next turn saves what is in memory
    assert TYPED.encode() not in carved(vigil.directory)


def test_nothing_is_left_to_do_the_second_time(vigil):
    assert EvidenceEraser(vigil.engine, vigil.alerting).erase() == 0
