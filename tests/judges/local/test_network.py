"""Models of the published architectures, scored as their authors' own code scores them."""

import json
import time

import pytest

REASON = "PyTorch and Transformers (ragmon[local-judge]) are not installed"
torch = pytest.importorskip("torch", reason=REASON)
transformers = pytest.importorskip("transformers", reason=REASON)

from ragmon.judges.local.loading import load  # noqa: E402
from ragmon.judges.local.options import ModelLoadError, Options  # noqa: E402
from ragmon.judges.worker import AnswerToRead  # noqa: E402
from tests.benchmarks import local_judge  # noqa: E402
from tests.support import tiny_models  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # those of other people's libraries

QUESTION = "When does the office open, and what is the capital of France?"
CHUNKS = [
    "The office opens at nine on weekdays. It closes at five.\nNobody works at night.",
    "Paris is the capital of France. Its population is about two million people.",
    "The lift is out of order until Friday.",
]
ANSWER = "The office opens at ten. Paris is the capital of France, says the lift."
SHORT = AnswerToRead("What?", "At nine.", CHUNKS[:1])
CASE = AnswerToRead(QUESTION, ANSWER, CHUNKS)
LABELS = ("unsupported", "supported")


def judged(options, *cases):
    return load(Options.model_validate(options)).judge(cases)


def chances(model, encoded):
    with torch.no_grad():
        return torch.softmax(model(**encoded).logits, dim=-1)


@pytest.mark.parametrize("times", [1, 9], ids=["one window", "passages in groups"])
def test_lettucedetect_scores_and_marks_as_its_own_library_does(tmp_path, times):
    library = pytest.importorskip("lettucedetect.detectors.transformer", reason="no lettucedetect")
    tiny_models.lettucedetect(tmp_path / "model")
    detector = library.TransformerDetector(str(tmp_path / "model"), max_length=1_024, device="cpu")
    options = {"kind": "lettucedetect", "model": str(tmp_path / "model"), "window": 1_024}
    chunks = CHUNKS * times
    case = CASE._replace(chunks=chunks)
    result, beside = judged(options, case, SHORT)
    tokens = detector.predict(chunks, ANSWER, QUESTION, output_format="tokens")
    spans = detector.predict(chunks, ANSWER, QUESTION, output_format="spans")
    assert result.score == pytest.approx(1.0 - max(each["prob"] for each in tokens), abs=1e-4)
    spans = [span for span in spans if span["text"].strip()]  # a space is no claim
    theirs = [(span["start"], span["end"], 1.0 - span["confidence"]) for span in spans]
    assert len(result.doubts) == len(theirs) > 0
    for doubt, (start, end, support) in zip(result.doubts, theirs, strict=True):
        assert ANSWER[doubt.start : doubt.end] == ANSWER[start:end].strip()
        assert doubt.support == pytest.approx(support, abs=1e-4)
    alone = detector.predict(SHORT.chunks, SHORT.answer, SHORT.query, output_format="tokens")
    assert beside.score == pytest.approx(1.0 - max(each["prob"] for each in alone), abs=1e-4)


def test_lettucedetect_scores_as_its_model_alone(tmp_path):
    model = tiny_models.lettucedetect(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    result, _ = judged({"kind": "lettucedetect", "model": str(tmp_path / "model")}, CASE, SHORT)
    prompt = (
        f"Briefly answer the following question:\n{QUESTION}\nBear in mind that your response "
        f"should be strictly based on the following 3 passages:\npassage 1: {CHUNKS[0]}\n"
        f"passage 2: {CHUNKS[1]}\npassage 3: {CHUNKS[2]}\nIn case the passages do not contain the "
        "necessary information to answer the question, please reply with: "
        '"Unable to answer based on given passages."\noutput:'
    )
    unsupported = chances(model, tokenizer(prompt, ANSWER, return_tensors="pt"))[0, :, 1]
    own = len(tokenizer(ANSWER, add_special_tokens=False)["input_ids"])
    assert result.score == pytest.approx(1.0 - float(unsupported[-own - 1 : -1].max()), abs=1e-4)
    assert {doubt.reason for doubt in result.doubts} == {"unsupported_span"}


def test_hhem_scores_as_its_model_card_says(tmp_path):
    model = tiny_models.hhem(tmp_path / "hhem", tmp_path / "foundation")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "foundation")
    options = {
        "kind": "hhem",
        "model": str(tmp_path / "hhem"),
        "foundation": str(tmp_path / "foundation"),
    }
    result, beside = judged(options, CASE, SHORT)

    def consistent(premise, hypothesis):
        text = (
            "<pad> Determine if the hypothesis is true given the premise?\n\n"
            f"Premise: {premise}\n\nHypothesis: {hypothesis}"
        )
        return float(chances(model, tokenizer(text, return_tensors="pt"))[0, 0, 1])

    context = "\n".join(CHUNKS)
    assert result.score == pytest.approx(consistent(context, ANSWER), abs=1e-4)
    assert beside.score == pytest.approx(consistent(CHUNKS[0], SHORT.answer), abs=1e-4)
    for sentence in ("The office opens at ten.", "Paris is the capital of France, says the lift."):
        support = consistent(context, sentence)
        doubted = {ANSWER[d.start : d.end]: d.support for d in result.doubts}
        if support < 0.49:
            assert doubted[sentence] == pytest.approx(support, abs=1e-3)
        if support > 0.51:
            assert sentence not in doubted


