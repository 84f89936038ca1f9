"""The comparison of two versions: over the same hours, tested, and with the questions of both."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from ragmon.clock import ManualClock
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

NOW = 1_750_000_000.0
HOUR = 3_600.0
HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"


def sent(count: int, hours_ago: float, **fields) -> list[dict]:
    known = {
        "pipeline": "shop",
        "timestamp": NOW - hours_ago * HOUR,
        "chunks": [{"id": "a"}],
        "latency_ms": {"total": 120, "retrieval": 20},
    }
    return [known | fields for _ in range(count)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A shop whose v2 finds nothing half of the time; v1 ran alone before, and without results."""
    folder = tmp_path_factory.mktemp("versions")
    with running(folder / "data", ManualClock(NOW), slices="tenant") as site:
        site.post("/v1/queries", sent(400, 20, version="v1", chunks=[], tags={"tenant": "a"}))
        site.post("/v1/queries", sent(200, 3, version="v1", tags={"tenant": "a"}))
        site.post("/v1/queries", sent(50, 3, version="v2", tags={"tenant": "b"}))
        site.post("/v1/queries", sent(50, 3, version="v2", tags={"tenant": "b"}, chunks=[]))
        site.post("/v1/queries", sent(30, 9, version="v0"))
        asked = {"query": "Where is  my order?", "answer": "In the shop."}
        other = {"query": "where is my ORDER", "chunks": []}
        site.post("/v1/queries", sent(2, 3, version="v1", **asked))
        site.post("/v1/queries", sent(3, 3, version="v2", **other))
        yield site


BOTH = "pipeline=shop&reference=v1&candidate=v2"


def read(site, path: str) -> HtmlPage:
    answer = site.get(path)
    assert answer.status == 200, answer.text
    page = HtmlPage(answer.text)
    check_policy(page)
    return page


def compared(site, parameters: str = BOTH) -> dict:
    answer = site.get(f"/v1/compare?{parameters}")
    assert answer.status == 200, answer.text
    return answer.json


def metric(comparison: dict, name: str) -> dict:
    (one,) = [one for one in comparison["metrics"] if one["metric"] == name]
    return one


def test_metrics_are_compared_over_the_hours_of_both(site):
    comparison = compared(site)
    assert (comparison["hours"], comparison["seconds"]) == ("shared", HOUR)
    assert comparison["reference"] == {"value": "v1", "queries": 202, "queries_in_all": 602}
    assert comparison["candidate"] == {"value": "v2", "queries": 103, "queries_in_all": 103}
    zero = metric(comparison, "zero_result")
    assert zero["reference"]["estimate"] == 0.0  # not of the hours in which it ran alone
    assert zero["candidate"]["estimate"] == pytest.approx(53 / 103)
    assert zero["difference"] == pytest.approx(53 / 103)
    assert 0.4 < zero["lower"] < zero["difference"] < zero["upper"] < 0.65
    assert zero["p_corrected"] < 1e-6
    assert zero["differs"]


def test_p_values_are_corrected_for_the_number_of_metrics(site):
    metrics = compared(site)["metrics"]
    tested = sorted(
        (one for one in metrics if one["p_value"] is not None), key=lambda one: one["p_value"]
    )
    assert len(tested) > 5
    assert tested[0]["p_corrected"] == pytest.approx(len(tested) * tested[0]["p_value"], abs=1e-12)
    assert not metric({"metrics": metrics}, "error")["differs"]
    quantile = metric({"metrics": metrics}, "latency_ms@p95/total")
    assert quantile["p_corrected"] is None  # it has no interval
    assert not quantile["differs"]


def test_without_an_hour_of_both_all_hours_count(site):
    comparison = compared(site, "pipeline=shop&reference=v0&candidate=v2")
    assert (comparison["hours"], comparison["seconds"]) == ("all", 25 * HOUR)
    assert comparison["reference"]["queries"] == 30
    page = read(site, "/versions?pipeline=shop&reference=v0&candidate=v2")
    assert "They never had queries at the same time" in page.text


def test_the_page_says_in_a_sentence_what_differs(site):
    page = read(site, f"/versions?{BOTH}")
    assert "The candidate is worse in zero results" in page.text
    assert "Over the 1 h in which both had queries: 202 queries of the reference (of 602)" in (
        page.text
    )
    html = site.get(f"/versions?{BOTH}").text
    row = html[html.index(">Zero results</a>") :][:1_600]
    assert '<span class="change bad">+51.5 pt</span>' in row
    assert "&lt;0.001" in row
    charts = [
        value
        for tag, name, value in page.attributes
        if tag == "svg" and name == "aria-label" and "of both over time" in value
    ]
    assert charts[:2] == ["Queries of both over time", "Zero results of both over time"]


def test_questions_of_both_stand_side_by_side(site):
    page = read(site, f"/versions?{BOTH}")
    assert "1 question was asked of both: 1 failed only with the candidate, 0 only" in page.text
    assert "p = 1.000" in page.text
    links = [link for link in page.links if link.startswith("/queries/")]
    assert len(links) == 2
    assert [site.get(f"/v1{link}").json["record"]["version"] for link in links] == ["v1", "v2"]


