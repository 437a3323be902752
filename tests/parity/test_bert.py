"""BERT checkpoints, in both directions: the encoder, and five models with heads."""

import json
import re
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ManyheadsError
from manyheads.interop.directory import load_model, save_model
from manyheads.interop.encoders import load_embedder, load_encoder
from manyheads.models.bert import (
    Bert,
    BertAnswerer,
    BertClassifier,
    BertConfig,
    BertEmbedder,
    BertTagger,
    MaskedBert,
)
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.text.encoder import EncoderTokenizer

transformers = pytest.importorskip("transformers")

FIRST = ["a dog sleeps", "the cat danced under the table", "the dog"]
SECOND = ["the table danced", "a cat", "under a table sleeps the cat"]
NAMES = ("bad", "so so", "good")
SIZES = {"width": 21, "layers": 2, "heads": 3, "context": 19}
THEIR_SIZES = {"hidden_size": 21, "num_hidden_layers": 2, "num_attention_heads": 3, "max_position_embeddings": 19}
KINDS = {
    "BertModel": Bert,
    "BertForMaskedLM": MaskedBert,
    "BertForPreTraining": MaskedBert,
    "BertForSequenceClassification": BertClassifier,
    "BertForTokenClassification": BertTagger,
    "BertForQuestionAnswering": BertAnswerer,
}
AUTO = {
    "BertModel": "AutoModel",
    "BertForMaskedLM": "AutoModelForMaskedLM",
    "BertForPreTraining": "AutoModelForPreTraining",
    "BertForSequenceClassification": "AutoModelForSequenceClassification",
    "BertForTokenClassification": "AutoModelForTokenClassification",
    "BertForQuestionAnswering": "AutoModelForQuestionAnswering",
}
every_architecture = pytest.mark.parametrize("architecture", KINDS)


@pytest.fixture(scope="module")
def tokenizer():
    return EncoderTokenizer.train([*FIRST, *SECOND] * 3, 60)


