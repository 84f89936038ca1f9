"""Sentences with and without personal data, by a seed: many formats, countries and vendors.

They are made when they are needed, not kept in a file, so that secret scanners find nothing.
Numbers and names are drawn at random and belong to nobody on purpose.
"""

import random
import string
from collections.abc import Iterator
from typing import NamedTuple

ALPHANUMERIC = string.ascii_letters + string.digits


class Sample(NamedTuple):
    kind: str  # the placeholder that should replace ``value``; "" where all should stay
    form: str  # country, vendor or shape
    text: str
    value: str


PHONES = {  # formats as people of the country write them; # is any digit, N is 2 to 9
    "US": ["(N##) N##-####", "N##-N##-####", "+1 N## N## ####", "+1-N##-N##-####", "1-N##-N##-####",
           "N##.N##.####", "+1N##N######"],
    "GB": ["020 7### ####", "07### ######", "+44 20 7### ####", "+44 7### ######", "0161 4## ####",
           "+447#########", "(0117) 9## ####"],
    "DE": ["030 N######", "0171 N######", "+49 30 N######", "+49 171 N######", "0049 171 N######",
           "089/N######", "+49 (0)89 N######"],
    "FR": ["06 ## ## ## ##", "01.##.##.##.##", "+33 6 ## ## ## ##", "06########", "+336########"],
    "ES": ["+34 6## ## ## ##", "+34 6## ### ###", "+346########"],
    "IT": ["+39 3## ### ####", "+39 06 N### ####", "+393#########"],
    "NL": ["06-########", "+31 6 ########", "020 N## ####", "+316########"],
    "PL": ["+48 6## ### ###", "+486########"],
    "SE": ["070-N## ## ##", "+46 70 N## ## ##", "+4670N######"],
    "IN": ["+91 98### #####", "+91-98########", "+9198########"],
    "JP": ["03-N###-####", "090-N###-####", "+81 90-N###-####"],
    "CN": ["138 #### ####", "+86 138 #### ####", "+86138########"],
    "BR": ["(11) 9N###-####", "+55 11 9N###-####", "+55119N#######"],
    "AU": ["04## ### ###", "(02) 9### ####", "+61 4## ### ###", "+614########"],
    "CH": ["079 N## ## ##", "+41 79 N## ## ##"],
    "KR": ["010-N###-####", "+82 10-N###-####"],
}  # fmt: skip
IBANS = {
    "DE": "################## ", "GB": "WEST##############", "FR": "####################A##",
    "ES": "####################", "IT": "X######################", "NL": "ABNA##########",
    "BE": "############", "AT": "################", "CH": "#################", "PL": "#" * 24,
    "SE": "#" * 20, "PT": "#" * 21, "IE": "AIBK##############", "NO": "#" * 11,
}  # fmt: skip
CARDS = {"visa": ("4", 16), "mastercard": ("53", 16), "mastercard-2": ("2233", 16),
         "amex": ("37", 15), "discover": ("6011", 16), "jcb": ("3530", 16), "diners": ("36", 14),
         "unionpay": ("6214", 16)}  # fmt: skip
