"""Tiny models of every kind that transformers has too, ours and theirs, and how the two are compared."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers import encoder_tokenizer, language_tokenizer, randomised, translation_tokenizer, unsealed
from torch import Tensor, nn
from torch.testing import assert_close

from manyheads.data.images import ImageProcessor
from manyheads.interop.directory import save_model
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig

transformers = pytest.importorskip("transformers")

WORDS, PIECES, MARKED = language_tokenizer(), translation_tokenizer(), encoder_tokenizer()
PICTURES = ImageProcessor.of(15, 3)
FIRST = ["a dog sleeps", "the cat danced under the table", "the dog"]
SECOND = ["the table danced", "a cat", "under a table sleeps the cat"]
NAMES = ("bad", "so so", "good")


def transformer(**changes) -> TransformerConfig:
    sizes = {"vocabulary": len(PIECES), "width": 24, "heads": 3, "inner": 40, "layers": 2, "decoder_layers": 3}
    return TransformerConfig(**{**sizes, "pad": PIECES.pad, "start": PIECES.start, "end": PIECES.end, **changes})


def gpt(order: str, **changes) -> GPTConfig:
    sizes = {"vocabulary": len(WORDS) + 3, "context": 19, "width": 21, "layers": 2, "heads": 3}
    return GPTConfig(**{**sizes, "norm_order": order, "end": WORDS.end, "epsilon": 1e-4, **changes})


def llama(**changes) -> LlamaConfig:
    sizes = {"vocabulary": len(WORDS) + 3, "context": 96, "width": 36, "layers": 2, "heads": 6, "inner": 37}
    return LlamaConfig(**{**sizes, "key_value_heads": 3, "end": WORDS.end, **changes})


def bert(**changes) -> BertConfig:
    sizes = {"vocabulary": len(MARKED) + 3, "context": 19, "width": 21, "layers": 2, "heads": 3}
    return BertConfig(**{**sizes, "separator": MARKED.separator, "epsilon": 1e-5, **changes})


def vit(**changes) -> ViTConfig:
    sizes = {"image_size": 15, "patch_size": 5, "width": 21, "layers": 2, "heads": 3, "epsilon": 1e-5}
    return ViTConfig(**{**sizes, **changes})


def their_marian(**changes):
    sizes = {"vocab_size": len(PIECES), "d_model": 24, "encoder_layers": 2, "decoder_layers": 3, "init_std": 0.2}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40}
    ids = {"pad_token_id": PIECES.pad, "eos_token_id": PIECES.end, "decoder_start_token_id": PIECES.pad}
    ways = {"activation_function": "relu", "forced_eos_token_id": None, "scale_embedding": True}
    return transformers.MarianConfig(**{**sizes, **heads, **ids, **ways, **changes})


def their_gpt(kind, **changes):
    sizes = {"vocab_size": len(WORDS) + 3, "n_positions": 19, "n_embd": 21, "n_layer": 2, "n_head": 3}
    ends = {"bos_token_id": WORDS.end, "eos_token_id": WORDS.end, "pad_token_id": WORDS.end}
    return kind(**{**sizes, **ends, **changes})


def their_llama(**changes):
    sizes = {"vocab_size": len(WORDS) + 3, "hidden_size": 36, "num_hidden_layers": 2, "intermediate_size": 37}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 96}
    ends = {"bos_token_id": 1, "eos_token_id": WORDS.end, "pad_token_id": WORDS.end}
    return transformers.LlamaConfig(**{**sizes, **heads, **ends, **changes})


def their_bert(**changes):
    sizes = {"vocab_size": len(MARKED) + 3, "hidden_size": 21, "num_hidden_layers": 2, "num_attention_heads": 3}
    rest = {"max_position_embeddings": 19, "intermediate_size": 37, "layer_norm_eps": 1e-5}
    return transformers.BertConfig(**{**sizes, **rest, **changes})


def their_vit(**changes):
    sizes = {"image_size": 15, "patch_size": 5, "hidden_size": 21, "num_hidden_layers": 2, "num_attention_heads": 3}
    return transformers.ViTConfig(**{**sizes, "intermediate_size": 37, "layer_norm_eps": 1e-5, **changes})


def of_translator(ours, theirs) -> tuple:
    source, target = torch.randint(2, PIECES.pad, (3, 7)), torch.randint(2, PIECES.pad, (3, 5))
    source[:, -1], source[1, 4:] = PIECES.end, PIECES.pad
    mask = (source != PIECES.pad).long()
    expected = theirs(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    return [ours(source, target)], [expected], [ours(source.flip(0), target)]


def of_decoder(ours, theirs) -> tuple:
    ids = torch.randint(1, len(WORDS), (2, 41 if isinstance(ours, Llama) else 19))  # also past a length that is scaled
    return [ours(ids)], [theirs(ids).logits], [ours(ids.flip(1))]


def of_classifier(ours, theirs) -> tuple:
    ids, lengths = torch.randint(1, len(WORDS), (3, 8)), torch.tensor([8, 5, 3])
    attended = torch.arange(8) < lengths[:, None]
    ids[~attended] = WORDS.end
    return [ours(ids, lengths)], [theirs(ids, attention_mask=attended.long()).logits], [ours(ids, lengths - 1)]


def pairs() -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Pairs of texts as both sides are given them, with padding behind."""
    ids = [MARKED.wrapped(*both) for both in zip(MARKED.encode(FIRST), MARKED.encode(SECOND))]
    lengths = torch.tensor([len(row) for row in ids])
    assert len(set(lengths.tolist())) > 1
    padded = torch.full((3, int(lengths.max()) + 2), MARKED.pad)
    segments = torch.zeros_like(padded)
    for row, each in enumerate(ids):
        padded[row, : len(each)] = torch.tensor(each)
        segments[row, each.index(MARKED.separator) + 1 : len(each)] = 1
    real = torch.arange(padded.shape[1]) < lengths[:, None]
    return padded, lengths, {"attention_mask": real.long(), "token_type_ids": segments}