def randomised(model, scale=0.3):
    """Norms and biases that are not one and zero, and outputs that differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return model.eval()


def ours_of(architecture, tokenizer, **changes):
    """A model of ours that is saved under this name."""
    sizes = {**SIZES, "vocabulary": len(tokenizer) + 3, "separator": tokenizer.separator, "epsilon": 1e-5}
    config = BertConfig(**{**sizes, **changes})
    return randomised(
        {
            "BertModel": lambda: Bert(config),
            "BertForMaskedLM": lambda: MaskedBert(config),
            "BertForPreTraining": lambda: MaskedBert(config, next_sentence=True),
            "BertForSequenceClassification": lambda: BertClassifier(Bert(config), NAMES, "pair"),
            "BertForTokenClassification": lambda: BertTagger(Bert(config, pooler=False), NAMES),
            "BertForQuestionAnswering": lambda: BertAnswerer(Bert(config, pooler=False)),
        }[architecture]()
    )


def theirs_of(architecture, tokenizer, **changes):
    sizes = {**THEIR_SIZES, "vocab_size": len(tokenizer) + 3, "intermediate_size": 37, "layer_norm_eps": 1e-5}
    labels = {"num_labels": 5} if architecture.endswith("Classification") and "id2label" not in changes else {}
    config = transformers.BertConfig(**{**sizes, **labels, **changes})
    return randomised(getattr(transformers, architecture)(config))


def saved(directory, theirs, tokenizer, **options):
    theirs.save_pretrained(directory, **options)
    tokenizer.save(directory)
    return directory


def batch(tokenizer):
    """Pairs of texts as both sides are given them, with padding behind."""
    ids = [tokenizer.wrapped(*both) for both in zip(tokenizer.encode(FIRST), tokenizer.encode(SECOND))]
    lengths = torch.tensor([len(row) for row in ids])
    assert len(set(lengths.tolist())) > 1
    padded = torch.full((3, int(lengths.max()) + 2), tokenizer.pad)
    segments = torch.zeros_like(padded)
    for row, each in enumerate(ids):
        padded[row, : len(each)] = torch.tensor(each)
        segments[row, each.index(tokenizer.separator) + 1 : len(each)] = 1
    real = torch.arange(padded.shape[1]) < lengths[:, None]
    return padded, lengths, {"attention_mask": real.long(), "token_type_ids": segments}


def outputs_of_ours(model, ids, lengths, segments=None):
    """What transformers would give back: for each token, and for each text."""
    if isinstance(model, Bert):
        states = model(ids, lengths, segments)
        return [states] if model.pooler is None else [states, model.pooled(states)]
    found = [model(ids, lengths, segments)]
    if isinstance(model, MaskedBert) and model.follows is not None:
        found.append(model.following(model.body(ids, lengths, segments)))
    return found


def outputs_of_theirs(model, ids, inputs):
    found = model(ids, **inputs)
    if "start_logits" in found:
        return [torch.stack([found.start_logits, found.end_logits], dim=-1)]
    names = ("last_hidden_state", "pooler_output", "logits", "prediction_logits", "seq_relationship_logits")
    return [found[name] for name in names if found.get(name) is not None]


def assert_equal_models(ours, theirs, tokenizer):
    ids, lengths, inputs = batch(tokenizer)
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        # Without segments: ours follow from the separators.
        mine, expected = outputs_of_ours(ours, ids, lengths), outputs_of_theirs(theirs, ids, inputs)
        other = outputs_of_ours(ours, ids, lengths, 1 - inputs["token_type_ids"])
    assert [each.shape for each in mine] == [each.shape for each in expected]
    for found, wanted, changed in zip(mine, expected, other, strict=True):
        found, wanted, changed = [each[real] if each.dim() == 3 else each for each in (found, wanted, changed)]
        assert_close(found, wanted, atol=1e-4, rtol=0)
        assert not torch.allclose(changed, wanted, atol=1e-2)  # and the test can tell


def opened_by_them(name, directory, **options):
    model, report = getattr(transformers, name).from_pretrained(directory, output_loading_info=True, **options)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    return model.eval()


def assert_same_weights(one, other):
    assert one.state_dict().keys() == other.state_dict().keys()
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def rewritten(directory, change):
    tensors = load_file(directory / "model.safetensors")
    tensors = {name: tensor.clone().contiguous() for name, tensor in change(tensors).items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})


def changed(directory, **changes):
    path = directory / "config.json"
    table = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({name: value for name, value in table.items() if value != "gone"}))


# Theirs here.


@every_architecture
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"intermediate_size": 84, "hidden_act": "relu", "type_vocab_size": 3, "layer_norm_eps": 1e-12},
        {"hidden_act": "gelu_new", "hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
    ],
    ids=str,
)
def test_we_give_the_outputs_of_a_model_of_theirs(tmp_path, tokenizer, architecture, changes):
    theirs = theirs_of(architecture, tokenizer, **changes)
    ours, found = load_model(saved(tmp_path, theirs, tokenizer), kinds=(KINDS[architecture],))
    assert type(ours) is KINDS[architecture]
    assert not ours.training
    assert ours.config.separator == found.separator == tokenizer.separator
    assert ours.config.inner == (None if changes.get("intermediate_size") == 84 else 37)
    assert (ours.config.dropout, ours.config.attention_dropout) == (
        changes.get("hidden_dropout_prob", 0.1),
        changes.get("attention_probs_dropout_prob", 0.1),
    )
    assert_equal_models(ours, theirs, tokenizer)


@pytest.mark.parametrize("theirs", ["gelu", "relu", "silu", "swish", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"])
def test_every_activation_that_is_known_is_theirs(tmp_path, tokenizer, theirs):
    model = theirs_of("BertForMaskedLM", tokenizer, hidden_act=theirs)  # whose head has one too
    assert_equal_models(load_model(saved(tmp_path, model, tokenizer))[0], model, tokenizer)


def test_an_encoder_may_have_no_pooler(tmp_path, tokenizer):
    config = transformers.BertConfig(**THEIR_SIZES, vocab_size=len(tokenizer) + 3)
    theirs = randomised(transformers.BertModel(config, add_pooling_layer=False))
    ours, _ = load_model(saved(tmp_path / "theirs", theirs, tokenizer))
    assert ours.pooler is None
    assert_equal_models(ours, theirs, tokenizer)
    save_model(tmp_path / "ours", ours, tokenizer, "card")
    again = opened_by_them("BertModel", tmp_path / "ours", add_pooling_layer=False)
    assert_equal_models(ours, again, tokenizer)


def test_labels_of_theirs_keep_their_names_and_their_order(tmp_path, tokenizer):
    names = {number: f"label {number}" for number in range(12)}  # sorted as words, 10 would come before 2
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    for architecture in ("BertForSequenceClassification", "BertForTokenClassification"):
        theirs = theirs_of(architecture, tokenizer, **labels)
        ours, _ = load_model(saved(tmp_path / architecture, theirs, tokenizer))
        assert ours.names == tuple(names.values())
        assert_equal_models(ours, theirs, tokenizer)
    assert load_model(tmp_path / "BertForSequenceClassification")[0].form == "either"


@pytest.mark.parametrize("problem", [None, "regression"])
def test_a_model_of_theirs_that_gives_a_number_gives_it_here(tmp_path, tokenizer, problem):
    theirs = theirs_of("BertForSequenceClassification", tokenizer, num_labels=1, problem_type=problem)
    ours, _ = load_model(saved(tmp_path, theirs, tokenizer))
    assert (ours.names, ours.form) == ((), "either")
    ids, lengths, _ = batch(tokenizer)
    assert ours(ids, lengths).shape == (3, 1)
    assert_equal_models(ours, theirs, tokenizer)


def test_one_that_answers_questions_may_point_at_nothing_unless_it_says_otherwise(tmp_path, tokenizer):
    theirs = theirs_of("BertForQuestionAnswering", tokenizer)
    assert load_model(saved(tmp_path / "theirs", theirs, tokenizer))[0].impossible is True
    for impossible in (True, False):
        body = ours_of("BertForQuestionAnswering", tokenizer).body
        save_model(tmp_path / "ours", BertAnswerer(body, impossible), tokenizer, "card")
        assert load_model(tmp_path / "ours")[0].impossible is impossible


@every_architecture
def test_shards_are_one_model(tmp_path, tokenizer, architecture):
    theirs = theirs_of(architecture, tokenizer)
    saved(tmp_path, theirs, tokenizer, max_shard_size="9KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 2
    assert not (tmp_path / "model.safetensors").exists()
    assert_equal_models(load_model(tmp_path)[0], theirs, tokenizer)


def test_half_precision_in_a_file_becomes_float32(tmp_path, tokenizer):
    theirs = theirs_of("BertForSequenceClassification", tokenizer)
    saved(tmp_path, theirs, tokenizer)
    rewritten(tmp_path, lambda tensors: {name: tensor.bfloat16() for name, tensor in tensors.items()})
    ours, _ = load_model(tmp_path)
    assert {tensor.dtype for tensor in ours.state_dict().values()} == {torch.float32}
    assert_equal_models(ours, theirs.bfloat16().float(), tokenizer)


# Ours there.


@every_architecture
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"inner": 37, "activation": "silu", "segments": 3, "dropout": 0.2, "attention_dropout": 0.3},
        {"activation": "gelu_tanh", "epsilon": 1e-12, "layers": 1, "heads": 7},
    ],
    ids=str,
)
def test_transformers_gives_our_outputs(tmp_path, tokenizer, architecture, changes):
    model = ours_of(architecture, tokenizer, **changes)
    save_model(tmp_path / "model", model, tokenizer, "card")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert (config["model_type"], config["architectures"]) == ("bert", [architecture])
    assert config["pad_token_id"] == tokenizer.pad
    assert config["hidden_dropout_prob"] == changes.get("dropout", 0.1)
    assert config["attention_probs_dropout_prob"] == changes.get("attention_dropout", 0.1)
    for name in (architecture, AUTO[architecture]):
        theirs = opened_by_them(name, tmp_path / "model")
        assert type(theirs).__name__ == architecture
        assert_equal_models(model, theirs, tokenizer)


@every_architecture
def test_what_was_saved_comes_back_to_the_bit(tmp_path, tokenizer, architecture):
    model = ours_of(architecture, tokenizer, inner=37, segments=3, dropout=0.25)
    save_model(tmp_path / "model", model, tokenizer, "card")
    again, found = load_model(tmp_path / "model", kinds=(KINDS[architecture],))
    assert type(again) is type(model)
    assert again.config == model.config
    for name in ("names", "form", "impossible"):
        assert getattr(again, name, None) == getattr(model, name, None)
    assert_same_weights(again, model)
    ids, lengths, _ = batch(tokenizer)
    assert torch.equal(again(ids, lengths), model(ids, lengths))
    assert found.encode(FIRST) == tokenizer.encode(FIRST)
    assert (tmp_path / "model" / "README.md").read_text() == "card"


@every_architecture
def test_what_is_saved_holds_no_second_copy_of_anything(tmp_path, tokenizer, architecture):
    model = ours_of(architecture, tokenizer)
    save_model(tmp_path / "model", model, tokenizer, "card")
    held = sum(tensor.numel() for tensor in load_file(tmp_path / "model" / "model.safetensors").values())
    assert held == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("names", "form", "problem", "shown"),
    [
        (NAMES, "text", "single_label_classification", {0: "bad", 1: "so so", 2: "good"}),
        (NAMES, "pair", "single_label_classification", {0: "bad", 1: "so so", 2: "good"}),
        ((), "text", "regression", {0: "LABEL_0"}),
        ((), "pair", "regression", {0: "LABEL_0"}),
        ((), "choice", None, {0: "LABEL_0"}),
    ],
)
def test_labels_and_what_is_classified_travel(tmp_path, tokenizer, names, form, problem, shown):
    body = ours_of("BertModel", tokenizer)
    model = randomised(BertClassifier(body, names, form))
    save_model(tmp_path / "model", model, tokenizer, "card")
    theirs = opened_by_them("BertForSequenceClassification", tmp_path / "model")
    assert (theirs.config.id2label, theirs.config.problem_type) == (shown, problem)
    assert theirs.config.label2id == {name: number for number, name in shown.items()}
    again, _ = load_model(tmp_path / "model")
    assert (again.names, again.form) == (names, form)
    assert_equal_models(again, theirs, tokenizer)


def test_the_labels_of_tokens_travel(tmp_path, tokenizer):
    model = BertTagger(ours_of("BertForTokenClassification", tokenizer).body, ("O", "B-PER", "I-PER", "B-LOC"))
    save_model(tmp_path / "model", model, tokenizer, "card")
    theirs = opened_by_them("BertForTokenClassification", tmp_path / "model")
    assert theirs.config.id2label == {0: "O", 1: "B-PER", 2: "I-PER", 3: "B-LOC"}
    assert load_model(tmp_path / "model")[0].names == model.names


def test_the_tokenizer_is_theirs_too(tmp_path, tokenizer):
    save_model(tmp_path / "model", ours_of("BertModel", tokenizer), tokenizer, "card")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    ids, lengths, inputs = batch(tokenizer)
    found = theirs(FIRST, SECOND, padding=True, return_tensors="pt")
    longest = int(lengths.max())
    assert torch.equal(found["input_ids"], ids[:, :longest])
    assert torch.equal(found["token_type_ids"], inputs["token_type_ids"][:, :longest])
    assert torch.equal(found["attention_mask"], inputs["attention_mask"][:, :longest])
    assert theirs.model_max_length == 19


def test_an_embedder_is_an_encoder_to_others_and_an_embedder_here(tmp_path, tokenizer):
    body = ours_of("BertModel", tokenizer)
    ids, lengths, _ = batch(tokenizer)
    for pooling, normalised, longest in (("mean", True, None), ("cls", False, 7), ("max", True, 19)):
        model = BertEmbedder(body, pooling, normalised, longest).eval()
        save_model(tmp_path / "model", model, tokenizer, "card")
        assert_equal_models(body, opened_by_them("AutoModel", tmp_path / "model"), tokenizer)
        again, _ = load_embedder(tmp_path / "model")
        assert (again.pooling, again.normalised, again.longest) == (pooling, normalised, model.longest)
        assert torch.equal(again(ids, lengths), model(ids, lengths))


# The encoder of any of them.


@every_architecture
def test_the_encoder_of_any_of_them_can_be_had(tmp_path, tokenizer, architecture):
    theirs = theirs_of(architecture, tokenizer)
    body, found = load_encoder(saved(tmp_path, theirs, tokenizer))
    assert type(body) is Bert
    assert not body.training
    assert (body.pooler is None) == (getattr(theirs, "bert", theirs).pooler is None)
    assert found.separator == body.config.separator
    ids, lengths, inputs = batch(tokenizer)
    with torch.no_grad():
        expected = getattr(theirs, "bert", theirs)(ids, **inputs).last_hidden_state
        real = inputs["attention_mask"].bool()
        assert_close(body(ids, lengths)[real], expected[real], atol=1e-4, rtol=0)


# Older files.


def first_names(tensors):
    """As the first TensorFlow checkpoints call a norm's weight and bias."""
    renamed = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    return {re.sub(r"LayerNorm\.(weight|bias)$", lambda m: renamed[m[0]], name): t for name, t in tensors.items()}


