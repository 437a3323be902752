"""What every model owes: a directory of it is transformers' own, in both directions, and a broken one is a sentence."""

import pytest
import torch
from checkpoints import (
    BERTS,
    FIRST,
    KINDS,
    MARKED,
    SECOND,
    VITS,
    WORDS,
    assert_equal_models,
    every_kind,
    every_kind_of_text,
    opened_by_them,
    ours_of,
    pairs,
    saved,
    theirs_of,
    transformers,
)
from helpers import changed, config_of, rewritten
from safetensors.torch import load_file

from manyheads.core.errors import CheckpointError, ManyheadsError
from manyheads.data.images import FILE as PROCESSOR
from manyheads.interop.directory import load_model
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.transformer import Transformer
from manyheads.models.vit import ViT, ViTClassifier
from manyheads.nn import positions
from manyheads.nn.positions import PositionsConfig


def scaled(kind, length=16, **changes):
    return PositionsConfig(kind="rotary", scaling=kind, length=length, **{"factor": 3.0, "base": 5_000.0, **changes})


OURS = {
    "MarianMTModel": [{"layers": 11}, *({"activation": each} for each in ("relu", "gelu", "gelu_tanh", "silu"))],
    "GPT2LMHeadModel": [
        *({}, {"activation": "gelu", "inner": 37}, {"activation": "relu", "tied": False}),
        {"activation": "silu", "inner_dropout": 0.2, "dropout": 0.3},
    ],
    "OpenAIGPTLMHeadModel": [{}, {"activation": "relu", "inner": 84}, {"activation": "silu", "tied": False}],
    "LlamaForCausalLM": [
        *({}, {"tied": True, "key_value_heads": None, "inner": None}, {"attention_bias": True, "epsilon": 1e-3}),
        *({"key_width": 10, "dropout": 0.2}, {"positions": PositionsConfig(kind="rotary", base=500_000.0)}),
        *({"positions": scaled("linear")}, {"positions": scaled("dynamic_ntk")}),
        {"positions": scaled("yarn", length=32)},
        {"positions": scaled("llama3", low_turns=1.5, high_turns=3.0)},
        {"end": None},
    ],
    "GPT2ForSequenceClassification": [{}],
    "OpenAIGPTForSequenceClassification": [{}],
    "LlamaForSequenceClassification": [{"tied": True}, {"tied": False}],
    **{
        name: [
            {},
            {"inner": 37, "activation": "silu", "segments": 3, "dropout": 0.2, "attention_dropout": 0.3},
            {"activation": "gelu_tanh", "epsilon": 1e-12, "layers": 1, "heads": 7},
        ]
        for name in BERTS
    },
    **{
        name: [
            {},
            {"inner": 37, "activation": "silu", "channels": 1, "dropout": 0.2, "attention_dropout": 0.3},
            {"activation": "gelu_tanh", "epsilon": 1e-12, "layers": 11, "heads": 7, "patch_size": 3},
        ]
        for name in VITS
    },
}
TANH = {"activation_function": "gelu_pytorch_tanh", "tie_word_embeddings": False}
YARN = {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 32}
LLAMA_3 = {"rope_type": "llama3", "factor": 8.0, "rope_theta": 500.0, "original_max_position_embeddings": 24}
THEIRS = {
    "MarianMTModel": [{}, {"activation_function": "swish", "decoder_layers": 1}],
    "GPT2LMHeadModel": [{}, {"n_inner": 37, "activation_function": "gelu", "layer_norm_epsilon": 1e-3}, TANH],
    "OpenAIGPTLMHeadModel": [{}, {"afn": "silu", "layer_norm_epsilon": 1e-3}],
    "LlamaForCausalLM": [
        *({}, {"tie_word_embeddings": True, "num_key_value_heads": 6, "rms_norm_eps": 1e-3}),
        {"attention_bias": True, "head_dim": 10},
        {"rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 7_000.0}},
        {"rope_parameters": {"rope_type": "dynamic", "factor": 3.0}, "max_position_embeddings": 16},
        {"rope_parameters": YARN},
        {"rope_parameters": {**YARN, "beta_fast": 32, "beta_slow": 1, "attention_factor": 1.1098612288668110}},
        {"rope_parameters": {**LLAMA_3, "low_freq_factor": 1.0, "high_freq_factor": 4.0}},
    ],
    "GPT2ForSequenceClassification": [{}],
    "OpenAIGPTForSequenceClassification": [{}],
    "LlamaForSequenceClassification": [{}, {"tie_word_embeddings": True}],
    **{
        name: [
            {},
            {"intermediate_size": 84, "hidden_act": "relu", "type_vocab_size": 3, "layer_norm_eps": 1e-12},
            {"hidden_act": "gelu_new", "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
        ]
        for name in BERTS
    },
    **{
        name: [
            {},
            {"intermediate_size": 84, "hidden_act": "relu", "num_channels": 1, "layer_norm_eps": 1e-3},
            {"hidden_act": "gelu_new", "hidden_dropout_prob": 0.2, "patch_size": 3, "num_hidden_layers": 11},
        ]
        for name in VITS
    },
}


def each_of(table: dict):
    return pytest.mark.parametrize(
        ("name", "changes"), [(name, each) for name, every in table.items() for each in every], ids=str
    )


def assert_both_write_the_same(ours, theirs):
    ids = torch.randint(1, len(WORDS), (2, 9))
    with torch.no_grad():
        found = theirs.generate(ids, do_sample=False, max_new_tokens=7, eos_token_id=-1, pad_token_id=0)
        for _ in range(7):
            ids = torch.cat([ids, ours(ids)[:, -1:].argmax(-1)], dim=1)
    assert found.tolist() == ids.tolist()


@each_of(OURS)
def test_transformers_gives_our_outputs_and_what_was_saved_comes_back_to_the_bit(tmp_path, name, changes):
    model, kind = ours_of(name, **changes), KINDS[name]
    saved(tmp_path / "model", model)
    theirs = opened_by_them(name, tmp_path / "model")
    assert type(opened_by_them(kind.auto, tmp_path / "model")) is type(theirs)
    assert_equal_models(model, theirs)
    if isinstance(model, GPT | Llama):
        assert_both_write_the_same(model, theirs)
        ends = theirs.generation_config.eos_token_id, theirs.generation_config.pad_token_id
        assert ends == (model.config.end, model.config.end)
    if hasattr(model, "names"):
        assert theirs.config.id2label == dict(enumerate(model.names))
    if name in BERTS:
        assert theirs.config.pad_token_id == MARKED.pad
        assert theirs.config.hidden_dropout_prob == changes.get("dropout", 0.1)
        assert theirs.config.attention_probs_dropout_prob == changes.get("attention_dropout", 0.1)
    again, processor = load_model(tmp_path / "model", kinds=(kind.ours,))
    assert type(again) is type(model)
    assert again.config == model.config
    for what in ("names", "form", "impossible"):
        assert getattr(again, what, None) == getattr(model, what, None)
    assert again.state_dict().keys() == model.state_dict().keys()
    if kind.ours is DecoderClassifier:  # whose words are not saved apart
        assert torch.equal(again.body.output.weight, again.body.embedding.weight)
        model.body.output.weight = again.body.output.weight
    for what, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[what], tensor), what
    if name in VITS:
        assert (processor.size, processor.channels) == (15, model.config.channels)
    else:
        assert processor.encode(FIRST) == kind.processor.encode(FIRST)
    assert (tmp_path / "model" / "README.md").read_text() == "card"
    saved(tmp_path / "again", again)
    for file in ("config.json", "model.safetensors", PROCESSOR if name in VITS else "tokenizer.json"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "model" / file).read_bytes(), file


@each_of(THEIRS)
def test_we_give_the_outputs_of_a_model_of_theirs(tmp_path, name, changes):
    theirs, kind = theirs_of(name, **changes), KINDS[name]
    if name == "MarianMTModel":
        theirs.final_logits_bias.normal_()
    ours, _ = load_model(saved(tmp_path, theirs), kinds=(kind.ours,))
    assert type(ours) is kind.ours
    assert not ours.training
    assert_equal_models(ours, theirs)
    if isinstance(ours, GPT | Llama):
        assert_both_write_the_same(ours, theirs)
        assert ours.config.end == WORDS.end
    if name in BERTS:
        assert ours.config.inner == (None if changes.get("intermediate_size") == 84 else 37)
        assert (ours.config.dropout, ours.config.attention_dropout) == (
            *(changes.get("hidden_dropout_prob", 0.1), changes.get("attention_probs_dropout_prob", 0.1)),
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@every_kind
def test_shards_of_any_precision_are_one_model_of_whole_precision(tmp_path, name, dtype):
    saved(tmp_path, theirs_of(name).to(dtype), max_shard_size="9KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert not (tmp_path / "model.safetensors").exists()
    ours, _ = load_model(tmp_path)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.float32}
    assert_equal_models(ours, opened_by_them(name, tmp_path, dtype=torch.float32))


@every_kind
def test_what_is_saved_holds_no_second_copy_of_anything(tmp_path, name):
    model = ours_of(name, **({"tied": True} if name.startswith("Llama") else {}))
    held = load_file(saved(tmp_path / "model", model) / "model.safetensors")
    bias = model.output.bias.numel() if name == "MarianMTModel" else 0  # no parameter, and saved
    assert sum(each.numel() for each in held.values()) == bias + sum(each.numel() for each in model.parameters())


@every_kind_of_text
def test_the_tokenizer_is_theirs_too(tmp_path, name):
    ours = KINDS[name].processor
    theirs = transformers.AutoTokenizer.from_pretrained(saved(tmp_path / "model", ours_of(name)))
    if ours is not MARKED:
        assert theirs(FIRST).input_ids == ours.encode(FIRST)
        assert theirs.model_max_length == {"Llama": 96, "Maria": 512}.get(name[:5], 19)
        return
    (ids, lengths, inputs), found = pairs(), theirs(FIRST, SECOND, padding=True, return_tensors="pt")
    for what, expected in {"input_ids": ids, **inputs}.items():
        assert torch.equal(found[what], expected[:, : lengths.max()]), what
    assert theirs.model_max_length == 19


PLACED = [{"positions": PositionsConfig(kind=kind), "width": 24} for kind in positions.KINDS if kind != "learned"]
UNEVEN = [{"heads": 5, "key_width": 6, "value_width": 3}, {"heads": 5, "key_width": 6}, {"value_width": 3}]
INEXPRESSIBLE = {
    "MarianMTModel": [
        {"positions": PositionsConfig(kind="rotary"), "norm_order": "pre", "tied": False, "key_value_heads": 1},
        *({"positions": PositionsConfig(kind=kind, length=99)} for kind in ("learned", "relative", "buckets")),
        *UNEVEN,
    ],
    "GPT2LMHeadModel": [
        *PLACED,
        *UNEVEN,
        {"positions": PositionsConfig(kind="sinusoidal"), "scale_embeddings": True, "width": 18},
        {"norm": "rms", "activation": "swiglu", "tied": False},
    ],
    "OpenAIGPTLMHeadModel": [{"inner": 40}, {"activation": "gelu"}],
    "LlamaForCausalLM": [
        *(each for each in PLACED if each["positions"].kind != "rotary"),
        *({"positions": scaled("ntk")}, {"width": 35, "key_width": 8}),
    ],
    "GPT2ForSequenceClassification": [{"norm": "rms", "tied": False}, *UNEVEN],
    **{name: [*PLACED, *UNEVEN] for name in BERTS},
    **{
        name: [{"positions": PositionsConfig(kind=kind), "width": 24} for kind in ("sinusoidal", "none")]
        for name in VITS
    },
}


@each_of(INEXPRESSIBLE)
def test_what_they_cannot_express_keeps_our_own_type_and_comes_back_equal(tmp_path, name, changes):
    model = ours_of(name, **changes)
    own = {Transformer: "transformer", Llama: "llama", ViT: "vit", ViTClassifier: "vit"}.get(type(model), "gpt")
    own = "bert" if name in BERTS else own
    assert config_of(saved(tmp_path / "model", model))["model_type"] == f"manyheads-{own}"
    again, _ = load_model(tmp_path / "model", kinds=(type(model),))
    assert again.config == model.config
    ids, lengths = torch.randint(1, len(MARKED), (2, 11)), torch.tensor([11, 7])
    given = {Transformer: (ids, ids), GPT: (ids,), Llama: (ids,)}.get(type(model), (ids, lengths))
    given = (torch.randn(2, 3, 15, 15),) if name in VITS else given
    assert torch.equal(again(*given), model(*given))
    assert not torch.equal(again(*(each.flip(0) for each in given)), model(*given))


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])
def test_sinusoids_of_a_directory_that_knows_no_amplitude_are_of_size_1(tmp_path, name):
    saved(tmp_path, ours_of(name, positions=PositionsConfig(kind="sinusoidal"), width=24))
    assert load_model(tmp_path)[0].positions.scale == 0.02
    ours = config_of(tmp_path)["manyheads"]
    del ours["positions"]["amplitude"]
    older, _ = load_model(changed(tmp_path, manyheads=ours))
    saved(tmp_path, older)
    assert older.positions.scale == load_model(tmp_path)[0].positions.scale == 1


