"""Personal data: e-mail addresses, and the numbers that lead to a person or to money."""

import re

from ragmon.privacy.search import EDGE, RedactionRule, Span

_EMAIL = re.compile(
    r"[@%](?:(?<=@)|40)(?=(?P<domain>(?:[\w-]{1,63}+\.){1,8}(?:xn--[\w-]{2,59}|[^\W\d_]{2,24})\w*+))"
)
_LOCAL_PART = re.compile(r"\w[\w.+%-]{0,63}+\Z")
_IBAN = re.compile(
    r"[0-9][0-9](?<=[A-Za-z]{2}[0-9]{2})(?<![A-Za-z0-9].{4})"
    r"(?=(?P<rest>(?:[ -]?[A-Za-z0-9]){11,30}))"
)
_IBAN_LENGTHS = {
    country: int(length)
    for country, length in re.findall(
        "([A-Z]{2})([0-9]{2})",
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 "
        "DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 "
        "IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 "
        "MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 SC31 "
        "SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30",
    )
}
# Where a number of six digits or more may start. The character class stands first because the
# regular expression engine searches quickly for nothing else; what precedes is looked at after.
_NUMBER = re.compile(
    r"[+(0-9](?<![\w@$€£+\]][+(0-9])(?<!\w-[+(0-9])(?<![0-9]\.[0-9])(?<![a-z./]/[+(0-9])"
    r"(?=(?:[ ./()+-]{0,3}[0-9]){5})"
)
_LEAVE = re.compile(
    r"(?:19|20)[0-9]{2}(?: ?- ?|[./])(?:(?:19|20)[0-9]{2}(?![0-9])|[01]?[0-9][-./])"  # years, dates
    r"|[0-3]?[0-9]([-/. ])[0-3]?[0-9]\1(?:19|20)[0-9]{2}(?![0-9])"
    r"|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?!\.?[0-9])"  # IPv4
    r"|[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-|0[0-9]{4}-[0-9]{4}(?![0-9])"  # UUID, ZIP+4
)
_CARD = re.compile(r"[2-6][0-9]{3}(?:[ -]{0,2}[0-9]){8,15}")
_BRANDS = re.compile(
    r"4(?:[0-9]{15}|[0-9]{18})|(?:5[1-5]|2[3-6])[0-9]{14}|3[47][0-9]{13}"
    r"|(?:222[1-9]|22[3-9][0-9]|27[01][0-9]|2720)[0-9]{12}|35[0-9]{14}"
    r"|3(?:0[0-5]|[689][0-9])[0-9]{11}|(?:50|5[6-9]|6[0-9])[0-9]{14,17}"
)
_SSN = re.compile(r"[0-9]{3}(?<!000)(?<!666)(?<!9..)-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?!\w|-[0-9])")
_SEP = r"(?:[ .-]| ?/ ?|\)[ -]?| ?\()?"
_NO_MORE = r"(?!\w|\.[0-9]|[:-][0-9\[])"
_INTERNATIONAL = re.compile(rf"\(?(?:\+|00)\(?(?P<number>[1-9](?:{_SEP}[0-9]){{7,14}})")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?: [0-9]{3}){1,4}")
_NATIONAL = re.compile(
    r"(?:(?:1[ .-])?\(?[2-9][0-9]{2}\)[ .-]?[0-9]{3}[ .-]?[0-9]{4}"  # (415) 555-2671
    r"|(?:1[ .-])?[2-9][0-9]{2}(?P<a>[.-])[0-9]{3}(?P=a)[0-9]{4}"
    r"|(?:1 )?[2-9][0-9]{2} [0-9]{3}-[0-9]{4}"
    r"|(?:1 )?(?<![0-9] )[2-9][0-9]{2} [0-9]{3} [0-9]{4}(?! [0-9])"
    r"|1[3-9][0-9](?P<b>[ -])[0-9]{4}(?P=b)[0-9]{4}"  # China
    r"|\((?!19|20[0-9]{2})[0-9]{2,5}\) ?[0-9]{3,5}[ -]?[0-9]{3,5}"  # (11) 91234-5678
    # 06 12 34 56 78, unless it is a part of a longer row
    r"|(?<![0-9][ .-])0[1-9](?P<c>[ .-])[0-9]{2}(?:(?P=c)[0-9]{2}){3}(?!(?P=c)[0-9])"
    r"|0[1-9][0-9]{1,3}(?:[ -]| ?/ ?)[0-9]{3,4}[ -]?[0-9]{2,4}(?:[ -]?[0-9]{2})?"
    r"|0[1-9][ -][0-9]{4}[ -][0-9]{4}"  # 03-1234-5678
    r"|06-[0-9]{8}"  # the Netherlands
    r"|(?P<bare>0(?:7[0-9]{9}|[67][0-9]{8}|1[567][0-9]{8,9})))"  # mobile, without separators
    rf"(?: ?(?:x|ext\.?) ?[0-9]{{1,6}})?{_NO_MORE}"
)
_REFERENCE = re.compile(
    rf"(?i)(?:isbn|order|invoice|ticket|case|ref|reference|sku|ean|tracking|article|{EDGE}id)"
    r"(?:[ _-]?(?:number|no|nr|id)\.?)?[ \t:.#=\"']{0,4}\Z"
)
_RUN = re.compile(rf"\(?\+?[0-9](?:{_SEP}[0-9]){{5,23}}{_NO_MORE}")
_CONTEXT = re.compile(
    r"(?i)(?<!\[)(?:(?P<ssn>ssn|social[ _-]security)|(?P<card>credit_?card|kreditkarte)"
    r"|(?P<account>account|konto|routing|sort[ _-]?code)|(?P<phone>phone|telefon|whatsapp|reach me)"
    rf"|{EDGE}(?:(?P<card_>card)|(?P<account_>acct|a/c|bsb)"
    r"|(?P<phone_>tel|mobile?|fax|cell|sms|call|dial)))"
    r"(?:[ \t:.#=\"'()_-]|(?:number|nummer|num|no|nr|is|at|on|me|us|back|home|work|office|line)"
    r"(?![a-z])){0,10}\Z"
)
_SIZES = {"ssn": (9, 9), "card": (12, 19), "account": (6, 20), "phone": (7, 15)}  # digits


