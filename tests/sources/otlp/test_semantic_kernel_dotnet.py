"""Semantic Kernel for .NET, which does not install here: spans made after its documentation.

Its spans are those of its diagnostics (``gen_ai.*`` with texts in span events, by
``Microsoft.SemanticKernel.Experimental.GenAI.EnableOTelDiagnosticsSensitive``).
"""

import json

from ragmon.sources.otlp.spans import Event
from tests.support.otlp import NOW, span
from tests.support.otlp_spans import record_of

SCOPE = "Microsoft.SemanticKernel.Diagnostics"
PROMPT = json.dumps([{"role": "user", "content": "What is the fee?"}])
ANSWER = json.dumps([{"role": "assistant", "content": "Ten euros."}])
CALL = {
    "gen_ai.operation.name": "chat.completions",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.response.prompt_tokens": 11,
    "gen_ai.response.completion_tokens": 7,
    "gen_ai.response.finish_reason": "Stop",
    "gen_ai.response.id": "chatcmpl-1",
}


def test_a_chat_completion_with_its_texts():
    events = (
        Event("gen_ai.content.prompt", int(NOW * 1e9), {"gen_ai.prompt": PROMPT}),
        Event("gen_ai.content.completion", int(NOW * 1e9), {"gen_ai.completion": ANSWER}),
    )
    call = span(1, 0, CALL, name="chat.completions gpt-4o", scope=SCOPE, events=events)
    record = record_of(call)
    assert record.query == "What is the fee?"
    assert record.answer == "Ten euros."
    assert record.model == "gpt-4o"
    assert (record.tokens.prompt, record.tokens.completion) == (11, 7)


def test_a_chat_completion_without_its_texts():
    record = record_of(span(1, 0, CALL, name="chat.completions gpt-4o", scope=SCOPE))
    assert (record.query, record.answer) == (None, None)
    assert (record.model, record.tokens.prompt) == ("gpt-4o", 11)
