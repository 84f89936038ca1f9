"""Reach of an erasure beyond sound blocks, and the thread that does the work."""

import re
import sqlite3
import threading

from ragmon.judges.llm import LruCache
from ragmon.stores.sqlite.erasure import SqliteBlockErasure
from tests.daemon.erasure.test_requests import JANE, forget, send
from tests.support.daemons import running


def test_the_receipt_names_a_block_that_cannot_be_searched(tmp_path):
    data = tmp_path / "data"
    with running(data) as site:
        send(site)
    with sqlite3.connect(data / "ragmon.sqlite") as db:
        [(first,)] = db.execute("SELECT min(first_sequence) FROM blocks").fetchall()
        db.execute("UPDATE blocks SET body = x'00' WHERE first_sequence = ?", (first,))
    db.close()
    with running(data) as site:
        receipt = forget(site, f"/v1/users/{JANE}")
    [place] = [each for each in receipt["remaining"] if "damaged" in each["place"]]
    # Where the joining of blocks met it first, the block is one end of a range.
    assert re.search(rf"number: {first}(\)| to \d)", place["place"])


def test_blocks_are_compressed_beside_the_writer(tmp_path, monkeypatch):
    threads = set()
    pack = SqliteBlockErasure.pack

    def seen(self, records, first_sequence):
        threads.add(threading.current_thread().name)
        return pack(self, records, first_sequence)

    monkeypatch.setattr(SqliteBlockErasure, "pack", seen)
    with running(tmp_path / "data") as site:
        send(site)
        assert forget(site, f"/v1/users/{JANE}")["removed"]["records"] == 20
    assert threads == {"erasure"}


def test_replies_of_the_language_model_are_let_go(tmp_path):
    llm = {"judge__llm__base_url": "http://127.0.0.1:9/v1", "judge__llm__model": "m"}
    with running(tmp_path / "data", **llm) as site:
        owners = [let_go.__self__ for let_go in site.daemon._engine.on_erased]
        (cache,) = (owner for owner in owners if isinstance(owner, LruCache))
        cache.put(b"key", b"jane lives in a lane")
        forget(site, f"/v1/users/{JANE}")
        assert cache.get(b"key") is None
