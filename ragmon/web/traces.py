"""Protocol of the source of recent traces."""

from typing import Protocol

from ragmon.api_schema import TraceExplanation


class TraceSource(Protocol):
    """Source of the newest complete traces, each with what was read of it."""

    async def recent_traces(self, most: int) -> list[TraceExplanation]:
        """At most so many, the oldest first.

        Raises:
            Problem: there is no memory for it now.
        """
        ...
