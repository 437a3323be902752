"""Karpathy's llama2.c: the `.bin` file of a Llama (version 0) and of its tokenizer.

`python -m manyheads.interop.llama2c model.bin tokenizer.bin DIRECTORY` makes a model directory of both.
"""

import argparse
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, processors

from manyheads.core.errors import CheckpointError, ConfigError, ManyheadsError
from manyheads.core.files import refuse_existing
from manyheads.interop.directory import save_model
from manyheads.interop.llama import LlamaNames
from manyheads.interop.weights import Undrawn
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.text.language import LanguageTokenizer

HEADER = 7  # numbers of 4 bytes, as everything in the file
LATER_VERSION = 0x616B3432
UNKNOWN, START, END = range(3)
FIRST_BYTE, FIRST_PIECE = 3, 259
_ANGLES = "cosines and sines"  # which we compute
# In the order of the file, by their names in transformers; each of all layers, then the next.
_PARTS = (
    *("input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    *("post_attention_layernorm", "mlp.gate_proj", "mlp.down_proj", "mlp.up_proj"),
)


def read_llama2c(path: Path) -> Llama:
    """The model in a `.bin` file.  It ends a story with the token that begins the next; Llama 2 itself with its own."""
    config = _read_config(path)
    with Undrawn():
        model = Llama(config)
    width, views = config.width // config.heads, LlamaNames().views(model)
    layers = [f"model.layers.{layer}." for layer in range(config.layers)]
    order = [
        "model.embed_tokens.weight",
        *(f"{layer}{part}.weight" for part in _PARTS for layer in layers),
        "model.norm.weight",
        _ANGLES,
        *([] if config.tied else ["lm_head.weight"]),
    ]
    counts = [config.context * width if name == _ANGLES else views[name].numel() for name in order]
    size, expected = path.stat().st_size, 4 * (HEADER + sum(counts))
    if size != expected:
        raise CheckpointError(
            f"{path} has {size} bytes, its header says {expected}; it is cut short or of another kind"
        )
    # Copied on writing, which never happens: torch has no read-only tensors.
    numbers = torch.from_numpy(np.memmap(path, dtype="<f4", mode="c", offset=4 * HEADER))
    for name, tensor in zip(order, numbers.split(counts), strict=True):
        if name == _ANGLES:
            continue
        view, tensor = views[name], tensor.view(views[name].shape)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            # There, rotary positions turn neighbours; here, each dimension with the one half a head away.
            view = view.unflatten(0, (-1, 2, width // 2)).transpose(1, 2)
            tensor = tensor.unflatten(0, (-1, width // 2, 2))
        view.copy_(tensor)
    return model.eval()


def _read_config(path: Path) -> LlamaConfig:
    try:
        with path.open("rb") as file:
            header = struct.unpack(f"<{HEADER}i", file.read(4 * HEADER))
    except (OSError, struct.error) as error:
        raise CheckpointError(f"{path} cannot be read as a llama2.c model: {error}") from None
    if header[0] == LATER_VERSION:
        raise CheckpointError(f"{path} is of a later version of llama2.c; export it as version 0")
    width, inner, layers, heads, key_value_heads, vocabulary, context = header
    try:
        config = LlamaConfig(
            vocabulary=abs(vocabulary),  # the sign says whether the output has a matrix of its own
            context=context,
            width=width,
            layers=layers,
            heads=heads,
            key_value_heads=None if key_value_heads == heads else key_value_heads,
            inner=inner,
            tied=vocabulary > 0,
            end=END,
            other_ends=(START,),
        )
        # Sizes first: what is no model may ask for any amount of memory.
        least = width * (abs(vocabulary) + layers * (width + 3 * inner))
        if least > path.stat().st_size or heads % key_value_heads or not vocabulary:
            raise ConfigError(f"its header says {header}")
    except ConfigError as error:
        raise CheckpointError(f"{path} is no llama2.c model of version 0, or is cut short: {error}") from None
    return config


def read_llama2c_tokenizer(path: Path) -> tokenizers.Tokenizer:
    """The tokenizer in a `tokenizer.bin`: SentencePiece's BPE, which joins the pair whose piece has the best score."""
    pieces, scores = _read_pieces(path)
    ranks = {piece: each for each, piece in enumerate(pieces)}
    merges = _merges(pieces, scores)
    unknown, start, end = pieces[:FIRST_BYTE]
    made = tokenizers.Tokenizer(models.BPE(ranks, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    made.post_processor = processors.TemplateProcessing(
        single=[start, "$A"], pair=[start, "$A", f"{start}:1", "$B:1"], special_tokens=[(start, START)]
    )
    made.add_special_tokens([unknown, start, end])
    return made


def _read_pieces(path: Path) -> tuple[list[str], list[float]]:
    """Every piece as SentencePiece writes it, with its score."""
    try:
        content = path.read_bytes()
        pieces, scores, place = [], [], 4  # behind the length of the longest piece
        while place < len(content):
            score, length = struct.unpack_from("<fi", content, place)
            place += 8 + length
            if length < 0 or place > len(content):
                raise ValueError("it ends in the middle of a piece")
            scores.append(score)
            pieces.append(_piece(len(pieces), content[place - length : place]))
        if len(pieces) < FIRST_PIECE:
            raise ValueError(f"it has {len(pieces)} pieces and needs {FIRST_PIECE} for the 256 bytes alone")
        twice = [piece for piece, times in Counter(pieces).items() if times > 1]
        if twice:
            raise ValueError(f"it has the piece {twice[0]!r} twice")
    except (OSError, ValueError, struct.error) as error:
        raise CheckpointError(f"{path} cannot be read as a llama2.c tokenizer: {error}") from None
    return pieces, scores


def _piece(each: int, content: bytes) -> str:
    if each < FIRST_BYTE:
        return ("<unk>", "<s>", "</s>")[each]
    if each < FIRST_PIECE:  # written as <0x0A> or, by older versions, as the byte itself
        return f"<0x{each - FIRST_BYTE:02X}>"
    return content.decode("utf-8").replace(" ", "▁")


def _merges(pieces: list[str], scores: list[float]) -> list[tuple[str, str]]:
    """All pairs of pieces that make a piece, those of the best score first."""
    ranks = {piece: each for each, piece in enumerate(pieces) if each >= FIRST_PIECE}
    found = []
    for piece, each in ranks.items():
        cuts = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        found += [(-scores[each], each, pair) for pair in cuts if pair[0] in ranks and pair[1] in ranks]
    return [pair for _, _, pair in sorted(found, key=lambda entry: entry[:2])]


def convert_llama2c(model: Path, tokenizer: Path, directory: Path) -> None:
    """Writes a model directory of the type llama out of llama2.c's two files."""
    refuse_existing(directory)
    read = read_llama2c(model)
    words = LanguageTokenizer(read_llama2c_tokenizer(tokenizer), end="</s>", named={"bos_token": "<s>"})
    if len(words) != read.config.vocabulary:
        raise CheckpointError(
            f"{tokenizer} has {len(words)} tokens and {model} {read.config.vocabulary}; they do not belong together"
        )
    save_model(directory, read, words, f"# {model.stem}\n\nConverted from llama2.c's {model.name}.\n")


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m manyheads.interop.llama2c", description=convert_llama2c.__doc__)
    for name in ("model", "tokenizer", "directory"):
        parser.add_argument(name, type=Path)
    try:
        convert_llama2c(**vars(parser.parse_args()))
    except ManyheadsError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    _main()
