"""Print the Prometheus rules as one file, with objectives and links of these settings.

An objective is that of --objective, else of a rule of kind slo in detectors.rules for all
pipelines, else the shipped one. Limits need no option: ragmon exports them as ragmon_limit_bytes.
A rule that reads a metric which the settings of `metrics` switch off is left out, and named.
"""

import argparse
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

import ragmon
from ragmon.alerts.message import Links
from ragmon.cli import flags
from ragmon.cli.connection import is_url
from ragmon.cli.console import say, say_json, warn
from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline
from ragmon.daemon.metric_choice import left_out
from ragmon.detectors import slo
from ragmon.detectors.rules import build, combined
from ragmon.errors import SettingsError
from ragmon.exposition.left_out import LeftOutMetric, reads

# The alerts on objectives: what they count, and the share of it that their files tolerate.
BUDGETS = {
    "RagmonErrorBudgetBurn": ("error", 0.05),
    "RagmonQualityBudgetBurn": ("quality", 0.25),
    "RagmonSlowBudgetBurn": ("slow", 0.05),
    "RagmonZeroResultBudgetBurn": ("zero_result", 0.05),
}
# Addresses in the files, where compose serves ragmon and Grafana.
_RUNBOOK = re.compile(r"http://127\.0\.0\.1:8321/runbooks/(.+)$", re.MULTILINE)
_DASHBOARD = re.compile(r"http://127\.0\.0\.1:3000/(.+)$", re.MULTILINE)
_STALE_S = 300.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    flags.arguments(parser)
    parser.usage = (
        f"{parser.prog} [--objective METRIC=SHARE] [--job JOB] [--without ALERT] "
        "[--grafana-url URL] [--json] [--config FILE] [--SETTING VALUE ...]"
    )
    metrics = ", ".join(metric for metric, _ in BUDGETS.values())
    parser.add_argument(
        "--objective",
        action="append",
        default=[],
        metavar="METRIC=SHARE",
        type=_objective,
        help=f"share of queries that must be good; METRIC is one of {metrics}",
    )
    parser.add_argument("--job", default="ragmon", help="name of the scrape job (default ragmon)")
    parser.add_argument(
        "--grafana-url",
        metavar="URL",
        type=_url,
        help="address of the Grafana that has the dashboards, for dashboard_url; without it they "
        "lead to ragmon's own overview",
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="ALERT",
        help="omit this alert; may be repeated",
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON, which Prometheus takes as well"
    )


def run(args: argparse.Namespace) -> int:
    """Print the rules."""
    texts = sources()
    if unknown := set(args.without) - texts.keys():
        raise SettingsError(f"--without: there is no alert {min(unknown)}")
    settings = flags.settings(args).settings
    omitted = {*args.without, *_told_by_sinks(settings)}
    unanswered = _unanswered(texts, settings)
    objectives = objectives_of(settings) | dict(args.objective)
    lines = ["# Printed by `ragmon rules`.", "groups:"]
    for name, text in texts.items():
        if name in unanswered and name not in omitted:
            metric, setting = unanswered[name]
            reason = f"{name} is left out: {setting} leaves out {metric}, which it reads."
            lines.append(f"  # {reason}")
            warn(reason)
        elif name not in omitted:
            fitted = fit(name, text, settings, objectives)
            fitted = fitted.replace('job="ragmon"', f'job="{args.job}"')
            lines.append(joined(_linked(fitted, settings, args.grafana_url)))
    printed = "\n".join(lines)
    if args.json:
        say_json(yaml.safe_load(printed + "\n"))
    else:
        say(printed)
    return 0


def _linked(text: str, settings: Settings, grafana_url: str | None) -> str:
    """The rules with links that lead to this ragmon; dashboards in Grafana where that is known."""
    base = (settings.external_url or f"http://127.0.0.1:{settings.port}").rstrip("/")
    links = Links(base, settings.runbooks_url)
    text = _RUNBOOK.sub(lambda match: links.runbook_of(match[1]), text)
    return _DASHBOARD.sub(
        lambda match: f"{grafana_url}/{match[1]}" if grafana_url else f"{base}/", text
    )