KEYS = {  # prefix, characters that follow
    "aws": ("AKIA", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16),
    "google": ("AIza", ALPHANUMERIC + "-_", 35),
    "github": ("ghp_", ALPHANUMERIC, 36),
    "github-app": ("ghs_", ALPHANUMERIC, 36),
    "gitlab": ("glpat-", ALPHANUMERIC + "-_", 20),
    "slack": ("xoxb-", string.digits, 12),
    "stripe": ("sk_live_", ALPHANUMERIC, 24),
    "openai": ("sk-proj-", ALPHANUMERIC, 48),
    "anthropic": ("sk-ant-api03-", ALPHANUMERIC + "-_", 80),
    "huggingface": ("hf_", ALPHANUMERIC, 34),
    "npm": ("npm_", ALPHANUMERIC, 36),
    "pypi": ("pypi-", ALPHANUMERIC, 60),
    "vault": ("hvs.", ALPHANUMERIC, 24),
    "databricks": ("dapi", "0123456789abcdef", 32),
    "digitalocean": ("dop_v1_", "0123456789abcdef", 64),
    "sendgrid": ("SG.", ALPHANUMERIC, 22),
    "shopify": ("shpat_", "0123456789abcdef", 32),
    "grafana": ("glsa_", ALPHANUMERIC, 32),
    "twilio": ("SK", "0123456789abcdef", 32),
    "telegram": ("", string.digits, 9),
    "linear": ("lin_api_", ALPHANUMERIC, 40),
    "notion": ("ntn_", ALPHANUMERIC, 43),
    "replicate": ("r8_", ALPHANUMERIC, 37),
    "groq": ("gsk_", ALPHANUMERIC, 52),
    "xai": ("xai-", ALPHANUMERIC, 80),
    "perplexity": ("pplx-", ALPHANUMERIC, 48),
    "azure": ("AccountKey=", ALPHANUMERIC + "+/", 86),
    "cohere-named": ("COHERE_API_KEY=", ALPHANUMERIC, 40),
}
_AROUND = {
    "email": ["my address is {}", "{}", "Send it to {}, please.", "<{}> wrote:", '{{"to": "{}"}}',
              "contact:{};", "Wie erreiche ich {}?", "schick es an {} bitte", "écrivez à {}."],
    "phone": ["{}", "call {} today", "Meine Nummer ist {}.", "my number: {}", "{} is my mobile",
              "tel. {}", "I am at {}, thanks", '{{"phone": "{}"}}', "mon numéro : {}"],
    "card": ["{}", "my card is {}", "Karte {} 12/27", "pay with {} please", '{{"pan":"{}"}}'],
    "iban": ["{}", "IBAN {}", "transfer to {} today", "Konto: {}", '{{"iban":"{}"}}'],
    "key": ["{}", "I use {} as key", "export KEY={}", '"api_key": "{}"', "why does {} not work?"],
    "token": ["{}", "Authorization: Bearer {}", "my token {} expired", '{{"access_token": "{}"}}'],
    "password": ["password={}", "Passwort: {}", "DB_PASSWORD='{}'", '"password": "{}"',
                 "my password is {}", "pwd={};"],
    "ssn": ["SSN {}", "{}", "my social security number is {}", "ssn: {}."],
}  # fmt: skip
_NAMES = [
    "jane",
    "j.doe",
    "anna-lena",
    "max_m",
    "li.wei",
    "sören",
    "o.nguyen+rag",
    "m.garcía",
    "k9",
]
_DOMAINS = ["example.com", "mail.example.co.uk", "uni-köln.example", "corp.example.org", "ex-a.io",
            "x.museum", "sub.dept.example.edu"]  # fmt: skip


def samples(seed: int = 13, each: int = 8) -> list[Sample]:
    """All of them, the same for a seed.

    Args:
        seed: of the draws.
        each: number of samples of one form.
    """
    chance = random.Random(seed)
    return [sample for _ in range(each) for sample in (*_positive(chance), *negative(chance))]


def _positive(chance: random.Random) -> Iterator[Sample]:
    for domain in _DOMAINS:
        yield _sample(chance, "email", domain, f"{chance.choice(_NAMES)}@{domain}")
    for country, formats in PHONES.items():
        for form in formats:
            yield _sample(chance, "phone", country, _filled(chance, form))
    for brand, (prefix, size) in CARDS.items():
        yield _sample(chance, "card", brand, _card(chance, prefix, size))
    for country, shape in IBANS.items():
        yield _sample(chance, "iban", country, _iban(chance, country, shape.strip()))
    for vendor in KEYS:
        yield _sample(chance, "key", vendor, _key(chance, vendor))
    yield _sample(chance, "token", "jwt", _jwt(chance))
    yield _sample(chance, "token", "jwt", _jwt(chance))
    for size in (8, 12, 20):
        word = "".join(chance.choice(ALPHANUMERIC + "!%-_") for _ in range(size - 2))
        yield _sample(chance, "password", f"{size} characters", f"x{word}7")
    area = chance.choice([chance.randint(1, 665), chance.randint(667, 899)])
    ssn = f"{area:03d}-{chance.randint(1, 99):02d}-{chance.randint(1, 9999):04d}"
    yield _sample(chance, "ssn", "US", ssn)


