"""Examples of refusals: the newest of each kind, and not more than a page holds."""

from ragmon.refusals import RefusalExample, RefusalExamples, RefusalKind

HTTP = RefusalKind("http", "invalid")


def test_the_newest_of_each_kind_is_kept():
    examples = RefusalExamples()
    examples.note(HTTP, 1.0, "pipeline: too long")
    examples.note(RefusalKind("jsonl", "invalid"), 2.0, "line 3")
    examples.note(HTTP, 3.0, "query_id: missing")
    assert examples.newest() == {
        HTTP: RefusalExample(3.0, "query_id: missing"),
        RefusalKind("jsonl", "invalid"): RefusalExample(2.0, "line 3"),
    }


def test_a_long_one_is_cut_and_the_oldest_kinds_go():
    examples = RefusalExamples()
    for number in range(250):
        examples.note(RefusalKind("http", f"reason {number}"), float(number), "x" * 9_000)
    kept = examples.newest()
    assert len(kept) == 200
    assert min(example.at for example in kept.values()) == 50.0
    assert {len(example.text) for example in kept.values()} == {500}
