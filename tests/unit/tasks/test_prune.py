"""Models saved without some of their heads: they open again, and give what the whole gives with those heads off."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import load_model, model_kind, save_model
from manyheads.look.heads import heads_off
from manyheads.look.parts import attentions
from manyheads.models.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertConfig,
    BertEmbedder,
    BertTagger,
    MaskedBert,
)
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.transformer import Transformer, TransformerConfig, parameters
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.inside.prune import prune, without
from manyheads.tasks.proofs.selfcheck import check
from manyheads.tasks.similarity.use import Embedder
from manyheads.tasks.translate.use import Translator
from manyheads.text.encoder import EncoderTokenizer
from manyheads.text.language import LanguageTokenizer
from manyheads.text.tokenizer import Tokenizer

LINES = ["a dog sleeps under the table", "the cat danced", "ein Hund schläft unter dem Tisch"] * 3
NAMES = ("bad", "so so", "good")
LANGUAGE = LanguageTokenizer.train(LINES, 270)
ENCODER = EncoderTokenizer.train(LINES, 60)
TRANSLATION = Tokenizer.train(LINES, 300)
IDS = torch.tensor([[5, 9, 30, 8, 4, 11, 2], [7, 7, 17, 22, 6, 9, 13]])  # none of them special
SOURCE = torch.tensor([[6, 13, 11, 7, TRANSLATION.end], [8, 29, 31, 5, TRANSLATION.end]])
LENGTHS = torch.tensor([7, 4])


def gpt(**changes) -> GPT:
    sizes = {"vocabulary": len(LANGUAGE) + 3, "context": 29, "width": 20, "layers": 2, "heads": 5}
    return GPT(GPTConfig(**{**sizes, "end": LANGUAGE.end, **changes}))


def llama(**changes) -> Llama:
    sizes = {"vocabulary": len(LANGUAGE) + 3, "context": 29, "width": 36, "layers": 2, "heads": 6, "inner": 37}
    return Llama(LlamaConfig(**{**sizes, "key_value_heads": 3, "end": LANGUAGE.end, **changes}))


def bert(**options) -> Bert:
    sizes = {"context": 29, "width": 20, "layers": 2, "heads": 5, "separator": ENCODER.separator}
    return Bert(BertConfig(vocabulary=len(ENCODER) + 3, **sizes), **options)


def transformer(**changes) -> Transformer:
    special = {"pad": TRANSLATION.pad, "start": TRANSLATION.start, "end": TRANSLATION.end}
    sizes = {"vocabulary": len(TRANSLATION), "width": 20, "layers": 2, "decoder_layers": 3, "heads": 5, "inner": 28}
    return Transformer(TransformerConfig(**{**sizes, **special, **changes}))


MAKERS = {
    "gpt": gpt,
    "gpt, norms behind": lambda: gpt(norm_order="post"),
    "gpt of our own": lambda: gpt(positions=PositionsConfig(kind="alibi")),
    "llama": llama,
    "translator": transformer,
    "translator of our own": lambda: transformer(positions=PositionsConfig(kind="relative"), norm_order="pre"),
    "encoder": bert,
    "masked": lambda: MaskedBert(bert().config),
    "masked, next sentence": lambda: MaskedBert(bert().config, next_sentence=True),
    "classifier": lambda: BertClassifier(bert(), NAMES),
    "tagger": lambda: BertTagger(bert(pooler=False), NAMES),
    "answerer": lambda: BertAnswerer(bert(pooler=False), impossible=True, longest=23),
    "gpt's classifier": lambda: DecoderClassifier(gpt(), NAMES),
    "llama's classifier": lambda: DecoderClassifier(llama(), NAMES),
}
TYPES = {
    **{"gpt": "gpt2", "gpt, norms behind": "openai-gpt", "gpt of our own": "manyheads-gpt"},
    **{"llama": "manyheads-llama", "translator": "manyheads-transformer"},
    **{"translator of our own": "manyheads-transformer", "gpt's classifier": "gpt2"},
    **{"llama's classifier": "manyheads-llama"},
}
HEADS = [(0, 1), (0, 4), (1, 0)]
IN_LLAMA = [(0, 2), (0, 3)]
IN_TRANSLATOR = [("encoder", 1, 4), ("decoder", 0, 0), ("cross", 2, 1)]
HEADS_OF = {
    **{"llama": IN_LLAMA, "llama's classifier": IN_LLAMA},
    **{"translator": IN_TRANSLATOR, "translator of our own": IN_TRANSLATOR},
}
every_model = pytest.mark.parametrize("name", MAKERS)


def spread(model):
    """Weights so large that heads find different things, and outputs that differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def saved(directory: Path, model) -> Path:
    body = getattr(model, "body", model)
    tokenizer = {Transformer: TRANSLATION, Bert: ENCODER}.get(type(body), LANGUAGE)
    save_model(directory, spread(model), tokenizer, "# A model\n")
    return directory


