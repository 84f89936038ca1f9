"""The pages of queries: a form whose address holds its state, and one query in full."""

from urllib.parse import parse_qs, urlsplit

import pytest

from ragmon.api_schema import QueryDetail, StoredQuery
from ragmon.clock import ManualClock
from ragmon.nearby import NearbyQueries
from ragmon.records import Doubt, Verdict
from ragmon.web.pages.assets import Assets
from ragmon.web.pages.queries import row_of
from ragmon.web.pages.query import answer_pieces, signal_texts
from ragmon.web.pages.query_source import SupportedSentence
from ragmon.web.pages.rendering import Renderer
from tests.support.daemons import running
from tests.support.pages import HtmlPage, check_policy

NOW = 1_750_000_000.0
HOSTILE = "<script>alert(1)</script>\"'&\u202eRTL\x1b[31mred"
ANSWER = "Refunds take fourteen days. They are paid in gold bars by the queen."
CHUNK = "Our policy: refunds take fourteen days after the goods arrive. Shipping is free."


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "data"
    links = {"links__trace": "https://traces.example/t/{trace_id}?x=1"}
    with running(path, ManualClock(NOW), **links) as site:
        batch = [
            {
                "query_id": f"q{at}",
                "pipeline": "shop",
                "version": "v1",
                "timestamp": NOW - 600 + at,
                "query": f"How long do refunds number{at} take?",
                "answer": ANSWER,
                "retrieval_query": "refund duration",
                "chunks": [{"id": "c1", "score": 0.9, "text": CHUNK}, {"id": "c2", "text": "x"}],
                "citations": ["c1"],
                "relevant_ids": ["c1"],
                "latency_ms": {"total": 900, "retrieval": 200, "generation": 700},
                "session_id": "s 1&",
                "trace_id": "ab/cd",
                "tags": {"tenant": "acme"},
            }
            for at in range(40)
        ]
        names = (
            "query_id pipeline version query answer error model session_id user_id trace_id"
            " environment retrieval_query"
        )
        hostile = dict.fromkeys(names.split(), HOSTILE)
        hostile |= {
            "timestamp": NOW - 1_000,
            "tags": {HOSTILE: HOSTILE},
            "chunks": [{"id": HOSTILE, "text": HOSTILE, "source": HOSTILE}],
        }
        assert site.post("/v1/queries", [*batch, hostile]).json["accepted"] == 41
        site.post("/v1/feedback", {"query_id": HOSTILE, "rating": -1, "comment": HOSTILE})
        site.post("/v1/labels", {"query_id": "q1", "labeller": HOSTILE, "faithful": 0.0})
        yield site


def shown(site, path: str) -> HtmlPage:
    answer = site.get(path)
    assert answer.status == 200, answer.text
    page = HtmlPage(answer.text)
    check_policy(page)
    return page


def test_the_list_counts_and_goes_on_page_by_page(site):
    page = shown(site, "/queries?pipeline=shop")
    assert "40 queries fit" in page.text
    assert "number39" in page.text
    assert "number5 " not in page.text
    (following,) = [link for link in page.links if "cursor=" in link]
    last = shown(site, following)
    assert "number5 take" in last.text
    assert "number39" not in last.text
    assert "/queries?pipeline=shop" in last.links  # the first page


def test_the_address_holds_the_state_of_the_form(site):
    asked = "pipeline=shop&words=number7&tag=tenant%3Dacme&failure_mode=&version=&order=newest"
    page = shown(site, f"/queries?{asked}")
    assert "1 query fits" in page.text
    values = {value for tag, name, value in page.attributes if (tag, name) == ("input", "value")}
    assert {"shop", "number7", "tenant=acme"} <= values
    exports = [link for link in page.links if link.startswith("/v1/export?")]
    assert [parse_qs(urlsplit(link).query)["format"] for link in exports] == [
        ["jsonl"], ["csv"], ["golden"],
    ]  # fmt: skip
    for link in exports:
        assert parse_qs(urlsplit(link).query)["tag.tenant"] == ["acme"]
        assert site.get(link).status == 200
    assert site.get(exports[0]).json["record"]["query_id"] == "q7"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("min_score=2", "min_score: '2' is not a number from 0 to 1"),
        ("words=%3F", "holds no word"),
        ("failing=bad", "failing: 'bad' is not one of"),
        ("tag=bare", "tag: 'bare' is not KEY=VALUE"),
        ("cursor=x", "cursor: 'x' is none"),
    ],
)
def test_what_is_wrong_with_the_form_is_said_on_it(site, asked, says):
    answer = site.get(f"/queries?{asked}")
    page = HtmlPage(answer.text)
    assert (answer.status, says in page.text) == (400, True)
    assert "form" in page.tags


def test_one_query_in_full(site):
    page = shown(site, "/queries/q7")
    for text in (
        "How long do refunds number7 take?", "refund duration", "Refunds take fourteen days.",
        "cited", "not cited", "relevant", "not relevant", "score 0.9", "retrieval", "generation",
        "tenant", "acme", "shared with the answer: ",
    ):  # fmt: skip
        assert text in page.text, text
    assert "https://traces.example/t/ab%2Fcd?x=1" in page.links
    assert "#chunk-1" in page.links
    marks = [value for tag, name, value in page.attributes if (tag, name) == ("mark", "class")]
    assert marks.count("supported") == 3  # in the answer, in the chunk, in the legend
    before = [link for link in page.links if "until=" in link]
    assert (
        "number6" in shown(site, before[0]).text or "No query fits" in shown(site, before[0]).text
    )
    (session,) = {link for link in page.links if "session=" in link}
    assert "40 queries fit" in shown(site, session).text


