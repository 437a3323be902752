"""GPT-2 and GPT-1 checkpoints, in both directions."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError
from manyheads.interop.directory import load_model, save_model
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.text.language import LanguageTokenizer

transformers = pytest.importorskip("transformers")

THEIRS = {
    "pre": (transformers.GPT2LMHeadModel, transformers.GPT2Config, transformers.GPT2ForSequenceClassification),
    "post": (
        transformers.OpenAIGPTLMHeadModel,
        transformers.OpenAIGPTConfig,
        transformers.OpenAIGPTForSequenceClassification,
    ),
}
both = pytest.mark.parametrize("order", THEIRS)


@pytest.fixture(scope="module")
def tokenizer():
    return LanguageTokenizer.train(["a dog sleeps under the table", "the cat danced"] * 3, 270)


def randomised(model, scale=0.3):
    """Norms and biases that are not one and zero, and logits that differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return model.eval()


def tiny(tokenizer, order="pre", width=21, **changes) -> GPT:
    sizes = {"vocabulary": len(tokenizer) + 3, "context": 19, "width": width, "layers": 2, "heads": 3}
    return randomised(GPT(GPTConfig(**sizes, norm_order=order, **{"end": tokenizer.end, "epsilon": 1e-4, **changes})))


def theirs_of(order, tokenizer, kind=0, **changes):
    sizes = {"vocab_size": len(tokenizer) + 3, "n_positions": 19, "n_embd": 21, "n_layer": 2, "n_head": 3}
    ends = {"bos_token_id": tokenizer.end, "eos_token_id": tokenizer.end}
    return randomised(THEIRS[order][kind](THEIRS[order][1](**{**sizes, **ends, **changes})))


def some_ids(tokenizer):
    return torch.randint(1, len(tokenizer), (2, 11))


def assert_equal_models(ours, theirs, tokenizer):
    ids = some_ids(tokenizer)
    with torch.no_grad():
        expected = theirs(ids).logits
        assert_close(ours(ids), expected, atol=1e-4, rtol=0)
        assert not torch.allclose(ours(ids.flip(1)), expected, atol=1e-2)  # and the test can tell
        found = theirs.generate(ids, do_sample=False, max_new_tokens=7, eos_token_id=-1)
        for _ in range(7):
            ids = torch.cat([ids, ours(ids)[:, -1:].argmax(-1)], dim=1)
        assert found.tolist() == ids.tolist()