@every_kind
def test_left_over_missing_and_misshapen_tensors_are_errors(tmp_path, name):
    directory = saved(tmp_path, ours_of(name))
    whole = load_file(directory / "model.safetensors")
    some = next(each for each, tensor in whole.items() if "1" in each and tensor.dim() == 1)
    width, table = len(whole[some]), max(whole, key=lambda each: whole[each].numel())  # of all words
    family = {"Maria": "Marian", "GPT2F": "GPT-2", "GPT2L": "GPT-2", "OpenA": "GPT-1", "Llama": "Llama"}
    family = f"a {family.get(name[:5], 'ViT' if name in VITS else 'BERT')} of its config"
    integers = ({**whole, some: torch.zeros(width, dtype=torch.int8)}, r"holds numbers of torch\.int8")
    for change, sentence in (
        ({**whole, "extra.1.weight": torch.zeros(1)}, rf"{family} has not: extra\.1\.weight"),
        *(
            (
                {each: whole[each] for each in whole if each != gone},
                f"has no tensor '?{gone}'?, which {family} must|says vocabulary",
            )
            for gone in (some, table)
        ),
        ({**whole, some: torch.zeros(width - 1)}, rf"is of shape \[{width - 1}\]; its config says \[{width}\]"),
        *([] if name == "MarianMTModel" else [integers]),
    ):
        rewritten(directory, lambda _, change=change: change)
        with pytest.raises(CheckpointError, match=sentence) as refused:
            load_model(directory)
        assert "\n" not in str(refused.value)
    load_model(rewritten(directory, lambda _: whole))