def negative(chance: random.Random) -> Iterator[Sample]:
    """Sentences in which everything should stay."""
    d = chance.randint
    digits = lambda n: "".join(str(d(0, 9)) for _ in range(n))  # noqa: E731
    hexa = lambda n: "".join(chance.choice("0123456789abcdef") for _ in range(n))  # noqa: E731
    year, month, day = d(1990, 2030), d(1, 12), d(1, 28)
    isbn = "978" + digits(9)
    isbn += str(-sum(int(c) * (1, 3)[i % 2] for i, c in enumerate(isbn)) % 10)
    texts = {
        "order number": f"Where is order {digits(10)}?",
        "long order number": f"order #{digits(3)}-{digits(7)}-{digits(7)} is late",
        "invoice": f"Rechnung {year}-{digits(5)} vom {day:02d}.{month:02d}.{year}",
        "ticket": f"ticket INC{digits(7)} and JIRA-{d(100, 99999)}",
        "version": f"from {d(1, 20)}.{d(0, 40)}.{d(0, 99)} to v{d(1, 9)}.{d(0, 20)}.0-rc{d(1, 9)}",
        "date": f"between {year}-{month:02d}-{day:02d} and {day:02d}/{month:02d}/{year}",
        "time": f"at {year}-{month:02d}-{day:02d}T{d(0, 23):02d}:{d(0, 59):02d}:{d(0, 59):02d}Z",
        "unix time": f"it happened at {d(1_600_000_000, 1_800_000_000)}",
        "milliseconds": f"\"timestamp\": {d(1_600_000_000_000, 1_800_000_000_000)}",
        "isbn": f"ISBN {isbn[:3]}-{isbn[3]}-{isbn[4:7]}-{isbn[7:12]}-{isbn[12]}",
        "isbn bare": f"ISBN {isbn}",
        "ipv4": f"the host {d(1, 223)}.{d(0, 255)}.{d(0, 255)}.{d(1, 254)} is down",
        "ipv6": f"ping 2001:db8:{hexa(4)}:{hexa(4)}::{d(1, 99)}",
        "uuid": f"id {hexa(8)}-{hexa(4)}-4{hexa(3)}-a{hexa(3)}-{hexa(12)}",
        "sha1": f"commit {hexa(40)}",
        "md5": f"md5 {hexa(32)}",
        "cas": f"CAS {d(50, 99999)}-{d(10, 99)}-{d(0, 9)} is caffeine",
        "chemical": f"{d(1, 5)},{d(2, 9)}-dimethyl-{d(2, 4)}-(methylamino)butane",
        "money": f"revenue rose to ${d(1, 999)},{digits(3)},{digits(3)}.{digits(2)} in Q{d(1, 4)}",
        "thousands": f"{d(1, 99)} {digits(3)} {digits(3)} inhabitants",
        "coordinates": f"{d(0, 89)}.{digits(6)}, -{d(0, 179)}.{digits(6)}",
        "scores": f"scores 0.{digits(8)} 0.{digits(8)} and {d(1, 9)}.{digits(5)}e-{d(2, 9)}",
        "code": f"x = np.zeros(({d(1, 99)}, {d(100, 999)})); y[{d(0, 9)}:{d(10, 99)}] = {d(1, 9)}",
        "decorator": "use @pytest.mark.parametrize and @app.route('/users') there",
        "git": "git clone git@github.com:owner/name.git",
        "handle": "ask @maria on the channel #rag-help",
        "token count": f"prompt tokens: {d(100, 9999)}, completion tokens={d(10, 999)}",
        "key words": "the primary key and the foreign key of a token bucket",
        "password words": "How do I reset my password? The password field is empty.",
        "bearer words": "the bearer of this letter; bearer certificates are rare",
        "phone word": "my phone is broken since version 14.2",
        "section": f"see section {d(1, 9)}.{d(1, 9)}.{d(1, 9)} and table {d(1, 40)}-{d(1, 9)}",
        "part number": f"part {d(100, 999)}-{digits(5)}-{digits(2)} fits model X{digits(3)}",
        "tracking": f"tracking 1Z{digits(3)}AA{digits(10)}",
        "range": f"pages {d(100, 400)}-{d(401, 900)}, {d(1900, 1950)}-{d(1951, 2020)}",
        "zip": f"Springfield, IL {digits(5)}-{digits(4)}",
        "dimensions": f"{d(10, 99)} x {d(10, 99)} x {d(10, 99)} mm, {d(100, 999)} g",
        "placeholder": "set OPENAI_API_KEY=<your key> and password: ${DB_PASSWORD}",
        "env": "api_key = os.environ['API_KEY']; token=get_token()",
        "doi": f"doi:10.{d(1000, 9999)}/j.cell.{year}.{month:02d}.{digits(3)}",
        "arxiv": f"arXiv:{d(10, 26):02d}{month:02d}.{digits(5)}v{d(1, 4)}",
        "log line": f"[{d(1000, 99999)}] INFO 200 GET /v1/items/{d(1, 10**7)} {d(1, 999)}ms",
    }  # fmt: skip
    for form, text in texts.items():
        yield Sample("", form, text, "")


