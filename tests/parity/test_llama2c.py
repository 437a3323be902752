"""llama2.c's files: a real model beside transformers, tiny ones beside its arithmetic written out in numpy."""

import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import load_model
from manyheads.interop.llama2c import convert_llama2c, read_llama2c, read_llama2c_tokenizer
from manyheads.models.llama import Llama
from manyheads.text.language import LanguageTokenizer

PIECES = ["▁", "e", "t", "a", "o", "n", "c", "h", "s", "l", "r", ".", "é"]
PIECES += ["▁t", "he", "▁the", "on", "ce", "▁on", "▁once", "at", "▁c", "▁cat", "an", "and"]
PIECES += ["▁and", "er", "ll", "hell", "▁hello", "ello", "tt", "att"]
SIZES = {"width": 12, "inner": 17, "layers": 2, "heads": 3, "groups": 1, "vocabulary": 259 + len(PIECES), "context": 9}


def tensors_of(path: Path) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """The file by its format, read a second time and by other means."""
    width, inner, layers, heads, groups, vocabulary, context = np.fromfile(path, "<i4", 7).tolist()
    own, vocabulary = vocabulary < 0, abs(vocabulary)
    keys = width // heads * groups
    shapes = {
        "embedding": (vocabulary, width),
        "attention_norm": (layers, width),
        **{"q": (layers, width, width), "k": (layers, keys, width), "v": (layers, keys, width)},
        **{"o": (layers, width, width), "feedforward_norm": (layers, width)},
        **{"gate": (layers, inner, width), "down": (layers, width, inner), "up": (layers, inner, width)},
        **{"norm": (width,), "cosines": (context, width // heads // 2), "sines": (context, width // heads // 2)},
        **({"output": (vocabulary, width)} if own else {}),
    }
    numbers, found = np.fromfile(path, "<f4", offset=28), {}
    for name, shape in shapes.items():
        found[name], numbers = numbers[: np.prod(shape)].reshape(shape), numbers[np.prod(shape) :]
    assert not numbers.size
    sizes = {"width": width, "inner": inner, "layers": layers, "heads": heads, "groups": groups}
    return {**sizes, "vocabulary": vocabulary, "context": context}, {"output": found["embedding"], **found}


def write_model(path: Path, *, shared: bool) -> Path:
    width, inner, layers, heads, groups, vocabulary, context = SIZES.values()
    keys = width // heads * groups
    count = (1 if shared else 2) * vocabulary * width + layers * (2 * width + 2 * width**2 + 2 * keys * width)
    count += layers * 3 * inner * width + width + context * width // heads
    header = np.array([width, inner, layers, heads, groups, vocabulary if shared else -vocabulary, context], "<i4")
    numbers = np.random.default_rng(5).normal(0, 0.5, count).astype("<f4")
    path.write_bytes(header.tobytes() + numbers.tobytes())
    return path


def logits_by_hand(path: Path, ids: list[int]) -> np.ndarray:
    """llama2.c's forward pass, where rotary positions turn neighbours."""
    sizes, w = tensors_of(path)
    count, heads, groups = len(ids), sizes["heads"], sizes["groups"]
    width = sizes["width"] // heads
    angles = np.arange(count)[:, None, None] * 10_000.0 ** (-np.arange(0, width, 2) / width)

    def normed(x, weight):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight

    def turned(x, number):
        x = x.reshape(count, number, width)
        even, odd = x[..., ::2], x[..., 1::2]
        pairs = even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles)
        return np.stack(pairs, -1).reshape(count, number, width)

    x = w["embedding"][ids].astype(np.float64)
    for layer in range(sizes["layers"]):
        y = normed(x, w["attention_norm"][layer])
        q, k = turned(y @ w["q"][layer].T, heads), turned(y @ w["k"][layer].T, groups)
        k, v = (
            np.repeat(each, heads // groups, 1) for each in (k, (y @ w["v"][layer].T).reshape(count, groups, width))
        )
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(width) + np.triu(np.full((count, count), -np.inf), 1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", weights, v).reshape(count, -1) @ w["o"][layer].T
        y = normed(x, w["feedforward_norm"][layer])
        gate = y @ w["gate"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w["up"][layer].T)) @ w["down"][layer].T
    return normed(x, w["norm"]) @ w["output"].T


@pytest.mark.parametrize("shared", [True, False])
def test_a_tiny_file_gives_the_logits_of_its_arithmetic(tmp_path, shared):
    path = write_model(tmp_path / "model.bin", shared=shared)
    model = read_llama2c(path)
    assert (model.config.tied, model.config.context) == (shared, 9)
    ids = [1, 30, 200, 7, 7, 66, 2]
    with torch.no_grad():
        found = model(torch.tensor([ids]))[0]
    assert_close(found.double(), torch.from_numpy(logits_by_hand(path, ids)), atol=1e-4, rtol=0)
    assert not np.allclose(logits_by_hand(path, ids[::-1]), found, atol=1e-2)  # and the test can tell


@pytest.fixture(scope="module")
def stories(data_set) -> Path:
    return data_set("stories260K") / "stories260K.bin"


def as_theirs(path: Path):
    """The same weights in a LlamaForCausalLM, filled from the raw file."""
    transformers = pytest.importorskip("transformers")
    sizes, w = tensors_of(path)
    config = transformers.LlamaConfig(
        **{"vocab_size": sizes["vocabulary"], "hidden_size": sizes["width"], "intermediate_size": sizes["inner"]},
        **{"num_hidden_layers": sizes["layers"], "num_attention_heads": sizes["heads"]},
        **{"num_key_value_heads": sizes["groups"], "max_position_embeddings": sizes["context"], "rms_norm_eps": 1e-5},
    )
    half = sizes["width"] // sizes["heads"] // 2

    def halved(matrix):
        return matrix.reshape(-1, half, 2, sizes["width"]).swapaxes(1, 2).reshape(matrix.shape)

    state = {"model.embed_tokens.weight": w["embedding"], "model.norm.weight": w["norm"], "lm_head.weight": w["output"]}
    for layer in range(sizes["layers"]):
        attention = {"q": halved(w["q"][layer]), "k": halved(w["k"][layer]), "v": w["v"][layer], "o": w["o"][layer]}
        parts = {f"self_attn.{name}_proj": matrix for name, matrix in attention.items()}
        parts |= {f"mlp.{name}_proj": w[name][layer] for name in ("gate", "up", "down")}
        parts |= {"input_layernorm": w["attention_norm"][layer]}
        parts |= {"post_attention_layernorm": w["feedforward_norm"][layer]}
        state |= {f"model.layers.{layer}.{name}.weight": tensor for name, tensor in parts.items()}
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict({name: torch.from_numpy(tensor.copy()) for name, tensor in state.items()})
    return model


def test_the_real_model_gives_the_logits_that_transformers_gives(stories):
    ours, theirs = read_llama2c(stories), as_theirs(stories)
    ids = torch.randint(3, 512, (2, 67))
    ids[:, 0] = 1
    with torch.no_grad():
        assert_close(ours(ids), theirs(ids).logits, atol=1e-4, rtol=0)
        found = theirs.generate(ids[:1, :1], do_sample=False, max_new_tokens=100, eos_token_id=-1, pad_token_id=0)
        story = ids[:1, :1]
        for _ in range(100):
            story = torch.cat([story, ours(story)[:, -1:].argmax(-1)], dim=1)
    assert found.tolist() == story.tolist()


def write_tokenizer(path: Path, *, raw_bytes: bool = False, pieces: list[str] = PIECES) -> Path:
    """As llama2.c exports it: spaces in place of ▁, and in older versions each byte as itself."""
    names = [b"<unk>", b"\n<s>\n", b"\n</s>\n"]
    names += [bytes([each]) if raw_bytes else f"<0x{each:02X}>".encode() for each in range(256)]
    names += [piece.replace("▁", " ").encode() for piece in pieces]
    entries = [struct.pack("<fi", -float(max(each - 258, 0)), len(name)) + name for each, name in enumerate(names)]
    path.write_bytes(struct.pack("<i", max(map(len, names))) + b"".join(entries))
    return path


def ids_by_hand(text: str) -> list[int]:
    """llama2.c's encoder: letters, then again and again the best of all joins of neighbours."""
    known = {piece: each + 259 for each, piece in enumerate(PIECES)}
    ids = []
    for letter in "▁" + text.replace(" ", "▁") if text else "":
        ids += [known[letter]] if letter in known else [byte + 3 for byte in letter.encode()]
    while True:
        joins = []
        for place, (first, second) in enumerate(pairwise(ids)):
            if first >= 259 and second >= 259 and PIECES[first - 259] + PIECES[second - 259] in known:
                joins.append((known[PIECES[first - 259] + PIECES[second - 259]], place))
        if not joins:
            return ids
        joined, place = min(joins)  # here the first piece is the best
        ids[place : place + 2] = [joined]


TEXTS = ["once and the cat", "hello hello.", "  the  the", "othercat\ncattt"]
TEXTS += ["né 🙂 x", "the hell on", "", "</s> and <s>"]


@pytest.mark.parametrize("raw_bytes", [True, False])
def test_the_tokenizer_joins_as_sentencepiece_does(tmp_path, raw_bytes):
    made = read_llama2c_tokenizer(write_tokenizer(tmp_path / "tokenizer.bin", raw_bytes=raw_bytes))
    words = LanguageTokenizer(made, end="</s>")
    assert words.encode(TEXTS) == [ids_by_hand(text) for text in TEXTS]
    assert words.decode(words.encode(TEXTS)) == TEXTS
    assert (words.start, words.end, len(words)) == ([1], 2, SIZES["vocabulary"])
    assert len(words.encode(["once"])[0]) == 1  # pieces were joined at all


def test_both_become_a_model_directory(tmp_path):
    model, words = write_model(tmp_path / "model.bin", shared=False), write_tokenizer(tmp_path / "tokenizer.bin")
    convert_llama2c(model, words, tmp_path / "out")
    loaded, tokenizer = load_model(tmp_path / "out", kinds=(Llama,))
    ids = torch.randint(0, 259, (2, 7))
    assert torch.equal(loaded(ids), read_llama2c(model)(ids))
    assert tokenizer.encode(TEXTS) == [ids_by_hand(text) for text in TEXTS]
    assert (loaded.config.end, loaded.config.other_ends, tokenizer.end) == (2, (1,), 2)
    transformers = pytest.importorskip("transformers")
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "out").eval()
    with torch.no_grad():
        assert_close(theirs(ids).logits, loaded(ids), atol=1e-4, rtol=0)
    assert theirs.generation_config.bos_token_id == 1
    encoded = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")("once and").input_ids
    assert encoded == [1, *ids_by_hand("once and")]


def test_a_damaged_model_is_a_sentence(tmp_path):
    path = write_model(tmp_path / "model.bin", shared=True)
    whole = path.read_bytes()
    for content, sentence in (
        (whole[:-4], "its header says"),
        (whole + b"more", "its header says"),
        (whole[:20], "cannot be read as a llama2.c model"),
        (struct.pack("<i", 0x616B3432) + whole[4:], "later version"),
        (b"PK\x03\x04" * 40, "no llama2.c model"),
        (struct.pack("<7i", 288, 768, 6, 6, 6, 32000, 256), "cut short"),
        (struct.pack("<7i", 12, 17, 2, 3, 0, 99, 9) + whole, "no llama2.c model"),
    ):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=sentence):
            read_llama2c(path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_llama2c(tmp_path / "nowhere.bin")


def test_a_damaged_tokenizer_is_a_sentence(tmp_path):
    path = write_tokenizer(tmp_path / "tokenizer.bin")
    whole = path.read_bytes()
    for content, sentence in (
        (whole[:-1], "middle of a piece"),
        (whole[:-9], "cannot be read as a llama2.c tokenizer"),
        (whole[:1000], "cannot be read as a llama2.c tokenizer"),
        (b"", "it has 0 pieces"),
        (write_tokenizer(path, pieces=["a", "a"]).read_bytes(), "'a' twice"),
    ):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=sentence):
            read_llama2c_tokenizer(path)


def test_from_the_command_line(tmp_path):
    model, words = write_model(tmp_path / "model.bin", shared=True), write_tokenizer(tmp_path / "tokenizer.bin")
    command = [sys.executable, "-m", "manyheads.interop.llama2c", model, words, tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert load_model(tmp_path / "out")[0].config.width == SIZES["width"]
    write_tokenizer(words, pieces=PIECES[:-1])
    for out, said in ((tmp_path / "no" / "where", "do not belong together"), (tmp_path / "out", "exists already")):
        done = subprocess.run([*command[:-1], out], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert said in done.stderr
    assert not (tmp_path / "no").exists()


def test_what_is_there_already_is_not_replaced(tmp_path):
    model, words = write_model(tmp_path / "model.bin", shared=True), write_tokenizer(tmp_path / "tokenizer.bin")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "thesis.tex").write_text("years")
    with pytest.raises(ConfigError, match="papers exists already; name another directory"):
        convert_llama2c(model, words, tmp_path / "papers")
    assert (tmp_path / "papers" / "thesis.tex").read_text() == "years"
    convert_llama2c(model, words, tmp_path / "new" / "model")
    assert load_model(tmp_path / "new" / "model")[0].config.width == SIZES["width"]