def test_the_address_holds_all_state(site):
    page = read(site, f"/versions?{BOTH}&window=6h")
    kept = [link for link in page.links if link.startswith("/versions?")]
    assert kept
    for link in kept:
        asked = parse_qs(urlsplit(link).query)
        assert {"pipeline", "dimension", "reference", "candidate"} <= set(asked), link
        assert site.get(link).status == 200
    assert any("reference=v2&candidate=v1" in link for link in kept)  # swap


def test_without_values_it_leads_to_those_that_say_most(site):
    page = read(site, "/versions")
    chosen = [link for link in page.links if link.startswith("/versions?")]
    assert all("reference=v1" in link or "reference=v2" in link for link in chosen)
    asked = parse_qs(urlsplit(chosen[0]).query)
    assert (asked["reference"], asked["candidate"]) == (["v1"], ["v2"])
    tenants = read(site, "/versions?pipeline=shop&dimension=tenant")
    assert "dimension=tenant&reference=a&candidate=b" in " ".join(tenants.links)


def test_its_links_lead_somewhere(site):
    links = read(site, f"/versions?{BOTH}").links
    assert len(links) > 15
    for link in links:
        assert site.get(link.partition("#")[0] or "/").status == 200, link


@pytest.mark.parametrize(
    ("path", "status"),
    [
        pytest.param("/v1/compare?reference=v1&candidate=v2", 400, id="no pipeline"),
        pytest.param("/v1/compare?pipeline=shop&candidate=v2", 400, id="no reference"),
        pytest.param(f"/v1/compare?{BOTH}&from=1m", 400, id="too short"),
        pytest.param(f"/v1/compare?{BOTH}&from=91d", 400, id="too long"),
        pytest.param("/v1/compare?pipeline=shop&reference=v1&candidate=v1", 400, id="the same"),
        pytest.param("/v1/compare?pipeline=shop&reference=v1&candidate=v9", 404, id="no such"),
        pytest.param("/v1/compare?pipeline=none&reference=v1&candidate=v2", 404, id="nobody"),
        pytest.param(f"/versions?{BOTH}&window=1y", 400, id="no duration"),
        pytest.param(f"/versions?{BOTH}&colour=red", 400, id="an unknown parameter"),
        pytest.param(f"/versions?{BOTH}&window=90d", 200, id="ninety days"),
    ],
)
def test_what_makes_no_sense_is_refused(site, path, status):
    assert site.get(path).status == status


@pytest.mark.parametrize(
    "asked",
    ["pipeline=shop&reference=v1&candidate=v9", "pipeline=shop&reference=v1&candidate=v1"],
)
def test_the_page_says_why_there_is_nothing_to_compare(site, asked):
    page = read(site, f"/versions?{asked}")
    assert re.search("no query of pipeline 'shop' with version=v9|Both are the same", page.text)
    assert "version" in page.text


def test_an_empty_store_has_a_page_too(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW)) as site:
        assert "Fewer than two" in read(site, "/versions").text


def test_nothing_a_client_sends_becomes_markup(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW), slices="tenant") as site:
        for at in (1, 2):
            named = {"version": f"{HOSTILE}{at}", "query": HOSTILE, "tags": {"tenant": HOSTILE}}
            site.post("/v1/queries", sent(5, at / 10, pipeline=HOSTILE, error=HOSTILE, **named))
        page = read(site, "/versions")
        assert "5 queries of the reference" in page.text
        assert "<script>alert(1)</script>" in page.text
        assert "\x1b" not in page.text


def test_a_token_for_other_pipelines_compares_none_of_it(tmp_path):
    tokens = [{"name": "a", "token": "s" * 20, "scopes": ["read"], "pipelines": ["docs"]}]
    with running(tmp_path / "data", ManualClock(NOW), auth__tokens=tokens) as site:
        allowed = site.with_token("s" * 20)
        assert allowed.get(f"/versions?{BOTH}").status == 403
        assert allowed.get(f"/v1/compare?{BOTH}").status == 403
        assert "Fewer than two" in HtmlPage(allowed.get("/versions").text).text


def test_models_are_compared_where_they_are_a_slice(tmp_path):
    with running(tmp_path / "data", ManualClock(NOW), slices="model") as site:
        site.post("/v1/queries", sent(300, 3, model="m-large"))
        site.post("/v1/queries", sent(100, 3, model="m-small", chunks=[]))
        asked = {"query": "Where is my order?", "answer": "In the shop."}
        site.post("/v1/queries", sent(1, 3, model="m-large", **asked))
        site.post("/v1/queries", sent(1, 3, model="m-small", **asked))
        path = "/versions?pipeline=shop&dimension=model&reference=m-large&candidate=m-small"
        page = HtmlPage(site.get(path).text)
        assert "m-small against m-large" in page.text
        assert "Zero results" in page.text
        assert "1 question was asked of both" in page.text
        assert ("option", "value", "model") in page.attributes
