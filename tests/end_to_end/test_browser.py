"""Every page in a real browser: wide and narrow, light and dark, by keyboard, hostile texts."""

from urllib.parse import parse_qs, quote, urlsplit

import pytest

from ragmon.clock import SystemClock
from tests.support import shop
from tests.support.browser import DESKTOP, PHONE, browser, tab
from tests.support.daemons import running

pytestmark = pytest.mark.end_to_end

HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=alert(1)>\"'&\u202eRTL\u2066\x1b[31mred"
)
NAMES = (
    *("overview", "pipeline", "incident", "alert", "queries", "query", "versions", "judge"),
    *("labels", "service", "search"),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A daemon with an open incident, whose id is ``site.incident``."""
    with running(tmp_path_factory.mktemp("browser") / "data", **shop.FLAGS) as site:
        site.incident = shop.fill(site, SystemClock().now())
        yield site


@pytest.fixture(scope="module")
def chromium():
    with browser() as chromium:
        yield chromium


@pytest.fixture
def window(site, chromium):
    """A tab in which nothing may go wrong; no browser is started for a site that failed."""
    with tab(chromium, site.url) as window:
        yield window
        assert window.troubles == []


def pages(site) -> dict[str, str]:
    """The address of each kind of page."""
    (incident,) = [
        one for one in site.get("/v1/incidents?state=open").json["incidents"]
        if one["id"] == site.incident
    ]  # fmt: skip
    queries = site.get("/v1/queries?version=v1&limit=1").json["queries"]
    return {
        "overview": "/",
        "pipeline": "/pipelines/shop",
        "incident": f"/incidents/{site.incident}",
        "alert": f"/alerts/{incident['alerts'][0]['id']}",
        "queries": "/queries?pipeline=shop&failing=zero_result",
        "query": f"/queries/{queries[0]['record']['query_id']}",
        "versions": "/versions",
        "judge": "/judge",
        "labels": "/judge/labels",
        "service": "/ragmon",
        "search": "/search?text=shop",
    }


@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["at a desk", "on a phone"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_well_in_light_and_dark(site, window, name, width):
    answer = window.open(pages(site)[name])
    assert answer.status == 200
    assert "unsafe" not in answer.headers["content-security-policy"]
    checked = "light" if width == DESKTOP else "dark"
    for scheme in {"light": ("dark", "light"), "dark": ("light", "dark")}[checked]:
        window.look(width, scheme)
        assert window.too_wide() == [], scheme
    assert window.violations() == []


def test_from_the_overview_to_a_query_by_keyboard_alone(site, window):
    window.open("/")
    keys = window.page.keyboard

    def go_to(part: str) -> None:
        for _ in range(60):
            keys.press("j")
            if part in (window.page.evaluate("document.activeElement.getAttribute('href')") or ""):
                break
        with window.page.expect_navigation():
            keys.press("Enter")

    go_to(f"/incidents/{site.incident}")
    assert urlsplit(window.page.url).path == f"/incidents/{site.incident}"
    go_to("/queries/")
    assert urlsplit(window.page.url).path.startswith("/queries/v2-")
    assert "I do not know." in window.page.inner_text("main")
    name = window.page.url
    with window.page.expect_navigation():
        keys.press("l")
    assert urlsplit(window.page.url).path == "/judge/labels"
    assert "I do not know." in window.page.inner_text("main")
    with window.page.expect_navigation():
        keys.press("u")
    labelled = parse_qs(urlsplit(window.page.url).query)["labelled"][0]
    assert labelled in name
    assert "Labelled unfaithful" in window.page.inner_text("main")

    def opinions() -> list[float]:
        labels = site.get(f"/v1/queries/{labelled}").json["labels"]
        return [label["faithful"] for label in labels if "faithful" in label]

    assert opinions() == [0.0]
    with window.page.expect_navigation():
        keys.press("z")
    assert parse_qs(urlsplit(window.page.url).query)["query"] == [labelled]
    assert opinions() == []
    keys.press("?")
    assert window.page.locator("#help").is_visible()
    keys.press("Escape")
    keys.press("/")
    keys.type("shop")
    with window.page.expect_navigation():
        keys.press("Enter")
    assert urlsplit(window.page.url).path == "/search"


def test_names_in_the_navigation_stand_on_one_line_at_any_width(window):
    window.open("/search")
    for width in (1280, 900, 800, 390):
        window.look({"width": width, "height": 600}, "light")
        heights = window.page.eval_on_selector_all(
            ".top nav a", "links => links.map((link) => link.getClientRects()[0].height)"
        )
        assert max(heights) < 50, width
        assert window.too_wide() == [], width


def test_zoom_filter_back_and_reload_give_the_same_state(site, window):
    page = window.page
    window.open("/pipelines/shop")
    whole = page.locator(".filters .dim").inner_text()
    chart = page.locator("figure[data-values] svg.chart").first.bounding_box()
    page.mouse.move(chart["x"] + chart["width"] * 0.4, chart["y"] + 60)
    page.mouse.down()
    page.mouse.move(chart["x"] + chart["width"] * 0.7, chart["y"] + 60, steps=4)
    with page.expect_navigation():
        page.mouse.up()
    asked = parse_qs(urlsplit(page.url).query)
    length = float(asked["to"][0]) - float(asked["from"][0])
    assert 0.2 * 86_400 < length < 0.45 * 86_400
    page.select_option("select[name=metric]", "zero_result")
    with page.expect_navigation():
        page.get_by_role("button", name="Show").click()
    zoomed, address = page.locator(".filters .dim").inner_text(), page.url
    assert parse_qs(urlsplit(address).query)["metric"] == ["zero_result"]
    assert "from" in address
    page.reload()
    assert (page.url, page.locator(".filters .dim").inner_text()) == (address, zoomed)
    assert page.input_value("select[name=metric]") == "zero_result"
    page.go_back()
    assert page.input_value("select[name=metric]") == ""
    assert parse_qs(urlsplit(page.url).query) == asked
    page.go_back()
    assert urlsplit(page.url).query == ""
    page.locator(".filters .dim").wait_for()
    assert whole.split("·")[1].split()[0] in page.locator(".filters .dim").inner_text()


def test_a_value_is_shown_under_the_pointer(window):
    window.open("/pipelines/shop?metric=zero_result")
    chart = window.page.locator("figure[data-values] svg.chart").first
    chart.hover()
    window.page.wait_for_function("document.querySelector('output.hover').textContent !== ''")


def test_hostile_texts_in_every_field_are_text(site, window):
    now = SystemClock().now()
    record = {
        "query_id": f"hostile{HOSTILE}",
        "timestamp": now - 60,
        "pipeline": HOSTILE,
        "version": HOSTILE,
        "environment": HOSTILE,
        "model": HOSTILE,
        "session_id": HOSTILE,
        "user_id": HOSTILE,
        "trace_id": HOSTILE,
        "query": HOSTILE,
        "answer": f"{HOSTILE} {'x' * 900_000}",
        "error": HOSTILE,
        "tags": {"tenant": HOSTILE, HOSTILE[:60]: HOSTILE},
        "chunks": [{"id": HOSTILE, "text": HOSTILE, "source": HOSTILE, "score": 0.5}],
        "citations": [HOSTILE],
    }
    answer = site.post("/v1/queries", record).json
    assert answer["rejected"] == [], answer
    name = quote(HOSTILE, safe="")
    for path in (
        "/",
        f"/pipelines/{name}",
        f"/queries?pipeline={name}",
        f"/queries/{quote(record['query_id'], safe='')}",
        f"/versions?pipeline={name}&reference={name}&candidate=v2",
        f"/search?text={name}",
    ):
        assert window.open(path).status == 200, path
        assert window.page.evaluate("window.hacked") is None, path
        assert "<script>window.hacked=1</script>" in window.page.inner_text("main"), path
        assert "\x1b" not in window.page.inner_text("body"), path
        window.look(PHONE, "light")
        assert window.too_wide() == [], path
