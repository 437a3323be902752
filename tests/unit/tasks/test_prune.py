"""Models saved without some of their heads: they open again, and give what the whole gives with those heads off."""

import pytest
import torch
from helpers import LINES, changed, config_of, randomised
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import load_embedder, load_model
from manyheads.look.heads import attentions, heads_off
from manyheads.models.bert import BertAnswerer, BertEmbedder, MaskedBert
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.rnn_translator import RNNTranslator, RNNTranslatorConfig
from manyheads.models.transformer import Transformer, parameters
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.inside.prune import prune, without
from manyheads.tasks.proofs.selfcheck import check
from manyheads.tasks.translate.use import Translator
from tests.unit.tasks import tiny
from tests.unit.tasks.tiny import NAMES, TRANSLATION, bert, bert_config, llama

IDS = torch.tensor([[5, 9, 30, 8, 4, 11, 2], [7, 7, 17, 22, 6, 9, 13]])  # none of them special
SOURCE = torch.tensor([[6, 13, 11, 7, TRANSLATION.end], [8, 29, 31, 5, TRANSLATION.end]])
LENGTHS = torch.tensor([7, 4])
FIVE = {"width": 20, "heads": 5}


def gpt(**changes):
    return tiny.gpt(**FIVE, **changes)


MAKERS = {
    **{name: lambda make=make: make(**FIVE) for name, make in tiny.MAKERS.items() if not name.startswith("of ")},
    "gpt, norms behind": lambda: gpt(norm_order="post"),
    "gpt of our own": lambda: gpt(positions=PositionsConfig(kind="alibi")),
    "llama": llama,
    "llama's classifier": lambda: DecoderClassifier(llama(), NAMES),
    "translator of our own": lambda: tiny.transformer(
        **FIVE, positions=PositionsConfig(kind="relative"), norm_order="pre"
    ),
    "masked, next sentence": lambda: MaskedBert(bert_config(**FIVE), next_sentence=True),
    "answerer": lambda: BertAnswerer(bert(pooler=False, **FIVE), impossible=True, longest=23),
    "embedder": lambda: BertEmbedder(bert(pooler=False, **FIVE), "cls", False, longest=9),
}
TYPES = {
    **{"gpt": "gpt2", "gpt, norms behind": "openai-gpt", "gpt of our own": "manyheads-gpt"},
    **{"llama": "manyheads-llama", "translator": "manyheads-transformer"},
    **{"translator of our own": "manyheads-transformer", "decoder's classifier": "gpt2"},
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


def saved(directory, model):
    return tiny.saved(directory, randomised(MAKERS[model]() if isinstance(model, str) else model))


@torch.inference_mode()
def output(model) -> torch.Tensor:
    if isinstance(model, Transformer):
        return model(SOURCE, IDS)
    if isinstance(model, DecoderClassifier):
        return model(IDS, LENGTHS)
    return model(IDS)


@every_model
def test_what_was_pruned_opens_again_and_is_the_whole_with_those_heads_off(tmp_path, name):
    whole = saved(tmp_path / "whole", name)
    heads = HEADS_OF.get(name, HEADS)
    before, after = prune(whole, heads, tmp_path / "small")
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    assert type(small) is type(model)
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


@pytest.mark.parametrize("name", ["classifier", "tagger", "answerer", "decoder's classifier", "embedder"])
def test_what_stands_on_top_is_kept(tmp_path, name):
    whole = saved(tmp_path / "whole", name)
    prune(whole, HEADS, tmp_path / "small")
    opened = load_embedder if name == "embedder" else load_model
    model, small = opened(whole)[0], opened(tmp_path / "small")[0]
    assert name == "embedder" or torch.equal(small.score.weight, model.score.weight)
    for attribute in ("names", "form", "impossible", "longest", "pooling", "normalised"):
        assert getattr(small, attribute, None) == getattr(model, attribute, None)
    assert name != "embedder" or (small.pooling, small.normalised, small.longest) == ("cls", False, 9)


@pytest.mark.parametrize("name", ["gpt of our own", "llama", "translator of our own", "masked"])
def test_what_was_pruned_keeps_its_promises(tmp_path, name):
    """Cached or not, in a batch or alone, by either kernel."""
    prune(saved(tmp_path / "whole", name), HEADS_OF.get(name, HEADS), tmp_path / "small")
    findings = check(tmp_path / "small", sentences=3, beam=2)
    assert [finding for finding in findings if not finding.holds] == []
    assert findings


def test_a_translator_translates_as_it_does_with_those_heads_off(tmp_path):
    whole = saved(tmp_path / "whole", "translator")
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


def test_a_run_directory_stands_for_its_model_and_stays_as_it_was_and_the_card_says_what_is_gone(tmp_path):
    model = saved(tmp_path / "run" / "model", gpt())
    before = {path: path.read_bytes() for path in model.iterdir()}
    small = tmp_path / "new" / "small"
    prune(tmp_path / "run", [(1, 0), (0, 1)], small)
    assert load_model(small)[0].blocks[0].attention.numbers == [0, 2, 3, 4]
    assert {path: path.read_bytes() for path in model.iterdir()} == before
    assert (small / "README.md").read_text() == (
        "# A model\n\n## Pruned\nWithout the heads 0.1, 1.0 (layer.head, counted from 0).\n"
    )


# A Llama's config can say how many heads there are


EQUAL = [(0, 2), (0, 3), (1, 4), (1, 5)]


@pytest.mark.parametrize("name", ["llama", "llama's classifier"])
def test_a_llama_whose_layers_all_lose_as_many_is_a_llama(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    whole = saved(tmp_path / "whole", name)
    prune(whole, EQUAL, tmp_path / "small")
    table = config_of(tmp_path / "small")
    assert (table["model_type"], table["num_attention_heads"], table["num_key_value_heads"]) == ("llama", 4, 2)
    assert table["head_dim"] == 6
    assert "pruned_heads" not in table
    theirs = opened_by_them(getattr(transformers, transformers_of(name)), tmp_path / "small")
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    expected, lengths = output(model), () if name == "llama" else (torch.tensor([7, 7]),)
    with heads_off(model, EQUAL), torch.no_grad():
        assert_close(theirs(IDS).logits, model(IDS, *lengths), atol=1e-4, rtol=0)
        assert_close(output(small), output(model))
    assert not torch.allclose(output(small), expected, atol=1e-2)


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
        ({}, [(0, 0), (0, 1)]),  # unequal
        ({"key_value_heads": None}, [(0, 0), (1, 0)]),  # five heads do not divide the width, as they must there
        *(({"positions": PositionsConfig(kind=kind)}, EQUAL) for kind in ("alibi", "buckets", "relative")),
    ],
)
def test_any_other_llama_keeps_our_own_type_and_positions_that_differ_by_head(tmp_path, changes, heads):
    whole = saved(tmp_path / "whole", llama(**changes))
    prune(whole, heads, tmp_path / "small")
    assert config_of(tmp_path / "small")["model_type"] == "manyheads-llama"
    model, small = load_model(whole)[0], load_model(tmp_path / "small")[0]
    for layer, part in enumerate(attentions(small) if "positions" in changes else ()):
        assert part.module.numbers == [head for head in range(6) if (layer, head) not in heads]
    with heads_off(model, heads):
        assert_close(output(small), output(model))


