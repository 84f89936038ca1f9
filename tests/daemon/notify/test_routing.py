"""Which alerts go to which sinks, and settings that cannot be used."""

import socket

import pytest
from msgspec.structs import replace

from ragmon.clock import ManualClock
from ragmon.config import load
from ragmon.daemon.notify.routing import Route, build_routes, encode_notice, notifications
from ragmon.errors import SettingsError
from tests.support.alerts import NOW, alert, finding, notice
from tests.support.delivery import Recorder


def test_routes_by_severity_and_pipeline():
    routes = [
        Route(name="all", sink=Recorder()),
        Route(name="page", sink=Recorder(), min_severity="critical"),
        Route(name="docs", sink=Recorder(), pipelines=("docs",)),
    ]
    grave = notice(of=alert(finding(severity="critical", pipeline="shop")))
    mild = notice(of=alert(finding(severity="warning", pipeline="docs")))
    rows = notifications([grave, mild], routes)
    assert [(row.sink, row.event_id) for row in rows] == [
        ("all", grave.id),
        ("page", grave.id),
        ("all", mild.id),
        ("docs", mild.id),
    ]
    assert rows[0].body == encode_notice(replace(grave, sinks=("all", "page")))
    assert rows[0].incident_id == grave.incident_id


def routes_of(sinks, **given):
    found = load(None, {"sinks": sinks, **given}, {}).settings
    return build_routes(found, ManualClock(NOW), 8321)


def test_sinks_are_built_from_settings():
    [chat, page] = routes_of(
        "[{kind: stdout}, {kind: stdout, name: page, min_severity: critical, pipelines: docs,"
        " give_up_after: 2h, format: json}]",
        external_url="https://ragmon.example.org",
    )
    assert (chat.name, chat.min_severity, chat.pipelines) == ("stdout", "warning", ())
    assert chat.give_up_after_s == 86_400.0
    assert (page.name, page.min_severity, page.pipelines) == ("page", "critical", ("docs",))
    assert page.give_up_after_s == 7_200.0


@pytest.mark.parametrize(
    ("given", "link"),
    [
        ({}, "http://127.0.0.1:8321/incidents/"),
        ({"host": "::1"}, "http://[::1]:8321/incidents/"),
        ({"host": "0.0.0.0"}, f"http://{socket.gethostname()}:8321/incidents/"),
        (
            {"external_url": "https://ragmon.example.org/x/"},
            "https://ragmon.example.org/x/incidents/",
        ),
    ],
)
def test_links_lead_to_where_people_reach_it(given, link, capsys):
    [route] = routes_of("[{kind: stdout}]", **given)
    route.sink.deliver(notice())
    assert f"Open in ragmon: {link}{notice().incident_id}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sinks", "problem"),
    [
        ("[{kind: slak}]", "sinks.0: unknown kind 'slak'; did you mean `slack`?"),
        ("[{kind: stdout}, {kind: stdout}]", "another sink called 'stdout'"),
        (
            "[{kind: stdout, formt: json}]",
            "sinks.0.formt: unknown option; did you mean `format`?",
        ),
        ("[{kind: stdout, colour: no}]", "sinks.0.colour: unknown option; known are format"),
        ("[{kind: stdout, name: 'a b'}]", "sinks.0.name"),
        ("[{kind: slack}]", "exactly one of webhook_url, webhook_url_file and webhook_url_env"),
        ("[{kind: stdout, min_severity: high}]", "'info', 'warning' or 'critical'"),
        ("[{kind: slack, webhook_url_file: /no/such}]", "sinks.0.webhook_url_file: cannot read"),
        ("[{kind: pagerduty, routing_key_env: NO_SUCH}]", "sinks.0.routing_key_env: the variable"),
    ],
)
def test_settings_that_cannot_be_used(sinks, problem):
    with pytest.raises(SettingsError, match=problem):
        routes_of(sinks)
