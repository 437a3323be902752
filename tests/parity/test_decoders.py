"""What is particular to checkpoints of GPT-1, GPT-2 and Llama: older files, several ends, labels, choosers."""

import json
from itertools import takewhile

import pytest
import torch
from checkpoints import KINDS, WORDS, opened_by_them, ours_of, saved, theirs_of
from helpers import changed, config_of, rewritten

from manyheads.interop.directory import load_model
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.language.use import LanguageModel

BEYOND = [[len(WORDS) + each] for each in range(3)]  # rows of the models that are no token's
IDS = torch.tensor([[5, 90, 33, 8, 41, 1, 12], [7, 12, 160, 11, 6, 100, 13]])
LENGTHS = torch.tensor([7, 4])
every_language_model = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].ours in (GPT, Llama)])
every_classifier = pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name].ours is DecoderClassifier])


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "OpenAIGPTLMHeadModel"])
def test_what_old_files_have_more_or_less_is_no_matter(tmp_path, name):
    model = ours_of(name)

    def as_first_published(tensors):
        bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        masks = {f"h.{number}.attn.bias": torch.ones(1, 1, 19, 19) for number in (0, 1)}
        return {**bare, **masks, "h.0.attn.masked_bias": torch.tensor(-1e4), "lm_head.weight": torch.zeros(5)}

    again, _ = load_model(rewritten(saved(tmp_path, model), as_first_published))
    assert torch.equal(again(IDS), model(IDS))


@every_classifier
def test_labels_are_theirs_and_theirs_are_ours(tmp_path, name):
    theirs = opened_by_them(name, saved(tmp_path / "ours", ours_of(name)))
    assert theirs.config.problem_type == "single_label_classification"
    ours, _ = load_model(saved(tmp_path / "theirs", theirs_of(name)))
    assert (ours.names, ours.form) == (tuple(f"LABEL_{each}" for each in range(5)), "either")


@pytest.mark.parametrize(("kind", "changes"), [("gpt2", {}), ("manyheads-gpt", {"norm": "rms", "tied": False})])
def test_a_chooser_comes_back(tmp_path, kind, changes):
    model = DecoderClassifier(ours_of("GPT2LMHeadModel", **changes), form="choice").eval()
    assert config_of(saved(tmp_path, model))["model_type"] == kind
    again, _ = load_model(tmp_path, kinds=(DecoderClassifier,))
    assert (again.names, again.form) == ((), "choice")
    assert torch.equal(again(IDS, LENGTHS), model(IDS, LENGTHS))
    assert torch.equal(again.body(IDS), model.body(IDS))


def test_configs_of_versions_before_5_are_read(tmp_path):
    scaled = PositionsConfig(kind="rotary", scaling="llama3", length=16, factor=8.0, base=5_000.0)
    model = ours_of("LlamaForCausalLM", positions=scaled, key_value_heads=None)
    old = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling = {**old, "original_max_position_embeddings": 16}
    gone = dict.fromkeys(("head_dim", "attention_bias", "mlp_bias", "num_key_value_heads", "rope_parameters"), "gone")
    changed(saved(tmp_path, model), rope_theta=5_000.0, rope_scaling=scaling, **gone)
    assert load_model(tmp_path)[0].config == model.config


@every_language_model
def test_several_ends_go_both_ways(tmp_path, name):
    saved(tmp_path, ours_of(name, other_ends=(7, 5)))
    theirs = opened_by_them(name, tmp_path)
    assert theirs.config.eos_token_id == theirs.generation_config.eos_token_id == [WORDS.end, 7, 5]
    again, _ = load_model(tmp_path)
    assert (again.config.end, again.config.other_ends) == (WORDS.end, (7, 5))
    (tmp_path / "generation_config.json").unlink()
    changed(tmp_path, eos_token_id=[128_001, 4])  # one that this vocabulary has not
    assert load_model(tmp_path)[0].config.end == 4


def write_ends(directory, **ends):
    """Says the ends of a text in the files named, and in no other."""
    for file in ("config", "generation_config"):
        path = directory / f"{file}.json"
        table = json.loads(path.read_text())
        path.write_text(json.dumps({**table, "eos_token_id": ends.get(file)}))


@every_language_model
@pytest.mark.parametrize("beams", [1, 3])
def test_a_text_ends_at_every_end_that_any_file_names_as_theirs_does(tmp_path, name, beams):
    """The tokenizer's end, the config's and those of generation_config.json; theirs is told all of them."""
    theirs = theirs_of(name).eval()
    saved(tmp_path, theirs)
    prompts = ["the cat", "a dog", "table"]

    def written(*ends):
        how = {"num_beams": beams, "length_penalty": 0.0, "do_sample": False, "max_new_tokens": 7}
        how |= {"eos_token_id": [WORDS.end, *ends], "pad_token_id": WORDS.end, "bad_words_ids": BEYOND}
        for prompt in WORDS.encode(prompts):
            (ids,) = theirs.generate(torch.tensor([prompt]), **how).tolist()
            yield list(takewhile(lambda each: each not in (WORDS.end, *ends), ids[len(prompt) :]))

    def ours():
        model = LanguageModel.load(tmp_path, device="cpu")
        if beams > 1:
            return model.search(prompts, tokens=7, beam=beams)
        sampled = [model.generate(prompt, tokens=7, temperature=0.0) for prompt in prompts]
        assert WORDS.decode([model.continued(ids, 7) for ids in WORDS.encode(prompts)]) == sampled
        return sampled

    free = list(written())
    assert ours() == WORDS.decode(free)
    ends = [row[place] for row, place in zip(free, (1, 3, 0), strict=True)]
    write_ends(tmp_path, config=ends[0], generation_config=[ends[1], 128_001, ends[2]])
    assert ours() == WORDS.decode(list(written(*ends))) != WORDS.decode(free)
