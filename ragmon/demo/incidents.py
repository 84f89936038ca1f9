"""Incidents of the demo's day, as data."""

from msgspec import Struct
from msgspec.structs import replace

_TEN_MINUTES_S = 600.0
_HOUR_S = 3600.0
_CALM_S = 120.0  # of live traffic, before the first outage
AWAY_S = 300.0  # of each outage in live traffic


class Incident(Struct, frozen=True):
    """A stretch of time in which something is wrong."""

    name: str
    start: float  # unix seconds
    end: float | None  # unix seconds; None: still going on
    what: str
    shows_in: tuple[str, ...]  # metrics that should move
    share: float = 1.0  # of the users it meets, in (0, 1]
    every: float | None = None  # seconds after which it begins again

    def meets(self, at: float, user: float) -> bool:
        """True if it affects this user at this time.

        Args:
            at: unix seconds.
            user: the user's place in [0, 1); the same for all of a user's questions.
        """
        if self.every is not None and at > self.start:
            at = self.start + (at - self.start) % self.every
        return self.start <= at and (self.end is None or at < self.end) and user < self.share


class Incidents(Struct, frozen=True):
    """The two incidents of the day."""

    outage: Incident
    rollout: Incident


def incidents(now: float) -> Incidents:
    """An outage eight hours ago, long over, and a bad release that is still rolled out.

    Both begin on a whole ten minutes, which is how exactly ragmon remembers yesterday.

    Args:
        now: unix seconds; the end of the history.
    """
    outage = (now - 8 * _HOUR_S) // _TEN_MINUTES_S * _TEN_MINUTES_S
    rollout = (now - 3 * _HOUR_S) // _TEN_MINUTES_S * _TEN_MINUTES_S
    return Incidents(
        outage=Incident(
            name="index outage",
            start=outage,
            end=outage + 4 * _TEN_MINUTES_S,
            what="The index does not answer. Chat and search go on with no chunks at all; the API"
            " returns an error.",
            shows_in=("zero_result", "error", "positive_feedback"),
        ),
        rollout=Incident(
            name="bad release",
            start=rollout,
            end=None,
            what="Version 2026.2-fast reaches a quarter of the users: half of its index is"
            " missing, it answers from the wrong chunks, alters numbers and loses citations.",
            shows_in=("hit", "attribution", "uncited", "grounding", "positive_feedback"),
            share=0.25,
        ),
    )


def recurring(what: Incidents, now: float, every: float) -> Incidents:
    """The same, with the outage again in live traffic: five minutes out of every ``every`` seconds.

    The first begins two minutes after ``now`` (unix seconds).
    """
    start = now + _CALM_S
    outage = replace(what.outage, start=start, end=start + AWAY_S, every=every)
    return replace(what, outage=outage)
