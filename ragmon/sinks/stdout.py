"""Standard output: text for people, or a line of JSON a notice for programs."""

import sys
from typing import Literal

from msgspec.structs import asdict
from pydantic import BaseModel, ConfigDict

from ragmon.alerts.message import message, plain
from ragmon.alerts.notices import IncidentNotice
from ragmon.errors import SinkError
from ragmon.sinks import SinkContext
from ragmon.terminal import json_line, one_line_each


class Options(BaseModel):
    """``sinks: [{kind: stdout}]``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    format: Literal["text", "json"] = "text"
    """text for people; json: one line a notification, with all its fields."""


def build(options: Options, context: SinkContext) -> "Stdout":
    """A sink that writes to standard output."""
    return Stdout(options, context)


class Stdout:
    """A delivery fails, and is tried again, when nothing reads the output."""

    def __init__(self, options: Options, context: SinkContext) -> None:
        self._options = options
        self._context = context

    def deliver(self, notice: IncidentNotice) -> None:
        """Write one notice."""
        context = self._context
        text = plain(message(one_line_each(notice), context.links, context.labels)) + "\n"
        if self._options.format == "json":
            external = {"labels": dict(context.labels)} if context.labels else {}
            text = json_line(asdict(notice) | external) + "\n"
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise SinkError(f"cannot write to stdout: {reason}", retryable=True) from None