def sources() -> dict[str, str]:
    """The text of each shipped file by its name, as installed or as in a checkout."""
    package = Path(ragmon.__file__).parent
    installed, checkout = package / "prometheus", package.parent / "deploy/prometheus/rules"
    folder = installed if installed.is_dir() else checkout
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))}


def _told_by_sinks(settings: Settings) -> tuple[str, ...]:
    """Rules that would tell Alertmanager once more what a sink of these settings tells it."""
    direct = any(sink.kind == "alertmanager" for sink in settings.sinks)
    return ("RagmonAlertFiring",) if direct else ()


def _unanswered(texts: Mapping[str, str], settings: Settings) -> dict[str, LeftOutMetric]:
    """Files with a rule that reads a metric that is left out, itself or through a recorded one."""
    off = left_out(settings, build_pipeline(settings).catalogue.columns)
    rules = {name: _rules(text) for name, text in texts.items()}
    unanswered: dict[str, LeftOutMetric] = {}
    recorded: dict[str, LeftOutMetric] = {}  # series that nothing records
    for name in sorted(rules, key=lambda name: not any("record" in rule for rule in rules[name])):
        expressions = [rule["expr"] for rule in rules[name]]
        missing = [metric for expression in expressions for metric in off.of(expression)]
        read = (metric for expression in expressions for metric in reads(expression).names)
        missing += [recorded[metric] for metric in read if metric in recorded]
        if missing:
            unanswered[name] = missing[0]
            recorded |= {rule["record"]: missing[0] for rule in rules[name] if "record" in rule}
    return unanswered


def _rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def objectives_of(settings: Settings) -> dict[str, float]:
    """Objectives by metric, of the rules that hold for every pipeline.

    Raises:
        SettingsError: a rule is wrong.
    """
    detectors = settings.detectors
    rules = build(combined(detectors.rules, defaults=detectors.defaults))
    objectives = [rule.options for rule in rules if isinstance(rule.options, slo.Options)]
    return {each.metric: each.objective for each in objectives if not each.pipelines}


def fit(name: str, text: str, settings: Settings, objectives: Mapping[str, float]) -> str:
    """One file, with the numbers of these settings."""
    if name in BUDGETS:
        metric, shipped = BUDGETS[name]
        return _tolerate(text, shipped, 1.0 - objectives.get(metric, 1.0 - shipped))
    return _FITTED[name](text, settings) if name in _FITTED else text


def joined(text: str) -> str:
    """A file's groups, to follow those of another; its comment stays above them."""
    comment, groups = text.split("groups:\n", 1)
    return re.sub(r"(?m)^(?=#)", "  ", comment) + groups.rstrip("\n")


def _tolerate(text: str, shipped: float, share: float) -> str:
    text = text.replace(f"* {shipped:g}", f"* {share:.6g}")
    return re.sub(rf"\b{100 * shipped:g} %", f"{100 * share:.4g} %", text)


def _stale(text: str, settings: Settings) -> str:
    """Call an evaluation stale after three missed ones, however rarely they are planned."""
    return text.replace(f"> {_STALE_S:g}", f"> {max(_STALE_S, 3 * settings.evaluate_every):g}")


_FITTED: dict[str, Callable[[str, Settings], str]] = {
    "RagmonEvaluationStale": _stale,
}


def _url(text: str) -> str:
    """Address with a host, as of ``--grafana-url``."""
    if not is_url(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a URL; write for example https://grafana.example.org"
        )
    return text.rstrip("/")


def _objective(text: str) -> tuple[str, float]:
    """Metric and share of ``error=0.995``."""
    metric, _, share = text.partition("=")
    known = {name for name, _ in BUDGETS.values()}
    try:
        value = float(share)
    except ValueError:
        value = 0.0
    if metric not in known or not 0.0 < value < 1.0:
        form = f"METRIC=SHARE, METRIC one of {', '.join(sorted(known))}, SHARE between 0 and 1"
        raise argparse.ArgumentTypeError(f"expected {form}")
    return metric, value
