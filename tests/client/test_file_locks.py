"""File operations of the spool, as on POSIX and, with a stand-in for its C library, on Windows."""

import fcntl
import importlib.util
import os
import sys
from types import ModuleType

import pytest

from ragmon.client import file_locks, spool
from ragmon.client.spool import Spool


class WindowsLocks(ModuleType):
    """``msvcrt``: locks one byte at the position of the file."""

    LK_NBLCK = 2

    def __init__(self):
        super().__init__("msvcrt")
        self.positions = set()

    def locking(self, fd, mode, count):
        assert (mode, count) == (self.LK_NBLCK, 1)
        self.positions.add(os.lseek(fd, 0, os.SEEK_CUR))
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError is an OSError, as there


@pytest.fixture
def windows(monkeypatch):
    """The module as Windows has it, used by the spool; no file is deleted while it is open."""
    locks = WindowsLocks()
    monkeypatch.setitem(sys.modules, "msvcrt", locks)
    monkeypatch.setattr(os, "O_BINARY", 0, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    spec = importlib.util.spec_from_file_location("windows_locks", file_locks.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("OPEN_FLAGS", "delete", "lock", "read"):
        monkeypatch.setattr(spool, name, getattr(module, name))
    for name in ("O_NOFOLLOW", "pread"):
        monkeypatch.delattr(os, name)
    return locks


def stories(folder):
    """What a process wrote, another takes over, reads and deletes; never both."""
    writer, reader = Spool(folder, 10_000), Spool(folder, 10_000)
    assert writer.append([b"one", b"two"], 1.0) == 2
    assert reader.oldest(adopt=True) is None  # its writer lives
    segment = writer.oldest(adopt=False)
    assert segment.lines() == [b"one", b"two"]
    assert reader.oldest(adopt=True) is None
    writer.release(segment)
    segment = reader.oldest(adopt=True)
    assert segment.lines() == [b"one", b"two"]
    assert Spool(folder, 10_000).oldest(adopt=True) is None
    reader.discard(segment)
    assert list(folder.iterdir()) == []


def test_a_spool_on_windows(windows, tmp_path):
    stories(tmp_path)
    (position,) = windows.positions
    assert position > 1 << 30  # beyond every segment, whose bytes stay readable
    assert position < 1 << 31  # of the C library's `long`


def test_a_spool_on_posix(tmp_path):
    stories(tmp_path)


def test_on_windows_a_file_that_another_process_holds_open_is_left_empty(
    windows, tmp_path, monkeypatch
):
    writer = Spool(tmp_path, 10_000)
    writer.append([b"one"], 1.0)
    segment = writer.oldest(adopt=False)

    def refuse(_self, missing_ok=False):
        raise PermissionError(32, "used by another process")

    with monkeypatch.context() as patch:
        patch.setattr(type(segment.path), "unlink", refuse)
        writer.discard(segment)
    assert [path.stat().st_size for path in tmp_path.iterdir()] == [0]
    assert Spool(tmp_path, 10_000).oldest(adopt=True) is None
    assert list(tmp_path.iterdir()) == []
