"""Posting until it is durable: what is tried again, and what ends it."""

import threading

import pytest
from requests import Session

from ragmon.cli.sender import Sender, SendListener
from ragmon.clock import SystemClock
from ragmon.errors import RemoteError
from tests.support.daemons import running

NOBODY = "http://127.0.0.1:9"  # the discard port: nothing listens there


def test_what_was_taken_refused_and_known_before_is_counted(tmp_path):
    with running(tmp_path / "data") as site:
        delivery = Sender(site.url, Session())
        delivery.post("/v1/queries", b'{"query_id":"a"}\n{"query_id":3}\n{"query_id":"a"}')
    done = delivery.done
    assert (done.accepted, done.duplicates, done.rejected) == (1, 1, 1)


def test_a_stop_ends_the_attempts_at_once():
    delivery = Sender(NOBODY, Session())
    failed: list[RemoteError] = []

    def post() -> None:
        with pytest.raises(RemoteError, match="stopped") as caught:
            delivery.post("/v1/queries", b"{}")
        failed.append(caught.value)

    thread = threading.Thread(target=post)
    thread.start()
    clock = SystemClock()
    started = clock.monotonic()
    delivery.stop.set()
    thread.join(10)
    assert failed
    assert clock.monotonic() - started < 2.0


def test_nobody_at_an_address_is_said_at_once_and_given_up_soon():
    said: list[str] = []
    delivery = Sender(
        NOBODY, Session(), listener=SendListener(delayed=said.append), first_contact_s=0.6
    )
    with pytest.raises(RemoteError, match="tried for 1 s") as caught:
        delivery.post("/v1/queries", b"{}")
    assert "ragmon serve" in caught.value.hint
    assert len(said) == 1  # of three attempts
    assert said[0].startswith(f"no answer from {NOBODY} (connection refused); trying again for 1 s")
    assert "ragmon serve" in said[0]


def test_an_outage_after_an_answer_is_waited_for(tmp_path):
    said: list[str] = []
    with running(tmp_path / "data") as site:
        delivery = Sender(
            site.url, Session(), listener=SendListener(delayed=said.append), first_contact_s=0.0
        )
        delivery.post("/v1/queries", b'{"query_id":"a"}')
    delivery.stop.set()
    with pytest.raises(RemoteError, match="stopped"):
        delivery.post("/v1/queries", b"{}")
    assert len(said) == 1
    assert "trying again for 120 s" in said[0]


def test_an_address_that_is_none_of_ragmons_is_refused_at_once(tmp_path):
    with running(tmp_path / "data") as site, pytest.raises(RemoteError, match="404"):
        Sender(site.url + "/elsewhere", Session()).post("/v1/queries", b"{}")
