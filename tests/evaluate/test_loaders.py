import gzip
import json

import pytest

from ragmon.evaluate import loaders
from ragmon.evaluate.cases import id_of, text_id
from ragmon.evaluate.errors import DataError
from tests.support.paths import DATA


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


CASES = {
    "own fields": (
        "c.jsonl",
        lines({"case_id": "1", "query": "q", "relevant_doc_ids": ["a"], "metadata": {"kind": "x"}}),
    ),
    "ids as numbers": ("c.jsonl", lines({"id": 1, "question": "q", "relevant_ids": ["a"]})),
    "an array": ("c.json", json.dumps([{"id": "1", "query": "q", "grades": {"a": 1}}])),
    "an array in an object": (
        "c.json",
        json.dumps({"cases": [{"id": "1", "query": "q", "grades": {"a": 1, "b": 0}}]}),
    ),
    "CSV with lists": ("c.csv", "id,question,relevant_doc_ids,kind\n1,q,a | ,x\n"),
    "CSV with JSON": ("c.csv", 'id,query,grades\n1,q,"{""a"": 2}"\n'),
    "TREC qrels": ("c.qrels", "1 0 a 1\n1 0 b 0\n"),
    "ragmon's export": (
        "c.jsonl",
        lines({"record": {"query_id": "1", "query": "q", "relevant_ids": ["a"]}, "signals": {}}),
    ),
}


@pytest.mark.parametrize(("name", "text"), CASES.values(), ids=CASES)
def test_cases_of_every_form(tmp_path, name, text):
    (case,) = loaders.read_cases(write(tmp_path, name, text)).cases
    assert case.case_id == "1"
    assert {key for key, grade in case.judgements.items() if grade > 0} == {"a"}


RUNS = {
    "own fields": ("r.jsonl", lines({"query_id": "1", "chunks": [{"id": "a"}, {"id": "b"}]})),
    "ids alone": ("r.jsonl", lines({"case_id": "1", "retrieved_ids": ["a", "b"]})),
    "other names inside": (
        "r.jsonl",
        lines({"id": "1", "chunks": [{"doc_id": "a", "page_content": "x"}, {"doc_id": "b"}]}),
    ),
    "RAGAS with ids": (
        "r.jsonl",
        lines({"id": "1", "retrieved_contexts": ["x", "y"], "retrieved_context_ids": ["a", "b"]}),
    ),
    "CSV": ("r.csv", "query_id,retrieved_ids,answer\n1,a|b,yes\n"),
    "CSV with lists as pandas writes them": (
        "r.csv",
        "id,contexts,retrieved_ids\n1,\"['it\\'s', 'y']\",\"['a', 'b']\"\n",
    ),
    "TREC, by score": ("r.run", "1 Q0 b 1 0.5 t\n1 Q0 a 2 0.7 t\n"),
    "pytrec_eval's JSON": ("r.json", json.dumps({"1": {"b": 0.1, "a": 0.9}})),
}


@pytest.mark.parametrize(("name", "text"), RUNS.values(), ids=RUNS)
def test_runs_of_every_form(tmp_path, name, text):
    run = loaders.read_run(write(tmp_path, name, text))
    assert [chunk.id for chunk in run["1"].chunks] == ["a", "b"]


@pytest.mark.parametrize("name", ["c.jsonl.gz", "c.csv.gz", "c.qrels.gz", "c.json.gz"])
def test_compressed_files(tmp_path, name):
    text = {
        "c.jsonl.gz": lines({"id": "1", "query": "1", "relevant_ids": ["a"], "retrieved": ["a"]}),
        "c.json.gz": json.dumps([{"id": "1", "query": "1", "relevant_ids": ["a"]}]),
        "c.csv.gz": "id,query,relevant_ids,retrieved\n1,1,a,a\n",
        "c.qrels.gz": "1 0 a 1\n",
    }[name]
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))
    (case,) = loaders.read_cases(tmp_path / name).cases
    assert (case.case_id, list(case.judgements)) == ("1", ["a"])
    if "retrieved" in text:
        assert loaders.read_run(tmp_path / name)["1"].chunks[0].id == "a"


def test_ragas_file_is_cases_and_run(tmp_path):
    row = {
        "user_input": "Who?",
        "retrieved_contexts": ["It was Ann.", "Noise."],
        "reference_contexts": ["It  was Ann."],
        "response": "Ann.",
        "reference": "Ann did.",
    }
    path = write(tmp_path, "ragas.jsonl", lines(row))
    (case,) = loaders.read_cases(path).cases
    record = loaders.read_run(path)[id_of("Who?")]
    assert case.ground_truth_answer == "Ann did."
    assert case.relevant_doc_ids == [text_id("It was Ann.")] == [record.chunks[0].id]
    assert record.answer == "Ann."