def with_counters(tensors):
    prefix = "bert." if any(name.startswith("bert.") for name in tensors) else ""
    return {**tensors, f"{prefix}embeddings.position_ids": torch.arange(19)[None]}


def with_copies(tensors):
    """The tied output once more, which is not read: its copies here are wrong."""
    vocabulary = len(tensors["cls.predictions.bias"])
    weight, bias = torch.zeros(vocabulary, 21), torch.zeros(vocabulary)
    return {**tensors, "cls.predictions.decoder.weight": weight, "cls.predictions.decoder.bias": bias}


@every_architecture
@pytest.mark.parametrize("older", [first_names, with_counters])
def test_older_files_open_as_todays(tmp_path, tokenizer, architecture, older):
    theirs = theirs_of(architecture, tokenizer)
    saved(tmp_path, theirs, tokenizer)
    before = set(load_file(tmp_path / "model.safetensors"))
    rewritten(tmp_path, older)
    assert set(load_file(tmp_path / "model.safetensors")) != before
    assert_equal_models(load_model(tmp_path)[0], theirs, tokenizer)


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "BertForPreTraining"])
def test_copies_of_what_is_tied_are_not_read(tmp_path, tokenizer, architecture):
    theirs = theirs_of(architecture, tokenizer)
    saved(tmp_path, theirs, tokenizer)
    rewritten(tmp_path, with_copies)
    assert_equal_models(load_model(tmp_path)[0], theirs, tokenizer)


