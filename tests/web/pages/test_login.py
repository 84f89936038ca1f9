"""Sign-in: a session in place of the token, safe from other pages, over when it should be."""

import re
import secrets

import pytest

from ragmon.clock import ManualClock
from ragmon.web.pages.login import LoginAttempts, login_path, safe_path
from ragmon.web.pages.rendering import HEADERS
from ragmon.web.sessions import Sessions
from tests.support.daemons import running
from tests.support.http import PROBLEM
from tests.support.pages import HtmlPage, check_policy
from tests.support.people import Browser
from tests.support.wait import eventually

NOW = 1_750_000_000.0
READ, ADMIN, INGEST, ENDING = "read-secret", "admin-secret", "ingest-secret", "ending-secret"
TOKENS = [
    {"name": "reader", "token": READ, "scopes": ["read"]},
    {"name": "ops", "token": ADMIN, "scopes": ["admin"]},
    {"name": "app", "token": INGEST},
    {"name": "brief", "token": ENDING, "scopes": ["read"], "expires": NOW + 600},
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("login")
    clock = ManualClock(NOW)
    with running(path / "data", clock, auth__tokens=TOKENS) as site:
        site.clock = clock
        yield site


@pytest.fixture
def browser(site):
    site.clock.sleep(60)  # so that no test waits for the wrong tokens of another
    return Browser(site)


def counted(site, reason: str) -> float:
    return site.total("ragmon_rejected_total", source="api", reason=reason)


def test_a_page_leads_to_the_form_and_the_form_back_to_the_page(browser):
    asked = browser.get("/queries?failing=unfaithful&words=a+b")
    assert asked.status == 303
    where = asked.headers["location"]
    assert where == "/login?next=/queries%3Ffailing%3Dunfaithful%26words%3Da%2Bb"
    page = HtmlPage(browser.get(where).text)
    check_policy(page)
    following = dict(re.findall('name="(next)" value="([^"]*)"', browser.get(where).text))
    signed_in = browser.sign_in(READ, following["next"].replace("&amp;", "&"))
    assert (signed_in.status, signed_in.headers["location"]) == (
        303,
        "/queries?failing=unfaithful&words=a+b",
    )
    assert "reader" in browser.page("/").text
    assert browser.get("/login?next=/search").headers["location"] == "/search"


def test_the_cookie_is_of_no_use_to_scripts_and_other_sites_and_holds_no_token(browser):
    answer = browser.sign_in(READ)
    cookie = answer.headers["set-cookie"]
    assert re.match(r"ragmon-session_\d+=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; Same", cookie)
    assert "SameSite=Strict" in cookie
    assert READ not in str(answer.headers)
    assert READ not in answer.text
    assert answer.headers["cache-control"] == "no-store"
    assert READ not in str(browser.cookies)


def test_with_https_the_cookie_is_sent_over_https_only(tmp_path):
    given = {"auth__tokens": TOKENS, "external_url": "https://ragmon.example.org"}
    with running(tmp_path / "data", **given) as site:
        browser = Browser(site)
        form = browser.get("/login?again=1")
        cookie = form.headers["set-cookie"]
        assert re.match(r"__Host-ragmon-login_\d+=\S+; Path=/; .*; Secure$", cookie)
        name, value = cookie.partition(";")[0].split("=")
        token = re.search('name="form_token" value="([0-9a-f]+)"', form.text)[1]
        fields = {"form_token": token, "token": READ}
        sent = {"cookie": f"{name}={value}"}
        signed_in = browser.post("/login", fields, **sent)
        assert signed_in.status == 303
        assert signed_in.headers["set-cookie"].count("; Secure") == 2
        here = "http://ragmon.internal"
        plain = browser.post("/login", fields, origin=here, host="ragmon.internal", **sent)
        assert plain.status == 403  # the name of its cookie has no port
        named = name.rpartition("_")[0]
        sent = {"cookie": f"{named}={value}"}
        plain = browser.post("/login", fields, origin=here, host="ragmon.internal", **sent)
        assert plain.status == 403
        assert "sign in over HTTPS: https://ragmon.example.org" in plain.text


def test_who_may_read_only_cannot_change_anything(browser):
    browser.sign_in(READ)
    assert browser.get("/v1/report").status == 200  # pages link to it
    assert browser.get("/v1/tokens").status == 403
    browser.submit("/logout", {})
    browser.sign_in(ADMIN)
    assert browser.get("/v1/tokens").status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/silences"), ("POST", "/v1/labels"), ("POST", "/v1/queries"), ("POST", "/v1/x")],
)
def test_a_session_changes_nothing_over_the_api(browser, method, path):
    browser.sign_in(ADMIN)
    answer = browser.submit(path, {"duration": "1h"})
    assert answer.status == (404 if path == "/v1/x" else 401)


def test_programs_get_a_problem_as_before(site):
    answer = site.get("/")
    assert (answer.status, answer.headers["content-type"]) == (401, PROBLEM)
    answer = Browser(site).get("/v1/report")
    assert (answer.status, answer.headers["content-type"]) == (401, PROBLEM)


