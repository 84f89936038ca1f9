"""Sinks that fail as told, and what counts their attempts."""

import collections

from ragmon.errors import SinkError


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


class OutcomeCounter(collections.Counter):
    def notified(self, sink, outcome, count=1):
        self[sink, outcome] += count


DOWN = SinkError("chat answered 503", retryable=True)
GONE = SinkError("chat answered 404: no such channel", retryable=False)
