"""Limits of requests, where a test is about something else."""

from typing import Any

from ragmon.asgi import BodyLimits
from ragmon.memory import MemoryBudget


def body_limits(**changes: Any) -> BodyLimits:
    """Ample limits, but for what a test changes."""
    ample: dict[str, Any] = {
        "body": 1 << 20,
        "decompressed": 8 << 20,
        "headers": 65_536,
        "read_timeout_s": 5.0,
        "write_timeout_s": 5.0,
        "connections": 100,
        "reads": 4,
        "memory": MemoryBudget(1 << 30),
    }
    return BodyLimits(**(ample | changes))
