"""Places in a topic, as they are kept in the store beside the records before them."""

from typing import Literal

import msgspec
from msgspec import Struct

Cause = Literal["gap", "went_back", "topic_made_anew", "another_cluster"]
"""Reasons for which a partition is no longer read."""


class TopicIdentity(Struct, frozen=True, array_like=True):
    """The topic that offsets belong to; empty: the brokers do not tell."""

    cluster: str = ""
    topic: str = ""

    def difference(self, now: "TopicIdentity") -> Cause | None:
        """The reason why offsets of this topic say nothing about that one; None: they do."""
        if self.cluster and now.cluster and self.cluster != now.cluster:
            return "another_cluster"
        if self.topic and now.topic and self.topic != now.topic:
            return "topic_made_anew"
        return None


class KafkaPosition(Struct, frozen=True, array_like=True):
    """Place in one partition."""

    offset: int  # of the next message
    identity: TopicIdentity = TopicIdentity()
    epoch: int = -1  # of the leader that had the last message; -1: unknown
    stopped: str = ""  # the reason for not reading on; empty: it is read


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KafkaPosition).decode


def pack(position: KafkaPosition) -> bytes:
    """A position as it is stored."""
    return _encode(position)


def unpack(stored: bytes) -> KafkaPosition:
    """The position that ``pack`` was called with."""
    return _decode(stored)
