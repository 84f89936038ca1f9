"""Attributes of a type that nobody expects: a trace is mapped and explained all the same."""

import random
from collections import defaultdict

import pytest
from msgspec.structs import replace

from ragmon.sources.otlp.doctor import explain
from ragmon.sources.otlp.traces.mapping import map_trace
from ragmon.sources.otlp.wire import json as wire_json
from ragmon.sources.otlp.wire import protobuf
from tests.support.otlp import FOLDERS, NOW, captured

ODD = (["chat", 1], {"a": [1]}, 5, 1.5, True, [], "[{", None)
_MOST_KEYS = 40  # of a capture, drawn by its name


def traces(folder):
    """The spans of a capture, by trace."""
    by_trace = defaultdict(list)
    for request in captured(folder):
        if request.path == "/v1/traces":
            is_json = "json" in request.content_type
            for decoded in (wire_json if is_json else protobuf).decode(request.plain):
                for span in decoded.spans:
                    by_trace[span.trace_id].append(span)
    return list(by_trace.values())


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_attribute_may_have_any_type(folder):
    chance = random.Random(folder)
    for spans in traces(folder)[:2]:
        keys = sorted({key for span in spans for key in span.attributes})
        for key in chance.sample(keys, min(len(keys), _MOST_KEYS)):
            odd = chance.choice(ODD)
            changed = [
                replace(span, attributes={**span.attributes, key: odd})
                if key in span.attributes
                else span
                for span in spans
            ]
            assert len(map_trace(changed, NOW).queries) <= len(spans), (key, odd)
            assert explain(changed, NOW).spans, (key, odd)