@pytest.mark.parametrize("older", [lambda tensors: tensors, first_names, with_counters])
def test_an_encoder_opens_with_its_prefix_and_without(tmp_path, tokenizer, older):
    theirs = theirs_of("BertModel", tokenizer)
    saved(tmp_path, theirs, tokenizer)
    rewritten(tmp_path, lambda tensors: older({f"bert.{name}": tensor for name, tensor in tensors.items()}))
    assert all(name.startswith("bert.") for name in load_file(tmp_path / "model.safetensors"))
    assert_equal_models(load_model(tmp_path)[0], theirs, tokenizer)


def test_a_config_that_names_no_architecture_is_that_of_an_encoder(tmp_path, tokenizer):
    theirs = theirs_of("BertModel", tokenizer)
    saved(tmp_path, theirs, tokenizer)
    for nothing in ("gone", None, []):
        changed(tmp_path, architectures=nothing)
        assert_equal_models(load_model(tmp_path)[0], theirs, tokenizer)


def test_one_for_masked_words_may_tell_what_follows_as_well(tmp_path, tokenizer):
    theirs = theirs_of("BertForPreTraining", tokenizer)
    saved(tmp_path, theirs, tokenizer)
    changed(tmp_path, architectures=["BertForMaskedLM"])  # as bert-base-uncased
    rewritten(tmp_path, lambda tensors: with_copies(with_counters(first_names(tensors))))
    ours, _ = load_model(tmp_path, kinds=(MaskedBert,))
    assert ours.follows is not None
    assert_equal_models(ours, theirs, tokenizer)


