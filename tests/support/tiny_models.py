"""Models of the published architectures with few weights, drawn at random, as they lie on disk.

Importing this needs PyTorch and Transformers: tests that use it skip without them.
"""

import json

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

CORPUS = [
    "The office opens at nine on weekdays and closes at five in the afternoon.",
    "Paris is the capital of France, and its population is about two million people.",
    "Determine if the hypothesis is true given the premise? Premise: Hypothesis: predict:",
    "Briefly answer the following question: bear in mind passage 1 2 3 4 5 6 7 8 9 0 output",
]
_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}


def tokenizer(begin, end, between, *, pad="[PAD]"):
    """A byte-level tokenizer of about 400 tokens."""
    tokens = Tokenizer(models.BPE(unk_token=None))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = [pad, *dict.fromkeys(each for each in (begin, end) if each)]
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokens.train_from_iterator(CORPUS, trainer)
    head = f"{begin} " if begin else ""
    tokens.post_processor = processors.TemplateProcessing(
        single=f"{head}$A {end}",
        pair=f"{head}$A {between} $B {end}",
        special_tokens=[(each, tokens.token_to_id(each)) for each in special[1:]],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        pad_token=pad,
        eos_token=end,
        sep_token=end,
        cls_token=begin,
        model_input_names=["input_ids", "attention_mask"],
    )


def lettucedetect(folder):
    """ModernBERT with two classes of tokens."""
    kept = tokenizer("[CLS]", "[SEP]", "[SEP]")
    config = transformers.ModernBertConfig(
        vocab_size=len(kept),
        max_position_embeddings=1_024,
        num_labels=2,
        pad_token_id=0,
        bos_token_id=1,
        cls_token_id=1,
        eos_token_id=2,
        sep_token_id=2,
        initializer_range=0.5,
        **_SIZES,
    )
    return _saved(folder, transformers.ModernBertForTokenClassification, config, kept)


def roberta(folder, labels):
    """RoBERTa that classifies texts."""
    kept = tokenizer("<s>", "</s>", "</s> </s>", pad="<pad>")
    config = transformers.RobertaConfig(
        vocab_size=len(kept),
        max_position_embeddings=514,
        type_vocab_size=1,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        initializer_range=0.3,
        **_SIZES,
    )
    return _saved(folder, transformers.RobertaForSequenceClassification, config, kept)


def deberta(folder, labels):
    """DeBERTa v3 that classifies texts."""
    kept = tokenizer("[CLS]", "[SEP]", "[SEP]")
    config = transformers.DebertaV2Config(
        vocab_size=len(kept),
        max_position_embeddings=512,
        type_vocab_size=0,
        position_biased_input=False,
        relative_attention=True,
        position_buckets=64,
        pos_att_type=["p2c", "c2p"],
        share_att_key=True,
        norm_rel_ebd="layer_norm",
        max_relative_positions=-1,
        pooler_hidden_size=32,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        pad_token_id=0,
        initializer_range=0.3,
        **_SIZES,
    )
    return _saved(folder, transformers.DebertaV2ForSequenceClassification, config, kept)


def t5(folder):
    """T5 that writes, as MiniCheck's largest encoder and decoder."""
    kept = tokenizer(None, "</s>", "</s>", pad="<pad>")
    return _saved(folder, transformers.T5ForConditionalGeneration, _t5_config(kept), kept)


def hhem(folder, foundation):
    """Weights under the names of HHEM, and beside them what it was made from."""
    kept = tokenizer(None, "</s>", "</s>", pad="<pad>")
    config = _t5_config(kept)
    foundation.mkdir()
    config.save_pretrained(foundation)
    kept.save_pretrained(foundation)
    torch.manual_seed(7)
    model = transformers.T5ForTokenClassification(config)
    _spread(model)
    folder.mkdir()
    names = {f"t5.{name}": value.contiguous() for name, value in model.state_dict().items()}
    names.pop("t5.transformer.encoder.embed_tokens.weight", None)
    save_file(names, folder / "model.safetensors", metadata={"format": "pt"})
    published = {
        "model_type": "HHEMv2",
        "architectures": ["HHEMv2ForSequenceClassification"],
        "auto_map": {"AutoConfig": "configuration_hhem_v2.HHEMv2Config"},
    }
    (folder / "config.json").write_text(json.dumps(published))
    return model.eval()


def _t5_config(kept):
    return transformers.T5Config(
        vocab_size=len(kept),
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        num_labels=2,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        initializer_factor=1.0,
    )


def _spread(model):
    """Weights so large that scores differ, and are not all one half."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if value.dim() > 1 and "norm" not in name:
                value.normal_(0.0, 0.35)


def _saved(folder, kind, config, kept):
    torch.manual_seed(7)
    model = kind(config)
    _spread(model)
    model.save_pretrained(folder)
    kept.save_pretrained(folder)
    return model.eval()
