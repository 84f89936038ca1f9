"""No log lines and no warnings of damaged numbers: millions of inputs would write gigabytes."""

import logging
import warnings

import structlog


def silence() -> None:
    """Drop what the package logs."""
    structlog.configure(
        processors=[],
        logger_factory=structlog.ReturnLoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
    )
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
