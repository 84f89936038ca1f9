"""Names in the documentation exist: metrics, settings, environment variables, failures, paths."""

import re

import pytest

from ragmon.backups.textfile import METRICS as BACKUP_METRICS
from ragmon.cli.check_config import reference
from ragmon.config import Settings
from ragmon.daemon.build import build_pipeline
from ragmon.queries.criteria import failures
from ragmon.web import openapi
from tests.support.golden import GOLDEN
from tests.support.markdown import Page, pages
from tests.support.paths import ROOT
from tests.support.reference import COMPANIONS, PARTS
from tests.support.reference_pages import FOLDER, documented_metrics

DOCS = [
    page
    for page in pages()
    if not page.name.startswith(("tests/", "ragmon/", "helm/")) and page.path.parent != FOLDER
]
METRIC = re.compile(r"(?<![\w/.-])(ragmon_[a-z_]+)(\*?)(?![\w.(:-])")
SETTINGS = {key for key, _, _ in reference()}
GROUPS = {key.rpartition(".")[0] for key in SETTINGS} - {""}
GROUPS |= {group.rpartition(".")[0] for group in GROUPS} - {""}
OPEN = {"judge.llm.prices"}  # a mapping: whatever key stands below
LISTS = {"auth.tokens", "alerts.maintenance", "detectors.rules", "alerts.wait", "alerts.keep"}

ids = [page.name for page in DOCS]


def known_metrics() -> set[str]:
    declared = set(re.findall(r"(?m)^# TYPE (\S+)", (GOLDEN / "metrics.txt").read_text()))
    declared |= documented_metrics() | BACKUP_METRICS
    return declared | {name + end for name in declared for end in (*COMPANIONS, *PARTS)}


METRICS = known_metrics()


def unknown_metrics(text: str) -> list[str]:
    return [
        name
        for name, star in METRIC.findall(text)
        if name not in METRICS and not (star and any(m.startswith(name) for m in METRICS))
    ]


def settings_named(page: Page) -> list[str]:
    """Code in prose that looks like a setting: dotted words of which the first is a group.

    Values of the chart are written in camel case.
    """
    words = [re.split(r"[:=]", code)[0].strip() for code in page.codes]
    first = {group.partition(".")[0] for group in GROUPS}
    return [
        word
        for word in words
        if re.fullmatch(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+", word)
        and word.partition(".")[0] in first
        and not word.endswith((".py", ".md", ".yaml", ".json", ".jsonl", ".log"))
    ]


def unknown_settings(page: Page) -> list[str]:
    below = tuple(f"{name}." for name in OPEN | LISTS)
    return [
        name
        for name in settings_named(page)
        if name not in SETTINGS | GROUPS and not name.startswith(below)
    ]


@pytest.mark.parametrize("page", DOCS, ids=ids)
def test_metrics_exist(page):
    assert unknown_metrics(page.text) == []


@pytest.mark.parametrize("page", DOCS, ids=ids)
def test_settings_exist(page):
    assert unknown_settings(page) == []


@pytest.mark.parametrize("page", DOCS, ids=ids)
def test_environment_variables_name_settings(page):
    named = re.findall(r"RAGMON_(\w+)", page.text)
    keys = [name.lower().replace("__", ".") for name in named]
    assert [key for key in keys if key not in SETTINGS | GROUPS | {"api_token"}] == []


def test_names_are_found_and_wrong_ones_are_seen():
    assert sum(len(METRIC.findall(page.text)) for page in DOCS) > 100
    assert sum(len(settings_named(page)) for page in DOCS) > 60
    assert unknown_metrics("`ragmon_hit_ratios`, ragmon_judge_*, ragmon_hit_ratio_upper") == [
        "ragmon_hit_ratios"
    ]
    text = "`retention.record`, `judge.llm.model`, `auth.tokens`, `probes.yaml`"
    assert unknown_settings(Page(ROOT / "README.md", text)) == ["retention.record"]


REQUEST = re.compile(
    r"(?:(GET|POST|PUT|DELETE) )?(/(?:v1|livez|readyz|metrics)[\w/{}.-]*)(?:\?(\S+))?"
)


def unknown_requests(codes: list[str]) -> list[str]:
    """Paths, methods and parameters that the HTTP API does not have."""
    operations = {
        re.sub(r"{\w+}", "{}", path): methods
        for path, methods in openapi.document()["paths"].items()
    }
    wrong = []
    for code in codes:
        if (match := REQUEST.fullmatch(code)) is None:
            continue
        method, path, query = match.groups()
        methods = operations.get(re.sub(r"{\w+}", "{}", path), {})
        operation = methods.get((method or "get").lower())
        if not methods or (method and operation is None):
            wrong.append(code)
        elif query:
            known = {parameter["name"] for parameter in operation["parameters"]}
            names = [pair.partition("=")[0] for pair in query.split("&")]
            tags = "tag.KEY" in known
            wrong += [code for name in names if name not in known and not _is_tag(name, tags)]
    return wrong


def _is_tag(name: str, tags: bool) -> bool:
    return tags and re.fullmatch(r"tag\.\w+", name) is not None


@pytest.mark.parametrize("page", DOCS, ids=ids)
def test_requests_are_ones_that_the_api_answers(page):
    in_blocks = re.findall(r"https?://[\w.]+:8321(/v1/\w[^\s'\"]*)", page.text)
    assert unknown_requests([*page.codes, *in_blocks]) == []


def test_a_wrong_request_is_seen():
    wrong = ["GET /v1/querys", "PUT /v1/alerts", "GET /v1/report?windows=1h", "/v1/alerts?tag.a=b"]
    assert unknown_requests([*wrong, "GET /v1/queries/{id}", "/metrics"]) == wrong


def test_failures_in_the_guide_are_those_that_the_api_takes():
    text = (ROOT / "deploy/docs/guides/read.md").read_text(encoding="utf-8")
    listed = re.search(r"\| `failing` \| (.*?)\|\n", text)
    assert listed is not None
    assert set(re.findall(r"`(\w+)`", listed[1])) == set(failures(build_pipeline(Settings())))