def test_one_for_masked_words_may_hold_a_pooler_that_nothing_reads(tmp_path, tokenizer):
    theirs = theirs_of("BertForMaskedLM", tokenizer)
    saved(tmp_path, theirs, tokenizer)
    rewritten(tmp_path, with_pooler)
    ours, _ = load_model(tmp_path)
    assert ours.body.pooler is None
    assert_equal_models(ours, theirs, tokenizer)


def with_pooler(tensors):
    return {**tensors, "bert.pooler.dense.weight": torch.zeros(21, 21), "bert.pooler.dense.bias": torch.zeros(21)}


@pytest.mark.parametrize("architecture", ["BertForTokenClassification", "BertForQuestionAnswering"])
def test_taggers_and_answerers_of_older_versions_hold_a_pooler_that_nothing_reads(tmp_path, tokenizer, architecture):
    theirs = theirs_of(architecture, tokenizer)
    saved(tmp_path, theirs, tokenizer)
    rewritten(tmp_path, with_pooler)
    assert_equal_models(load_model(tmp_path)[0], theirs, tokenizer)


# What cannot be.


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"position_embedding_type": "relative_key"}, "this BERT has position_embedding_type = relative_key; only one"),
        ({"position_embedding_type": "relative_key_query"}, "only one with absolute can be opened"),
        ({"is_decoder": True}, "this BERT has is_decoder = True; only one with False can be opened"),
        ({"add_cross_attention": True}, "this BERT has add_cross_attention = True"),
        ({"tie_word_embeddings": False}, "this BERT has tie_word_embeddings = False; only one with True can be opened"),
        ({"hidden_act": "mish"}, "activation mish is not known; known are relu, gelu, gelu_new, silu"),
        ({"hidden_act": None}, "activation None is not known"),
        (
            {"architectures": ["BertForNextSentencePrediction"]},
            "is a BertForNextSentencePrediction; known are BertModel",
        ),
        (
            {"architectures": ["BertLMHeadModel"]},
            "this BERT is a BertLMHeadModel; known are BertModel, BertForMaskedLM",
        ),
        (
            {"architectures": ["BertForNextSentencePrediction"]},
            "BertForSequenceClassification, BertForMultipleChoice, BertForToken",
        ),
        (
            {"vocab_size": 50},
            r"the tokenizer has 5\d tokens, the model only 50|is of shape \[\d+, 21\]; its config says",
        ),
        ({"hidden_size": 22}, "width 22 does not split over 3 heads"),
        ({"hidden_size": "gone"}, "its config has no 'hidden_size'"),
        ({"num_attention_heads": 0}, "model.heads is 0; it must be at least 1"),
        ({"max_position_embeddings": "long"}, "is damaged or not a masked language model"),
        ({"num_hidden_layers": 3}, "the checkpoint has no tensor .*encoder.layer.2.* and 11 more, which a BERT"),
        ({"num_hidden_layers": 1}, "the checkpoint has tensors that a BERT of its config has not: .*encoder.layer.1"),
    ],
)
def test_what_our_model_cannot_be_is_refused_in_one_sentence(tmp_path, tokenizer, change, sentence):
    saved(tmp_path, theirs_of("BertForMaskedLM", tokenizer), tokenizer)
    changed(tmp_path, **change)
    with pytest.raises(ManyheadsError, match=sentence) as refused:
        load_model(tmp_path)
    assert "\n" not in str(refused.value)


