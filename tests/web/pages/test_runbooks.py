"""Runbooks as pages: open to all, whole, and where every alert's link leads."""

import asyncio
import re
from types import SimpleNamespace

import pytest

from ragmon.alerts.message import Links
from ragmon.alerts.remedies import NO_FEEDBACK, REMEDIES
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.rendering import Renderer
from ragmon.web.pages.runbooks import RunbookSection, folder
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

NAMES = sorted(path.stem for path in folder().glob("*.md"))
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    tokens = [{"name": "ops", "token": "secret", "scopes": ["admin"]}]
    with running(tmp_path_factory.mktemp("runbooks") / "data", auth__tokens=tokens) as site:
        yield site


@pytest.mark.parametrize("name", NAMES)
def test_a_runbook_is_a_page_that_needs_no_token(site, name):
    answer = site.get(f"/runbooks/{name}")
    assert answer.status == 200
    page = HtmlPage(answer.text)
    assert page.texts_of("h1") == [name]
    assert page.texts_of("h2")[: len(SECTIONS)] == SECTIONS
    assert [link for link in page.links if link.endswith(".md")] == []
    assert site.get(f"/runbooks/{name}.md").text == answer.text


def test_all_of_them_are_listed(site):
    answer = site.get("/runbooks")
    page = HtmlPage(answer.text)
    check_policy(page)
    assert [f"/runbooks/{name}" for name in NAMES] == [
        link for link in page.links if link.startswith("/runbooks/")
    ]
    assert "fewer queries than before have a relevant chunk" in page.text
    assert len(page.texts_of("dd")) >= len(NAMES)


def test_an_unknown_runbook_names_the_nearest(site):
    answer = site.get("/runbooks/RagmonHitrate")
    assert answer.status == 404
    assert "RagmonHitRate" in answer.json["detail"]
    assert site.get("/runbooks/..%2f..%2fpyproject").status == 404


@pytest.mark.parametrize("name", sorted({each.name for each in (*REMEDIES.values(), NO_FEEDBACK)}))
def test_the_link_of_an_alert_leads_there_unless_people_have_their_own(site, name):
    link = Links(f"{site.url}/").runbook_of(name)
    assert link == f"{site.url}/runbooks/{name}"
    assert site.get(link.removeprefix(site.url)).status == 200
    own = Links(site.url, "https://wiki.example.org/books/")
    assert own.runbook_of(name) == f"https://wiki.example.org/books/{name}.md"


def test_markup_in_a_runbook_is_shown_as_text(tmp_path):
    text = "# Own\n\n## Meaning\n\nA `x`. More.\n\n<script>a()</script>\n\n[b](javascript:c())\n"
    (tmp_path / "Own.md").write_text(text, encoding="utf-8")
    section = RunbookSection(Renderer(Assets()), tmp_path)
    request = SimpleNamespace(path_params={"name": "Own"})
    html = bytes(asyncio.run(section.runbook(request)).body).decode()
    assert "&lt;script&gt;a()" in html
    assert 'href="javascript' not in html
    assert re.search(r"<dd>A x\.</dd>", bytes(asyncio.run(section.listed(request)).body).decode())
