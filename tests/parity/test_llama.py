"""Llama checkpoints, in both directions."""

import json

import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import load_model, save_model
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.ops import rotary
from manyheads.text.language import LanguageTokenizer

transformers = pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def tokenizer():
    return LanguageTokenizer.train(["a dog sleeps under the table", "the cat danced"] * 3, 270)


def randomised(model, scale=0.3):
    """Norms and biases that are not one and zero, and logits that differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return model.eval()


def tiny(tokenizer, **changes) -> Llama:
    sizes = {"vocabulary": len(tokenizer) + 3, "context": 96, "width": 36, "layers": 2, "heads": 6, "inner": 37}
    return randomised(Llama(LlamaConfig(**{**sizes, "key_value_heads": 3, "end": tokenizer.end, **changes})))


def scaled(kind, length=16, **changes):
    return PositionsConfig(kind="rotary", scaling=kind, length=length, **{"factor": 3.0, "base": 5_000.0, **changes})


def assert_equal_models(ours, theirs, tokenizer):
    ids = torch.randint(1, len(tokenizer), (2, 41))
    with torch.no_grad():
        expected = theirs(ids).logits
        assert_close(ours(ids), expected, atol=1e-4, rtol=0)
        assert not torch.allclose(ours(ids.flip(1)), expected, atol=1e-2)  # and the test can tell
        ids = ids[:, :9]
        found = theirs.generate(ids, do_sample=False, max_new_tokens=7, eos_token_id=-1, pad_token_id=0)
        for _ in range(7):
            ids = torch.cat([ids, ours(ids)[:, -1:].argmax(-1)], dim=1)
        assert found.tolist() == ids.tolist()


def opened_by_them(kind, directory):
    model, report = kind.from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


VARIANTS = {
    "plain": {},
    "tied": {"tied": True, "key_value_heads": None, "inner": None},
    "biases": {"attention_bias": True, "epsilon": 1e-3},
    "wide heads": {"key_width": 10, "dropout": 0.2},
    "base": {"positions": PositionsConfig(kind="rotary", base=500_000.0)},
    "linear": {"positions": scaled("linear")},
    "dynamic": {"positions": scaled("dynamic_ntk")},
    "yarn": {"positions": scaled("yarn", length=32)},
    "llama3": {"positions": scaled("llama3", low_turns=1.5, high_turns=3.0)},
    "no end": {"end": None},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_transformers_gives_our_logits(tmp_path, tokenizer, name):
    model = tiny(tokenizer, **VARIANTS[name])
    save_model(tmp_path / "model", model, tokenizer, "card")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "llama"
    theirs = opened_by_them(transformers.LlamaForCausalLM, tmp_path / "model")
    assert theirs.config.eos_token_id == model.config.end
    assert_equal_models(model, theirs, tokenizer)
    again, _ = load_model(tmp_path / "model")
    assert again.config == model.config
    ids = torch.randint(1, len(tokenizer), (2, 41))
    assert torch.equal(again(ids), model(ids))


THEIRS = {
    "plain": {},
    "tied": {"tie_word_embeddings": True, "num_key_value_heads": 6, "rms_norm_eps": 1e-3},
    "biases": {"attention_bias": True, "head_dim": 10},
    "linear": {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 7_000.0}},
    "dynamic": {"rope_parameters": {"rope_type": "dynamic", "factor": 3.0}, "max_position_embeddings": 16},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 32}},
    "yarn, spelt out": {
        "rope_parameters": {
            **{"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 32},
            **{"beta_fast": 32, "beta_slow": 1, "attention_factor": 1.1098612288668110},
        }
    },
    "llama3": {
        "rope_parameters": {
            **{"rope_type": "llama3", "factor": 8.0, "rope_theta": 500.0, "original_max_position_embeddings": 24},
            **{"low_freq_factor": 1.0, "high_freq_factor": 4.0},
        }
    },
}


def theirs_of(kind, tokenizer, **changes):
    sizes = {"vocab_size": len(tokenizer) + 3, "hidden_size": 36, "num_hidden_layers": 2, "intermediate_size": 37}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 3, "max_position_embeddings": 96}
    ends = {"bos_token_id": 1, "eos_token_id": tokenizer.end}
    return randomised(kind(transformers.LlamaConfig(**{**sizes, **heads, **ends, **changes})))


@pytest.mark.parametrize("name", THEIRS)
def test_we_give_the_logits_of_a_model_of_theirs(tmp_path, tokenizer, name):
    theirs = theirs_of(transformers.LlamaForCausalLM, tokenizer, **THEIRS[name])
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    ours, _ = load_model(tmp_path, kinds=(Llama,))
    assert_equal_models(ours, theirs, tokenizer)
    assert "manyheads" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_checkpoint_in_shards_opens(tmp_path, tokenizer, dtype):
    theirs_of(transformers.LlamaForCausalLM, tokenizer).to(dtype).save_pretrained(tmp_path, max_shard_size="20KB")
    tokenizer.save(tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    ours, _ = load_model(tmp_path)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    assert_equal_models(ours, theirs, tokenizer)


def changed(directory, **changes):
    path = directory / "config.json"
    table = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in table.items() if value != "gone"}))


def test_configs_of_versions_before_5_are_read(tmp_path, tokenizer):
    model = tiny(tokenizer, positions=scaled("llama3", factor=8.0), key_value_heads=None)
    save_model(tmp_path, model, tokenizer, "card")
    old = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling = {**old, "original_max_position_embeddings": 16}
    gone = {"head_dim": "gone", "attention_bias": "gone", "mlp_bias": "gone", "num_key_value_heads": "gone"}
    changed(tmp_path, rope_parameters="gone", rope_theta=5_000.0, rope_scaling=scaling, **gone)
    assert load_model(tmp_path)[0].config == model.config


def test_several_ends_go_both_ways(tmp_path, tokenizer):
    model = tiny(tokenizer, other_ends=(7, 5))
    save_model(tmp_path, model, tokenizer, "card")
    theirs = opened_by_them(transformers.LlamaForCausalLM, tmp_path)
    assert theirs.config.eos_token_id == theirs.generation_config.eos_token_id == [tokenizer.end, 7, 5]
    again, _ = load_model(tmp_path)
    assert (again.config.end, again.config.other_ends) == (tokenizer.end, (7, 5))
    changed(tmp_path, eos_token_id=[128_001, 4])  # one that this vocabulary has not
    assert load_model(tmp_path)[0].config.end == 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"mlp_bias": True}, "mlp_bias = True; only one with False"),
        ({"hidden_act": "gelu"}, "hidden_act = gelu; only one with silu"),
        (
            {"rope_parameters": {"rope_type": "longrope"}},
            "scales its positions as longrope; known are default, dynamic",
        ),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor = 0\.5"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "beta_fast": 16}},
            "beta_fast = 16; only one with 32",
        ),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "mscale": 0.7}},
            r"mscale = 0\.7; only one without it",
        ),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "attention_factor": 1.0}}, r"0\.1 ln s \+ 1"),
    ],
)
def test_what_our_model_cannot_be_is_refused(tmp_path, tokenizer, change, sentence):
    save_model(tmp_path / "model", tiny(tokenizer), tokenizer, "card")
    changed(tmp_path / "model", **change)
    with pytest.raises(CheckpointError, match=sentence):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("changes", [{"positions": scaled("ntk")}, {"width": 35, "key_width": 8}])
def test_what_they_cannot_express_keeps_our_own_type_and_comes_back_equal(tmp_path, tokenizer, changes):
    model = tiny(tokenizer, **changes)
    save_model(tmp_path / "model", model, tokenizer, "card")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "manyheads-llama"
    again, _ = load_model(tmp_path / "model")
    assert again.config == model.config
    ids = torch.randint(1, len(tokenizer), (2, 41))
    assert torch.equal(again(ids), model(ids))


@pytest.mark.parametrize("tied", [True, False])
def test_a_classifier_gives_the_same_there(tmp_path, tokenizer, tied):
    model = DecoderClassifier(tiny(tokenizer, tied=tied), ("bad", "so so", "good"))
    torch.nn.init.normal_(model.score.weight)
    save_model(tmp_path / "model", model.eval(), tokenizer, "card")
    theirs = opened_by_them(transformers.LlamaForSequenceClassification, tmp_path / "model")
    ids, lengths = torch.randint(1, len(tokenizer), (3, 8)), torch.tensor([8, 5, 3])
    ids[torch.arange(8) >= lengths[:, None]] = tokenizer.end
    with torch.no_grad():
        expected = model(ids, lengths)
        attended = (torch.arange(8) < lengths[:, None]).long()
        assert_close(theirs(ids, attention_mask=attended).logits, expected, atol=1e-4, rtol=0)
    again, _ = load_model(tmp_path / "model")
    assert (again.names, again.form, again.config) == (("bad", "so so", "good"), "text", model.config)
    assert torch.equal(again(ids, lengths), expected)
    assert torch.equal(again.body.output.weight, again.body.embedding.weight)


def test_a_classifier_of_theirs_opens(tmp_path, tokenizer):
    kind = transformers.LlamaForSequenceClassification
    theirs = theirs_of(kind, tokenizer, num_labels=5, pad_token_id=tokenizer.end, tie_word_embeddings=True)
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    ours, _ = load_model(tmp_path, kinds=(DecoderClassifier,))
    ids = torch.randint(1, len(tokenizer), (3, 8))
    with torch.no_grad():
        assert_close(ours(ids, torch.tensor([8, 8, 8])), theirs(ids).logits, atol=1e-4, rtol=0)


def test_llama3_scaling_equals_theirs_at_the_published_sizes():
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    settings = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 500_000.0}
    rope = {"rope_type": "llama3", **settings, "original_max_position_embeddings": 8192}
    config = transformers.LlamaConfig(
        hidden_size=256, num_attention_heads=2, max_position_embeddings=131_072, rope_parameters=rope
    )
    expected, _ = ROPE_INIT_FUNCTIONS["llama3"](config)
    plain = rotary.frequencies(128, 500_000.0)
    got = rotary.llama3(plain, 8.0, 8192)
    assert torch.equal(got, expected)
    ratio = plain / got
    assert ratio[0] == 1.0  # fast pairs stay
    assert ratio[-1] == 8.0  # slow ones are interpolated
    assert ((ratio > 1.01) & (ratio < 7.99)).any()  # and a ramp joins them
    with pytest.raises(ConfigError, match="low_turns"):
        scaled("llama3", low_turns=4.0)
