"""Passages that the sentences of an answer rest on."""

from ragmon.judges.grounding.support import supports

CHUNKS = (
    "Shipping is free. Parcels arrive on Monday.",
    "Our policy: refunds take fourteen days after the goods arrive. Ask us.",
)


def test_a_sentence_is_shown_with_the_passage_that_shares_most():
    answer = "Refunds take fourteen days [2]. They are paid in gold by the queen of Denmark."
    (support,) = supports(answer, CHUNKS)
    assert answer[support.start : support.end].startswith("Refunds take fourteen days")
    assert support.chunk == 1
    passage = CHUNKS[1][support.chunk_start : support.chunk_end]
    assert passage == "Our policy: refunds take fourteen days after the goods arrive."
    assert {"Refunds", "days"} <= {*support.shared}
    assert support.share > 0.9


def test_the_first_of_equal_chunks_is_named():
    (support,) = supports("Parcels arrive on Monday.", ("", CHUNKS[0], CHUNKS[0]))
    assert support.chunk == 1


def test_nothing_supports_without_words_or_chunks():
    assert supports("", CHUNKS) == ()
    assert supports("It is so.", CHUNKS) == ()
    assert supports("Refunds take fourteen days.", ()) == ()


def test_long_texts_are_read_as_far_as_the_judge_reads_them():
    answer = "Refunds take days. " * 5_000
    assert len(supports(answer, [CHUNKS[1] * 10_000])) <= 20_000 // 19 + 1