# Again and again


@pytest.mark.parametrize("name", ["gpt", "encoder", "translator"])
def test_pruning_what_was_pruned_is_pruning_all_at_once(tmp_path, name):
    whole = saved(tmp_path / "whole", name)
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
        **{"classifier": "BertForSequenceClassification", "llama's classifier": "LlamaForSequenceClassification"},
    }[name]


def opened_by_them(kind, directory):
    model, report = kind.from_pretrained(directory, output_loading_info=True)
    assert not any(report[f"{what}_keys"] for what in ("missing", "unexpected", "mismatched"))
    return model.eval()


@pytest.mark.parametrize("name", ["gpt", "gpt, norms behind", "llama", "translator", "encoder", "masked", "classifier"])
def test_with_its_shape_kept_it_opens_wherever_the_whole_does(tmp_path, name):
    transformers = pytest.importorskip("transformers")
    whole = saved(tmp_path / "whole", name)
    heads = [(0, 1), (1, 4)] if name == "llama" else HEADS_OF.get(name, HEADS)  # and none of them with its group
    before, after = prune(whole, heads, tmp_path / "zeros", keep_shape=True)
    assert before == after
    assert config_of(whole) == config_of(tmp_path / "zeros")
    theirs = opened_by_them(getattr(transformers, transformers_of(name)), tmp_path / "zeros")
    inputs = {"input_ids": SOURCE, "decoder_input_ids": IDS} if name == "translator" else {"input_ids": IDS}
    with torch.no_grad():
        found = theirs(**inputs)
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
    model = randomised(gpt())
    expected = output(model)
    for keep_shape in (True, False):
        without(model, HEADS, keep_shape=keep_shape)
    assert torch.equal(output(model), expected)
    assert not any(part.module.removed for part in attentions(model))


