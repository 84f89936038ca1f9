"""Claims mode: splits a text into claims and verifies each against the chunks."""

import re
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ragmon.judges.llm.errors import JudgeError
from ragmon.judges.llm.question import Conversation, Prompt
from ragmon.judges.llm.verdict import Claim, JudgedAnswer

_WORD = re.compile(r"\w+")
_MOST_CHARACTERS = 2_000  # of one claim


class Extracted(Struct, frozen=True):
    """The claims of a text."""

    claims: tuple[str, ...]


class ClaimVerdict(Struct, frozen=True):
    """On one claim, by its number from 1."""

    claim: int
    supported: Literal["yes", "no"]
    chunk: int | None


class Verified(Struct, frozen=True):
    """On a batch of claims."""

    verdicts: tuple[ClaimVerdict, ...]


def judge_claims(
    conversation: Conversation, case: JudgedAnswer, text: str, *, most: int, batch: int
) -> tuple[Claim, ...]:
    """The claims of a text, each supported by a chunk or not; empty when it makes none.

    Args:
        conversation: asks the model.
        case: whose question and chunks count.
        text: the answer, or the reference.
        most: claims taken.
        batch: claims verified together.

    Raises:
        JudgeError: the model gave no usable answer.
    """
    limit = claims_at_most(text, most)
    prompt = Prompt(
        "extract",
        (("question", case.query), ("text", text)),
        Extracted,
        lambda reply: _wrong_claims(reply, limit),
        limit,
    )
    texts = tuple(dict.fromkeys(claim.strip() for claim in conversation.ask(prompt).claims))
    claims: list[Claim] = []
    for at in range(0, len(texts), batch):
        claims += _verified(conversation, case, texts[at : at + batch])
    return _by_earlier_turns(conversation, case, tuple(claims), batch)


def _by_earlier_turns(
    conversation: Conversation, case: JudgedAnswer, claims: tuple[Claim, ...], batch: int
) -> tuple[Claim, ...]:
    """The claims, with those supported that a chunk of the turns before supports."""
    doubted = tuple(claim.text for claim in claims if not claim.supported)
    if not case.earlier or not doubted:
        return claims
    before = replace(case, chunks=case.earlier, earlier=())
    again: dict[str, Claim] = {}
    for at in range(0, len(doubted), batch):
        verified = _verified(conversation, before, doubted[at : at + batch])
        again |= {claim.text: claim for claim in verified}
    return tuple(again.get(claim.text, claim) for claim in claims)


def claims_at_most(text: str, most: int) -> int:
    """Upper bound on the claims of a text, by its words; it bounds the cost of judging it."""
    return min(most, 3 + len(_WORD.findall(text)) // 4)


def share_supported(claims: tuple[Claim, ...]) -> float | None:
    """Supported over all; None without claims."""
    return sum(claim.supported for claim in claims) / len(claims) if claims else None


def numbered_chunks(case: JudgedAnswer) -> tuple[tuple[str, str], ...]:
    """(label, text) of the chunks, numbered from 1 as the prompt refers to them."""
    return tuple((f"passage {n}", text) for n, (_, text) in enumerate(case.chunks, 1))


def _verified(
    conversation: Conversation, case: JudgedAnswer, texts: tuple[str, ...]
) -> list[Claim]:
    claims = tuple((f"claim {n}", text) for n, text in enumerate(texts, 1))
    prompt = Prompt(
        "verify",
        numbered_chunks(case) + claims,
        Verified,
        lambda reply: _wrong_verdicts(reply, len(texts), len(case.chunks)),
    )
    verdicts = sorted(conversation.ask(prompt).verdicts, key=lambda verdict: verdict.claim)
    return [
        Claim(text, verdict.supported == "yes", _chunk_id(case, verdict))
        for text, verdict in zip(texts, verdicts, strict=True)
    ]


def _chunk_id(case: JudgedAnswer, verdict: ClaimVerdict) -> str | None:
    if verdict.supported == "no" or verdict.chunk is None:
        return None
    return case.chunks[verdict.chunk - 1][0]


def _wrong_claims(reply: Extracted, limit: int) -> str:
    if len(reply.claims) > limit:
        return f"{len(reply.claims)} claims, at most {limit} were asked for"
    if any(not claim.strip() or len(claim) > _MOST_CHARACTERS for claim in reply.claims):
        return f"a claim is empty or longer than {_MOST_CHARACTERS} characters"
    return ""


def _wrong_verdicts(reply: Verified, claims: int, chunks: int) -> str:
    if sorted(verdict.claim for verdict in reply.verdicts) != list(range(1, claims + 1)):
        return f"not one verdict for each of {claims} claims"
    for verdict in reply.verdicts:
        if verdict.supported == "yes" and verdict.chunk is None:
            return f"claim {verdict.claim} is supported by no passage"
        if verdict.chunk is not None and not 1 <= verdict.chunk <= chunks:
            return f"there is no passage {verdict.chunk}"
    return ""


def checked_case(case: JudgedAnswer, most_characters: int) -> None:
    """Check that a case can be judged.

    Raises:
        JudgeError: unjudgeable without answer or chunk texts; too_long.
    """
    if not case.answer.strip():
        raise JudgeError("unjudgeable", "no answer")
    if not any(text.strip() for _, text in case.chunks):
        raise JudgeError("unjudgeable", "no chunk has a text")
    if characters(case) > most_characters:
        raise JudgeError("too_long", f"more than {most_characters} characters")


def fitting(case: JudgedAnswer, most_characters: int) -> JudgedAnswer:
    """The case, without the turns before where they make it too long."""
    return case if characters(case) <= most_characters else replace(case, earlier=())


def characters(case: JudgedAnswer) -> int:
    """Of all its texts."""
    texts = sum(len(text) for _, text in (*case.chunks, *case.earlier))
    return texts + len(case.query) + len(case.answer) + len(case.reference or "")
