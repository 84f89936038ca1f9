"""Links of every page in the repository resolve: files, anchors, and paths that are named."""

import re
from pathlib import Path

import pytest

import ragmon
from tests.support.markdown import Page, pages
from tests.support.paths import ROOT

PAGES = pages()
PATH = re.compile(r"`((?:ragmon|tests|deploy|grafana|helm)/[\w./-]+(?:\.\w+|/))`")
DECISIONS = ROOT / "deploy/decisions"  # of their day: superseded, never edited


def names(values: list[Page]) -> list[str]:
    return [page.name for page in values]


def target(page: Page, link: str) -> tuple[Path, str]:
    path, _, anchor = link.partition("#")
    return ((page.path.parent / path).resolve() if path else page.path), anchor


def broken(page: Page) -> list[str]:
    problems = []
    for link in page.links:
        if re.match(r"[a-z]+:", link):
            continue
        path, anchor = target(page, link)
        if not path.exists() or not path.is_relative_to(ROOT):
            problems.append(f"{link}: no such file")
        elif anchor and (path.suffix != ".md" or anchor not in Page(path).anchors):
            problems.append(f"{link}: no such heading")
    return problems


def test_pages_are_found():
    assert {"README.md", "CONTRIBUTING.md", "deploy/docs/guides/send.md"} <= set(names(PAGES))
    assert sum(len(page.links) for page in PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_relative_links_resolve(page):
    assert broken(page) == []


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_paths_that_are_named_exist(page):
    if page.path.is_relative_to(DECISIONS):
        return
    assert [path for path in PATH.findall(page.text) if not (ROOT / path).exists()] == []


def test_folders_for_what_is_to_be_added_exist():
    text = Page(ROOT / "CONTRIBUTING.md").text
    folders = re.findall(r"`((?:ragmon|tests|deploy|grafana)/[\w/]*)<\w+>", text)
    assert len(folders) > 10
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []


def test_a_broken_link_and_a_missing_heading_are_seen():
    path = ROOT / "deploy/docs/guides/send.md"
    page = Page(
        path,
        "[a](nowhere.md) [b](alerts.md#nothing) [c](alerts.md#silence-an-alert)",
    )
    assert broken(page) == ["nowhere.md: no such file", "alerts.md#nothing: no such heading"]


@pytest.mark.parametrize("start", ["README.md", "deploy/docs/index.md"])
def test_every_page_of_the_documentation_is_linked(start):
    page = Page(ROOT / start)
    linked = {target(page, link)[0] for link in page.links if "://" not in link}
    documentation = set((ROOT / "deploy/docs").rglob("*.md")) - {ROOT / "deploy/docs/index.md"}
    assert len(documentation) > 10
    assert documentation - linked == set()


def test_the_readme_is_short():
    assert 180 <= len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 220


def test_a_record_is_followed_through_at_most_sixteen_modules():
    page = Page(ROOT / "deploy/docs/architecture.md")
    way = re.findall(r"(?m)^\| (\d+) \| `(ragmon/[\w/]+\.py)` \|", page.text)
    assert [int(number) for number, _ in way] == list(range(1, len(way) + 1))
    assert 10 <= len(way) <= 16


def test_the_map_names_the_packages_that_are_there():
    lines = ragmon.__doc__.splitlines()
    named = {word for line in lines for word in re.findall(r"^ {4}(\w+)/? ", line)}
    named |= set(re.findall(r"``(\w+)``", ragmon.__doc__)) - {"grounding", "llm"}
    there = {path.stem for path in (ROOT / "ragmon").iterdir()}
    assert len(named) > 15
    assert named - there == set()
    packages = {path.parent.name for path in (ROOT / "ragmon").glob("*/__init__.py")}
    assert packages - named == set()
