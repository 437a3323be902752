"""What several tests need: weights that hide no mistake, directories to change, files to read, a plain tokenizer."""

import gzip
import json
import lzma
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from tokenizers import decoders, models, normalizers, pre_tokenizers
from torch import nn

from manyheads.core.checksums import CHECKSUMS
from manyheads.data.ragged import Ragged, Store
from manyheads.models.bert import Bert, BertConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.positions import PositionsConfig
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

SCALINGS = ("linear", "ntk", "dynamic_ntk", "yarn", "llama3")
LINES = ["a dog sleeps under the table", "the cat danced", "ein Hund schläft unter dem Tisch", "die Katze tanzte"] * 3


@cache
def language_tokenizer() -> LanguageTokenizer:
    return LanguageTokenizer.train(LINES, 270)


@cache
def encoder_tokenizer() -> EncoderTokenizer:
    return EncoderTokenizer.train(LINES, 90)


@cache
def translation_tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, 300)


class Marks:
    """As much of an encoder's tokenizer as rows of so many kinds of ids need."""

    pad, start, separator, mask, unknown = range(5)

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size


def llama_like(words: list[str], merges: list[tuple[str, str]]) -> tokenizers.Tokenizer:
    """Llama's kind: ▁ for a space, one before each text that decoding drops, single bytes for what has no token."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *words]
    vocabulary = {token: each for each, token in enumerate(tokens)}
    model = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    model.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    parts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    model.decoder = decoders.Sequence(parts)
    model.add_special_tokens(["<unk>", "<s>", "</s>"])
    return model


def first_gpt_like() -> tokenizers.Tokenizer:
    """The first GPT's kind: a mark at the end of words, a space unless nothing follows, and no special token."""
    vocabulary = {token: each for each, token in enumerate(["<unk>", "a", "b", "a</w>", "b</w>", "ab</w>"])}
    merges = [("a", "b</w>")]
    model = tokenizers.Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", end_of_word_suffix="</w>"))
    model.pre_tokenizer, model.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder("</w>")
    return model


def randomised(model: nn.Module, scale: float = 0.3) -> nn.Module:
    """Norms that are one and biases that are zero would hide mistakes, and so would outputs that are all alike."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # a table of sinusoids stays
                parameter.add_(scale * torch.randn_like(parameter))
    return model.eval()


# Models whose heads find different things, and the same ones whenever they are asked for.

SIZES = {"vocabulary": 31, "width": 24, "layers": 2, "heads": 3, "dropout": 0.0}


def spread(model: nn.Module) -> nn.Module:
    """Weights so large that attention is far from even, heads find different things, and positions count."""
    for name, parameter in model.named_parameters():
        if "projection.weight" in name or "positions" in name:
            parameter.data.normal_(std=0.6)
    return model.eval()


def spread_gpt(**changes) -> GPT:
    torch.manual_seed(3)
    return spread(GPT(GPTConfig(**{**SIZES, "context": 32, "attention_dropout": 0.0, **changes})))


def spread_llama(**changes) -> Llama:
    torch.manual_seed(4)
    return spread(Llama(LlamaConfig(**{**SIZES, "heads": 6, "key_value_heads": 2, "context": 32, **changes})))


def spread_bert(head=Bert, **changes) -> nn.Module:
    torch.manual_seed(5)
    return spread(head(BertConfig(**{**SIZES, "context": 32, "attention_dropout": 0.0, **changes})))


def spread_transformer(**changes) -> Transformer:
    torch.manual_seed(6)
    return spread(Transformer(TransformerConfig(**{**SIZES, "decoder_layers": 3, "inner": 36, **changes})))


def positions(kind: str, length: int = 11) -> PositionsConfig:
    """Positions of any kind or scaling, with tables that a short text reaches the end of."""
    if kind in SCALINGS:
        return PositionsConfig(kind="rotary", scaling=kind, factor=2.0, length=length)
    return PositionsConfig(kind=kind, length=length, clip=2, buckets=4, furthest=6)


def with_kernel(model: nn.Module, kernel) -> nn.Module:
    for part in model.modules():
        if isinstance(part, MultiHeadAttention):
            part.kernel = kernel
    return model


def torchs_weights(block: nn.Module) -> dict[str, torch.Tensor]:
    """Those of a block by the names that torch's own encoder and decoder layers have for them."""
    parts = {"linear1": block.feedforward.inner, "linear2": block.feedforward.outer}
    names = {"attention": "self_attn", "self_attention": "self_attn", "cross_attention": "multihead_attn"}
    weights, norms = {}, [norm for norm in ("attention_norm", "self_norm", "cross_norm") if hasattr(block, norm)]
    parts |= {f"norm{place}": getattr(block, norm) for place, norm in enumerate([*norms, "feedforward_norm"], start=1)}
    for ours, theirs in names.items():
        if hasattr(block, ours):
            parts[f"{theirs}.out_proj"] = getattr(block, ours).output
            weights |= {
                f"{theirs}.in_proj_{name}": each for name, each in getattr(block, ours).projection.state_dict().items()
            }
    return weights | {f"{part}.{name}": each for part in parts for name, each in parts[part].state_dict().items()}


def config_of(directory: Path) -> dict:
    return json.loads((directory / "config.json").read_text())


def unsealed(directory: Path) -> Path:
    """The directory without its checksums, as one from elsewhere: what is in it may be changed."""
    (directory / CHECKSUMS).unlink(missing_ok=True)
    return directory


def changed(directory: Path, **changes) -> Path:
    """The directory with a config.json that says this; what is "gone" is left out."""
    table = {name: value for name, value in {**config_of(directory), **changes}.items() if value != "gone"}
    (directory / "config.json").write_text(json.dumps(table))
    return unsealed(directory)


def rewritten(directory: Path, change) -> Path:
    """The directory with its tensors, a dict, as `change` gives them back."""
    tensors = change(load_file(directory / "model.safetensors"))
    tensors = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    return unsealed(directory)


class Elsewhere(torch.Tensor):
    """Numbers that say they are on a GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = torch.device("cuda")


def padded_on_a_gpu(model: nn.Module) -> nn.Module:
    """A BERT as it is on a GPU, where rows stay padded and are masked, and are not packed."""
    body = getattr(model, "body", model)
    embed = body.embed
    body.embed = lambda *given: embed(*given).as_subclass(Elsewhere)
    return model


def written(path: Path, content: str | bytes) -> Path:
    """The file, compressed as its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)(path, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return path


class Letters:
    """A tokenizer of one id per letter, then `end`; dashes alone are nothing to it, and it counts its strings."""

    def __init__(self, size: int = 70_000, end: tuple[int, ...] = ()):
        self.size, self.end, self.calls = size, end, []

    def __len__(self) -> int:
        return self.size

    def encode(self, lines: list[str]) -> list[list[int]]:
        self.calls.append(len(lines))
        return [[*map(ord, line if line.strip("-") else ""), *self.end] for line in lines]


def sentence_store(documents: list[list[list[int]]]) -> Store:
    """A store in memory of documents of sentences of ids."""
    sentences = [sentence for document in documents for sentence in document]
    numbers = np.repeat(np.arange(len(documents), dtype=np.int32), [*map(len, documents)])
    return Store({"ids": Ragged.of(sentences), "document": numbers})


PEAK = """
import re
from pathlib import Path
def peak():
    \"\"\"The most kilobytes this process had; getrusage would begin with those of the one that started it.\"\"\"
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
"""
needs_peak = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read in /proc")