def beir(folder, splits=("test",)):
    write(folder, "corpus.jsonl", lines({"_id": "d1", "title": "T", "text": "x"}, {"_id": "d2"}))
    write(folder, "queries.jsonl", lines({"_id": "1", "text": "q"}, {"_id": "2", "text": "r"}))
    for split in splits:
        write(folder, f"qrels/{split}.tsv", "query-id\tcorpus-id\tscore\n1\td1\t2\n")
    return folder


def test_beir_folder(tmp_path):
    found = loaders.read_cases(beir(tmp_path))
    assert [(case.case_id, case.query, case.grades) for case in found.cases] == [
        ("1", "q", {"d1": 2.0})
    ]
    run = loaders.read_run(write(tmp_path, "r.run", "1 Q0 d1 1 1 t\n1 Q0 d9 2 0 t\n"))
    texts = [chunk.text for chunk in loaders.with_texts(run, found.corpus)["1"].chunks]
    assert texts == ["T\nx", None]


TRACES = DATA / "otlp"


@pytest.mark.parametrize(
    "name",
    ["genai-semconv-json/001.json", "genai-semconv/001.bin", "oi-haystack/001.bin.gz"],
)
def test_trace_exports_are_runs(name):
    run = loaders.read_run(TRACES / name)
    asked = {record.query for record in run.values()}
    assert "How do I reset my password?" in asked
    assert any(record.chunks for record in run.values())


