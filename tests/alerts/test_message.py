"""An alert in words: everything a person on call needs, and nothing that is not known."""

from urllib.parse import parse_qsl

import pytest
from msgspec.structs import replace

from ragmon.alerts import Alert, WorstQuery
from ragmon.alerts.example_texts import clip
from ragmon.alerts.message import Links, annotations, message, plain, rfc3339
from ragmon.alerts.notices import Acknowledgement
from ragmon.detectors import Measured
from tests.support.alerts import LINKS, NOW, alert, finding, notice, rich_alert
from tests.support.golden import same

SILENT = finding(
    "traffic",
    "no_data",
    observed=None,
    reference=Measured(340.0, 340.0, 340.0, 340.0),
    reference_text="at the rate of the same hour on past days",
    changed_at=NOW - 600.0,
    evidence=None,
)
LIMIT = finding(
    "slow",
    "threshold",
    part=("version", "2026.2"),
    reference=None,
    reference_text="(limit of the rule)",
    tolerated=0.2,
    changed_at=None,
    window_s=900.0,
    evidence=None,
    guarantee="",
)

ANN = Acknowledgement(at=NOW + 300.0, by="ann <ops>", note="we roll\nback to 2026.1")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("firing", notice("opened", rich_alert())),
        ("grew", notice("grew", rich_alert(), NOW + 900.0, alerts=3, symptoms=("one", "two"))),
        ("renotified", notice("renotified", rich_alert(), NOW + 4 * 3_600.0)),
        ("acknowledged", notice("acknowledged", rich_alert(), NOW + 300.0, acknowledged=ANN)),
        ("resolved", notice("resolved", rich_alert(), NOW + 2_580.0)),
        ("no_data", notice("opened", alert(SILENT, "RagmonNoTraffic"))),
        ("limit", notice("opened", alert(LIMIT, "RagmonSlow"))),
    ],
)
def test_golden_texts(name, told):
    same(f"alert_{name}.txt", plain(message(told, LINKS)))


def test_annotations_are_said_again_when_it_is_over():
    begun = notice("opened", rich_alert())
    over = notice("resolved", rich_alert(), NOW + 600.0)
    first, last = annotations(begun, LINKS), annotations(over, LINKS)
    assert "What to try" in first["description"]
    assert first["runbook_url"] == "https://docs.example.org/runbooks/RagmonHitRate.md"
    assert last == first | {"over_since": "2025-02-19 21:30 UTC, after 10 min"}
    assert all(name.isidentifier() for name in last)


def test_annotations_do_not_change_while_it_is_open():
    later = notice("renotified", rich_alert(bad_at=NOW + 3_600.0), NOW + 3_600.0)
    assert annotations(later, LINKS) == annotations(notice(of=rich_alert()), LINKS)


@pytest.mark.parametrize(
    ("metric", "shows"),
    [
        ("hit", {"failing": "miss"}),
        ("zero_result", {"failing": "zero_result"}),
        ("faithfulness", {"failing": "unfaithful"}),
        ("positive_feedback", {"failing": "disliked"}),
        ("slow", {"failing": "slow"}),
        ("latency_p50", {"order": "slowest"}),
        ("mode_ranking", {"failing": "ranking"}),
        ("attribution", {}),
    ],
)
def test_a_link_leads_to_the_queries_that_fail(metric, shows):
    address, asked = _asked(alert(finding(metric, pipeline="a&b")))
    assert address == "https://ragmon.example.org/v1/queries"
    span = {"since": f"{NOW - 1_080:.0f}", "until": f"{NOW:.0f}"}
    assert asked == {"pipeline": "a&b"} | shows | span


@pytest.mark.parametrize(
    ("part", "parameter"),
    [
        pytest.param(("version", "2026.2-fast"), "version", id="a version"),
        pytest.param(("version", ""), "version", id="those that name no version"),
        pytest.param(("tenant", "a+b & c=d #1 %20"), "tag.tenant", id="reserved characters"),
        pytest.param(("team.name", '"it\'s"'), "tag.team.name", id="quotes"),
        pytest.param(("region", "eu\nwest\r\n\tx"), "tag.region", id="newlines"),
        pytest.param(("region", "🇩🇪 Köln"), "tag.region", id="emoji"),
        pytest.param(("region", "é" * 128), "tag.region", id="256 bytes"),
    ],
)
def test_a_link_carries_its_slice_whatever_it_is_called(part, parameter):
    found = alert(finding("error", part=part))
    _, asked = _asked(found)
    assert asked[parameter] == part[1]
    assert LINKS.failing(found).isascii()
    assert len(asked) == 5


