"""Redaction on a table of real-looking secrets, and on text that must stay.

Secrets are put together from parts here, so that secret scanners do not report this file.
"""

import re
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragmon.privacy import DROPPED, apply, credentials, personal, redact_text
from ragmon.records import MAX_FEEDBACK_TEXT, MAX_ID, Chunk, Feedback, Label, Latency, QueryRecord

HEX = "9f86d081884c7d659a2feaa0c55ad015"
WORD = "Zt7Qx2LmV9bRk4Wd8Yp1Hs6Nc3Gf5Ja0Ue"
JWT = ".".join(["ey" + "JhbGciOiJIUzI1NiJ9", "ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0", WORD])
PEM_BODY = "\n".join([WORD * 2, WORD * 2, HEX])
PEM = f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{PEM_BODY}\n-----END RSA PRIVATE {'KEY'}-----"

SECRETS = [
    # e-mail addresses
    ("write to jane.doe@example.com.", "write to [email]."),
    ("<jane+rag@mail.corp.co.uk>", "<[email]>"),
    ("mailto:jane@example.com?subject=x", "mailto:[email]?subject=x"),
    ("a@b.co,c@d.org", "[email],[email]"),
    ("user=jane%40example.com&x=1", "user=[email]&x=1"),
    ("jörg.müller@bücher.example", "[email]"),
    ("jane@xn--bcher-kva.xn--p1ai", "[email]"),
    # phone numbers
    ("+1 (415) 555-2671", "[phone]"),
    ("+14155552671", "[phone]"),
    ("+44 (0)20 7946 0958.", "[phone]."),
    ("+49 30/1234567", "[phone]"),
    ("tel:+33612345678", "tel:[phone]"),
    ("fax +49 (0) 89 / 12 34 56-78", "fax [phone]"),
    ("(+91) 98765 43210", "[phone]"),
    ("0049 170 1234567", "[phone]"),
    ("call (415) 555-2671 or 415-555-2672", "call [phone] or [phone]"),
    ("415.555.2671 ext. 12", "[phone]"),
    ("1-800-555-0199", "[phone]"),
    ("415 555 2671", "[phone]"),
    ("020 7946 0958", "[phone]"),
    ("07700 900123", "[phone]"),
    ("06 12 34 56 78", "[phone]"),
    ("06.12.34.56.78", "[phone]"),
    ("0612345678", "[phone]"),
    ("0171 2345678", "[phone]"),
    ("089/1234567", "[phone]"),
    ("(089) 1234567", "[phone]"),
    ("(11) 91234-5678", "[phone]"),
    ("03-1234-5678", "[phone]"),
    ("138 1234 5678", "[phone]"),
    ("my phone number is 4155552671", "my phone number is [phone]"),
    ('{"phone_number": "4155552671"}', '{"phone_number": "[phone]"}'),
    ("call me back at 555-1234", "call me back at [phone]"),
    ("2024 415-555-2671", "2024 [phone]"),
    # payment cards
    ("4111 1111 1111 1111", "[card]"),
    ("4111-1111-1111-1111", "[card]"),
    ("4111111111111111", "[card]"),
    ("5500 0000 0000 0004 12/27 123", "[card] 12/27 123"),
    ("4111 1111 1111 1111 123", "[card] 123"),
    ("3782 822463 10005", "[card]"),
    ("3782 822463 10005 4111 1111 1111 1111", "[card] [card]"),
    ("2024 6011 1111 1111 1117", "2024 [card]"),
    ("30569309025904", "[card]"),
    ("2223003122003222", "[card]"),
    ("card number: 4111 1111 1111 1112", "card number: [card]"),
    # accounts
    ("IBAN DE89 3704 0044 0532 0130 00 BIC COBADEFF", "IBAN [iban] BIC COBADEFF"),
    ("GB82WEST12345698765432", "[iban]"),
    ("fr14 2004 1010 0505 0001 3m02 606", "[iban]"),
    ("account number 12345678", "account number [account]"),
    ("Acct #: 0012-3456-789", "Acct #: [account]"),
    ("sort code 12-34-56, account 12345678", "sort code [account], account [account]"),
    ("Kontonummer: 532013000", "Kontonummer: [account]"),
    ("SSN 536-90-4399", "SSN [ssn]"),
    ("social security number is 536904399", "social security number is [ssn]"),
    # keys
    ("AK" + "IAIOSFODNN7EXAMPLE", "[key]"),
    ("key=AI" + "zaSyD" + WORD[:33], "key=[key]"),
    ("gh" + f"p_{WORD}aB", "[key]"),
    ("github_" + f"pat_11ABCDEFG0_{WORD}", "[key]"),
    ("gl" + f"pat-{WORD[:20]}.", "[key]."),
    ("xo" + f"xb-123456789012-{WORD}", "[key]"),
    ("sk" + f"_live_{WORD[:24]}", "[key]"),
    ("wh" + f"sec_{WORD[:20]}+/{WORD[:8]}=", "[key]"),
    ("OPENAI: sk" + f"-proj-{WORD}_{WORD}", "OPENAI: [key]"),
    ("sk" + f"-ant-api03-{WORD}-{WORD}AA", "[key]"),
    ("hf" + f"_{WORD}", "[key]"),
    ("SG" + f".{WORD[:22]}.{WORD}", "[key]"),
    ("bot 123456789:A" + f"A{WORD[:33]}", "bot 123456789:[key]"),
    (f"see {PEM} there", "see [key] there"),
    (PEM.replace("\n", "\\n"), "[key]"),
    (PEM[: PEM.index(HEX)] + "…", "[key]\n…"),
    # tokens
    (f"token {JWT} expired", "token [token] expired"),
    (f"Authorization: Bearer {WORD}", "Authorization: Bearer [token]"),
    (f"curl -H 'Authorization: Bearer {JWT}'", "curl -H 'Authorization: Bearer [token]'"),
    ("Authorization: Basic QWxhZGRpbjpvcGVuU2VzYW1l", "Authorization: Basic [token]"),
    (f"{{'authorization': 'Token {HEX}'}}", "{'authorization': 'Token [token]'}"),
    ("https://hooks.slack.com/services/T00000000/B00000000/" + WORD[:24],
     "https://hooks.slack.com/services/[token]"),
    (f"?X-Amz-Signature={HEX}&X-Amz-Date=20240115", "?X-Amz-Signature=[token]&X-Amz-Date=20240115"),
    (f'{{"access_token": "{WORD}"}}', '{"access_token": "[token]"}'),
    # passwords and assignments
    ("postgres://app:s3cr3t!@db:5432/main", "postgres://[password]@db:5432/main"),
    (f"https://{WORD}@git.example/x.git", "https://[password]@git.example/x.git"),
    ("redis://:p4ss@cache:6379/0", "redis://[password]@cache:6379/0"),
    ("password=hunter2", "password=[password]"),
    ("DB_PASSWORD=swordfish", "DB_PASSWORD=[password]"),
    ("Server=db;Pwd=swordfish;Database=x", "Server=db;Pwd=[password];Database=x"),
    ("password: hunter2.", "password: [password]."),
    ("Passwort: geheim\nName: Jana", "Passwort: [password]\nName: Jana"),
    ('{"password": "correct horse battery"}', '{"password": "[password]"}'),
    ('{\\"password\\": \\"hunter2\\"}', '{\\"password\\": \\"[password]\\"}'),
    ("config['password'] = 'hunter2'", "config['password'] = '[password]'"),
    ("my password is Tr0ub4dor&3, help", "my password is [password], help"),
    ("the PIN is 4321", "the PIN is [password]"),
    ("PIN: 4321", "PIN: [password]"),
    (f"api_key: {HEX}", "api_key: [key]"),
    (f"aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/{WORD[:18]}", "aws_secret_access_key = [key]"),
    (f"AccountKey={WORD}==;EndpointSuffix=x", "AccountKey=[key];EndpointSuffix=x"),
    ("client_secret='swordfish1'", "client_secret='[key]'"),
    # other scripts and disguises
    ("jane＠example．com", "[email]"),
    ("jo\u200bhn@exam\u00adple.com", "[email]"),
    ("４１１１ １１１１ １１１１ １１１１", "[card]"),
    ("phone: ٠١٢٣٤٥٦٧٨٩", "phone: [phone]"),
    ("\u202a+49\xa0170\u20111234567\u202c", "\u202a[phone]\u202c"),
    ("4111\u200b1111\u200b1111\u200b1111", "[card]"),
]  # fmt: skip

