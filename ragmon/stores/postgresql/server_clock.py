"""The clock of this machine beside that of the database server, which all replicas ask.

Replicas whose clocks differ judge minutes at other times than their queries were logged.
"""

import structlog

from ragmon.clock import Clock

_TOLERATED_S = 5.0
_SLOW_S = 2.0  # an answer that took longer tells too little


class ServerClock:
    """Seconds by which this machine's clock is ahead, as of the last answer of the server."""

    def __init__(self, clock: Clock) -> None:
        """Know nothing yet.

        Args:
            clock: of this machine.
        """
        self.ahead_s = 0.0
        self._clock = clock
        self._differs = False
        self._log = structlog.get_logger("store")

    def note(self, asked: float, server: float) -> None:
        """Compare with an answer, and warn once when the clocks begin to differ.

        Args:
            asked: unix seconds of this machine before the server was asked.
            server: unix seconds of the server while it answered.
        """
        answered = self._clock.now()
        if not 0.0 <= answered - asked <= _SLOW_S:
            return
        self.ahead_s = (asked + answered) / 2.0 - server
        differs = abs(self.ahead_s) > _TOLERATED_S
        if differs and not self._differs:
            self._log.warning(
                "clocks_differ",
                ahead_s=round(self.ahead_s, 1),
                remedy="this machine and the database server of store.dsn disagree about the time:"
                " have NTP set both clocks; until then minutes are judged too early or too late",
            )
        elif self._differs and not differs:
            self._log.info("clocks_agree", ahead_s=round(self.ahead_s, 1))
        self._differs = differs
