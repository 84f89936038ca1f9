"""The label queue: what teaches most comes first, one form for each answer, and undo."""

import pytest

from ragmon.api_schema import QueryDetail, StoredQuery
from ragmon.clock import ManualClock
from ragmon.records import Label, Verdict
from ragmon.web.pages.labels import rank
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy
from tests.support.people import Browser
from tests.support.wait import eventually

NOW = 1_750_000_000.0
ADMIN, READ, BOTH, OTHER = "admin-secret", "read-secret", "both-secret", "other-secret"
TOKENS = [
    {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    {"name": "reader", "token": READ, "scopes": ["read"]},
    {"name": "expert", "token": BOTH, "scopes": ["read", "ingest"]},
    {"name": "guest", "token": OTHER, "scopes": ["read", "ingest"], "pipelines": ["other"]},
]
HOSTILE = "<script>alert(1)</script>\u202e\x1b[31m"
QUEUE = "/judge/labels"


@pytest.fixture
def site(tmp_path):
    clock = ManualClock(NOW)
    with running(tmp_path / "data", clock, auth__tokens=TOKENS) as site:
        site.clock = clock
        site.with_token(ADMIN).post(
            "/v1/queries",
            [
                {
                    "query_id": name,
                    "timestamp": NOW - at,
                    "query": f"Question {name} {HOSTILE}",
                    "answer": f"Answer {name} {HOSTILE}",
                    "chunks": [{"id": "a", "text": HOSTILE}, {"id": "b", "text": "other"}],
                    "citations": ["b"],
                }
                for at, name in enumerate(("q1", "q2", "q3"), 1)
            ],
        )
        yield site


def signed_in(site, token: str = BOTH) -> Browser:
    browser = Browser(site)
    assert browser.sign_in(token).status == 303
    return browser


def label(browser, action: str, name: str, **fields: str):
    return browser.submit(QUEUE, {"query": name, "label": action} | fields, on=QUEUE)


def labels_of(site, name: str) -> list[dict]:
    return site.with_token(ADMIN).get(f"/v1/queries/{name}").json["labels"]


def said(site) -> list[tuple]:
    return [(one.get("faithful"), one.get("relevant_ids")) for one in labels_of(site, "q1")]


def test_an_answer_is_labelled_the_next_is_shown_and_the_label_taken_back(site):
    browser = signed_in(site)
    page = browser.page(QUEUE)
    check_policy(page)
    assert "Answer q1 <script>" in page.text
    assert "\x1b" not in page.text
    answer = label(browser, "faithful", "q1")
    assert (answer.status, answer.headers["location"]) == (303, f"{QUEUE}?labelled=q1")
    page = browser.page(answer.headers["location"])
    assert "Labelled faithful" in page.text
    assert "Answer q2" in page.text
    (kept,) = labels_of(site, "q1")
    assert (kept["labeller"], kept["faithful"]) == ("expert", 1.0)
    site.clock.sleep(1)
    answer = label(browser, "undo", "q1")
    assert answer.headers["location"] == f"{QUEUE}?query=q1"
    assert "Answer q1" in browser.page(answer.headers["location"]).text
    (kept,) = labels_of(site, "q1")
    assert kept["withdrawn"] is True
    assert "faithful" not in kept
    assert "Answer q1" in browser.page(QUEUE).text  # nobody's label any more


def test_relevance_and_faithfulness_of_one_answer_are_kept_together(site):
    browser = signed_in(site)
    page = browser.get(QUEUE).text
    assert 'name="chunk_1">' in page
    assert 'name="chunk_2" checked>' in page  # it is cited
    answer = label(browser, "relevant", "q1", chunk_2="on")
    assert answer.headers["location"] == f"{QUEUE}?query=q1"
    assert "1 relevant chunk" in browser.page(answer.headers["location"]).text
    site.clock.sleep(1)
    label(browser, "unfaithful", "q1")
    assert said(site) == [(None, ["b"]), (0.0, None)]
    site.clock.sleep(1)
    label(browser, "not_relevant", "q1")
    assert said(site) == [(0.0, None), (None, [])]
    site.clock.sleep(1)
    label(browser, "undo", "q1")
    assert said(site) == [(None, None)]


OWN = {"kind": "python", "entry": "tests.web.pages.test_labels:kind"}
CUSTOM = [OWN | {"name": "tone", "scale": "1-5"}, OWN | {"name": "polite", "scale": "yes-no"}]


def kind(question, answer, chunks):
    """A custom judge that grades nothing."""


def test_grades_of_custom_judges_are_asked_and_shown(tmp_path):
    clock = ManualClock(NOW)
    with running(tmp_path / "data", clock, auth__tokens=TOKENS, judge__custom=CUSTOM) as site:
        site.with_token(ADMIN).post(
            "/v1/queries", {"query_id": "q1", "timestamp": NOW, "query": "?", "answer": "Please."}
        )
        browser = signed_in(site)
        page = browser.page(QUEUE)
        check_policy(page)
        assert "graded by tests.web.pages.test_labels:kind" in page.text
        for action in ("tone=4", "polite=no", "tone=5"):
            answer = label(browser, action, "q1")
            assert answer.headers["location"] == f"{QUEUE}?query=q1"  # the same answer goes on
            clock.sleep(1)
        assert "You said: tone 5. polite no." in browser.page(f"{QUEUE}?query=q1").text
        assert [one["scores"] for one in labels_of(site, "q1")] == [{"polite": 0.0}, {"tone": 1.0}]
        shown = browser.page("/queries/q1").text
        assert "polite 0.0 %" in shown
        assert "tone 100.0 %" in shown
        for wrong in ("tone=6", "polite=1", "other=5", "tone="):
            assert label(browser, wrong, "q1").status == 400
        assert len(labels_of(site, "q1")) == 2


def test_what_is_skipped_does_not_come_back_and_gets_no_label(site):
    browser = signed_in(site)
    for name in ("q1", "q2", "q3"):
        assert f"Answer {name}" in browser.page(QUEUE).text
        assert label(browser, "skip", name).headers["location"] == QUEUE
    assert "Nothing is left to label" in browser.page(QUEUE).text
    assert labels_of(site, "q1") == []
    assert "Answer q1" in signed_in(site, ADMIN).page(QUEUE).text  # another person's queue


def test_it_counts_and_is_recorded_as_over_the_api(site):
    browser = signed_in(site)
    before = site.total("ragmon_ingest_records_total", source="label")
    label(browser, "faithful", "q1")
    assert site.total("ragmon_ingest_records_total", source="label") == before + 1

    def recorded() -> list[dict]:
        listed = site.with_token(ADMIN).get("/v1/audit").json["entries"]
        return [entry for entry in listed if entry["what"] == "sendLabels"]

    eventually(recorded, "it is in the audit log")
    entry = recorded()[0]
    assert (entry["who"], entry["outcome"]) == ("expert", "1 accepted, 0 rejected")


def test_who_may_only_read_labels_nothing(site):
    browser = signed_in(site, READ)
    page = browser.get(QUEUE).text
    assert "Answer q1" in page
    assert 'value="faithful"' not in page
    assert label(browser, "faithful", "q1").status == 403
    assert labels_of(site, "q1") == []


def test_a_token_labels_answers_of_its_pipelines_alone(site):
    browser = signed_in(site, OTHER)
    assert "Nothing is left" in browser.page(QUEUE).text
    for answer in (
        label(browser, "faithful", "q1"),
        browser.get(f"{QUEUE}?query=q1"),
        browser.get(f"{QUEUE}?pipeline=default"),
    ):
        assert answer.status in (403, 404)
        assert "Answer q1" not in answer.text
    assert "Question q1" not in browser.page(f"{QUEUE}?labelled=q1").text
    assert labels_of(site, "q1") == []


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        pytest.param({"query": "none", "label": "faithful"}, 404, id="an unknown answer"),
        pytest.param({"query": "q1", "label": "good"}, 400, id="an unknown label"),
        pytest.param({}, 404, id="nothing"),
    ],
)
def test_what_makes_no_sense_is_said_on_a_page(site, fields, status):
    answer = signed_in(site).submit(QUEUE, fields, on=QUEUE)
    assert answer.status == status
    check_policy(HtmlPage(answer.text))


