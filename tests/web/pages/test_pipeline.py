"""The page of one pipeline: all its state stands in its address."""

import re
from urllib.parse import quote

import pytest

from ragmon.clock import ManualClock
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

NOW = 1_750_000_000.0
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"


def sent(count: int, ago: float, **fields) -> list[dict]:
    known = {
        "pipeline": "shop",
        "timestamp": NOW - ago,
        "chunks": [{"id": "a"}],
        "latency_ms": {"total": 120, "retrieval": 20},
    }
    return [known | fields for _ in range(count)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A shop whose version v2 finds nothing half of the time."""
    folder = tmp_path_factory.mktemp("pipeline")
    with running(folder / "data", ManualClock(NOW), slices="tenant") as site:
        site.post("/v1/queries", sent(300, 20 * 3_600, version="v1", tags={"tenant": "a"}))
        site.post("/v1/queries", sent(300, 7_200, version="v1", tags={"tenant": "b"}))
        site.post("/v1/queries", sent(100, 5_400, version="v2", tags={"tenant": "a"}))
        site.post("/v1/queries", sent(100, 3_000, version="v2", tags={"tenant": "b"}, chunks=[]))
        yield site


def read(site, path: str) -> HtmlPage:
    answer = site.get(path)
    assert answer.status == 200, answer.text
    page = HtmlPage(answer.text)
    check_policy(page)
    return page


def titles(page: HtmlPage) -> list[str]:
    """What the charts are about, as screen readers say it."""
    return [
        value
        for tag, name, value in page.attributes
        if tag == "svg" and name == "aria-label" and "over time" in value
    ]


def values(page: HtmlPage) -> list[list[str]]:
    """For each chart the texts under the pointer, a step each."""
    return [value.split("|") for _, name, value in page.attributes if name == "data-values"]


def rows(page: HtmlPage) -> list[str]:
    """Slices of the table, from top to bottom."""
    table = page.pieces[page.pieces.index("Slices") :]
    return [piece for piece in table if piece in ("v1", "v2", "a", "b")]


def test_it_shows_the_headline_metrics_with_modes_and_stages(site):
    page = read(site, "/pipelines/shop")
    assert titles(page) == [
        "Queries over time",
        "Zero results over time",
        "Errors over time",
        "Latency p95 over time",
    ]
    for shown in ("Failure modes", "Latency by stage", "800 queries"):
        assert shown in page.text
    assert any("100.0 % (95.4–100.0 %), 100 samples" in texts for texts in values(page))
    assert any("no samples" in texts for texts in values(page))
    assert any(text.startswith("total 120 ms, retrieval ") for text in values(page)[-1])


def test_a_version_that_appeared_is_marked(site):
    svg = site.get("/pipelines/shop").text
    assert re.search('class="mark version"[^>]*><title>v2</title>', svg)
    assert "<title>v1</title>" not in svg


def test_slices_are_told_from_the_rest_and_from_chance(site):
    html = site.get("/pipelines/shop").text
    table = html[html.index('<table class="slices">') :]
    worse = table[table.index(">v2<") :]
    assert "50.0 %" in worse[:900]
    assert '<span class="change bad">+50.0 pt</span>' in worse[:900]
    better = table[table.index(">v1<") :]
    assert '<span class="change good">-50.0 pt</span>' in better[:900]
    assert '<span class="change same">' in table  # errors


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        pytest.param("", ["v2", "b", "a", "v1"], id="the surely worse first"),
        pytest.param("zero_result", ["v2", "b", "a", "v1"], id="by a metric"),
        pytest.param("queries", ["v1", "a", "b", "v2"], id="by traffic"),
        pytest.param("slice", ["a", "b", "v1", "v2"], id="by name"),
    ],
)
def test_slices_are_sorted_as_the_address_says(site, sort, order):
    page = read(site, f"/pipelines/shop?sort={sort}")
    assert rows(page) == order


def test_a_metric_and_a_slice_are_chosen_by_the_address(site):
    page = read(site, "/pipelines/shop?metric=zero_result&slice=version%3Dv2&window=6h")
    assert titles(page) == ["Zero results over time"]
    assert "200 queries" in page.text
    chosen = [
        value
        for at, (tag, name, value) in enumerate(page.attributes)
        if tag == "option" and name == "value" and page.attributes[at + 1][1] == "selected"
    ]
    assert "version=v2" in chosen
    kept = [link for link in page.links if "window=24h" in link or link.endswith("version%3Dv2")]
    assert kept
    assert all("slice=version%3Dv2" in link for link in kept)


def test_a_stretch_of_time_is_chosen_by_its_ends(site):
    start, end = NOW - 8_000, NOW - 4_000
    page = read(site, f"/pipelines/shop?from={start:.0f}&to={end:.0f}")
    assert "400 queries" in page.text
    assert {"data-from", "data-to"} <= {name for _, name, _ in page.attributes}
    assert (("figure", "data-from", f"{start:.0f}")) in page.attributes


def test_its_links_lead_somewhere(site):
    links = read(site, "/pipelines/shop?slice=version%3Dv2").links
    assert len(links) > 20
    for link in links:
        assert site.get(link.partition("#")[0] or "/").status == 200, link


def test_the_overview_leads_to_it(site):
    name = "links & 100%/+?#"
    site.post("/v1/queries", sent(1, 60, pipeline=name))
    (link,) = [link for link in read(site, "/").links if "100" in link]
    assert name in read(site, link).text


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        pytest.param("nobody", 404, id="no such pipeline"),
        pytest.param("shop?slice=version%3Dv9", 404, id="no such slice"),
        pytest.param("shop?slice=v9", 400, id="a slice without its dimension"),
        pytest.param("shop?metric=hits", 400, id="no such metric"),
        pytest.param("shop?window=1y", 400, id="no duration"),
        pytest.param("shop?window=1m", 400, id="too short"),
        pytest.param("shop?window=91d", 400, id="too long"),
        pytest.param("shop?from=yesterday", 400, id="no time"),
        pytest.param("shop?from=1h&to=2h", 400, id="it ends before it begins"),
        pytest.param("shop?colour=red", 400, id="an unknown parameter"),
        pytest.param("shop?window=90d", 200, id="ninety days"),
    ],
)
def test_what_makes_no_sense_is_refused(site, asked, status):
    assert site.get(f"/pipelines/{asked}").status == status


def test_nothing_a_client_sends_becomes_markup(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW), slices="tenant") as site:
        hostile = {"pipeline": HOSTILE, "tags": {"tenant": HOSTILE * 5}, "error": HOSTILE}
        site.post("/v1/queries", sent(3, 86_000, pipeline=HOSTILE))
        site.post("/v1/queries", sent(3, 60, version=HOSTILE, **hostile))
        (link,) = [link for link in read(site, "/").links if "script" in link]
        page = read(site, link)
        assert "<script>alert(1)</script>" in page.text
        assert "\x1b" not in page.text
        chosen = read(site, f"{link}?slice={quote('version=' + HOSTILE)}")
        assert "3 queries" in chosen.text


def test_a_token_for_other_pipelines_may_not_read_it(tmp_path):
    tokens = [{"name": "a", "token": "s" * 20, "scopes": ["read"], "pipelines": ["docs"]}]
    with running(tmp_path / "data", auth__tokens=tokens) as site:
        refused = site.with_token("s" * 20).get("/pipelines/shop")
        assert refused.status == 403
        assert "is none of them" in refused.json["detail"]
        assert site.get("/pipelines/shop").status == 401
