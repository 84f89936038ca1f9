"""Limits and timeouts of the client."""

from __future__ import annotations

from typing import Any, NamedTuple

KIB = 1024
MIB = 1024 * KIB


class _Fields(NamedTuple):
    """The options and their defaults."""

    flush_interval_s: float = 1.0
    max_batch_records: int = 500
    max_batch_bytes: int = 512 * KIB
    max_buffer_records: int = 50_000
    max_buffer_bytes: int = 64 * MIB
    connect_timeout_s: float = 3.0
    read_timeout_s: float = 10.0
    exit_timeout_s: float = 5.0
    backoff_base_s: float = 0.5
    backoff_cap_s: float = 30.0
    blocked_wait_s: float = 60.0
    gzip_over_bytes: int | None = None
    spool_max_bytes: int = 256 * MIB
    spool_scan_s: float = 30.0
    ca_file: str | None = None
    close_at_sigterm: bool = True


class Options(_Fields):
    """Limits and timeouts of one ``Monitor``; every default suits a web application.

    Args:
        flush_interval_s: how long the first record waits for others before it is sent.
        max_batch_records: records in one request.
        max_batch_bytes: bytes of one request before compression; the default passes the 1 MB
            that proxies commonly admit.
        max_buffer_records: records held in memory; what is logged beyond is dropped and counted.
        max_buffer_bytes: bytes held in memory, likewise.
        connect_timeout_s: for one connection to open.
        read_timeout_s: for each read of an answer.
        exit_timeout_s: how long ``close()``, and so the end of the process, waits for delivery.
        backoff_base_s: the first wait after a failure; doubles with each further one.
        backoff_cap_s: the longest wait while the server is away.
        blocked_wait_s: the wait after an answer that only an operator can change, such as 401.
        gzip_over_bytes: compress larger requests; ``None`` never, which costs least CPU.
        spool_max_bytes: what all processes together may keep in ``spool_dir``.
        ca_file: PEM file of the authorities to trust for https; ``None``: those of the system.
        close_at_sigterm: deliver before SIGTERM ends the process, as at its every other end; set
            by the first monitor made in the main thread. What handled the signal before still does.
        spool_scan_s: how often the files of processes that have died are looked for.

    Raises:
        ValueError: a limit is not positive.
    """

    __slots__ = ()

    def __new__(cls, **limits: Any) -> Options:
        """The defaults, with these in their place."""
        options = super().__new__(cls, **limits)
        for name, value in options._asdict().items():
            if not isinstance(value, (bool, str, type(None))) and not value > 0:
                raise ValueError(f"Options.{name} must be positive, got {value!r}")
        return options