@pytest.mark.parametrize(
    ("token", "status", "reason"),
    [
        pytest.param("wrong", 401, "wrong_token", id="an unknown token"),
        pytest.param("", 401, "wrong_token", id="no token"),
        pytest.param(INGEST, 403, "forbidden", id="a token that only sends"),
    ],
)
def test_a_wrong_token_is_counted_and_answered_with_the_form(site, browser, token, status, reason):
    before = counted(site, reason)
    answer = browser.sign_in(token, "/queries")
    assert answer.status == status
    check_policy(HtmlPage(answer.text))
    assert 'value="/queries"' in answer.text
    assert not any(name.startswith("ragmon-session") for name in browser.cookies)
    assert counted(site, reason) == before + 1
    if token:
        assert token not in answer.text


def test_wrong_tokens_are_throttled_and_a_right_one_waits_too(site, browser):
    before = counted(site, "login_throttled")
    statuses = [browser.sign_in("wrong").status for _ in range(8)]
    assert statuses == [401] * 5 + [429] * 3
    throttled = browser.sign_in(READ)
    assert (throttled.status, "retry-after" in throttled.headers) == (429, True)
    assert counted(site, "login_throttled") == before + 4
    site.clock.sleep(int(throttled.headers["retry-after"]))
    assert browser.sign_in(READ).status == 303


def test_many_addresses_are_throttled_together():
    clock = ManualClock(NOW)
    attempts = LoginAttempts(clock)
    for at in range(50):
        attempts.check(f"10.0.0.{at}")
        attempts.failed(f"10.0.0.{at}")
    with pytest.raises(Exception, match="too many wrong tokens"):
        attempts.check("10.0.1.1")
    clock.sleep(1)
    attempts.check("10.0.1.1")


def test_sign_out_ends_the_session_for_every_copy_of_the_cookie(site, browser):
    browser.sign_in(READ)
    copy = Browser(site)
    copy.use_cookies(browser.cookies)
    assert copy.get("/").status == 200
    answer = browser.submit("/logout", {})
    assert (answer.status, answer.headers["location"]) == (303, "/login")
    assert not any(name.startswith("ragmon-session") for name in browser.cookies)
    assert copy.get("/").status == 303


def test_a_session_ends_in_time_and_with_its_token(site, browser):
    brief = Browser(site)
    if site.clock.now() < NOW + 600:
        brief.sign_in(ENDING)
        assert brief.get("/").status == 200
        site.clock.sleep(600)
    assert brief.get("/").status == 303
    browser.sign_in(READ)
    site.clock.sleep(12 * 3_600 - 1)
    assert browser.get("/").status == 200
    site.clock.sleep(1)
    assert browser.get("/").status == 303


def test_a_session_ends_when_its_token_is_replaced(tmp_path):
    filed = tmp_path / "token"
    filed.write_text("old-secret\n", encoding="utf-8")
    given = {"auth__tokens": [{"name": "ann", "token_file": str(filed), "scopes": ["read"]}]}
    with running(tmp_path / "data", **given) as site:
        browser = Browser(site)
        browser.sign_in("old-secret")
        assert browser.get("/").status == 200
        filed.write_text("new-secret\n", encoding="utf-8")
        site.daemon._access.tokens._replace()
        assert browser.get("/").status == 303
        assert browser.sign_in("new-secret").status == 303
        assert browser.get("/").status == 200


def test_a_form_needs_the_token_of_its_own_session(site, browser):
    browser.sign_in(READ)
    other = Browser(site)
    other.sign_in(READ)
    before = counted(site, "stale_form")
    for token in ("", "0" * 64, other.token_on("/"), "\u1234"):
        assert browser.post("/logout", {"form_token": token}).status == 403
    assert counted(site, "stale_form") == before + 4
    assert browser.get("/").status == 200
    assert browser.post("/login", {"form_token": "0" * 64, "token": READ}).status == 403


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        pytest.param({"origin": "https://evil.example"}, "foreign_page", id="another site"),
        pytest.param({"origin": "null"}, "foreign_page", id="a sandboxed frame"),
        pytest.param({"origin": ""}, "foreign_form", id="nothing says where it is from"),
        pytest.param(
            {"origin": "", "sec_fetch_site": "same-site"}, "foreign_page", id="a sibling's name"
        ),
        pytest.param({"origin": "", "sec_fetch_site": "none"}, "foreign_form", id="typed"),
    ],
)
def test_a_form_of_another_page_is_refused_even_with_cookie_and_token(
    site, browser, headers, reason
):
    browser.sign_in(READ)
    source = "http" if reason == "foreign_page" else "api"
    before = site.total("ragmon_rejected_total", source=source, reason=reason)
    assert browser.submit("/logout", {}, **headers).status == 403
    assert site.total("ragmon_rejected_total", source=source, reason=reason) == before + 1
    assert browser.get("/").status == 200


