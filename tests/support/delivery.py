"""Sinks that fail as told, and what counts their attempts."""

import collections
from concurrent.futures import Future

from ragmon.errors import SinkError, StoreError


class Recorder:
    """A sink that fails as told."""

    def __init__(self, fail=lambda _: None):
        self.tried = []
        self.got = []
        self.fail = fail

    def deliver(self, told):
        self.tried.append(told.id)
        error = self.fail(told)
        if error is not None:
            raise error
        self.got.append(told.id)


class Tally(collections.Counter):
    def notified(self, sink, outcome, count=1):
        self[sink, outcome] += count


def at_once(function):
    """The store's thread, when it is this one."""
    done = Future()
    try:
        done.set_result(function())
    except StoreError as error:
        done.set_exception(error)
    return done


DOWN = SinkError("chat answered 503", retryable=True)
GONE = SinkError("chat answered 404: no such channel", retryable=False)