def test_a_label_is_withdrawn_over_the_api_too(site):
    admin = site.with_token(ADMIN)
    admin.post("/v1/labels", {"query_id": "q1", "faithful": 0.0, "labeller": "ann"})
    failing = "/v1/queries?failing=unfaithful"
    assert len(admin.get(failing).json["queries"]) == 1
    site.clock.sleep(1)
    answer = admin.post("/v1/labels", {"query_id": "q1", "labeller": "ann", "withdrawn": True})
    assert (answer.status, answer.json["accepted"]) == (200, 1)
    assert admin.get(failing).json["queries"] == []
    late = {"query_id": "q1", "faithful": 0.0, "labeller": "ann", "timestamp": NOW - 5}
    assert admin.post("/v1/labels", late).json["duplicates"] == 1
    assert admin.get(failing).json["queries"] == []
    both = {"query_id": "q1", "withdrawn": True, "faithful": 1.0}
    for wrong in (both, {"query_id": "q1"}):
        assert admin.post("/v1/labels", wrong).status == 422


def detail(name: str, *scores: float, version: str = "v1", labelled: bool = False, **fields):
    verdicts = tuple(
        Verdict(query_id=name, judge=judge, score=score)
        for judge, score in zip(("grounding", "llm"), scores, strict=False)
    )
    labels = (Label(query_id=name, faithful=1.0),) if labelled else ()
    record = StoredQuery(query_id=name, timestamp=NOW, version=version, **fields)
    return QueryDetail(
        record=record, signals={}, verdicts=verdicts, draw=None, feedback=None, labels=labels,
        failure_mode="none",
    )  # fmt: skip


def test_what_teaches_most_comes_first():
    details = [
        detail("sure", 0.95),
        detail("unsure", 0.52),
        detail("at odds", 0.9, 0.2),
        detail("labelled", 0.5, labelled=True),
        detail("failed", 0.5, error="timeout"),
        detail("unsure", 0.52),
        detail("new version", 0.95, version="v2"),
    ]
    ranked = rank(details, 0.5)
    names = [one.detail.record.query_id for one in ranked]
    assert names == ["at odds", "unsure", "new version", "sure"]
    assert "the judges are at odds" in ranked[0].reasons
    assert any("near the threshold" in reason for reason in ranked[1].reasons)
    assert any("nobody has labelled" in reason for reason in ranked[2].reasons)
