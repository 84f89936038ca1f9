"""Credentials: keys, tokens and passwords, by their own shape or by the name beside them."""

import re

from ragmon.privacy.search import EDGE, RedactionRule, Span, named

_PEM = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]++|-(?!----))*+-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\s|\\[nr])++[A-Za-z0-9+/=]{16,}+)++)"  # cut short by a log or a chunk
)
_URL_USER = re.compile(r"://([^\s/:@?#\"'<>\[\]]{0,256}+:[^\s/@\"'<>\[\]]{1,256}+|[\w-]{20,256}+)@")
_WEBHOOK = re.compile(
    r"(?:hooks\.slack\.com/[a-z]{1,20}|discord(?:app)?\.com/api/webhooks)/([\w/-]{16,}+)"
)
# A scheme and a word are prose ("bearer certificates"): a credential mixes digits or cases.
_CREDENTIAL = r"((?=[A-Za-z._~+/-]{0,64}(?:[0-9=]|(?<=[a-z])[A-Z]))[A-Za-z0-9._~+/-]{8,}+={0,2})"
_BEARER = re.compile(rf"[Bb](?i:earer)[ \t]{{1,4}}{_CREDENTIAL}")
_AUTHORIZATION = re.compile(
    rf"[Aa](?i:uthorization)\\?[\"']?[ \t]{{0,3}}[:=][ \t]{{0,3}}\\?[\"']?"
    rf"(?:[A-Za-z]{{3,12}}[ \t]{{1,4}})?{_CREDENTIAL}"
)
_BASE64 = re.compile(r"(?:whsec_|xox[a-z]-)[\w%+/=.-]{10,}+")  # Stripe, Slack
_WORD = re.compile(r"[A-Za-z0-9_.-]{16,}+")  # too long for prose: may hold a key
_KEY = re.compile(
    r"(?<![A-Za-z0-9\]])(?:(?P<token>(?<![\w-])eyJ[\w-]{10,}+\.[\w-]{10,}+)"  # JWT
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9])"  # AWS
    r"|(?:AIza|GOCSPX-|ya29\.)[\w-]{20}"  # Google
    r"|(?:gh[opusr]_|github_pat_)\w{22}"
    r"|gl(?:pat|dt|rt|cbt|ptt|ft|imt|oas|soat|agent|ffct)-[\w.-]{20}"  # GitLab
    r"|SK[0-9a-f]{32}(?![A-Za-z0-9])"  # Twilio
    r"|xapp-[\w-]{20}|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10}"  # Slack, Stripe
    r"|[sp]k-(?=[A-Za-z_-]{0,64}[0-9])[\w-]{20}"  # OpenAI, Anthropic, Langfuse and more
    r"|(?:hf|gsk|r8|npm|lsv2|lin_api|ntn|dop_v1|shpat|glsa|glc|sntrys)_"
    r"(?=[A-Za-z_]{0,64}[0-9])\w{20}"
    r"|(?:hv[sb]\.|pypi-|xai-|pplx-|dapi)(?=[A-Za-z_-]{0,64}[0-9])[\w-]{24}"
    r"|SG\.[\w-]{16,}+\.[\w-]{16}|AGE-SECRET-KEY-1[A-Z0-9]{50}|AA[\w-]{33}\Z(?<=:.{35}))"
)


def _key(match: re.Match[str]) -> Span | None:
    """A known key to the end of its word, whatever its kind allows to follow."""
    key = _KEY.search(match.string, *match.span())
    placeholder = f"[{key.lastgroup or 'key'}]" if key else ""
    return (key.start(), match.start() + len(match[0].rstrip(".-")), placeholder) if key else None


# ---- secrets that are named beside them ----------------------------------------------------