def outputs_of_bert(model, *given) -> list[Tensor]:
    """What transformers would give back: for each token, and for each text."""
    if isinstance(model, Bert):
        states = model(*given)
        return [states] if model.pooler is None else [states, model.pooled(states)]
    follows = isinstance(model, MaskedBert) and model.follows is not None
    return [model(*given), *([model.following(model.body(*given))] if follows else [])]


def of_encoder(ours, theirs) -> tuple:
    """Without segments, which here follow from the separators; and with wrong ones."""
    ids, lengths, inputs = pairs()
    found, real = theirs(ids, **inputs), inputs["attention_mask"].bool()
    names = ("last_hidden_state", "pooler_output", "logits", "prediction_logits", "seq_relationship_logits")
    expected = [found[name] for name in names if found.get(name) is not None]
    if "start_logits" in found:
        expected = [torch.stack([found.start_logits, found.end_logits], dim=-1)]
    mine, other = outputs_of_bert(ours, ids, lengths), outputs_of_bert(ours, ids, lengths, 1 - inputs["token_type_ids"])
    return tuple([each[real] if each.dim() == 3 else each for each in side] for side in (mine, expected, other))


def of_images(ours, theirs) -> tuple:
    """Of images, and mirrored, of which the patches are the same but for their order."""
    pixels = torch.randn(3, ours.config.channels, ours.config.image_size, ours.config.image_size)
    found = theirs(pixel_values=pixels)
    names = ("last_hidden_state", "pooler_output", "logits")
    expected = [found[name] for name in names if found.get(name) is not None]
    return outputs_of_vit(ours, pixels), expected, outputs_of_vit(ours, pixels.flip(3))


def outputs_of_vit(model, pixels: Tensor) -> list[Tensor]:
    states = model(pixels)
    return [states, model.pooled(states)] if isinstance(model, ViT) and model.pooler is not None else [states]


def assert_equal_models(ours, theirs) -> None:
    how = {Transformer: of_translator, GPT: of_decoder, Llama: of_decoder, DecoderClassifier: of_classifier}
    how |= {ViT: of_images, ViTClassifier: of_images}
    with torch.no_grad():
        mine, expected, other = how.get(type(ours), of_encoder)(ours, theirs.eval())
    assert [each.shape for each in mine] == [each.shape for each in expected]
    for found, wanted, control in zip(mine, expected, other, strict=True):
        assert_close(found, wanted, atol=1e-4, rtol=0)
        assert not torch.allclose(control, wanted, atol=1e-2)  # and the test can tell


@dataclass(frozen=True)
class Kind:
    """A model of ours, by the name of the class of theirs that opens it."""

    ours: type
    make: Callable[..., nn.Module]
    """From changes to our config."""
    their_config: Callable[..., object]
    processor: object
    auto: str


