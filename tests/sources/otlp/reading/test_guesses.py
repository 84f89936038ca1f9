"""Questions among the arguments of traced functions: the right one, or none, with its doubt."""

import pytest

from ragmon.sources.otlp.reading.guesses import (
    LEAST,
    Candidate,
    Guess,
    best_guess,
    doubt_of,
    is_repr,
)
from ragmon.sources.otlp.reading.values import question

FEE = "What is the fee?"
ASKED = {"messages": [{"role": "user", "content": "why?"}]}


def call(*args, **kwargs):
    return {"args": list(args), "kwargs": kwargs}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"pageContent": "Ten euros are due.", "id": "d1"}, None, id="a document"),
        pytest.param(call(FEE, model="gpt-4o"), FEE, id="and a model"),
        pytest.param(call("RagService", "What is the fee?"), FEE, id="a method's class"),
        pytest.param(call("Rag(llm=GPT())", "What is the fee?"), FEE, id="its self"),
        pytest.param(call(model="gpt-4o"), None, id="a model alone"),
        pytest.param(call("gpt-4o"), None, id="a model without its name"),
        pytest.param(call(model="gpt-4o", q="Wie hoch?"), "Wie hoch?", id="by a name of its own"),
        pytest.param(call("gpt-4o", question="fees"), "fees", id="by its name"),
        pytest.param(call("refunds"), "refunds", id="one word"),
        pytest.param(call("退款需要多久"), "退款需要多久", id="a language without spaces"),
        pytest.param(call(ASKED, model="gpt-4o"), "why?", id="a state"),
        pytest.param({"model": "gpt-4o", "top_k": 3}, None, id="settings by name"),
        pytest.param({"q": FEE, "top_k": 3}, FEE, id="named"),
        pytest.param("Agent(name='helper', tools=[])", None, id="an agent as Python shows it"),
    ],
)
def test_what_a_traced_function_was_asked(value, expected):
    assert question(value) == expected


def test_a_guess_carries_its_doubt():
    guess = question(call("What is the fee?", "in English please", model="gpt-4o"))
    assert guess == "What is the fee?"
    assert "taken by its form" in doubt_of(guess)
    assert doubt_of(question(call(question="What is the fee?"))) == ""
    assert doubt_of(question({"question": "why?"})) == ""


def test_below_the_least_confidence_nothing_is_taken():
    assert best_guess([Candidate("gpt-4o"), Candidate("x", "session_id")]) is None
    assert best_guess([]) is None
    taken = best_guess([Candidate("What is it?"), Candidate("Who is it?")])
    assert isinstance(taken, Guess)
    assert LEAST <= taken.confidence < 0.8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Agent(name='x')", True),
        ("app.Rag()", True),
        ("<app.Rag object>", True),
        ("Fee (2024)", False),
        ("What is Agent(name='x')?", False),
    ],
)
def test_objects_as_python_shows_them(text, expected):
    assert is_repr(text) is expected