@every_architecture
def test_left_over_missing_and_misshapen_tensors_are_errors(tmp_path, tokenizer, architecture):
    saved(tmp_path, theirs_of(architecture, tokenizer), tokenizer)
    whole = load_file(tmp_path / "model.safetensors")
    prefix = "" if architecture == "BertModel" else "bert."
    norm, table = f"{prefix}encoder.layer.1.output.LayerNorm.bias", f"{prefix}embeddings.word_embeddings.weight"
    for change, sentence in (
        (lambda tensors: {**tensors, "cls.extra": torch.zeros(1)}, r"a BERT of its config has not: cls\.extra"),
        (
            lambda tensors: {n: t for n, t in tensors.items() if n != norm},
            r"no tensor .*layer\.1\.output\.LayerNorm\.bias",
        ),
        (
            lambda tensors: {n: t for n, t in tensors.items() if n != table},
            r"no tensor .*word_embeddings\.weight, which a",
        ),
        (
            lambda tensors: {**tensors, norm: torch.zeros(20)},
            r"LayerNorm\.bias is of shape \[20\]; its config says \[21\]",
        ),
        (lambda tensors: {**tensors, norm: torch.zeros(21, dtype=torch.int8)}, r"holds numbers of torch\.int8"),
    ):
        save_file(change(dict(whole)), tmp_path / "model.safetensors")
        with pytest.raises(CheckpointError, match=sentence) as refused:
            load_model(tmp_path)
        assert "\n" not in str(refused.value)
    save_file(whole, tmp_path / "model.safetensors")
    load_model(tmp_path)