def test_what_a_judge_doubts_is_marked_before_what_a_chunk_supports():
    doubt = Doubt(start=28, end=68, reason="novel_name", detail="gold", support=0.1)
    beyond = Doubt(start=60, end=999, reason="scattered", detail="", support=0.1)
    detail = QueryDetail(
        record=StoredQuery(query_id="d", answer=ANSWER),
        signals={"reciprocal_rank/citation": 0.5, "latency_ms/total": 1_461.0, "top_score": 0.83},
        verdicts=(Verdict(query_id="d", judge="grounding", score=0.4, doubts=(doubt, beyond)),),
        draw=None,
        feedback=None,
        labels=(),
        failure_mode="generation",
    )
    supported = [SupportedSentence(0, 27, 3, 5, 9, ("refunds",)),
                 SupportedSentence(28, 68, 1, 0, 1, ("gold",))]  # fmt: skip
    first, between, second = answer_pieces(detail, supported)
    assert (first.kind, first.text, first.chunk) == ("supported", ANSWER[:27], 3)
    assert (between.kind, between.text) == ("plain", " ")
    assert (second.kind, second.text) == ("doubted", ANSWER[28:])
    assert second.note == "grounding: a name that the context lacks (gold)"
    renderer = Renderer(Assets())
    html = renderer.page("query.html", **context(detail, supported)).body.decode()
    assert "doubted" in html
    for value in ("0.5", "1.46 s", "0.83"):  # signals in the units of their metrics
        assert f"<dd>{value}</dd>" in html


def context(detail, supported):
    """Everything that the template reads."""
    return {
        "detail": detail,
        "signals": signal_texts(detail.signals),
        "record": detail.record,
        "row": row_of(detail),
        "answer": answer_pieces(detail, supported),
        "chunks": [],
        "chunks_left_out": 0,
        "is_cut": False,
        "near": NearbyQueries(),
        "waterfall": "",
        "trace": "",
        "same_session": "",
        "same_question": "",
        "as_json": "/v1/queries/d",
    }


def test_hostile_texts_are_texts(site):
    listed = shown(site, "/queries?until=800s")
    (link,) = [link for link in listed.links if "%3Cscript%3E" in link and "/queries/" in link]
    for page in (listed, shown(site, link)):
        assert page.tags.count("script") == 1
        assert "<script>alert(1)</script>" in page.text
        assert "\x1b" not in page.text
        assert "bdi" in page.tags
    assert shown(site, link).text.count("alert(1)") > 10
    answer = site.get("/queries?" + "&".join(f"{name}=%22%3E%3Cscript%3Ex" for name in
                                             ("words", "pipeline", "user", "since")))  # fmt: skip
    assert HtmlPage(answer.text).tags.count("script") == 1
    named = shown(site, "/queries/q1")
    assert named.tags.count("script") == 1


def test_a_word_of_a_megabyte_leaves_the_page_small(site):
    long = {"query_id": "long", "answer": "w" * 1_000_000, "timestamp": NOW - 5_000,
            "chunks": [{"id": "c", "text": "z" * 900_000}], "query": "y" * 900_000}  # fmt: skip
    assert site.post("/v1/queries", long).json["accepted"] == 1
    assert len(site.get("/queries/long").body) < 60_000
    assert len(site.get("/queries?until=4000s").body) < 30_000
    assert "the JSON has all of it" in shown(site, "/queries/long").text


def test_an_unknown_query_is_a_404(site):
    assert site.get("/queries/nobody").status == 404


@pytest.mark.parametrize("privacy", ["drop", "redact"])
def test_what_privacy_leaves_out_is_not_there(tmp_path, privacy):
    with running(tmp_path / "data", ManualClock(NOW), privacy__text=privacy) as site:
        site.post("/v1/queries", {"query_id": "p", "query": "Mail to joe@example.org today",
                                  "answer": "Mailed joe@example.org", "timestamp": NOW - 60,
                                  "chunks": [{"id": "c", "text": "joe@example.org"}]})  # fmt: skip
        for path in ("/queries", "/queries/p", "/v1/export", "/v1/export?format=csv"):
            assert "joe@example.org" not in site.get(path).text
        assert "No query fits" in shown(site, "/queries?words=joe").text


def test_neighbours_stand_on_the_page_of_a_query(site):
    page = shown(site, "/queries/q7")
    assert "Same session" in page.text
    near = [link for link in page.links if link.startswith("/queries/q")]
    assert sorted(near) == [f"/queries/q{at}" for at in (10, 4, 5, 6, 8, 9)]
    assert "1 s before" in page.text
    assert "3 s after" in page.text
    again = {"query_id": "again", "timestamp": NOW - 30, "pipeline": "shop",
             "query": "how long do refunds NUMBER7 take"}  # fmt: skip
    assert site.post("/v1/queries", again).json["accepted"] == 1
    page = shown(site, "/queries/again")
    assert "Asked before" in page.text
    assert "/queries/q7" in page.links
    assert "Same session" not in page.text
