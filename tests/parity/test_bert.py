"""What is particular to BERT's checkpoints: labels, poolers, older files, and what a head may lack or have too much."""

import re
from itertools import product

import pytest
import torch
from checkpoints import (
    BERTS,
    MARKED,
    NAMES,
    assert_equal_models,
    every_bert,
    opened_by_them,
    ours_of,
    pairs,
    saved,
    theirs_of,
    transformers,
)
from helpers import changed, randomised, rewritten
from safetensors.torch import load_file
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError
from manyheads.interop.directory import load_embedder, load_encoder, load_model
from manyheads.models.bert import Bert, BertAnswerer, BertEmbedder, MaskedBert
from manyheads.models.heads import EncoderClassifier

# Theirs here.


@pytest.mark.parametrize("theirs", ["gelu", "relu", "silu", "swish", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"])
def test_every_activation_that_is_known_is_theirs(tmp_path, theirs):
    model = theirs_of("BertForMaskedLM", hidden_act=theirs)  # whose head has one too
    assert_equal_models(load_model(saved(tmp_path, model))[0], model)


def test_an_encoder_may_have_no_pooler(tmp_path):
    theirs = randomised(transformers.BertModel(theirs_of("BertModel").config, add_pooling_layer=False))
    ours, _ = load_model(saved(tmp_path / "theirs", theirs))
    assert ours.pooler is None
    assert_equal_models(ours, theirs)
    assert_equal_models(ours, opened_by_them("BertModel", saved(tmp_path / "ours", ours), add_pooling_layer=False))


def test_labels_of_theirs_keep_their_names_and_their_order(tmp_path):
    names = {number: f"label {number}" for number in range(12)}  # sorted as words, 10 would come before 2
    labels = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    for kind in ("BertForSequenceClassification", "BertForTokenClassification"):
        theirs = theirs_of(kind, **labels)
        ours, _ = load_model(saved(tmp_path / kind, theirs))
        assert ours.names == tuple(names.values())
        assert_equal_models(ours, theirs)
    assert load_model(tmp_path / "BertForSequenceClassification")[0].form == "either"


@pytest.mark.parametrize("problem", [None, "regression"])
def test_a_model_of_theirs_that_gives_a_number_gives_it_here(tmp_path, problem):
    theirs = theirs_of("BertForSequenceClassification", num_labels=1, problem_type=problem)
    ours, _ = load_model(saved(tmp_path, theirs))
    assert (ours.names, ours.form) == ((), "either")
    ids, lengths, _ = pairs()
    assert ours(ids, lengths).shape == (3, 1)
    assert_equal_models(ours, theirs)


def test_one_that_answers_questions_may_point_at_nothing_unless_it_says_otherwise(tmp_path):
    theirs = theirs_of("BertForQuestionAnswering")
    assert load_model(saved(tmp_path / "theirs", theirs))[0].impossible is True
    for impossible in (True, False):
        body = ours_of("BertForQuestionAnswering").body
        saved(tmp_path / "ours", BertAnswerer(body, impossible))
        assert load_model(tmp_path / "ours")[0].impossible is impossible


# Ours there.


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
def test_labels_and_what_is_classified_travel(tmp_path, names, form, problem, shown):
    model = randomised(EncoderClassifier(ours_of("BertModel"), names, form))
    theirs = opened_by_them("BertForSequenceClassification", saved(tmp_path / "model", model))
    assert (theirs.config.id2label, theirs.config.problem_type) == (shown, problem)
    assert theirs.config.label2id == {name: number for number, name in shown.items()}
    again, _ = load_model(tmp_path / "model")
    assert (again.names, again.form) == (names, form)
    assert_equal_models(again, theirs)


def test_an_embedder_is_an_encoder_to_others_and_an_embedder_here(tmp_path):
    body = ours_of("BertModel")
    ids, lengths, _ = pairs()
    for pooling, normalised, longest in (("mean", True, None), ("cls", False, 7), ("max", True, 19)):
        model = BertEmbedder(body, pooling, normalised, longest).eval()
        saved(tmp_path / "model", model)
        assert_equal_models(body, opened_by_them("AutoModel", tmp_path / "model"))
        again, _ = load_embedder(tmp_path / "model")
        assert (again.pooling, again.normalised, again.longest) == (pooling, normalised, model.longest)
        assert torch.equal(again(ids, lengths), model(ids, lengths))


# The encoder of any of them.


@every_bert
def test_the_encoder_of_any_of_them_can_be_had(tmp_path, name):
    theirs = theirs_of(name)
    body, found = load_encoder(saved(tmp_path, theirs))
    assert type(body) is Bert
    assert not body.training
    assert (body.pooler is None) == (getattr(theirs, "bert", theirs).pooler is None)
    assert found.separator == body.config.separator
    ids, lengths, inputs = pairs()
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


def with_pooler(tensors):
    """That of a head which reads none."""
    return {**tensors, "bert.pooler.dense.weight": torch.zeros(21, 21), "bert.pooler.dense.bias": torch.zeros(21)}


def with_prefix(tensors):
    return {f"bert.{name}": tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize(
    ("name", "older"),
    [
        *product(BERTS, ([first_names], [with_counters])),
        *product(("BertForMaskedLM", "BertForPreTraining"), ([with_copies],)),
        *product(("BertForMaskedLM", "BertForTokenClassification", "BertForQuestionAnswering"), ([with_pooler],)),
        *product(["BertModel"], ([with_prefix], [with_prefix, first_names], [with_prefix, with_counters])),
    ],
)
def test_older_files_open_as_todays(tmp_path, name, older):
    theirs = theirs_of(name)
    before = set(load_file(saved(tmp_path, theirs) / "model.safetensors"))
    for change in older:
        rewritten(tmp_path, change)
    assert set(load_file(tmp_path / "model.safetensors")) != before
    ours, _ = load_model(tmp_path)
    assert_equal_models(ours, theirs)
    assert older != [with_pooler] or ours.body.pooler is None


def test_a_config_that_names_no_architecture_is_that_of_an_encoder(tmp_path):
    theirs = theirs_of("BertModel")
    saved(tmp_path, theirs)
    for nothing in ("gone", None, []):
        assert_equal_models(load_model(changed(tmp_path, architectures=nothing))[0], theirs)


def test_one_for_masked_words_may_tell_what_follows_as_well(tmp_path):
    theirs = theirs_of("BertForPreTraining")
    changed(saved(tmp_path, theirs), architectures=["BertForMaskedLM"])  # as bert-base-uncased
    rewritten(tmp_path, lambda tensors: with_copies(with_counters(first_names(tensors))))
    ours, _ = load_model(tmp_path, kinds=(MaskedBert,))
    assert ours.follows is not None
    assert_equal_models(ours, theirs)


# What cannot be.


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("BertForMaskedLM", "cls.predictions.bias"),
        ("BertForPreTraining", "cls.seq_relationship.bias"),
        ("BertForSequenceClassification", "classifier.weight"),
        ("BertForSequenceClassification", "bert.pooler.dense.weight"),
        ("BertForTokenClassification", "classifier.bias"),
        ("BertForQuestionAnswering", "qa_outputs.weight"),
    ],
)
def test_a_head_that_is_missing_is_an_error(tmp_path, name, head):
    saved(tmp_path, theirs_of(name))
    rewritten(tmp_path, lambda tensors: {name: tensor for name, tensor in tensors.items() if name != head})
    with pytest.raises(CheckpointError, match=f"the checkpoint has no tensor {re.escape(head)}, which a BERT"):
        load_model(tmp_path)


def test_multiple_choice_is_theirs_too_and_gives_the_same_scores(tmp_path):
    ours = randomised(EncoderClassifier(ours_of("BertModel"), (), "choice"))
    theirs = opened_by_them("BertForMultipleChoice", saved(tmp_path / "ours", ours))
    ids = torch.randint(5, len(MARKED), (3, 7))
    with torch.inference_mode():
        assert_close(ours(ids)[:, 0], theirs(ids[None]).logits[0], atol=1e-4, rtol=0)
        assert not torch.allclose(ours(ids)[:, 0], theirs(ids.flip(0)[None]).logits[0], atol=1e-2)
    again, _ = load_model(saved(tmp_path / "theirs", theirs), kinds=(EncoderClassifier,))
    assert (again.form, again.names) == ("choice", ())


def test_labels_without_names_are_counted(tmp_path):
    saved(tmp_path, theirs_of("BertForSequenceClassification"))
    changed(tmp_path, id2label="gone", label2id="gone", num_labels=5)
    assert len(load_model(tmp_path)[0].names) == 5