def test_a_binary_file_that_is_no_export(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(b"\xff" * 50)
    with pytest.raises(DataError, match="is not a trace export"):
        loaders.read_run(path)


def test_a_run_is_read_as_it_was_written(tmp_path):
    run = loaders.read_run(write(tmp_path, "r.jsonl", RUNS["own fields"][1]))
    loaders.write_run(tmp_path / "again.jsonl", run)
    assert loaders.read_run(tmp_path / "again.jsonl") == run


def test_what_is_not_read_is_noted(tmp_path):
    path = write(tmp_path, "c.jsonl", lines({"query": "q", "keyword": ["x"], "foo": 1}))
    assert loaders.read_cases(path).notes == (
        "field 'keyword' is not read (did you mean keywords?)",
        "field 'foo' is not read",
    )


def test_columns_without_a_meaning_are_metadata(tmp_path):
    path = write(tmp_path, "c.csv", "query,difficulty\nq,hard\n")
    assert loaders.read_cases(path).cases[0].metadata == {"difficulty": "hard"}


BAD_CASES = {
    "no JSON": ("c.jsonl", '{"query": "q"}\n{oops\n', "c.jsonl:2: is not JSON"),
    "no query": ("c.jsonl", "{}\n", "c.jsonl:1: query: is missing"),
    "a query by another name": (
        "c.csv",
        "prompt,answer\na,b\n",
        "c.csv:2: query: is missing. Call the question query, question, user_input or input; this",
    ),
    "an empty query": ("c.jsonl", '{"query": ""}\n', "c.jsonl:1: query: is empty"),
    "wrong type": (
        "c.jsonl",
        lines({"query": "q"}, {"query": "r", "grades": {"a": "high"}}),
        "c.jsonl:2: grades[...]: expected float, got str. Write a number for each id",
    ),
    "the same twice": ("c.jsonl", lines({"query": "q"}, {"query": "q"}), "c.jsonl:2: case_id:"),
    "a list of numbers": ("c.json", "[1]", "c.json:1: expected an object, got int"),
    "nothing": ("c.jsonl", "\n", "c.jsonl: holds no case"),
    "CSV with too many cells": ("c.csv", "query\nq,r\n", "c.csv:2: has more cells"),
    "TREC with too few columns": ("c.qrels", "1 0 a\n", "c.qrels:1: has 3 columns, not 4"),
    "TREC with a word for a grade": ("c.qrels", "1 0 a high\n", "c.qrels:1: grade: 'high'"),
    "TREC with a grade that is no number": ("c.qrels", "1 0 a nan\n", "c.qrels:1: grade: 'nan'"),
    "RAGAS with a text where passages belong": (
        "c.jsonl",
        lines({"user_input": "q", "reference_contexts": "The GIL."}),
        "c.jsonl:1: reference_contexts: expected array, got str",
    ),
    "an unknown ending": ("c.xlsx", "", "has an unknown ending '.xlsx'"),
}


@pytest.mark.parametrize(("name", "text", "message"), BAD_CASES.values(), ids=BAD_CASES)
def test_cases_that_cannot_be_used(tmp_path, name, text, message):
    with pytest.raises(DataError) as refused:
        loaders.read_cases(write(tmp_path, name, text))
    assert message in str(refused.value)


BAD_RUNS = {
    "no id": ("r.jsonl", '{"answer": "x"}\n', "r.jsonl:1: query_id: is missing"),
    "chunks that are no list": (
        "r.jsonl",
        lines({"id": "1", "chunks": "The GIL."}),
        "r.jsonl:1: chunks: expected array, got str. Write them best first",
    ),
    "a chunk without id": (
        "r.jsonl",
        lines({"id": "1", "chunks": [{"score": 1}]}),
        "r.jsonl:1: chunks[0].id: is missing",
    ),
    "the same twice": ("r.jsonl", lines({"id": "1"}, {"id": "1"}), "r.jsonl:2: query_id: '1'"),
    "nothing": ("r.run", "", "r.run: holds no result"),
    "ids that are no list": (
        "r.jsonl",
        lines({"id": "1", "retrieved_ids": {"a": 1}}),
        "r.jsonl:1: retrieved_ids: expected array, got object",
    ),
    "passages as numpy writes them": (
        "r.csv",
        "id,contexts\n1,\"['a'\n 'b']\"\n",
        "r.csv:3: contexts: expected array, got str",
    ),
    "TREC with an infinite score": ("r.run", "1 Q0 a 1 inf t\n", "r.run:1: score: 'inf'"),
    "RAGAS with a text where passages belong": (
        "r.csv",
        "user_input,retrieved_contexts\nq,[The GIL\n",
        "r.csv:2: retrieved_contexts: expected array, got str",
    ),
    "TREC with a document twice": ("r.run", "1 Q0 a 1 1 t\n1 Q0 a 2 0 t\n", "r.run:2: 'a' appears"),
}


@pytest.mark.parametrize(("name", "text", "message"), BAD_RUNS.values(), ids=BAD_RUNS)
def test_runs_that_cannot_be_used(tmp_path, name, text, message):
    with pytest.raises(DataError) as refused:
        loaders.read_run(write(tmp_path, name, text))
    assert message in str(refused.value)


def test_folders_that_hold_nothing_of_use(tmp_path):
    with pytest.raises(DataError, match="is a folder, not a run"):
        loaders.read_run(tmp_path)
    with pytest.raises(DataError, match="A BEIR folder holds queries"):
        loaders.read_cases(tmp_path)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.jsonl").write_bytes(b'{"query": "\xe9"}')
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b'{"query": "q"}')[:-9])
    for name, message in (
        ("gone.jsonl", "cannot be read"),
        ("latin.jsonl", "is not UTF-8"),
        ("cut.jsonl.gz", "is not gzip"),
    ):
        with pytest.raises(DataError, match=message):
            loaders.read_cases(tmp_path / name)


@pytest.mark.parametrize(
    ("splits", "asked", "message"),
    [
        pytest.param(
            ("dev", "train"), "", "several splits; there are: dev, train", id="which split?"
        ),
        pytest.param(("test",), "dev", "no split 'dev'", id="not that one"),
    ],
)
def test_beir_splits_that_are_not_there(tmp_path, splits, asked, message):
    with pytest.raises(DataError, match=message):
        loaders.read_cases(beir(tmp_path, splits), split=asked)


@pytest.mark.parametrize(
    ("qrels", "message"),
    [
        pytest.param("query-id\tcorpus-id\tscore\n9\td1\t1\n", "does not hold: '9'", id="no text"),
        pytest.param("q\td\ts\n1\td1\t1\n", "test.tsv:2: query-id: is missing", id="no header"),
        pytest.param(
            "query-id\tcorpus-id\tscore\n1\td1\tx\n", "score: is not a number", id="a word"
        ),
        pytest.param(
            "query-id\tcorpus-id\tscore\n1\td1\tnan\n", "score: is not a number", id="no number"
        ),
    ],
)
def test_beir_judgements_that_cannot_be_used(tmp_path, qrels, message):
    folder = beir(tmp_path)
    write(folder, "qrels/test.tsv", qrels)
    with pytest.raises(DataError, match=message):
        loaders.read_cases(folder)
