"""Every page in a real browser: wide and narrow, light and dark, by keyboard, hostile texts."""

import json
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from ragmon.clock import SystemClock
from ragmon.sources.otlp.spans import Resource
from tests.support import shop
from tests.support.browser import DESKTOP, PHONE, browser, tab
from tests.support.daemons import running
from tests.support.otlp import as_json, span
from tests.support.wait import eventually

pytestmark = pytest.mark.end_to_end

HOSTILE = (
    "<script>window.hacked=1</script><img src=x onerror=alert(1)>\"'&\u202eRTL\u2066\x1b[31mred"
)
NAMES = (
    *("overview", "pipeline", "incident", "alert", "queries", "query", "versions", "judge"),
    *("labels", "service", "search", "documents", "topics", "traces", "judge-report"),
    *("runbooks", "runbook", "unknown"),
)
TOKEN = "read-secret"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A daemon with an open incident, whose id is ``site.incident``."""
    flags = shop.FLAGS | {"otlp__linger": "0.1s"}
    with running(tmp_path_factory.mktemp("browser") / "data", **flags) as site:
        now = SystemClock().now()
        site.incident = shop.fill(site, now)
        _label(site)
        assert site.post("/v1/queries", _questions(now)).status == 200
        sent = site.post("/v1/traces", _spans(now), content_type="application/json")
        assert sent.status == 200
        eventually(lambda: len(site.get("/v1/traces").json) == 2, "the traces are read")
        eventually(lambda: 'id="topic-' in site.get("/topics").text, "topics are found", 60)
        yield site


def _questions(now: float) -> list[dict]:
    """Questions of two topics, each asked by somebody else."""
    asked = ("Where is the invoice of my order {}?", "How do I reset the password of account {}?")
    return [
        {"query_id": f"help-{at}", "pipeline": "help", "timestamp": now - 60.0 * at,
         "query": asked[at % 2].format(at), "user_id": f"user-{at}", "session_id": f"help-{at}",
         "chunks": [{"id": "faq"}] if at % 2 else []}
        for at in range(60)
    ]  # fmt: skip


def _label(site) -> None:
    """Labels of both kinds, so that the report card has curves."""
    queries = site.get("/v1/queries?pipeline=shop&limit=24").json["queries"]
    labels = [
        {"query_id": each["record"]["query_id"], "labeller": "ann",
         "faithful": float(each["record"]["version"] == "v1")}
        for each in queries
    ]  # fmt: skip
    assert site.post("/v1/labels", labels).status == 200


def _spans(now: float) -> bytes:
    """One trace that is a query, full of hostile texts, and one that is none."""
    kind, at = "openinference.span.kind", {"start_ns": int(now * 1e9), "end_ns": int(now * 1e9)}
    passages = json.dumps([{"id": HOSTILE, "text": HOSTILE}])
    return as_json(
        span(
            1, 0, {kind: "RETRIEVER", "input.value": HOSTILE, "output.value": passages},
            name=HOSTILE, trace_id=b"a" * 16, resource=Resource(), **at,
        ),
        span(
            1, 0, {"shop.question": "What is the fee?", HOSTILE: HOSTILE},
            name=HOSTILE, trace_id=b"b" * 16, resource=Resource(), **at,
        ),
    )  # fmt: skip


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
        "documents": "/documents?pipeline=shop",
        "topics": "/topics",
        "traces": "/traces",
        "judge-report": "/judge/report?pipeline=shop",
        "runbooks": "/runbooks",
        "runbook": "/runbooks/RagmonAlertFiring",
        "unknown": "/pipelines/unknown",
    }


@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["at a desk", "on a phone"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_well_in_light_and_dark(site, window, name, width):
    answer = window.open(pages(site)[name])
    assert answer.status == (404 if name == "unknown" else 200)
    if name == "unknown":
        window.troubles.clear()  # the console tells of the status
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


def test_charts_over_time_fit_a_phone_and_others_begin_at_their_left_end(window):
    window.open("/pipelines/shop")
    window.look(PHONE, "light")
    boxes = window.page.eval_on_selector_all(
        ".chart-box",
        "boxes => boxes.map((box) => [!!box.querySelector('.chart.wide'), box.scrollLeft,"
        " box.scrollWidth - box.clientWidth])",
    )
    assert any(is_wide for is_wide, _, _ in boxes)
    assert [box for box in boxes if box[1]] == []
    assert [beyond for is_wide, _, beyond in boxes if is_wide and beyond > 1] == []
    letters = window.page.eval_on_selector_all(
        ".chart.wide text:not(.minor):not(.noted)",
        "texts => texts.map((text) => text.getBoundingClientRect().height)",
    )
    assert min(letters) >= 10


def test_questions_of_a_topic_stand_below_its_name_on_a_phone(window):
    window.open("/topics")
    window.look(PHONE, "light")
    widths = window.page.eval_on_selector_all(
        ".topics tbody th div",
        "lines => lines.map((line) => line.getBoundingClientRect().width)",
    )
    assert min(widths) > 250


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
    assert site.post("/v1/labels", {"query_id": record["query_id"], "labeller": HOSTILE,
                                    "faithful": 0.0}).status == 200  # fmt: skip
    name = quote(HOSTILE, safe="")
    for path in (
        "/",
        f"/pipelines/{name}",
        f"/queries?pipeline={name}",
        f"/queries/{quote(record['query_id'], safe='')}",
        f"/versions?pipeline={name}&reference={name}&candidate=v2",
        f"/search?text={name}",
        f"/documents?pipeline={name}",
        f"/topics?pipeline={name}",
        f"/judge/report?pipeline={name}",
        "/traces",
    ):
        assert window.open(path).status == 200, path
        assert window.page.evaluate("window.hacked") is None, path
        text = window.page.inner_text("main")
        assert "<script>window.hacked=1</script>" in text or path.startswith("/judge/report"), path
        assert "\x1b" not in window.page.inner_text("body"), path
        window.look(PHONE, "light")
        assert window.too_wide() == [], path


@pytest.fixture(scope="module")
def locked(tmp_path_factory):
    """A daemon that asks for a token."""
    tokens = [{"name": "reader", "token": TOKEN, "scopes": ["read"]}]
    with running(tmp_path_factory.mktemp("locked") / "data", auth__tokens=tokens) as locked:
        yield locked


@pytest.mark.parametrize("width", [DESKTOP, PHONE], ids=["at a desk", "on a phone"])
def test_signing_in_and_out_by_keyboard(locked, chromium, width):
    with tab(chromium, locked.url) as window:
        page, keys = window.page, window.page.keyboard
        window.open(f"/queries?words={quote(HOSTILE)}")
        assert urlsplit(page.url).path == "/login"
        for scheme in ("dark", "light"):
            window.look(width, scheme)
            assert window.too_wide() == [], scheme
            assert window.violations() == [], scheme
        assert page.evaluate("document.activeElement.name") == "token"
        keys.type("wrong")
        with page.expect_navigation():
            keys.press("Enter")
        assert page.get_by_role("alert").is_visible()
        assert [each for each in window.troubles if "401" not in each] == []
        window.troubles.clear()
        keys.type(TOKEN)
        with page.expect_navigation(url="**/queries?**"):
            keys.press("Enter")
        assert parse_qs(urlsplit(page.url).query)["words"] == [HOSTILE]
        assert page.evaluate("window.hacked") is None
        assert TOKEN not in page.url
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").press("Enter")
        page.wait_for_url("**/login**")
        assert window.open("/").url.startswith(f"{locked.url}/login")
        assert window.troubles == []
