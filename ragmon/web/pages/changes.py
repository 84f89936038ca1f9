"""Changes that may explain the numbers: versions, baselines, silences, restarts."""

from typing import Literal, NamedTuple, Protocol

from ragmon.api_schema import BaselineList
from ragmon.silence_schema import SilenceView
from ragmon.web.alerts import AlertSource
from ragmon.web.pages.sources import WEEK_S, PageSource
from ragmon.web.permits import Readable

_MOST = 12


class RecentChange(NamedTuple):
    """One change."""

    at: float  # unix seconds
    kind: Literal["version", "baseline", "silence", "note"]
    subject: str  # somebody's text
    text: str
    pipeline: str = ""


class ChangeSource(Protocol):
    """Source of baselines."""

    async def baselines(self) -> BaselineList:
        """Every version of every baseline, and the one that traffic is compared with."""
        ...


async def recent_changes(
    baselines: ChangeSource, source: PageSource, alerts: AlertSource, readable: Readable | None
) -> list[RecentChange]:
    """The newest changes of a week, the newest first.

    Args:
        baselines: of the daemon.
        source: of versions and restarts.
        alerts: of silences.
        readable: pipelines that may be read; unless that is all of them, only versions are told,
            since the others are about every pipeline.
    """
    now = source.now()
    changes = [
        RecentChange(version.at, "version", version.version, "first seen", version.pipeline)
        for version in await source.new_versions(WEEK_S, readable)
    ]
    if readable is None:
        changes += await _of_baselines(baselines)
        changes += [_of_silence(silence) for silence in await alerts.silences()]
        changes += [
            RecentChange(restart.at, "note", f"ragmon {restart.version}", "started")
            for restart in await source.restarts(now - WEEK_S)
        ]
    recent = [change for change in changes if now - WEEK_S <= change.at <= now]
    return sorted(recent, key=lambda change: -change.at)[:_MOST]


async def _of_baselines(source: ChangeSource) -> list[RecentChange]:
    listed = await source.baselines()
    return [
        RecentChange(
            row.created_at,
            "baseline",
            f"{row.name} version {row.version}",
            "saved, in use now" if row.promoted else "saved",
        )
        for row in listed.baselines
    ]


def _of_silence(silence: SilenceView) -> RecentChange:
    matchers = ", ".join(
        f"{matcher.name}{'=~' if matcher.regex else '='}{matcher.value}"
        for matcher in silence.matchers
    )
    ends = {"active": "is active", "pending": "is planned", "expired": "has ended"}
    return RecentChange(silence.starts_at, "silence", matchers, ends[silence.state])
