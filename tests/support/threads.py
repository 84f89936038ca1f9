"""The writer's thread, when there is none beside the test's own."""

import threading

from ragmon.threads import OnWriter, WriterThread


def at_once() -> WriterThread:
    """Runs what it is asked on the thread that asks."""
    return WriterThread(lambda call: call(), threading.current_thread)


def bound(owned) -> OnWriter:
    """What belongs to the writer's thread, for a test that has none."""
    return at_once().bind(owned)
