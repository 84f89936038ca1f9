"""Check of `ragmon doctor` that Prometheus answers: does it scrape ragmon, and have its rules?"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct

from ragmon.cli import remote
from ragmon.cli.connection import Connection
from ragmon.cli.health_checks import Area, HealthFinding
from ragmon.errors import RemoteError

_PREFIX = "Ragmon"  # of the alerts that `ragmon rules` prints


class ScrapeTarget(Struct, rename="camel"):
    """A target of Prometheus."""

    scrape_url: str = ""
    health: str = ""
    last_error: str = ""
    labels: dict[str, str] = {}


class LoadedRule(Struct, rename="camel"):
    """A rule of Prometheus."""

    name: str = ""
    health: str = ""
    last_error: str = ""


class _Targets(Struct, rename="camel"):
    active_targets: list[ScrapeTarget] = []


class _TargetAnswer(Struct):
    data: _Targets


class _RuleGroup(Struct):
    rules: list[LoadedRule] = []


class _RuleGroups(Struct):
    groups: list[_RuleGroup] = []


class _RuleAnswer(Struct):
    data: _RuleGroups


class _Sample(Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "0")


class _Vector(Struct):
    result: list[_Sample] = []


class _QueryAnswer(Struct):
    data: _Vector


def prometheus(session: Connection, url: str, daemon_url: str) -> Iterator[HealthFinding]:
    """Its view of ragmon: the target, and the rules.

    Args:
        session: without the token of ragmon.
        url: of Prometheus.
        daemon_url: of ragmon, as this command reaches it.
    """
    area = Area("prometheus")
    try:
        answer = remote.get(session, url, "/api/v1/targets", _TargetAnswer, state="active")
    except RemoteError as error:
        if error.status:
            raise
        yield area.problem(
            str(error.args[0]), "Start Prometheus, or name another address with --prometheus"
        )
        return
    targets = [target for target in answer.data.active_targets if _is_ragmon(target, daemon_url)]
    yield from _targets(area, targets)
    asked = remote.get(session, url, "/api/v1/query", _QueryAnswer, query="ragmon_build_info")
    if not asked.data.result:
        yield area.problem(
            "it has no series of ragmon: dashboards are empty and rules see nothing",
            "Add a scrape job for /metrics: see the guide Operate",
        )
    rules = remote.get(session, url, "/api/v1/rules", _RuleAnswer, type="alert").data.groups
    yield from _rules(area, [rule for group in rules for rule in group.rules])


def _is_ragmon(target: ScrapeTarget, daemon_url: str) -> bool:
    """True for a job of that name, or the address itself."""
    same = urlsplit(target.scrape_url).netloc == urlsplit(daemon_url).netloc
    return same or "ragmon" in target.labels.get("job", "")


def _targets(area: Area, targets: list[ScrapeTarget]) -> Iterator[HealthFinding]:
    if not targets:
        yield area.problem(
            "it has no target that is ragmon: no job of that name, and not this address",
            "Add a scrape job named ragmon for /metrics: see the guide Operate",
        )
    for target in targets:
        if target.health == "down":
            yield area.problem(
                f"it cannot scrape {target.scrape_url}: {target.last_error}",
                "See the runbook RagmonScrapeFailing; with auth.protect_metrics it needs a token",
            )
        else:
            yield area.ok(f"it scrapes {target.scrape_url}: {target.health}")


def _rules(area: Area, rules: list[LoadedRule]) -> Iterator[HealthFinding]:
    ours = [rule for rule in rules if rule.name.startswith(_PREFIX)]
    if not ours:
        yield area.warning(
            "it has no alert of ragmon: nobody is told when ragmon itself stops",
            "Load the rules that `ragmon rules` prints",
        )
        return
    for rule in ours:
        if rule.health == "err":
            yield area.problem(
                f"the rule {rule.name} fails: {rule.last_error}", "Print it anew: `ragmon rules`"
            )
    yield area.ok(f"it has {len(ours)} alerts of ragmon")