GPT_2, GPT_1 = partial(their_gpt, transformers.GPT2Config), partial(their_gpt, transformers.OpenAIGPTConfig)
KINDS = {
    "MarianMTModel": Kind(
        Transformer, lambda **c: Transformer(transformer(**c)), their_marian, PIECES, "AutoModelForSeq2SeqLM"
    ),
    "GPT2LMHeadModel": Kind(GPT, lambda **c: GPT(gpt("pre", **c)), GPT_2, WORDS, "AutoModelForCausalLM"),
    "OpenAIGPTLMHeadModel": Kind(GPT, lambda **c: GPT(gpt("post", **c)), GPT_1, WORDS, "AutoModelForCausalLM"),
    "LlamaForCausalLM": Kind(Llama, lambda **c: Llama(llama(**c)), their_llama, WORDS, "AutoModelForCausalLM"),
    **{
        name: Kind(
            *(DecoderClassifier, lambda body=body, **c: DecoderClassifier(body(**c), NAMES, "pair")),
            *(config, WORDS, "AutoModelForSequenceClassification"),
        )
        for name, body, config in (
            ("GPT2ForSequenceClassification", lambda **c: GPT(gpt("pre", **c)), GPT_2),
            ("OpenAIGPTForSequenceClassification", lambda **c: GPT(gpt("post", **c)), GPT_1),
            ("LlamaForSequenceClassification", lambda **c: Llama(llama(**c)), their_llama),
        )
    },
    **{
        name: Kind(kind, make, their_bert, MARKED, name.replace("Bert", "Auto").replace("For", "ModelFor"))
        for name, kind, make in (
            ("BertModel", Bert, lambda **c: Bert(bert(**c))),
            ("BertForMaskedLM", MaskedBert, lambda **c: MaskedBert(bert(**c))),
            ("BertForPreTraining", MaskedBert, lambda **c: MaskedBert(bert(**c), next_sentence=True)),
            (
                "BertForSequenceClassification",
                EncoderClassifier,
                lambda **c: EncoderClassifier(Bert(bert(**c)), NAMES, "pair"),
            ),
            (
                "BertForTokenClassification",
                EncoderTagger,
                lambda **c: EncoderTagger(Bert(bert(**c), pooler=False), NAMES),
            ),
            ("BertForQuestionAnswering", BertAnswerer, lambda **c: BertAnswerer(Bert(bert(**c), pooler=False))),
        )
    },
    "ViTModel": Kind(ViT, lambda **c: ViT(vit(**c), pooler=True), their_vit, PICTURES, "AutoModel"),
    "ViTForImageClassification": Kind(
        *(ViTClassifier, lambda **c: ViTClassifier(ViT(vit(**c)), NAMES)),
        *(their_vit, PICTURES, "AutoModelForImageClassification"),
    ),
}
VITS = [name for name in KINDS if name.startswith("ViT")]
BERTS = [name for name in KINDS if name.startswith("Bert")]
every_kind = pytest.mark.parametrize("name", KINDS)
every_kind_of_text = pytest.mark.parametrize("name", [name for name in KINDS if name not in VITS])
every_bert = pytest.mark.parametrize("name", BERTS)


def ours_of(name: str, **changes) -> nn.Module:
    return randomised(KINDS[name].make(**changes))


def theirs_of(name: str, **changes) -> nn.Module:
    labels = {"num_labels": 5} if name.endswith("Classification") and "id2label" not in changes else {}
    return randomised(getattr(transformers, name)(KINDS[name].their_config(**{**labels, **changes})))


def processor_of(model):
    """That of a model's family, be it ours or theirs."""
    name, config = type(model).__name__, model.config
    if "ViT" in name:
        return ImageProcessor.of(config.image_size, getattr(config, "channels", None) or config.num_channels)
    return (
        MARKED if "Bert" in name or "Encoder" in name else PIECES if name in ("Transformer", "MarianMTModel") else WORDS
    )


def saved(directory: Path, model: nn.Module, **options) -> Path:
    """A directory of a model, ours or theirs, with the processor of its family."""
    if isinstance(model, transformers.PreTrainedModel):
        model.save_pretrained(directory, **options)
        processor_of(model).save(directory)
    else:
        save_model(directory, model, processor_of(model), "card")
    return unsealed(directory)


def opened_by_them(name: str, directory: Path, **options):
    model, report = getattr(transformers, name).from_pretrained(directory, output_loading_info=True, **options)
    assert not any(report[f"{what}_keys"] for what in ("missing", "unexpected", "mismatched"))
    return model.eval()