@pytest.mark.parametrize(
    ("of", "since", "until"),
    [
        pytest.param({}, NOW - 1_080, NOW, id="from the change until it fired"),
        pytest.param({"bad_at": NOW + 600}, NOW - 1_080, NOW + 600, id="it is bad still"),
        pytest.param(
            {"found": finding("error", kind="threshold", changed_at=None, window_s=900.0)},
            NOW - 900, NOW, id="from the beginning of its window",
        ),
        pytest.param(
            {"found": finding("error", changed_at=None)}, NOW - 3_600, NOW, id="an hour at least"
        ),
        pytest.param(
            {"fired_at": None, "began_at": NOW - 60}, NOW - 1_080, NOW, id="it has not fired yet"
        ),
    ],
)  # fmt: skip
def test_a_link_carries_the_time_of_its_alert(of, since, until):
    _, asked = _asked(alert(**of))
    assert (float(asked["since"]), float(asked["until"])) == (since, until)


def _asked(of: Alert) -> tuple[str, dict[str, str]]:
    """Address and parameters of the link to an alert's queries, as a server reads them."""
    url = LINKS.failing(of)
    assert url is not None
    address, _, parameters = url.partition("?")
    pairs = parse_qsl(parameters, keep_blank_values=True)
    assert len(dict(pairs)) == len(pairs)
    return address, dict(pairs)


def test_nothing_fails_where_nothing_is_asked():
    assert LINKS.failing(alert(SILENT, "RagmonNoTraffic")) is None
    assert LINKS.runbook(alert(evidence=None)) is None


def test_the_failing_links_name_what_the_api_knows():
    from ragmon.alerts import message as module
    from ragmon.config import Settings
    from ragmon.daemon.build import build_pipeline
    from ragmon.queries.criteria import failures

    known = failures(build_pipeline(Settings()))
    assert set(module._FAILING.values()) <= set(known)


def test_ids_cannot_leave_their_place_in_a_link():
    links = Links("http://x/", "")
    assert links.query("a/b?c d:1") == "http://x/v1/queries/a%2Fb%3Fc%20d:1"
    assert links.query_page("a/b?c d:1") == "http://x/queries/a%2Fb%3Fc%20d:1"
    assert links.incident("../v1/x") == "http://x/incidents/..%2Fv1%2Fx"


def test_people_are_led_to_pages_and_programs_to_the_same_as_json():
    page = LINKS.failing_page(alert())
    assert page is not None
    assert LINKS.failing(alert()) == page.replace("/queries?", "/v1/queries?")
    told = message(notice(), LINKS)
    linked = [link.url for link in (*told.worst, *told.links)]
    assert not [url for url in linked if "/v1/" in url]
    assert page in linked


@pytest.mark.parametrize(
    ("lookup", "worst", "text"),
    [
        pytest.param("none", (), None, id="an alert that has none"),
        pytest.param("done", (), None, id="all were looked up"),
        pytest.param("waiting", (), "worst queries are still being looked up", id="not yet"),
        pytest.param(
            "waiting", (WorstQuery("q1"),), "documents and topics are still", id="half of them"
        ),
        pytest.param("part", (), "from the newest queries only", id="too many to read"),
        pytest.param("skipped", (), "not looked up", id="no room"),
    ],
)
def test_examples_that_may_be_missing_are_explained(lookup, worst, text):
    one = alert()
    told = notice(of=replace(one, evidence=replace(one.evidence, lookup=lookup, worst=worst)))
    facts = {fact.key: fact.value for fact in message(told, LINKS).facts}
    assert ("examples" in facts) == (text is not None)
    assert facts.get("examples", "").startswith(text or "")


@pytest.mark.parametrize(
    ("when", "text"), [(NOW, "2025-02-19T21:20:00Z"), (NOW + 0.25, "2025-02-19T21:20:00.250Z")]
)
def test_times_are_rfc_3339(when, text):
    assert rfc3339(when) == text


def test_clipped_texts_show_it():
    assert (clip("four", 4), clip("fives", 4)) == ("four", "fiv…")