@pytest.mark.parametrize("architecture", ["roberta", "deberta"])
def test_minicheck_on_an_encoder_scores_as_its_own_code_does(tmp_path, architecture):
    model = getattr(tiny_models, architecture)(tmp_path / "model", ["0", "1"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    result, _ = judged({"kind": "minicheck", "model": str(tmp_path / "model")}, CASE, SHORT)
    document = "\n".join(CHUNKS)

    def supported(claim):
        joined = tokenizer.eos_token.join([document, claim])
        return float(chances(model, tokenizer([joined], return_tensors="pt"))[0, 1])

    both = [supported("The office opens at ten."),
            supported("Paris is the capital of France, says the lift.")]  # fmt: skip
    assert result.score == pytest.approx(min(both), abs=1e-4)


def test_minicheck_on_t5_scores_as_its_own_code_does(tmp_path):
    model = tiny_models.t5(tmp_path / "model")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    result, _ = judged({"kind": "minicheck", "model": str(tmp_path / "model")}, CASE, SHORT)

    def supported(claim):
        joined = "predict: " + tokenizer.eos_token.join(["\n".join(CHUNKS), claim])
        encoded = tokenizer([joined], return_tensors="pt")
        with torch.no_grad():
            begun = torch.zeros((1, 1), dtype=torch.long)
            logits = model(**encoded, decoder_input_ids=begun).logits.squeeze(1)
        return float(torch.softmax(logits[:, torch.tensor([3, 209])], dim=-1)[0, 1])

    both = [supported("The office opens at ten."),
            supported("Paris is the capital of France, says the lift.")]  # fmt: skip
    assert result.score == pytest.approx(min(both), abs=1e-4)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param(["contradiction", "entailment", "neutral"], id="three classes"),
        pytest.param(["entailment", "not_entailment"], id="two classes"),
    ],
)
def test_inference_scores_as_a_pipeline_of_transformers_does(tmp_path, labels):
    tiny_models.roberta(tmp_path / "model", labels)
    pipeline = transformers.pipeline(
        "text-classification", model=str(tmp_path / "model"), top_k=None, device="cpu"
    )
    result, _ = judged({"kind": "nli", "model": str(tmp_path / "model")}, CASE, SHORT)

    def entailed(premise, claim):
        (scores,) = pipeline([{"text": premise, "text_pair": claim}])
        return next(each["score"] for each in scores if each["label"] == "entailment")

    best = [
        max(entailed(chunk, claim) for chunk in CHUNKS)
        for claim in ("The office opens at ten.", "Paris is the capital of France, says the lift.")
    ]
    assert result.score == pytest.approx(min(best), abs=1e-4)


def test_a_context_longer_than_the_window_is_read_to_its_end(tmp_path):
    tiny_models.roberta(tmp_path / "model", ["entailment", "neutral", "contradiction"])
    options = {"kind": "nli", "model": str(tmp_path / "model")}
    filler = "Nobody works at night in the building by the river. " * 60
    (cut,) = judged(options, AnswerToRead("", "At nine.", [filler + CHUNKS[0]]))
    (other,) = judged(options, AnswerToRead("", "At nine.", [filler + CHUNKS[1]]))
    assert cut.score != other.score  # what stands at the end was read


def test_a_model_whose_weights_changed_has_another_version(tmp_path):
    model = tiny_models.roberta(tmp_path / "model", ["entailment", "neutral", "contradiction"])
    options = Options(kind="nli", model=str(tmp_path / "model"))
    before = load(options).version
    assert load(options).version == before
    with torch.no_grad():
        model.classifier.dense.weight += 0.1
    model.save_pretrained(tmp_path / "model")
    assert load(options).version != before


def test_a_model_without_its_head_is_refused(tmp_path):
    model = tiny_models.roberta(tmp_path / "model", ["entailment", "neutral", "contradiction"])
    model.roberta.save_pretrained(tmp_path / "model")
    with pytest.raises(ModelLoadError, match=r"judge\.local\.kind"):
        load(Options(kind="minicheck", model=str(tmp_path / "model")))


def test_classes_that_are_not_named_are_refused_with_the_remedy(tmp_path):
    tiny_models.roberta(tmp_path / "model", ["LABEL_0", "LABEL_1", "LABEL_2"])
    with pytest.raises(ModelLoadError, match="id2label"):
        load(Options(kind="nli", model=str(tmp_path / "model")))


def test_a_model_of_another_kind_is_refused(tmp_path):
    tiny_models.roberta(tmp_path / "model", ["entailment", "neutral", "contradiction"])
    with pytest.raises(ModelLoadError, match="3 classes"):
        load(Options(kind="minicheck", model=str(tmp_path / "model")))


def test_a_model_that_is_not_there_is_never_fetched_unasked(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelLoadError, match="Nothing is downloaded"):
        load(Options(kind="nli", model="nobody/no-such-model"))


def test_a_gpu_that_is_not_there_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ModelLoadError, match="device: auto"):
        load(Options(kind="nli", model=str(tmp_path), device="cuda"))


def test_code_that_comes_with_a_model_is_not_run(tmp_path):
    tiny_models.roberta(tmp_path / "model", ["entailment", "neutral", "contradiction"])
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own"}}
    path.write_text(json.dumps(config))
    (tmp_path / "model" / "own.py").write_text("raise SystemExit('it was run')")
    with pytest.raises(ModelLoadError):
        load(Options(kind="nli", model=str(tmp_path / "model")))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU")
def test_scores_of_a_gpu_are_waited_for_asleep():
    torch.manual_seed(1)
    judge, _ = local_judge.hhem("cuda", 16)
    cases = [CASE._replace(chunks=CHUNKS * 12)] * 64
    judge.judge(cases[:16])  # loads the GPU's libraries
    began, cpu = time.perf_counter(), time.process_time()
    judge.judge(cases)
    assert time.process_time() - cpu < 0.8 * (time.perf_counter() - began)