@pytest.mark.parametrize(
    ("architecture", "head"),
    [
        ("BertForMaskedLM", "cls.predictions.bias"),
        ("BertForPreTraining", "cls.seq_relationship.bias"),
        ("BertForSequenceClassification", "classifier.weight"),
        ("BertForSequenceClassification", "bert.pooler.dense.weight"),
        ("BertForTokenClassification", "classifier.bias"),
        ("BertForQuestionAnswering", "qa_outputs.weight"),
    ],
)
def test_a_head_that_is_missing_is_an_error(tmp_path, tokenizer, architecture, head):
    saved(tmp_path, theirs_of(architecture, tokenizer), tokenizer)
    rewritten(tmp_path, lambda tensors: {name: tensor for name, tensor in tensors.items() if name != head})
    with pytest.raises(CheckpointError, match=f"the checkpoint has no tensor {re.escape(head)}, which a BERT"):
        load_model(tmp_path)


def test_a_pickle_is_refused(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertForMaskedLM", tokenizer), tokenizer)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(
        CheckpointError, match=r"has only pytorch_model\.bin, a pickle, which can run any code"
    ) as refused:
        load_model(tmp_path)
    assert "\n" not in str(refused.value)


def test_another_type_is_told_the_known_ones(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertModel", tokenizer), tokenizer)
    changed(tmp_path, model_type="roberta")
    for kinds, sentence in {
        (Bert,): "holds a model of type roberta; encoders are of type bert",
        (BertClassifier,): "classifiers are of type bert",
        (GPT, BertTagger): "models are of type gpt2, openai-gpt, manyheads-gpt or bert",
        None: "models are of type marian, .* or bert",
    }.items():
        with pytest.raises(CheckpointError, match=sentence):
            load_model(tmp_path, kinds)


def test_those_that_answer_questions_are_named_in_words_too(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertModel", tokenizer), tokenizer)
    changed(tmp_path, model_type="roberta")
    with pytest.raises(CheckpointError, match="question answerers are of type bert"):
        load_model(tmp_path, (BertAnswerer,))


@pytest.mark.parametrize(
    ("architecture", "kinds", "sentence"),
    [
        (
            "BertForMaskedLM",
            (GPT,),
            "a masked language model (bert); a language model (GPT-2, GPT-1) is asked for here",
        ),
        ("BertForPreTraining", (BertTagger,), "a masked language model (bert); a tagger (BERT) is asked for here"),
        (
            "BertForTokenClassification",
            (GPT, Llama),
            "a tagger (bert); a language model (GPT-2, GPT-1, Llama) is asked",
        ),
        ("BertForQuestionAnswering", (BertTagger,), "a question answerer (bert); a tagger (BERT) is asked"),
        ("BertForTokenClassification", (BertClassifier, BertTagger), None),
        (
            "BertForSequenceClassification",
            (MaskedBert, GPT),
            "a classifier (bert); a language model (GPT-2, GPT-1) or a ",
        ),
    ],
)
def test_a_model_of_another_kind_is_told_what_it_is_and_what_is_asked_for(
    tmp_path, tokenizer, architecture, kinds, sentence
):
    saved(tmp_path, theirs_of(architecture, tokenizer), tokenizer)
    if sentence is None:
        assert isinstance(load_model(tmp_path, kinds)[0], kinds)
        return
    with pytest.raises(CheckpointError) as refused:
        load_model(tmp_path, kinds)
    assert f"{tmp_path} holds {sentence}" in str(refused.value)


def test_an_encoder_where_a_language_model_is_asked_for_is_told_so(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertModel", tokenizer), tokenizer)
    with pytest.raises(CheckpointError) as refused:
        load_model(tmp_path, kinds=(GPT,))
    said = f"{tmp_path} holds an encoder (bert); a language model (GPT-2, GPT-1) is asked for here"
    assert str(refused.value) == said


def test_a_decoder_has_no_encoder_to_take(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertModel", tokenizer), tokenizer)
    changed(tmp_path, model_type="gpt2", architectures=["GPT2LMHeadModel"])
    with pytest.raises(
        CheckpointError, match=r"holds a language model \(gpt2\); .*encoder \(BERT\).* is asked for here"
    ):
        load_encoder(tmp_path)


@pytest.mark.parametrize("value", ["gone", None, "wide", [3], -1, 0])
def test_a_config_may_say_anything(tmp_path, tokenizer, value):
    saved(tmp_path, theirs_of("BertForTokenClassification", tokenizer), tokenizer)
    whole = (tmp_path / "config.json").read_text()
    for key in ("hidden_size", "num_attention_heads", "num_hidden_layers", "intermediate_size", "vocab_size"):
        changed(tmp_path, **{key: value})
        with pytest.raises(ManyheadsError) as refused:
            load_model(tmp_path)
        assert "\n" not in str(refused.value)
        (tmp_path / "config.json").write_text(whole)
    load_model(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"architectures": 3},
        {"manyheads": 3},
        {"hidden_act": ["gelu"]},
        {"type_vocab_size": None},
    ],
)
def test_a_config_that_says_something_odd_is_a_sentence(tmp_path, tokenizer, change):
    saved(tmp_path, theirs_of("BertModel", tokenizer), tokenizer)
    changed(tmp_path, **change)
    with pytest.raises(ManyheadsError):
        load_model(tmp_path)


def test_several_labels_or_numbers_at_once_are_refused(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertForSequenceClassification", tokenizer), tokenizer)
    for problem, sentence in (
        ("multi_label_classification", "gives a text several labels at once; only one label each is known"),
        ("regression", "gives a text 5 numbers at once; only one number each is known"),
    ):
        changed(tmp_path, problem_type=problem)
        with pytest.raises(CheckpointError, match=sentence):
            load_model(tmp_path)


def test_a_tokenizer_that_knows_more_than_the_model_is_refused(tmp_path, tokenizer):
    model = ours_of("BertModel", tokenizer)
    small = randomised(Bert(replace(model.config, vocabulary=len(tokenizer) - 1)))
    save_model(tmp_path / "model", small, tokenizer, "card")
    with pytest.raises(CheckpointError, match=f"has {len(tokenizer)} tokens, the model only {len(tokenizer) - 1}"):
        load_model(tmp_path / "model")


def test_multiple_choice_is_theirs_too_and_gives_the_same_scores(tmp_path, tokenizer):
    ours = randomised(BertClassifier(ours_of("BertModel", tokenizer), (), "choice"))
    save_model(tmp_path / "ours", ours, tokenizer, "")
    theirs, report = transformers.BertForMultipleChoice.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ids = torch.randint(5, len(tokenizer), (3, 7))
    with torch.inference_mode():
        scores = theirs.eval()(ids[None]).logits[0]
        assert_close(ours(ids)[:, 0], scores, atol=1e-4, rtol=0)
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    again, _ = load_model(tmp_path / "theirs", kinds=(BertClassifier,))
    assert (again.form, again.names) == ("choice", ())


def test_labels_without_names_are_counted(tmp_path, tokenizer):
    saved(tmp_path, theirs_of("BertForSequenceClassification", tokenizer), tokenizer)
    table = json.loads((tmp_path / "config.json").read_text())
    count = len(table.pop("id2label"))
    table.pop("label2id")
    (tmp_path / "config.json").write_text(json.dumps({**table, "num_labels": count}))
    assert len(load_model(tmp_path)[0].names) == count
