"""``POST /v1/traces`` in protobuf, the same way as JSON; mutated field by field."""

import random

from ragmon.sources.otlp.wire import protobuf as wire
from tests.fuzz import json_text, otlp, wire_tree
from tests.fuzz.source import Source
from tests.fuzz.targets.otlp_json import check, choices

WORDS = [b"\x0a\x10", b"\x12\x08", b"\x4a", b"\x5a", b"input.value", b"gen_ai.", b"llm."]


def seeds() -> list[bytes]:
    """Small captures as they are, and choices that make traces."""
    return [bytes([1, 0]) + body for body in otlp.small_bodies()[:24]] + choices()


def run(data: bytes) -> None:
    """See ``otlp_json``."""
    source = Source(data)
    is_raw, is_scrubbed = source.byte() & 1, source.chance(64)
    if is_raw:
        body = source.rest()
    else:
        body = otlp.as_protobuf(otlp.request(source))
        body = json_text.damaged(source, body) if source.chance(24) else body
    check(body, wire.decode, is_scrubbed=is_scrubbed)


def mutate(data: bytes, most: int, seed: int, bytewise) -> bytes:
    """A field of the message changed, repeated or removed, with all lengths put right again."""
    chance = random.Random(seed)
    if len(data) < 3 or not data[0] & 1 or chance.random() < 0.4:
        return bytewise(data, most)
    fields = wire_tree.mutated(data[2:], chance, lambda body: bytewise(body, len(body) + 16))
    return (data[:2] + fields)[:most]
