"""Measures what an answer costs a local model: CPU or GPU, by size of the model and of the texts.

Run ``python -m tests.benchmarks.local_judge [cpu|cuda] [BATCH]`` where ``ragmon[local-judge]`` is
installed. The models have the published sizes and random weights: speed does not depend on them.
"""

import sys
import time

import torch
import transformers

from ragmon.judges.local import pair_judge
from ragmon.judges.local.network import (
    HhemNetwork,
    LoadedModel,
    MiniCheckT5Network,
    NliNetwork,
    TokenNetwork,
)
from ragmon.judges.local.pair_judge import SupportJudge
from ragmon.judges.local.prompts import LettucePrompt
from ragmon.judges.local.token_judge import TokenJudge
from ragmon.judges.worker import AnswerToRead
from tests.support import tiny_models

ANSWER = "The office opens at nine on weekdays. Paris is the capital of France."
PASSAGE = "The office opens at nine on weekdays and closes at five in the afternoon. "
T5_WORDS = 500  # of a part of MiniCheck's document


def lettucedetect(device, batch, **sizes):
    """LettuceDetect on ModernBERT, by default base with 149 million weights."""
    tokenizer = tiny_models.tokenizer("[CLS]", "[SEP]", "[SEP]")
    model = transformers.ModernBertForTokenClassification(transformers.ModernBertConfig(**sizes))
    loaded = LoadedModel(model.to(device).eval(), tokenizer, "bench", 4_096)
    return TokenJudge(TokenNetwork(loaded, batch), LettucePrompt()), loaded


def lettucedetect_large(device, batch):
    sizes = {"hidden_size": 1_024, "intermediate_size": 2_624, "num_hidden_layers": 28}
    return lettucedetect(device, batch, num_attention_heads=16, **sizes)


def hhem(device, batch):
    """HHEM: the encoder of T5 base with 110 million weights."""
    tokenizer = tiny_models.tokenizer(None, "</s>", "</s>", pad="<pad>")
    sizes = {"d_model": 768, "d_ff": 2_048, "num_layers": 12, "num_heads": 12, "d_kv": 64}
    config = transformers.T5Config(feed_forward_proj="gated-gelu", vocab_size=32_128, **sizes)
    model = transformers.T5ForTokenClassification(config)
    loaded = LoadedModel(model.to(device).eval(), tokenizer, "bench", 4_096)
    network = HhemNetwork(loaded, batch)
    cut = pair_judge.whole_context(network.window, network.count)
    return SupportJudge(network, cut, scores_whole=True), loaded


def minicheck(device, batch):
    """MiniCheck on T5 large, encoder and decoder, 750 million weights."""
    tokenizer = tiny_models.tokenizer(None, "</s>", "</s>", pad="<pad>")
    sizes = {"d_model": 1_024, "d_ff": 2_816, "num_layers": 24, "num_heads": 16, "d_kv": 64}
    shape = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    config = transformers.T5Config(vocab_size=32_128, **shape, **sizes)
    model = transformers.T5ForConditionalGeneration(config)
    loaded = LoadedModel(model.to(device).eval(), tokenizer, "bench", 2_048)
    cut = pair_judge.documents(T5_WORDS, lambda text: len(text.split()))
    return SupportJudge(MiniCheckT5Network(loaded, batch), cut, scores_whole=False), loaded


def nli(device, batch):
    """Natural language inference on DeBERTa v3 large, 435 million weights."""
    tokenizer = tiny_models.tokenizer("[CLS]", "[SEP]", "[SEP]")
    sizes = {"hidden_size": 1_024, "intermediate_size": 4_096, "num_hidden_layers": 24}
    config = transformers.DebertaV2Config(
        vocab_size=128_100,
        num_attention_heads=16,
        relative_attention=True,
        position_buckets=256,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        position_biased_input=False,
        type_vocab_size=0,
        id2label={0: "entailment", 1: "neutral", 2: "contradiction"},
        **sizes,
    )
    model = transformers.DebertaV2ForSequenceClassification(config)
    loaded = LoadedModel(model.to(device).eval(), tokenizer, "bench", 512)
    network = NliNetwork(loaded, batch)
    cut = pair_judge.chunks_apart(network.window, network.count)
    return SupportJudge(network, cut, scores_whole=False), loaded


MODELS = {
    "LettuceDetect base": lettucedetect,
    "LettuceDetect large": lettucedetect_large,
    "HHEM": hhem,
    "MiniCheck T5 large": minicheck,
    "NLI DeBERTa v3 large": nli,
}


def measured(name, make, device, batch):
    """A row of the table for each length of the context: four chunks in each."""
    judge, loaded = make(device, batch)
    millions = sum(value.numel() for value in loaded.model.parameters()) / 1e6
    counter = TokenNetwork(loaded, batch)
    for tokens in (500, 1_000, 2_000):
        passage = PASSAGE
        while counter.count(passage) < tokens / 4:
            passage += PASSAGE
        count = 4 if device == "cpu" else 8 * max(batch, 16)
        cases = [AnswerToRead("When?", ANSWER, [passage] * 4)] * count
        judge.judge(cases[: max(1, count // 4)])  # the first batch waits for the libraries
        began, cpu = time.perf_counter(), time.process_time()
        judge.judge(cases)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
        memory = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0
        print(
            f"| {name} | {millions:.0f} million | {batch} | {tokens:,} "
            f"| {1e3 * cpu / count:.1f} | {count / took:.2f} | {memory:.1f} |",
            flush=True,
        )


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 16
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    processor = torch.cuda.get_device_name() if device == "cuda" else "one core"
    print(f"On {processor}, PyTorch {torch.__version__}, Transformers {transformers.__version__}")
    print("| model | weights | batch | tokens of context | CPU ms an answer | answers/s | GPU GB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, make in MODELS.items():
        measured(name, make, device, batch)
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