@torch.inference_mode()
def output(model) -> torch.Tensor:
    if isinstance(model, Transformer):
        return model(SOURCE, IDS)
    if isinstance(model, DecoderClassifier):
        return model(IDS, LENGTHS)
    return model(IDS)


def config_of(directory: Path) -> dict:
    return json.loads((directory / "config.json").read_text(encoding="utf-8"))


@every_model
def test_what_was_pruned_opens_again_and_is_the_whole_with_those_heads_off(tmp_path, name):
    whole = saved(tmp_path / "whole", MAKERS[name]())
    heads = HEADS_OF.get(name, HEADS)
    before, after = prune(whole, heads, tmp_path / "small")
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    assert type(small) is type(model) is model_kind(tmp_path / "small")
    assert (before, after) == (parameters(model), parameters(small))
    assert before > after
    expected = output(model)
    with heads_off(model, heads):
        assert_close(output(small), output(model))
    assert not torch.allclose(output(small), expected, atol=1e-3)  # and the test can tell
    table = config_of(tmp_path / "small")
    assert table["model_type"] == TYPES.get(name, "bert")
    assert table["pruned_heads"] == small_names(heads)


def small_names(heads) -> dict[str, list[int]]:
    """As config.json has them."""
    found: dict[str, list[int]] = {}
    for *layer, head in heads:
        found.setdefault(".".join(map(str, layer)), []).append(head)
    return found


@pytest.mark.parametrize("name", ["classifier", "tagger", "answerer", "gpt's classifier"])
def test_what_stands_on_top_is_kept(tmp_path, name):
    whole = saved(tmp_path / "whole", MAKERS[name]())
    prune(whole, HEADS, tmp_path / "small")
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    assert torch.equal(small.score.weight, model.score.weight)
    for attribute in ("names", "form", "impossible", "longest"):
        assert getattr(small, attribute, None) == getattr(model, attribute, None)


@pytest.mark.parametrize("name", ["gpt of our own", "llama", "translator of our own", "masked"])
def test_what_was_pruned_keeps_its_promises(tmp_path, name):
    """Cached or not, in a batch or alone, by either kernel."""
    prune(saved(tmp_path / "whole", MAKERS[name]()), HEADS_OF.get(name, HEADS), tmp_path / "small")
    findings = check(tmp_path / "small", sentences=3, beam=2)
    assert [finding for finding in findings if not finding.holds] == []
    assert findings


def test_a_translator_translates_as_it_does_with_those_heads_off(tmp_path):
    whole = saved(tmp_path / "whole", transformer())
    heads = [("cross", 0, 1), ("cross", 2, 3), ("decoder", 1, 0), ("encoder", 0, 2)]
    prune(whole, heads, tmp_path / "small")
    translator, small = (Translator.load(path, device="cpu") for path in (whole, tmp_path / "small"))
    with heads_off(translator.model, heads):
        expected = translator.candidates(LINES[:3])
    found = small.candidates(LINES[:3])
    for one, other in zip(found, expected, strict=True):
        assert [each.text for each in one] == [each.text for each in other]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=1e-3)
    assert found != translator.candidates(LINES[:3])


def test_the_card_says_what_is_gone(tmp_path):
    whole = saved(tmp_path / "whole", gpt())
    prune(whole, [(1, 0), (0, 1)], tmp_path / "small")
    assert (tmp_path / "small" / "README.md").read_text() == (
        "# A model\n\n## Pruned\nWithout the heads 0.1, 1.0 (layer.head, counted from 0).\n"
    )


def test_a_run_directory_stands_for_its_model_and_stays_as_it_was(tmp_path):
    saved(tmp_path / "run" / "model", gpt())
    before = {path: path.read_bytes() for path in (tmp_path / "run" / "model").iterdir()}
    prune(tmp_path / "run", HEADS, tmp_path / "new" / "small")
    assert load_model(tmp_path / "new" / "small")[0].blocks[0].attention.numbers == [0, 2, 3]
    assert {path: path.read_bytes() for path in (tmp_path / "run" / "model").iterdir()} == before