def test_a_browser_that_only_says_same_origin_may_send(browser):
    browser.sign_in(READ)
    assert browser.submit("/logout", {}, origin="", sec_fetch_site="same-origin").status == 303


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        pytest.param(b"{}", "application/json", 415, id="JSON"),
        pytest.param(b"a=1&" * 50, "application/x-www-form-urlencoded", 400, id="many fields"),
        pytest.param(b"a=\xff", "application/x-www-form-urlencoded", 400, id="no ASCII"),
        pytest.param(b"a" * 70_000, "application/x-www-form-urlencoded", 413, id="a large one"),
    ],
)
def test_what_is_no_form_is_refused(site, body, media, status):
    sent = {"origin": site.url, "content-type": media}
    assert site.request("POST", "/login", body, sent).status == status


def test_pages_let_browsers_say_where_a_form_is_from():
    assert HEADERS["referrer-policy"] == "same-origin"  # with no-referrer they send Origin: null


def test_a_link_from_elsewhere_reaches_whoever_is_signed_in(browser):
    """Browsers keep a strict cookie back on such a link, but not on the next request."""
    for sent in ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, {}):
        first = browser.get("/login?next=/incidents/1", **sent)
        assert 'http-equiv="refresh" content="0;url=/login?next=/incidents/1&amp;again=1"' in (
            first.text
        )
    typed = browser.get("/login?next=/incidents/1", sec_fetch_site="none")
    assert "http-equiv" not in typed.text
    assert "http-equiv" not in browser.get("/login?next=/incidents/1&again=1").text
    browser.sign_in(READ)
    followed = browser.get("/login?next=/incidents/1&again=1", sec_fetch_site="same-origin")
    assert followed.headers["location"] == "/incidents/1"


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "",
        "javascript:alert(1)", "/\t/evil.example", "/ /evil.example", "evil.example", "/ä",
        "/login", "/logout", "/login?next=/login", "/" + "x" * 3_000, "/x\r\nset-cookie: a=b",
    ],
)  # fmt: skip
def test_the_form_leads_nowhere_else(browser, text):
    assert safe_path(text) == "/"


def test_a_path_of_ours_is_kept():
    for path in ("/", "/queries?words=a%20b&failing=x", "/pipelines/a%2Fb", "/judge/labels"):
        assert safe_path(path) == path
    assert login_path("/") == "/login"


def test_a_foreign_path_in_the_form_leads_to_the_overview(browser):
    assert browser.sign_in(READ, "//evil.example/").headers["location"] == "/"


def test_what_is_not_there_is_said_on_a_page(browser):
    browser.sign_in(READ)
    answer = browser.get("/incidents/none")
    assert answer.status == 404
    page = HtmlPage(answer.text)
    check_policy(page)
    assert "no incident has the id" in page.text


def test_who_signed_in_and_who_failed_is_in_the_audit_log(site, browser):
    browser.sign_in(ADMIN)
    browser.submit("/logout", {})
    wrong = secrets.token_urlsafe()
    browser.sign_in(wrong)

    def entries() -> list[dict]:
        answer = site.with_token(ADMIN).get("/v1/audit?limit=200")
        assert wrong not in answer.text
        assert ADMIN not in answer.text
        return answer.json["entries"]

    def is_there(**expected: str) -> bool:
        return any(expected.items() <= entry.items() for entry in entries())

    eventually(lambda: is_there(who="ops", what="signIn", outcome="303"), "the sign-in is noted")
    eventually(lambda: is_there(who="ops", what="signOut", outcome="303"), "the sign-out is noted")
    eventually(lambda: is_there(what="useToken", outcome="wrong_token"), "the refusal is noted")


def test_using_the_pages_is_using_the_token(site, browser):
    browser.sign_in(READ)
    browser.get("/")
    listed = site.with_token(ADMIN).get("/v1/tokens").json["tokens"]
    used = {token["name"]: token["last_used"] for token in listed}
    assert used["reader"] == site.clock.now()


def test_without_tokens_there_is_nothing_to_sign_in_to(daemon):
    browser = Browser(daemon)
    assert browser.get("/").status == 200
    assert browser.get("/login?next=/queries").headers["location"] == "/queries"
    assert "Sign out" not in browser.get("/").text


def test_a_token_has_a_limited_number_of_sessions_and_the_oldest_end():
    sessions = Sessions(ManualClock(NOW))

    def is_known(name: str) -> bool:
        scope = {"headers": [(b"host", b"a"), (b"cookie", f"b=c; ragmon-session={name}".encode())]}
        return sessions.find(scope) is not None

    other = sessions.begin(b"other")
    names = [sessions.begin(b"token") for _ in range(101)]
    assert [is_known(name) for name in names] == [False, *[True] * 100]
    assert is_known(other)


def test_two_daemons_on_one_host_do_not_take_each_others_cookies(tmp_path, browser):
    browser.sign_in(READ)
    with running(tmp_path / "data", auth__tokens=TOKENS) as other:
        second = Browser(other)
        second.use_cookies(browser.cookies)
        second.sign_in(READ)
        browser.use_cookies(second.cookies)
    assert browser.get("/").status == 200