# What transformers makes of a directory that it no longer understands


@pytest.mark.parametrize("name", ["gpt", "gpt, norms behind", "masked", "llama", "translator"])
def test_transformers_refuses_what_it_could_only_misread(tmp_path, name):
    """Since version 5 it passes over pruned_heads; the matrices are then of the wrong size, which it says."""
    transformers = pytest.importorskip("transformers", minversion="5")
    prune(saved(tmp_path / "whole", name), HEADS_OF.get(name, HEADS), tmp_path / "small")
    if name in HEADS_OF:
        with pytest.raises(ValueError, match="manyheads"):  # a type of our own
            transformers.AutoConfig.from_pretrained(tmp_path / "small")
        return
    with pytest.raises(RuntimeError, match="mismatch"):
        getattr(transformers, transformers_of(name)).from_pretrained(tmp_path / "small")


# What cannot be


@pytest.mark.parametrize(
    ("name", "heads", "said"),
    [
        ("gpt", [(0, 1), (2, 0)], "there is no layer 2; the model has 2, counted from 0"),
        ("gpt", [(0, 5)], "there is no head 5 in layer 0 of self-attention, which has 5, counted from 0"),
        ("gpt", [(0, head) for head in range(5)], "all 5 heads of an attention would be removed; leave it at"),
        ("gpt", [("cross", 0, 1)], "is not a head of this model; write layer.head, such as 0.3, in Python as "),
        ("llama", [(0, 2)], "heads share a key by 2, in their order; remove those that share one together"),
        ("translator", [(0, 1)], "is not a head of this model; write cross.0.3 or decoder.0.3 or encoder.0.3, in "),
    ],
)
def test_nothing_is_written_of_what_cannot_be_pruned(tmp_path, name, heads, said):
    whole = saved(tmp_path / "whole", name)
    with pytest.raises(ConfigError, match=said):
        prune(whole, heads, tmp_path / "small")
    with pytest.raises(CheckpointError, match="does not exist"):
        prune(tmp_path / "nothing", heads, tmp_path / "small")
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_what_is_there_already_is_not_written_over(tmp_path):
    whole = saved(tmp_path / "whole", gpt())
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("mine")
    before = (whole / "model.safetensors").read_bytes()
    for out in (tmp_path / "folder", tmp_path / "file", whole):
        with pytest.raises(ConfigError) as refused:
            prune(whole, HEADS, out)
        assert str(refused.value) == f"{out} exists already; name another directory"
    assert (whole / "model.safetensors").read_bytes() == before
    assert (tmp_path / "file").read_text() == "mine"


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
    small = tmp_path / "small"
    prune(saved(tmp_path / "whole", name), HEADS, small)
    right = config_of(small)["pruned_heads"]
    for damage, found in DAMAGED.items():
        with pytest.raises(CheckpointError) as refused:
            load_model(changed(small, pruned_heads=found))
        assert "\n" not in str(refused.value), damage
    assert load_model(changed(small, pruned_heads=right))  # which nothing else is the matter with


@pytest.mark.parametrize("said", [{"0": [2]}, {"0": [2, 3], "1": []}, {"cross.0": [0, 1]}])
def test_heads_of_a_llama_that_share_a_key_with_others_are_one_sentence(tmp_path, said):
    with pytest.raises(CheckpointError):
        load_model(changed(saved(tmp_path / "whole", llama()), pruned_heads=said))


@pytest.mark.parametrize("said", [{}, None, {"0": []}])
def test_a_config_that_names_no_heads_is_that_of_a_whole_model(tmp_path, said):
    """As those that transformers wrote before version 5."""
    whole = saved(tmp_path / "whole", gpt())
    expected = output(load_model(whole)[0])
    assert torch.equal(output(load_model(changed(whole, pruned_heads=said))[0]), expected)


@pytest.mark.parametrize(
    ("keep_shape", "said"), [(True, "DotAttention has no output projection"), (False, "all 1 heads")]
)
def test_the_only_head_of_states_as_they_are_stays(keep_shape, said):
    model = RNNTranslator(RNNTranslatorConfig(vocabulary=30, width=6, sees="dot"))
    with pytest.raises(ConfigError, match=said):
        without(model, [("cross", 0, 0)], keep_shape=keep_shape)