@every_kind
def test_a_pickle_is_refused(tmp_path, name):
    directory = saved(tmp_path, ours_of(name))
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"^.*has only pytorch_model\.bin, a pickle, which can run any code.*\Z"):
        load_model(directory)


def rope(**changes) -> dict:
    return {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, **changes}}


IMPOSSIBLE = {
    "MarianMTModel": [({"share_encoder_decoder_embeddings": False}, "apart")],
    "GPT2LMHeadModel": [
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True; only one with False"),
        ({"reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"scale_attn_weights": False}, "scale_attn_weights = False; only one with True"),
        ({"activation_function": "tanh"}, "activation tanh is not known"),
    ],
    "OpenAIGPTLMHeadModel": [({"afn": "gelu_new"}, "activation gelu_new is not known")],
    "LlamaForCausalLM": [
        ({"mlp_bias": True}, "mlp_bias = True; only one with False"),
        ({"hidden_act": "gelu"}, "hidden_act = gelu; only one with silu"),
        (rope(rope_type="longrope"), "scales its positions as longrope; known are default, dynamic"),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor = 0\.5"),
        (rope(beta_fast=16), "beta_fast = 16; only one with 32"),
        (rope(mscale=0.7), r"mscale = 0\.7; only one without it"),
        (rope(attention_factor=1.0), r"0\.1 ln s \+ 1"),
    ],
    "BertForMaskedLM": [
        ({"position_embedding_type": "relative_key"}, "this BERT has position_embedding_type = relative_key; only one"),
        ({"position_embedding_type": "relative_key_query"}, "only one with absolute can be opened"),
        ({"is_decoder": True}, "this BERT has is_decoder = True; only one with False can be opened"),
        ({"add_cross_attention": True}, "this BERT has add_cross_attention = True"),
        ({"tie_word_embeddings": False}, "this BERT has tie_word_embeddings = False; only one with True can be opened"),
        ({"hidden_act": "mish"}, "activation mish is not known; known are relu, gelu, gelu_new, silu"),
        ({"hidden_act": None}, "hidden_act is None; it must be of type str"),
        (
            {"architectures": ["BertLMHeadModel"]},
            "this BERT is a BertLMHeadModel; known are BertModel, BertForMaskedLM",
        ),
        (
            {"architectures": ["BertForNextSentencePrediction"]},
            "is a BertForNextSentencePrediction; .* BertForSequenceClassification, BertForMultipleChoice, BertForToken",
        ),
        ({"vocab_size": 50}, "the tokenizer has 90 tokens, the model only 50"),
        ({"hidden_size": 22}, "width 22 does not split over 3 heads"),
        ({"hidden_size": "gone"}, "has no hidden_size"),
        ({"num_attention_heads": 0}, "model.heads is 0; it must be at least 1"),
        ({"max_position_embeddings": "long"}, "max_position_embeddings is 'long'; it must be of type int"),
        ({"architectures": 3}, "architectures in this config.json is 3, not a list"),
        *(
            (odd, "cannot be opened as a masked language model: .* must be of type")
            for odd in ({"manyheads": 3}, {"hidden_act": ["gelu"]}, {"type_vocab_size": None})
        ),
        ({"num_hidden_layers": 3}, "the checkpoint has no tensor .*encoder.layer.2.* and 11 more, which a BERT"),
        ({"num_hidden_layers": 1}, "the checkpoint has tensors that a BERT of its config has not: .*encoder.layer.1"),
    ],
    "ViTForImageClassification": [
        ({"qkv_bias": False}, "this ViT has qkv_bias = False; only one with True can be opened"),
        ({"hidden_act": "mish"}, "activation mish is not known; known are relu, gelu, gelu_new, silu"),
        (
            {"architectures": ["ViTForSomethingElse"]},
            "this ViT is a ViTForSomethingElse; known are ViTModel, ViTForImageClassification",
        ),
        ({"image_size": [15, 20]}, r"image_size is \[15, 20\]; it must be of type int"),
        ({"image_size": 20}, "makes images of 15 pixels in 3 colours, but its config.json says 20 in 3"),
        ({"num_channels": 1}, "makes images of 15 pixels in 3 colours, but its config.json says 15 in 1"),
        ({"patch_size": 4}, "images of 15 pixels, which do not split into patches of 4"),
        ({"patch_size": 3}, r"projection.weight is of shape \[21, 3, 5, 5\]; its config says \[21, 3, 3, 3\]"),
        ({"patch_size": 10**9}, "says patch_size 1,000,000,000, but no tensor is larger than"),
        ({"hidden_size": 22}, "width 22 does not split over 3 heads"),
        ({"hidden_size": "gone"}, "has no hidden_size"),
        ({"id2label": {"0": "a", "1": "b"}, "label2id": "gone"}, r"is of shape \[3.*its config says \[2"),
        ({"num_hidden_layers": 3}, "the checkpoint has no tensor .*encoder.layer.2.* and 11 more, which a ViT"),
        ({"num_hidden_layers": 1}, "the checkpoint has tensors that a ViT of its config has not: .*encoder.layer.1"),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "sentence"), [(name, *each) for name, every in IMPOSSIBLE.items() for each in every]
)
def test_what_our_model_cannot_be_is_refused_in_one_sentence(tmp_path, name, change, sentence):
    directory = saved(tmp_path, ours_of(name))
    load_model(directory)
    with pytest.raises(ManyheadsError, match=sentence) as refused:
        load_model(changed(directory, **change))
    assert "\n" not in str(refused.value)