# A Llama's config can say how many heads there are


EQUAL = [(0, 2), (0, 3), (1, 4), (1, 5)]


def test_a_llama_whose_layers_all_lose_as_many_is_a_llama(tmp_path):
    transformers = pytest.importorskip("transformers")
    whole = saved(tmp_path / "whole", llama())
    prune(whole, EQUAL, tmp_path / "small")
    table = config_of(tmp_path / "small")
    assert (table["model_type"], table["num_attention_heads"], table["num_key_value_heads"]) == ("llama", 4, 2)
    assert table["head_dim"] == 6
    assert "pruned_heads" not in table
    theirs, report = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "small", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    expected = output(model)
    with heads_off(model, EQUAL), torch.no_grad():
        assert_close(theirs.eval()(IDS).logits, model(IDS), atol=1e-4, rtol=0)
        assert_close(output(small), model(IDS))
    assert not torch.allclose(output(small), expected, atol=1e-2)


def test_a_llama_s_classifier_whose_layers_all_lose_as_many_opens_there_too(tmp_path):
    transformers = pytest.importorskip("transformers")
    prune(saved(tmp_path / "whole", MAKERS["llama's classifier"]()), EQUAL, tmp_path / "small")
    theirs = transformers.LlamaForSequenceClassification.from_pretrained(tmp_path / "small").eval()
    small = load_model(tmp_path / "small")[0]
    with torch.no_grad():
        assert_close(theirs(IDS).logits, small(IDS, torch.tensor([7, 7])), atol=1e-4, rtol=0)


def test_layers_that_come_to_be_equal_one_after_the_other_are_a_llama_too(tmp_path):
    prune(saved(tmp_path / "whole", llama()), EQUAL[:2], tmp_path / "one")
    assert config_of(tmp_path / "one")["model_type"] == "manyheads-llama"
    prune(tmp_path / "one", EQUAL[2:], tmp_path / "two")
    prune(tmp_path / "whole", EQUAL, tmp_path / "both")
    assert config_of(tmp_path / "two") == config_of(tmp_path / "both")
    assert torch.equal(output(load_model(tmp_path / "two")[0]), output(load_model(tmp_path / "both")[0]))


@pytest.mark.parametrize(
    ("changes", "heads"),
    [
        ({}, [(0, 0), (0, 1)]),
        ({"key_value_heads": None}, [(0, 0), (1, 0)]),  # five heads do not divide the width, as they must there
    ],
    ids=["unequal", "not dividing the width"],
)
def test_any_other_llama_keeps_our_own_type(tmp_path, changes, heads):
    whole = saved(tmp_path / "whole", llama(**changes))
    prune(whole, heads, tmp_path / "small")
    assert config_of(tmp_path / "small")["model_type"] == "manyheads-llama"
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    with heads_off(model, heads):
        assert_close(output(small), output(model))


@pytest.mark.parametrize("kind", ["alibi", "buckets", "relative"])
def test_a_llama_with_positions_that_differ_by_head_keeps_the_right_ones(tmp_path, kind):
    whole = saved(tmp_path / "whole", llama(positions=PositionsConfig(kind=kind)))
    prune(whole, EQUAL, tmp_path / "small")
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    for layer, part in enumerate(attentions(small)):
        assert part.module.numbers == [head for head in range(6) if (layer, head) not in EQUAL]
    with heads_off(model, EQUAL):
        assert_close(output(small), output(model))


# Again and again


@pytest.mark.parametrize("name", ["gpt", "encoder", "translator"])
def test_pruning_what_was_pruned_is_pruning_all_at_once(tmp_path, name):
    whole = saved(tmp_path / "whole", MAKERS[name]())
    first, second = ([("cross", 0, 1)], [("cross", 0, 3)]) if name == "translator" else ([(0, 1)], [(0, 3)])
    prune(whole, first, tmp_path / "one")
    prune(tmp_path / "one", second, tmp_path / "two")
    prune(whole, first + second, tmp_path / "both")
    two, both = (load_model(tmp_path / each)[0] for each in ("two", "both"))
    assert torch.equal(output(two), output(both))
    assert config_of(tmp_path / "two") == config_of(tmp_path / "both")
    assert not torch.allclose(output(two), output(load_model(tmp_path / "one")[0]), atol=1e-3)
    with pytest.raises(ConfigError, match=r"there is no head 1 in layer 0 .* which has 0, 2, 4; others were removed"):
        prune(tmp_path / "two", first, tmp_path / "three")
    assert not (tmp_path / "three").exists()