STAYS = [
    "", "A plain sentence: nothing here.", "in 2019-2020, 2021/2022 and 1999 – 2004",
    "on 2024-01-15 10:23:45,123 and 15.01.2024 1530, 01/02/2024 12:30, 05 06 2023",
    "2024-01-15T10:23:45.123456+00:00", "unix 1700000000, 1700000000123, 1700000000-1700003600",
    "versions 2.10.3, 122.0.6261.128, react@18.2.0, numpy==1.26.4", "ISBN 978-3-16-148410-0",
    "ISBN-10: 0306406152, 0-306-40615-2", "0306406152",
    "ISSN 1234-5678, doi:10.1016/j.cell.2010.04.009",
    "order 4500001234, invoice 0612345678, ticket no. 07700900123",
    "tracking 9400111899223197428490",
    "123e4567-e89b-12d3-a456-426614174000 and 12345678-1234-1234-1234-123456789012",
    "host 192.168.100.123:8080, ubuntu@10.0.0.5, 2001:db8::8a2e:370:7334", "00:1B:44:11:3A:B7",
    "pi = 3.141592653589793, 0.4111111111111111, 6.02214076e+23, -5551234567",
    "1,234,567,890 users, +20 000 000 users, +15 000 000 people, +1.5%, 250 300 4000 5000",
    "$4155552671 or €415 555 2671", "pages 100-2000, 555-1234", "40.712776, -74.005974",
    "x = 1234567 + 7654321; f(4155552671)", "https://example.com/item/415-555-2671?id=4155552671",
    "(2019) 123 456", "Springfield, MA 02139-4307", "4111 1111 1111 1112", "1234 5678 9012 3456",
    "DE89370400440532013001", "AB12 some other words that follow it",
    'File "/app/main.py", line 1234, in <module>\n  raise ValueError("x")',
    "<object at 0x7f8b4c0d1e20>", f"sha256:{HEX}{HEX}", "commit 4c0d1e2f9f86d081884c7d65",
    "000-12-3456, 666-12-3456, 987-65-4321", "password: must contain eight letters",
    "The password is required. Password is case-sensitive; token is invalid.",
    "password = getpass()", "password=os.environ['X']", "connect(user=user, password=password)",
    "password: ${DB_PASSWORD}", "password=<your-password>", '"password": null', '"password": ""',
    "the password is SHA-256 hashed", "api_key = os.environ['KEY']", "api_key: YOUR_API_KEY",
    "max_tokens: 1024, pad_token: [PAD], eos_token='</s>'", '{"token": "the", "logprob": -0.1}',
    "the key: value pairs; primary_key=1234567890", "pin: 13", "secret: patience",
    "bearer certificates and basic understanding", "Authorization: required",
    "risk-based-assessment-2024-of-things", "sk-fading-circle-of-many-words-here",
    "class=sk-learn", "git@github.com:org/repo.git", "@user, a @ b, x@y", "https://x.com:443/@me",
    "http://localhost:8080/a@b", "-----BEGIN PUBLIC KEY-----", "a -----BEGIN PRIVATE KEY----- line",
    "日本語のテキスト 2024年1月15日", "👩\u200d💻 writes 12 tests",
    "[email] [phone] password: [password]",
]  # fmt: skip