def _email(match: re.Match[str]) -> Span | None:
    text, at = match.string, match.start()
    local = _LOCAL_PART.search(text, max(0, at - 64), at)
    if not local or local[0] == "git":  # git@github.com:owner/name
        return None
    return local.start(), match.end("domain"), "[email]"


def _iban(match: re.Match[str]) -> Span | None:
    text, start = match.string, match.start() - 2
    size = _IBAN_LENGTHS.get(text[start : start + 2].upper(), 99)
    end = _after(text, start, match.end("rest"), size)
    if end is None:
        return None
    compact = "".join(filter(str.isalnum, text[start:end])).upper()
    number = "".join(str(int(char, 36)) for char in compact[4:] + compact[:4])
    return (start, end, "[iban]") if int(number) % 97 == 1 else None


def _after(text: str, start: int, stop: int, count: int) -> int | None:
    """The end of the count-th letter or digit, None where fewer are left or more follow."""
    for position in range(start, stop):
        count -= text[position].isalnum()
        if not count:
            end = position + 1
            return None if text[end : end + 1].isalnum() else end
    return None


def _number(match: re.Match[str]) -> Span | None:
    text, start = match.string, match.start()
    end = _card_end(text, start)
    if end:
        return start, end, "[card]"
    if _LEAVE.match(text, start):
        return None
    ssn = _SSN.match(text, start)
    if ssn:
        return start, ssn.end(), "[ssn]"
    end = _international_end(text, start) or _national_end(text, start)
    return (start, end, "[phone]") if end else _in_context(text, start)


def _card_end(text: str, start: int) -> int | None:
    match = _CARD.match(text, start)
    if not match:
        return None
    digits = "".join(filter(str.isdigit, match[0]))
    for size in (16, 15, 14, 19, 18, 17):  # what follows a card may be its expiry or check digits
        card = digits[:size]
        if len(card) == size and _BRANDS.fullmatch(card) and _luhn(card):
            end = _after(text, start, match.end(), size)
            if end:
                return end
    return None


def _luhn(digits: str) -> bool:
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0


def _international_end(text: str, start: int) -> int | None:
    match = _INTERNATIONAL.match(text, start)
    if not match:
        return None
    digits = "".join(filter(str.isdigit, match["number"]))
    if digits[0] in "17":  # North America and Russia: always eleven
        return _after(text, match.start("number"), match.end(), 11)
    if _THOUSANDS.fullmatch(match["number"]) and len(digits.rstrip("0")) < 6:  # "+20 000 000"
        return None
    unclear = match[0].isdigit() and len(digits) < 10  # "0012345678": as well an order number
    return None if unclear else match.end()


def _national_end(text: str, start: int) -> int | None:
    match = _NATIONAL.match(text, start)
    if not match:
        return None
    bare = match["bare"]
    if bare and (_REFERENCE.search(text, max(0, start - 32), start) or _isbn10(bare)):
        return None
    return match.end() if sum(map(str.isdigit, match[0])) >= 9 else None


def _isbn10(digits: str) -> bool:
    return len(digits) == 10 and sum((10 - i) * int(d) for i, d in enumerate(digits)) % 11 == 0


def _in_context(text: str, start: int) -> Span | None:
    if text[max(0, start - 2) : start - 1].isdigit():
        return None  # in the middle of a row of numbers, looked at from its start
    match = _RUN.match(text, start)
    context = _CONTEXT.search(text, max(0, start - 48), start) if match else None
    if not match or not context or not context.lastgroup:
        return None
    kind = context.lastgroup.rstrip("_")
    fewest, most = _SIZES[kind]
    known = fewest <= sum(map(str.isdigit, match[0])) <= most
    return (start, match.end(), f"[{kind}]") if known else None


RULES = (
    RedactionRule(("@", "%40"), _EMAIL, _email),
    RedactionRule((), _IBAN, _iban),
    RedactionRule((), _NUMBER, _number),
)