def _sample(chance: random.Random, kind: str, form: str, value: str) -> Sample:
    return Sample(kind, form, chance.choice(_AROUND[kind]).format(value), value)


def _filled(chance: random.Random, form: str) -> str:
    return "".join(
        str(chance.randint(0, 9)) if c == "#" else str(chance.randint(2, 9)) if c == "N" else c
        for c in form
    )


def _card(chance: random.Random, prefix: str, size: int) -> str:
    body = prefix + "".join(str(chance.randint(0, 9)) for _ in range(size - 1 - len(prefix)))
    total = 0
    for place, digit in enumerate(reversed(body)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    card = body + str(-total % 10)
    separator = chance.choice(["", " ", "-"])
    if size == 15:
        return separator.join((card[:4], card[4:10], card[10:]))
    return separator.join(card[at : at + 4] for at in range(0, size, 4))


def _iban(chance: random.Random, country: str, shape: str) -> str:
    body = "".join(str(chance.randint(0, 9)) if c == "#" else c for c in shape)
    number = "".join(str(int(c, 36)) for c in body + country + "00")
    iban = f"{country}{98 - int(number) % 97:02d}{body}"
    if chance.random() < 0.5:
        return iban
    return " ".join(iban[at : at + 4] for at in range(0, len(iban), 4))


def _key(chance: random.Random, vendor: str) -> str:
    prefix, characters, size = KEYS[vendor]
    body = "".join(chance.choice(characters) for _ in range(size - 1))
    more = {"slack": "-" + _word(chance, 24), "sendgrid": "." + _word(chance, 43),
            "telegram": ":AA" + _word(chance, 33), "azure": "=="}  # fmt: skip
    digit = next((c for c in characters if c.isdigit()), "2")
    return prefix + body + digit + more.get(vendor, "")


def _jwt(chance: random.Random) -> str:
    return f"eyJ{_word(chance, 20)}.eyJ{_word(chance, 60)}.{_word(chance, 43)}"


def _word(chance: random.Random, size: int) -> str:
    return "".join(chance.choice(ALPHANUMERIC) for _ in range(size))
