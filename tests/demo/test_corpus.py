"""The running Python's language reference as chunks."""

from collections import Counter
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from ragmon.demo.corpus import MOST_WORDS, chunks, corpus, pack
from ragmon.demo.markup import MarkupSection

_WORDS = st.text(alphabet="abc", min_size=1, max_size=4)
_SENTENCES = st.lists(_WORDS, min_size=1, max_size=40).map(lambda words: " ".join(words) + ".")
_BLOCKS = st.lists(st.lists(_SENTENCES, min_size=1, max_size=9).map(" ".join), min_size=1)


@given(blocks=_BLOCKS)
def test_packing_keeps_every_word_in_order_and_no_text_grows_too_long(blocks):
    texts = list(pack(MarkupSection("The title", tuple(blocks))))
    bodies = [text.removeprefix("The title\n\n").split() for text in texts]
    assert list(chain.from_iterable(bodies)) == " ".join(blocks).split()
    assert all(0 < len(body) <= MOST_WORDS for body in bodies)


def test_the_language_reference_becomes_hundreds_of_chunks_of_readable_size():
    found = corpus()
    sizes = sorted(len(chunk.text.split()) for chunk in found)
    assert len(found) > 500
    assert len({chunk.source for chunk in found}) > 70
    assert 60 <= sizes[len(sizes) // 2] <= MOST_WORDS
    assert sizes[-1] <= MOST_WORDS + 10  # the title comes on top


def test_ids_count_up_within_their_topic():
    numbers = Counter()
    for chunk in corpus():
        numbers[chunk.source] += 1
        assert chunk.id == f"{chunk.source}#{numbers[chunk.source]}"
    assert numbers["booleans"] > 1


def test_no_two_chunks_say_the_same():
    texts = Counter(chunk.text for chunk in corpus())
    assert [text for text, n in texts.items() if n > 1] == []


def test_a_shared_section_is_kept_once_under_the_shortest_topic():
    part = "The part\n========\n\nWords enough that this section is worth a chunk of its own.\n"
    whole = (
        "The whole\n*********\n\nAn introduction with words enough to be worth a chunk.\n\n" + part
    )
    found = list(chunks({"whole": whole, "part": part}))
    assert [chunk.id for chunk in found] == ["part#1", "whole#1"]
    assert "introduction" in found[1].text
