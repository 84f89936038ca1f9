"""structlog: JSON for machines, colours for people, one line an event."""

import logging
import sys
from typing import Literal

import structlog

from ragmon.terminal import one_line


def _safe_on_a_terminal(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """The event with its texts on one line each; a traceback keeps its own."""
    return {
        name: one_line(value) if isinstance(value, str) else value for name, value in event.items()
    }


def configure(style: Literal["auto", "json", "console"], level: str) -> None:
    """Set up logging to standard error, of ragmon and of the libraries below it.

    Args:
        style: auto is console on a terminal and JSON elsewhere.
        level: the least important level that is written.
    """
    console = style == "console" or (style == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        # rich's tracebacks show local variables: bearer tokens and users' questions.
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
        if console
        else structlog.processors.JSONRenderer(sort_keys=True)
    )
    last = [_safe_on_a_terminal] if console else [structlog.processors.format_exc_info]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *last,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("apscheduler", "urllib3", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