def opened_by_them(kind, directory):
    model, report = kind.from_pretrained(directory, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize(
    ("order", "changes"),
    [
        ("pre", {}),
        ("pre", {"activation": "gelu", "inner": 37}),
        ("pre", {"activation": "relu", "tied": False}),
        ("pre", {"activation": "silu", "inner_dropout": 0.2, "dropout": 0.3}),
        ("post", {}),
        ("post", {"activation": "relu", "inner": 84}),
        ("post", {"activation": "silu", "tied": False}),
    ],
)
def test_transformers_gives_our_logits(tmp_path, tokenizer, order, changes):
    model = tiny(tokenizer, order, **changes)
    save_model(tmp_path / "model", model, tokenizer, "card")
    theirs = opened_by_them(THEIRS[order][0], tmp_path / "model")
    assert theirs.generation_config.eos_token_id == theirs.generation_config.pad_token_id == tokenizer.end
    assert_equal_models(model, theirs, tokenizer)
    again, _ = load_model(tmp_path / "model")
    assert again.config == model.config
    ids = some_ids(tokenizer)
    assert torch.equal(again(ids), model(ids))


@pytest.mark.parametrize(
    ("order", "changes"),
    [
        ("pre", {}),
        ("pre", {"n_inner": 37, "activation_function": "gelu", "layer_norm_epsilon": 1e-3}),
        ("pre", {"activation_function": "gelu_pytorch_tanh", "tie_word_embeddings": False}),
        ("post", {}),
        ("post", {"afn": "silu", "layer_norm_epsilon": 1e-3}),
    ],
)
def test_we_give_the_logits_of_a_model_of_theirs(tmp_path, tokenizer, order, changes):
    theirs = theirs_of(order, tokenizer, **changes)
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    ours, _ = load_model(tmp_path, kinds=(GPT,))
    assert ours.config.end == tokenizer.end
    assert_equal_models(ours, theirs, tokenizer)


def test_the_tokenizer_is_theirs_too(tmp_path, tokenizer):
    save_model(tmp_path / "model", tiny(tokenizer), tokenizer, "card")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert theirs(["the dog danced"]).input_ids == tokenizer.encode(["the dog danced"])
    assert theirs.model_max_length == 19


def rewritten(directory, change):
    tensors = load_file(directory / "model.safetensors")
    save_file({name: tensor.contiguous() for name, tensor in change(tensors).items()}, directory / "model.safetensors")


@both
def test_what_old_files_have_more_or_less_is_no_matter(tmp_path, tokenizer, order):
    model = tiny(tokenizer, order)
    save_model(tmp_path / "model", model, tokenizer, "card")

    def as_first_published(tensors):
        bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
        masks = {f"h.{number}.attn.{name}": torch.ones(1, 1, 19, 19) for number in (0, 1) for name in ("bias",)}
        return {**bare, **masks, "h.0.attn.masked_bias": torch.tensor(-1e4), "lm_head.weight": torch.zeros(5)}

    rewritten(tmp_path / "model", as_first_published)
    again, _ = load_model(tmp_path / "model")
    ids = some_ids(tokenizer)
    assert torch.equal(again(ids), model(ids))


def test_half_precision_in_a_file_becomes_float32(tmp_path, tokenizer):
    model = tiny(tokenizer)
    save_model(tmp_path / "model", model, tokenizer, "card")
    rewritten(tmp_path / "model", lambda tensors: {name: tensor.bfloat16() for name, tensor in tensors.items()})
    again, _ = load_model(tmp_path / "model")
    for name, parameter in model.named_parameters():
        assert torch.equal(again.get_parameter(name), parameter.bfloat16().float())


def test_left_over_missing_and_misshapen_tensors_are_errors(tmp_path, tokenizer):
    directory = tmp_path / "model"
    for change, sentence in (
        (lambda tensors: {**tensors, "transformer.h.1.extra": torch.zeros(1)}, r"has not: transformer\.h\.1\.extra"),
        (lambda tensors: {**tensors, "transformer.h.2.ln_1.bias": torch.zeros(21)}, r"a GPT-2 of .*h\.2\.ln_1\.bias"),
        (lambda tensors: {n: t for n, t in tensors.items() if n != "transformer.ln_f.bias"}, r"no tensor .*ln_f\.bias"),
        (
            lambda tensors: {**tensors, "transformer.ln_f.bias": torch.zeros(20)},
            r"shape \[20\]; its config says \[21\]",
        ),
        (lambda tensors: {**tensors, "transformer.ln_f.bias": torch.zeros(21, dtype=torch.int8)}, r"torch\.int8"),
    ):
        save_model(directory, tiny(tokenizer), tokenizer, "card")
        rewritten(directory, change)
        with pytest.raises(CheckpointError, match=sentence):
            load_model(directory)


@pytest.mark.parametrize(
    ("order", "change", "sentence"),
    [
        (
            "pre",
            {"scale_attn_by_inverse_layer_idx": True},
            "scale_attn_by_inverse_layer_idx = True; only one with False",
        ),
        ("pre", {"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        ("pre", {"add_cross_attention": True}, "add_cross_attention"),
        ("pre", {"scale_attn_weights": False}, "scale_attn_weights = False; only one with True"),
        ("pre", {"activation_function": "tanh"}, "activation tanh is not known"),
        ("post", {"afn": "gelu_new"}, "activation gelu_new is not known"),
    ],
)
def test_what_our_model_cannot_be_is_refused(tmp_path, tokenizer, order, change, sentence):
    save_model(tmp_path / "model", tiny(tokenizer, order), tokenizer, "card")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(CheckpointError, match=sentence):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": PositionsConfig(kind="sinusoidal"), "scale_embeddings": True},
        {"norm": "rms", "activation": "swiglu", "tied": False},
        {"order": "post", "inner": 40},
        {"order": "post", "activation": "gelu"},
    ],
)
def test_what_they_cannot_express_keeps_our_own_type_and_comes_back_equal(tmp_path, tokenizer, changes):
    model = tiny(tokenizer, **{"width": 18, **changes})
    save_model(tmp_path / "model", model, tokenizer, "card")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "manyheads-gpt"
    again, _ = load_model(tmp_path / "model")
    assert again.config == model.config
    ids = some_ids(tokenizer)
    assert torch.equal(again(ids), model(ids))


def padded(tokenizer):
    ids, lengths = torch.randint(1, len(tokenizer), (3, 8)), torch.tensor([8, 5, 3])
    ids[torch.arange(8) >= lengths[:, None]] = tokenizer.end
    return ids, lengths


@both
def test_a_classifier_gives_the_same_there(tmp_path, tokenizer, order):
    model = DecoderClassifier(tiny(tokenizer, order), ("bad", "so so", "good"), "pair")
    torch.nn.init.normal_(model.score.weight)
    save_model(tmp_path / "model", model.eval(), tokenizer, "card")
    theirs = opened_by_them(THEIRS[order][2], tmp_path / "model")
    assert theirs.config.id2label == {0: "bad", 1: "so so", 2: "good"}
    assert theirs.config.problem_type == "single_label_classification"
    ids, lengths = padded(tokenizer)
    with torch.no_grad():
        expected = model(ids, lengths)
        attended = (torch.arange(8) < lengths[:, None]).long()
        assert_close(theirs(ids, attention_mask=attended).logits, expected, atol=1e-4, rtol=0)
        assert not torch.allclose(model(ids, lengths - 1), expected, atol=1e-2)
    again, _ = load_model(tmp_path / "model", kinds=(DecoderClassifier,))
    assert (again.names, again.form, again.config) == (model.names, "pair", model.config)
    assert torch.equal(again(ids, lengths), expected)
    assert torch.equal(again.body(ids), model.body(ids))  # the tied output too


@both
def test_a_classifier_of_theirs_opens(tmp_path, tokenizer, order):
    theirs = theirs_of(order, tokenizer, kind=2, num_labels=5, pad_token_id=tokenizer.end)
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    ours, _ = load_model(tmp_path)
    assert (ours.names, ours.form) == (tuple(f"LABEL_{each}" for each in range(5)), "either")
    ids, lengths = padded(tokenizer)
    with torch.no_grad():
        attended = (torch.arange(8) < lengths[:, None]).long()
        assert_close(ours(ids, lengths), theirs(ids, attention_mask=attended).logits, atol=1e-4, rtol=0)


def test_a_chooser_and_a_classifier_of_our_own_kind_come_back(tmp_path, tokenizer):
    ids, lengths = padded(tokenizer)
    bodies = {"gpt2": tiny(tokenizer), "manyheads-gpt": tiny(tokenizer, norm="rms", tied=False)}
    for kind, body in bodies.items():
        model = DecoderClassifier(body, form="choice").eval()
        save_model(tmp_path / kind, model, tokenizer, "card")
        assert json.loads((tmp_path / kind / "config.json").read_text())["model_type"] == kind
        again, _ = load_model(tmp_path / kind, kinds=(DecoderClassifier,))
        assert (again.names, again.form) == ((), "choice")
        assert torch.equal(again(ids, lengths), model(ids, lengths))
        assert torch.equal(again.body(ids), model.body(ids))