def test_a_smaller_llama_counts_its_heads_anew(tmp_path):
    prune(saved(tmp_path / "whole", llama()), EQUAL, tmp_path / "one")
    prune(tmp_path / "one", [(0, 0), (0, 1), (1, 2), (1, 3)], tmp_path / "two")
    table = config_of(tmp_path / "two")
    assert (table["model_type"], table["num_attention_heads"], table["num_key_value_heads"]) == ("llama", 2, 1)
    model = load_model(tmp_path / "whole")[0]
    with heads_off(model, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (1, 4), (1, 5)]):
        assert_close(output(load_model(tmp_path / "two")[0]), output(model))


# Zeros in their place


def transformers_of(name: str) -> str:
    return {
        **{"gpt": "GPT2LMHeadModel", "gpt, norms behind": "OpenAIGPTLMHeadModel", "llama": "LlamaForCausalLM"},
        **{"translator": "MarianMTModel", "encoder": "BertModel", "masked": "BertForMaskedLM"},
        **{"classifier": "BertForSequenceClassification"},
    }[name]


@pytest.mark.parametrize("name", ["gpt", "gpt, norms behind", "llama", "translator", "encoder", "masked", "classifier"])
def test_with_its_shape_kept_it_opens_wherever_the_whole_does(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    whole = saved(tmp_path / "whole", MAKERS[name]())
    heads = [(0, 1), (1, 4)] if name == "llama" else HEADS_OF.get(name, HEADS)  # and none of them with its group
    before, after = prune(whole, heads, tmp_path / "zeros", keep_shape=True)
    assert before == after
    config, kept = config_of(whole), config_of(tmp_path / "zeros")
    assert config == kept
    kind = getattr(transformers, transformers_of(name))
    theirs, report = kind.from_pretrained(tmp_path / "zeros", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    inputs = {"input_ids": SOURCE, "decoder_input_ids": IDS} if name == "translator" else {"input_ids": IDS}
    with torch.no_grad():
        found = theirs.eval()(**inputs)
    found = found.last_hidden_state if name == "encoder" else found.logits
    model = load_model(whole)[0]
    expected = output(model)
    with heads_off(model, heads):
        assert_close(found, output(model), atol=1e-4, rtol=0)
        assert_close(output(load_model(tmp_path / "zeros")[0]), output(model))
    assert not torch.allclose(found, expected, atol=1e-2)


def test_zeros_go_where_the_head_is_also_when_others_were_removed(tmp_path):
    prune(saved(tmp_path / "whole", gpt()), [(0, 1)], tmp_path / "small")
    prune(tmp_path / "small", [(0, 3)], tmp_path / "zeros", keep_shape=True)
    model = load_model(tmp_path / "whole")[0]
    with heads_off(model, [(0, 1), (0, 3)]):
        assert_close(output(load_model(tmp_path / "zeros")[0]), output(model))


def test_without_leaves_the_model_that_it_is_given():
    model = spread(gpt())
    expected = output(model)
    for keep_shape in (True, False):
        without(model, HEADS, keep_shape=keep_shape)
    assert torch.equal(output(model), expected)
    assert not any(part.module.removed for part in attentions(model))


# What transformers makes of a directory that it no longer understands


@pytest.mark.parametrize("name", ["gpt", "gpt, norms behind", "masked"])
def test_transformers_refuses_what_it_could_only_misread(tmp_path, name):
    """Since version 5 it passes over pruned_heads; the matrices are then of the wrong size, which it says."""
    transformers = pytest.importorskip("transformers", minversion="5")
    prune(saved(tmp_path / "whole", MAKERS[name]()), HEADS, tmp_path / "small")
    with pytest.raises(RuntimeError, match="mismatch"):
        getattr(transformers, transformers_of(name)).from_pretrained(tmp_path / "small")


@pytest.mark.parametrize("name", ["llama", "translator"])
def test_transformers_does_not_know_our_own_type(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    prune(saved(tmp_path / "whole", MAKERS[name]()), HEADS_OF[name], tmp_path / "small")
    with pytest.raises(ValueError, match="manyheads"):
        transformers.AutoConfig.from_pretrained(tmp_path / "small")


# What vectors are made of


def test_a_sentence_model_keeps_its_pooling(tmp_path):
    whole = tmp_path / "whole"
    save_model(whole, BertEmbedder(spread(bert(pooler=False)), "cls", False, longest=9), ENCODER, "# A model\n")
    prune(whole, HEADS, tmp_path / "small")
    embedder, small = (Embedder.load(path, device="cpu") for path in (whole, tmp_path / "small"))
    assert (small.model.pooling, small.model.normalised, small.longest) == ("cls", False, 9)
    with heads_off(embedder.model, HEADS):
        np.testing.assert_allclose(small(LINES[:3]), embedder(LINES[:3]), atol=1e-5)


# What cannot be


@pytest.mark.parametrize(
    ("name", "heads", "said"),
    [
        ("gpt", [(0, 1), (2, 0)], "there is no layer 2; the model has 2, counted from 0"),
        ("gpt", [(0, 5)], "there is no head 5 in layer 0 of self-attention, which has 5, counted from 0"),
        (
            "gpt",
            [(0, head) for head in range(5)],
            "all 5 heads of an attention would be removed; leave it at",
        ),
        ("gpt", [("cross", 0, 1)], "is not a head of this model"),
        ("llama", [(0, 2)], "heads share a key by 2, in their order; remove those that share one together"),
        ("translator", [(0, 1)], "is not a head of this model"),
    ],
)
def test_nothing_is_written_of_what_cannot_be_pruned(tmp_path, name, heads, said):
    whole = saved(tmp_path / "whole", MAKERS[name]())
    with pytest.raises(ConfigError, match=said):
        prune(whole, heads, tmp_path / "small")
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


@pytest.mark.parametrize("there", ["a folder", "a file", "the model itself"])
def test_what_is_there_already_is_not_written_over(tmp_path, there):
    whole = saved(tmp_path / "whole", gpt())
    out = whole if there == "the model itself" else tmp_path / "small"
    if there == "a folder":
        out.mkdir()
    elif there == "a file":
        out.write_text("mine")
    before = (whole / "model.safetensors").read_bytes()
    with pytest.raises(ConfigError) as refused:
        prune(whole, HEADS, out)
    assert str(refused.value) == f"{out} exists already; give another --out"
    assert (whole / "model.safetensors").read_bytes() == before
    assert there != "a file" or out.read_text() == "mine"


def test_a_model_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(CheckpointError, match="does not exist"):
        prune(tmp_path / "nothing", HEADS, tmp_path / "small")


DAMAGED = {
    "a layer that is not there": {"2": [1]},
    "no number of a layer": {"first": [1]},
    "a kind it has not": {"cross.0": [1]},
    "a head out of range": {"0": [5]},
    "a head below zero": {"0": [-1]},
    "all heads": {"0": [0, 1, 2, 3, 4]},
    "other heads than the weights": {"0": [1, 2, 3], "1": [0]},
    "a word": {"0": ["one"]},
    "a number for a list": {"0": 1},
    "nothing for a list": {"0": None},
    "lists in a list": {"0": [[1]]},
    "a list": [0, 1],
    "a string": "0.1",
    "true": True,
}


@pytest.mark.parametrize("name", ["gpt", "encoder", "gpt of our own"])
def test_a_config_that_says_what_cannot_be_is_one_sentence(tmp_path, name):
    prune(saved(tmp_path / "whole", MAKERS[name]()), HEADS, tmp_path / "small")
    path, table = tmp_path / "small" / "config.json", config_of(tmp_path / "small")
    for damage, found in DAMAGED.items():
        path.write_text(json.dumps({**table, "pruned_heads": found}))
        with pytest.raises(CheckpointError) as refused:
            load_model(tmp_path / "small")
        assert "\n" not in str(refused.value), damage
    path.write_text(json.dumps(table))
    assert load_model(tmp_path / "small")  # which nothing else is the matter with


@pytest.mark.parametrize("said", [{"0": [2]}, {"0": [2, 3], "1": []}, {"cross.0": [0, 1]}])
def test_heads_of_a_llama_that_share_a_key_with_others_are_one_sentence(tmp_path, said):
    whole = saved(tmp_path / "whole", llama())
    path = whole / "config.json"
    path.write_text(json.dumps({**config_of(whole), "pruned_heads": said}))
    with pytest.raises(CheckpointError):
        load_model(whole)


@pytest.mark.parametrize("said", [{}, None, {"0": []}])
def test_a_config_that_names_no_heads_is_that_of_a_whole_model(tmp_path, said):
    """As those that transformers wrote before version 5."""
    whole = saved(tmp_path / "whole", gpt())
    path = whole / "config.json"
    expected = output(load_model(whole)[0])
    path.write_text(json.dumps({**config_of(whole), "pruned_heads": said}))
    assert torch.equal(output(load_model(whole)[0]), expected)