ADVERSARIAL = [
    *(
        "a",
        "7",
        "1 ",
        "41 ",
        "01 ",
        ".",
        "@",
        "a@",
        "a.",
        "a@a.",
        "%40",
        "a%",
        "_",
        "-",
        "\0",
        "[]",
    ),
    *("+1", "(0", "+1 (2", "415 555 ", "4111 ", "4111 1111 1111 1112 ", "DE89", "DE89 3704 ", "1."),
    *("2024-01-15 ", "12345678-1234-", "0306406152 ", "phone 1234567 ", "phone: ", "+14155552671"),
    *(
        "ey" + "J",
        "ey" + "J.",
        "ey" + "J-",
        "ey" + "Jaaaaaaaaaaaaaaaa.",
        "sk-",
        "sk-aaaaaaaa ",
        ":AA",
    ),
    *("SG.aaaaaaaaaaaaaaaaaaaa.", "xoxb-", "glpat-", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----"),
    *("-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA\n", "://", "://a:", "://" + "a" * 250 + ":"),
    *("=", ":", "password=", "password: ", "password is ", "pin is ", 'password="', "token: "),
    *("bearer ", "bearer aaaaaaaa", "authorization: ", "hooks.slack.com/a/", "a@b.co ", "a@b.co1"),
    *("\u200b1", "１", "👩\u200d", "٣ ", "–"),
]

FRAGMENTS = st.one_of(
    st.sampled_from([text for text, _ in SECRETS] + STAYS + ADVERSARIAL),
    st.text(alphabet="aAeyJsk-_.@:=/+()[]\"' \n0123456789\u200b＠٣", max_size=12),
    st.sampled_from(["password", "token=", "[email]", "phone ", "account: ", " is ", "://", "\0"]),
)
ROWS = st.builds(lambda seed, times: seed * times, FRAGMENTS, st.integers(1, 12))
TEXTS = st.lists(ROWS, max_size=6).map("".join)


@pytest.mark.parametrize(("text", "expected"), SECRETS, ids=[text[:40] for text, _ in SECRETS])
def test_secrets_are_replaced(text, expected):
    assert redact_text(text) == expected


@pytest.mark.parametrize("text", STAYS, ids=[text[:40] for text in STAYS])
def test_ordinary_text_stays(text):
    assert redact_text(text) == text


@settings(deadline=None)
@given(TEXTS)
def test_redacting_twice_changes_nothing_more(text):
    once = redact_text(text)
    assert redact_text(once) == once


@pytest.mark.parametrize("times", [3, 10, 35, 60, 200])
def test_placeholders_that_bring_more_within_reach_leave_no_secret(times):
    secrets = "password: hunter2 and Authorization: Bearer eyJhbGciOi.J9eyJzdWIi.OiIxMjM0"
    once = redact_text(f'token: "{secrets * times}')
    assert "hunter2" not in once
    assert redact_text(once) == once


@settings(deadline=None)
@given(TEXTS)
def test_redaction_does_not_grow_a_text_beyond_its_placeholders(text):
    assert len(redact_text(text)) <= 2 * len(text)


@settings(deadline=None)
@given(st.sampled_from(SECRETS), st.sampled_from(STAYS), st.sampled_from(STAYS))
def test_secrets_are_found_on_any_line(secret, before, after):
    text, expected = secret
    assert redact_text(f"{before}\n{text}\n{after}") == f"{before}\n{expected}\n{after}"


# ---- whole records ----


def full_record(text):
    """A record with the text wherever a client can write freely."""
    return QueryRecord(
        query_id="q-1", timestamp=1.0, pipeline="docs", version="v1", trace_id="t-1", model="m",
        query=text, retrieval_query=text, answer=text, error=text,
        user_id=text, session_id=text, tags={"team": text},
        chunks=[Chunk("c-1", 0.9, text, text), Chunk("c-2", 0.1)], citations=["c-1"],
        relevant_ids=["c-2"], latency_ms=Latency(total=12.0), feedback=1.0,
    )  # fmt: skip


def test_keep_returns_the_record_itself():
    record = full_record("jane@example.com")
    assert apply(record, "keep") is record


def test_redact_rewrites_every_free_text_and_no_key():
    assert apply(full_record("ask jane@example.com"), "redact") == full_record("ask [email]")


def test_redact_returns_the_record_itself_when_it_holds_nothing():
    record = full_record("nothing here")
    assert apply(record, "redact") is record


def test_ids_are_keys_and_stay():
    record = QueryRecord(
        query_id="jane@example.com",
        chunks=[Chunk("bob@example.com")],
        citations=["bob@example.com"],
    )
    assert apply(record, "redact") is record


def test_drop_keeps_what_the_signals_count():
    expected = msgspec.structs.replace(
        full_record("[email]"),
        query=None,
        retrieval_query=None,
        answer=None,
        error=DROPPED,
        chunks=[Chunk("c-1", 0.9, None, "[email]"), Chunk("c-2", 0.1)],
    )
    assert apply(full_record("jane@example.com"), "drop") == expected


@pytest.mark.parametrize("chunks", [None, []])
def test_drop_invents_nothing(chunks):
    record = QueryRecord(query_id="q-1", query="x", chunks=chunks)
    assert apply(record, "drop") == QueryRecord(query_id="q-1", chunks=chunks)


@pytest.mark.parametrize(
    ("policy", "comment", "expected"),
    [
        ("keep", "mail jane@example.com", "mail jane@example.com"),
        ("redact", "mail jane@example.com", "mail [email]"),
        ("redact", None, None),
        ("drop", "thanks", None),
    ],
)
def test_feedback(policy, comment, expected):
    feedback = Feedback(query_id="q-1", rating=-1.0, comment=comment, timestamp=5.0)
    got = apply(feedback, policy)
    assert got == Feedback(query_id="q-1", rating=-1.0, comment=expected, timestamp=5.0)
    assert (got is feedback) == (comment == expected)


def test_a_redacted_comment_still_fits_its_field():
    feedback = Feedback(query_id="q", rating=1.0, comment="a@b.co " * (MAX_FEEDBACK_TEXT // 7))
    redacted = apply(feedback, "redact")
    assert msgspec.json.decode(msgspec.json.encode(redacted), type=Feedback) == redacted


@pytest.mark.parametrize("policy", ["redact", "drop"])
def test_labellers_lose_their_address_and_stay_apart(policy):
    anna, bob = (
        apply(Label(query_id="q-1", labeller=name, faithful=1.0), policy).labeller
        for name in ("anna@example.com", "bob@example.com")
    )
    assert anna.startswith("[email]")
    assert bob.startswith("[email]")
    assert anna != bob  # or the second's label would replace the first's


@pytest.mark.parametrize(
    ("policy", "labeller"), [("keep", "anna@example.com"), ("redact", "human"), ("drop", "team-7")]
)
def test_other_labels_stay_as_they_are(policy, labeller):
    label = Label(query_id="q-1", labeller=labeller, relevant_ids=["c-1"])
    assert apply(label, policy) is label


def test_a_redacted_labeller_still_fits_its_field():
    label = Label(query_id="q-1", labeller="a@b.co " * (MAX_ID // 7), faithful=0.5)
    redacted = apply(label, "redact")
    assert msgspec.json.decode(msgspec.json.encode(redacted), type=Label) == redacted


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_a_record_is_redacted_as_its_texts_are(one, two, three):
    record = QueryRecord(query=one, answer=two, chunks=[Chunk("c", text=three), Chunk("d")])
    assert apply(record, "redact") == QueryRecord(
        query=redact_text(one),
        answer=redact_text(two),
        chunks=[Chunk("c", text=redact_text(three)), Chunk("d")],
    )


# ---- linear time ----


def unbounded_repeats(parsed):
    """The kinds of every repeat without an upper bound in a parsed pattern, at any depth."""
    for item in parsed:
        if isinstance(item, tuple) and repr(item[0]).endswith("_REPEAT"):
            if item[1][1] == re._parser.MAXREPEAT:
                yield repr(item[0])
            yield from unbounded_repeats(item[1][2])
        elif isinstance(item, (list, tuple, re._parser.SubPattern)):
            yield from unbounded_repeats(item)


def test_no_pattern_can_backtrack_without_bound():
    patterns = [
        value
        for module in (credentials, personal)
        for value in vars(module).values()
        if isinstance(value, re.Pattern)
    ]
    assert len(patterns) > 20
    kinds = {
        pattern.pattern: set(unbounded_repeats(re._parser.parse(pattern.pattern)))
        for pattern in patterns
    }
    assert any(kinds.values())
    assert {text: found for text, found in kinds.items() if found - {"POSSESSIVE_REPEAT"}} == {}
    assert set(unbounded_repeats(re._parser.parse("(a+)+b"))) == {"MAX_REPEAT"}


def seconds(text, runs):
    best = float("inf")
    for _ in range(runs):
        start = time.process_time()
        redact_text(text)
        best = min(best, time.process_time() - start)
    return best


def repeated(seed, size):
    return (seed * (size // len(seed) + 1))[:size]


@pytest.mark.parametrize("before", ["token: ", 'token: "', "api_key=", "password is "])
def test_of_a_long_secret_nothing_stays(before):
    secret = "aB3" + "xY7z" * 150
    once = redact_text(f"{before}{secret}, and so on")
    assert "xY7z" not in once
    assert once.endswith(", and so on")
    assert redact_text(once) == once


@pytest.mark.parametrize("seed", ADVERSARIAL, ids=[seed[:24] for seed in ADVERSARIAL])
def test_time_is_linear(seed):
    """Eight times the text takes about eight times as long; quadratic would be sixty-four."""
    short = max(seconds(repeated(seed, 5_000), runs=3), 2e-4)
    assert seconds(repeated(seed, 40_000), runs=2) < 24 * short


def test_a_megabyte_of_everything_takes_linear_time():
    seed = " ".join([*(text for text, _ in SECRETS), *STAYS, *ADVERSARIAL])
    short = seconds(repeated(seed, 125_000), runs=2)
    assert seconds(repeated(seed, 1_000_000), runs=1) < 24 * short