# The sign comes first, because signs are rarer in prose than "key" and "token" are.
_ASSIGNED = re.compile(
    r"[:=](?<![:=][:=])[:=>]{0,2}(?=(?P<gap>[ \t]{0,3})\\?(?:\"([^\"\n]{3,256})|'([^'\n]{3,256})"
    r"|`([^`\n]{3,256})|(?P<bare>[^\s\"'`&;,<>\[\]{}|\\]{3,128}+)))"
)
_MOST_BARE, _MOST_QUOTED = 128, 256  # characters that the pattern looks at
_REST = re.compile(r"[^\s\"'`&;,<>\[\]{}|\\]*+")  # of a secret that is longer
_CLOSING = " \t\"'`]\\"
_NAMES = (
    *("word", "wd", "phrase", "code", "wort", "number"),
    *("pin", "token", "key", "secret", "sig", "signature"),
)
_ASSIGNEE = re.compile(
    r"(?i)(?<!\[)(?:(?P<password>passw(?:or)?d|passphrase|passcode|passwort|kennwort|pwd)"
    rf"|{EDGE}(?P<pin>pin(?:[ _-]?(?:code|number))?)|(?P<token>token|[?&]sig|signature)"
    r"|(?P<key>(?:api|access|secret|private|encryption|signing|storage|account|master|auth)"
    r"[ _-]?key|secret))\\?[\"'`]?\]?[ \t]{0,3}\Z"
)
_SPELLED_OUT = re.compile(
    rf"(?i:password|passcode|passphrase|{EDGE}(?P<pin>pin(?: code| number)?)) (?:is|was)[: ]{{1,2}}"
    r"(?=[\"'`]?(?P<value>[^\s\"'`<>\[\]]{4,128}+))"
)
_UNSET = re.compile(  # templates, types and code that fetches the secret from elsewhere
    r"(?i)\A(?:[$<{%*\[]|your|(?:none|null|true|false|str|string|required|optional|undefined|x++)\Z"
    r"|os\.|process\.|env|get|settings|config|self\.|[a-z_][\w.]*+\((?:[\w.]*+\))?\Z"
    r"|sha|md5|base|utf|aes|oauth)"
)
_WORDS = re.compile(r"\A[A-Za-z_.'/-]++\Z")
_STRONG = re.compile(r"(?=.{0,128}[0-9]).{0,128}[A-Za-z]")


def _assigned(match: re.Match[str]) -> Span | None:
    text, start = match.string, match.start()
    before = text[max(0, start - 32) : start]
    if not before.rstrip(_CLOSING).lower().endswith(_NAMES):  # fast, and nearly always so
        return None
    name = _ASSIGNEE.search(before)
    if not name:
        return None
    first, last = match.span(match.lastindex or 0)
    value = text[first:last].rstrip("\\" if match["bare"] is None else ".:)")
    if not _is_secret(name.lastgroup or "", value, match, after=text[last : last + 1]):
        return None
    placeholder = "[password]" if name["pin"] else f"[{name.lastgroup}]"
    most = _MOST_QUOTED if match["bare"] is None else _MOST_BARE
    return first, _end(text, first, first + len(value), most), placeholder


def _is_secret(kind: str, value: str, match: re.Match[str], *, after: str) -> bool:
    """True if the value looks like a secret, by its kind and the way it is set."""
    if kind == "pin":
        return value.isdigit() and 4 <= len(value) <= 8
    strong = bool(_STRONG.match(value))
    if kind == "token":  # also what a language model reads and writes
        return strong and len(value) >= 12
    if _UNSET.match(value) or (kind == "key" and len(value) < 8):
        return False
    if match["bare"] is None:
        return True
    if match["gap"] or match[0][0] == ":":  # a plain word here is more likely prose than a secret
        return strong if kind == "key" else after in ("", "\n", "\r") or not _WORDS.match(value)
    is_code = match["bare"].endswith(")") or after in ("[", ",")
    return not (is_code and _WORDS.match(value))


def _spelled_out(match: re.Match[str]) -> Span | None:
    start, value = match.start("value"), match["value"].rstrip(".,;:!?)")
    if match["pin"]:
        secret = value.isdigit() and len(value) <= 8
    else:
        secret = bool(_STRONG.match(value)) and not _UNSET.match(value)
    end = _end(match.string, start, start + len(value), _MOST_BARE)
    return (start, end, "[password]") if secret else None


def _end(text: str, start: int, end: int, most: int) -> int:
    """The end of a secret: where the pattern stopped looking it may go on."""
    rest = _REST.match(text, end) if end - start >= most else None
    return rest.end() if rest else end


RULES = (
    RedactionRule(("private key",), _PEM, named("[key]")),
    RedactionRule(("://",), _URL_USER, named("[password]")),
    RedactionRule(("hooks",), _WEBHOOK, named("[token]")),
    RedactionRule(("whsec_", "xox"), _BASE64, named("[key]")),
    RedactionRule((), _WORD, _key),
    RedactionRule(("bearer",), _BEARER, named("[token]")),
    RedactionRule(("authorization",), _AUTHORIZATION, named("[token]")),
    RedactionRule((":", "="), _ASSIGNED, _assigned),
    RedactionRule(("password ", "passcode ", "passphrase ", "pin "), _SPELLED_OUT, _spelled_out),
)
