"""What is particular to ViT's checkpoints: both schemes of names, pictures through both processors, what cannot be."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import NAMES, VITS, assert_equal_models, opened_by_them, ours_of, saved, theirs_of, transformers
from helpers import changed, config_of, randomised, rewritten, unsealed
from PIL import Image
from safetensors.torch import load_file
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError
from manyheads.data.images import FILE, ImageProcessor
from manyheads.interop.directory import load_model, save_model
from manyheads.models.vit import ViT, ViTClassifier
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.classify.use import Classifier
from manyheads.tasks.images.use import ImageClassifier

every_vit = pytest.mark.parametrize("name", VITS)


# Theirs here.


@every_vit
def test_names_of_today_are_read_as_those_that_are_written(tmp_path, name):
    """Their modules have had other names than their files since version 5, and some files have them too."""
    theirs = theirs_of(name)
    before = set(load_file(saved(tmp_path, theirs) / "model.safetensors"))
    rewritten(tmp_path, lambda _: theirs.state_dict())
    now = set(load_file(tmp_path / "model.safetensors"))
    assert not {each for each in now if "layers." in each} & before
    assert any("attention.q_proj" in each for each in now)
    assert_equal_models(load_model(tmp_path)[0], theirs)


@pytest.mark.parametrize("theirs", ["gelu", "relu", "silu", "swish", "gelu_new", "gelu_pytorch_tanh", "gelu_fast"])
def test_every_activation_that_is_known_is_theirs(tmp_path, theirs):
    model = theirs_of("ViTForImageClassification", hidden_act=theirs)
    assert_equal_models(load_model(saved(tmp_path, model))[0], model)


def test_an_encoder_may_have_no_pooler(tmp_path):
    theirs = randomised(transformers.ViTModel(theirs_of("ViTModel").config, add_pooling_layer=False))
    ours, _ = load_model(saved(tmp_path / "theirs", theirs))
    assert ours.pooler is None
    assert_equal_models(ours, theirs)
    assert_equal_models(ours, opened_by_them("ViTModel", saved(tmp_path / "ours", ours), add_pooling_layer=False))


def test_an_encoder_may_be_saved_with_the_prefix_of_a_classifiers_and_its_pooler_is_passed_over(tmp_path):
    theirs = theirs_of("ViTModel")
    rewritten(saved(tmp_path / "body", theirs), lambda held: {f"vit.{name}": each for name, each in held.items()})
    assert_equal_models(load_model(tmp_path / "body")[0], theirs)
    classifier = theirs_of("ViTForImageClassification")
    pooler = {f"vit.pooler.dense.{name}": torch.zeros(21, 21)[: 21 if name == "weight" else 1] for name in ("weight",)}
    rewritten(saved(tmp_path / "classifier", classifier), lambda held: {**held, **pooler})
    assert_equal_models(load_model(tmp_path / "classifier")[0], classifier)


def test_labels_of_theirs_keep_their_names_and_their_order(tmp_path):
    names = {number: f"label {number}" for number in range(12)}  # sorted as words, 10 would come before 2
    theirs = theirs_of("ViTForImageClassification", id2label=names, label2id={name: i for i, name in names.items()})
    ours, _ = load_model(saved(tmp_path / "theirs", theirs))
    assert ours.names == tuple(names.values())
    assert_equal_models(ours, theirs)
    again = opened_by_them("ViTForImageClassification", saved(tmp_path / "ours", ours))
    assert again.config.id2label == names


# Real pictures, through both preprocessings.


@pytest.fixture(scope="session")
def photo() -> Path:
    """The flower that ships with scikit-learn: 640 × 427 pixels."""
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    return Path(datasets.__file__).parent / "images" / "flower.jpg"


def their_pixels(directory: Path, image: Image.Image) -> torch.Tensor:
    processor = transformers.ViTImageProcessor.from_pretrained(directory)
    return processor(image, return_tensors="pt").pixel_values


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("size", [15, 80])
def test_a_picture_has_the_same_logits_through_both_processors_and_models(tmp_path, photo, size, channels):
    model = ours_of("ViTForImageClassification", image_size=size, channels=channels)
    directory = saved(tmp_path, model)
    theirs = opened_by_them("AutoModelForImageClassification", directory)
    ours = ImageClassifier.load(directory, device="cpu")
    with Image.open(photo) as opened:
        seen = opened.convert("RGB" if channels == 3 else "L")
    given = their_pixels(directory, seen)
    assert given.shape == (1, channels, size, size)
    mine = ours.processor.normalised(torch.from_numpy(ours.processor.pixels(photo).copy())[None])
    assert_close(mine, given, atol=1e-3, rtol=0)
    with torch.no_grad():
        expected = theirs(given).logits
    assert_close(ours.scores([photo]), expected, atol=1e-4, rtol=0)
    upside_down = seen.transpose(Image.Transpose.ROTATE_180)
    assert not torch.allclose(ours.scores([upside_down]), expected, atol=1e-2)  # and the test can tell


@pytest.mark.parametrize(
    "said",
    [
        {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
        {"resample": 3},
        {"resample": 0},
        {"do_normalize": False},
        {"rescale_factor": 1 / 255, "size": {"height": 15, "width": 15}},
    ],
)
def test_what_a_processor_of_theirs_says_is_done(tmp_path, photo, said):
    theirs = theirs_of("ViTForImageClassification")
    theirs.save_pretrained(tmp_path)
    transformers.ViTImageProcessor(**{"size": {"height": 15, "width": 15}, **said}).save_pretrained(tmp_path)
    ours = ImageClassifier.load(tmp_path, device="cpu")
    with Image.open(photo) as image:
        given = their_pixels(tmp_path, image)
        plain = transformers.ViTImageProcessor(size={"height": 15, "width": 15})(image, return_tensors="pt")
    mine = ours.processor.normalised(torch.from_numpy(ours.processor.pixels(photo).copy())[None])
    assert_close(mine, given, atol=1e-3, rtol=0)
    assert torch.allclose(given, plain.pixel_values, atol=1e-2) == ("rescale_factor" in said)  # and it matters
    with torch.no_grad():
        assert_close(ours.scores([photo]), theirs(given).logits, atol=1e-4, rtol=0)
    again = saved_again(tmp_path / "again", ours)
    with Image.open(photo) as image:
        assert_close(their_pixels(again, image), given, atol=1e-6, rtol=0)


def saved_again(directory: Path, classifier: ImageClassifier) -> Path:
    save_model(directory, classifier.model, classifier.processor, "card")
    return directory


def test_pictures_arrays_and_paths_are_one_and_the_same(tmp_path, photo):
    ours = ImageClassifier.load(saved(tmp_path, ours_of("ViTForImageClassification")), device="cpu")
    with Image.open(photo) as image:
        image.load()
        given = [photo, str(photo), image, np.asarray(image)]
    pixels = [ours.processor.pixels(each) for each in given]
    assert all(np.array_equal(each, pixels[0]) for each in pixels)
    assert_close(ours.scores(given), ours.scores([photo]).expand(4, -1))
    assert [each.name in NAMES for each in ours(given)] == [True] * 4


# What they cannot express, and what cannot be.


def test_positions_that_they_have_not_keep_our_own_type(tmp_path, photo):
    model = ours_of("ViTForImageClassification", positions=PositionsConfig(kind="sinusoidal"), width=24)
    table = config_of(saved(tmp_path, model))
    assert (table["model_type"], table["architectures"]) == ("manyheads-vit", ["ViTForImageClassification"])
    again, before = ImageClassifier.load(tmp_path, device="cpu"), ImageClassifier(model, ImageProcessor.of(15, 3))
    assert again.names == NAMES
    assert torch.equal(again.scores([photo]), before.scores([photo]))
    with pytest.raises(ValueError, match="manyheads-vit"):
        transformers.AutoModelForImageClassification.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"size": {"height": 15, "width": 20}}, "makes images of 15 × 20 pixels; only squares are known"),
        ({"size": {"shortest_edge": 15}}, "preprocessor_config.json is damaged or of another kind of model"),
        ({"size": 30_000}, "makes images of 30,000 × 30,000 pixels; at most"),
        ({"size": 20}, "makes images of 20 pixels in 3 colours, but its config.json says 15 in 3"),
        ({"image_mean": [0.5]}, "shifts 1 colours and scales 3; 1 or 3 are known"),
        ({"image_mean": [0.5], "image_std": [0.5]}, "makes images of 15 pixels in 1 colours, but"),
        ({"image_std": [0.5, 0.0, 0.5]}, r"divides colours by \[0\.5, 0\.0, 0\.5\]; numbers above 0 are needed"),
        ({"do_center_crop": True}, "says do_center_crop true; only images without"),
        ({"do_resize": False}, "says do_resize false"),
        ({"rescale_factor": 1.0}, r"scales colours by 1\.0; only 1/255 is known"),
        ({"resample": 77}, "says resample 77; known are 0 to 5, as Pillow counts"),
        ({"image_mean": ["dark", 0, 0]}, "is damaged"),
    ],
)
def test_a_processor_that_cannot_be_is_one_sentence(tmp_path, said, sentence):
    directory = saved(tmp_path, ours_of("ViTForImageClassification"))
    load_model(directory)
    table = json.loads((directory / FILE).read_text())
    (directory / FILE).write_text(json.dumps({**table, **said}))
    with pytest.raises(CheckpointError, match=sentence) as refused:
        load_model(directory)
    assert "\n" not in str(refused.value)


def test_directories_of_other_models_are_told_by_what_they_are(tmp_path):
    bert = saved(tmp_path / "bert", ours_of("BertForSequenceClassification"))
    vit = saved(tmp_path / "vit", ours_of("ViTForImageClassification"))
    body = saved(tmp_path / "body", ours_of("ViTModel"))
    for use, directory, said in (
        (ImageClassifier, bert, r"holds a classifier \(bert\); an image classifier \(ViT\) is asked for here"),
        (ImageClassifier, body, r"holds an image encoder \(vit\); an image classifier \(ViT\) is asked for here"),
        (Classifier, vit, r"holds an image classifier \(vit\); a classifier .* is asked for here"),
    ):
        with pytest.raises(CheckpointError, match=said):
            use.load(directory)
    changed(body, architectures=["ViTForSomethingElse"])
    with pytest.raises(CheckpointError, match="this ViT is a ViTForSomethingElse; known are ViTModel"):
        load_model(body)
    (vit / FILE).unlink()
    with pytest.raises(CheckpointError, match=rf"has no {FILE}, which says how images are read; copy it there"):
        load_model(vit)


def test_what_was_pre_trained_by_hidden_patches_is_the_encoder_in_it(tmp_path):
    theirs = randomised(transformers.ViTForMaskedImageModeling(theirs_of("ViTModel", encoder_stride=5).config))
    theirs.save_pretrained(tmp_path)
    ImageProcessor.of(15, 3).save(tmp_path)
    ours, _ = load_model(unsealed(tmp_path), kinds=(ViT,))
    pixels = torch.randn(2, 3, 15, 15)
    with torch.no_grad():
        assert_close(ours(pixels), theirs.vit(pixels).last_hidden_state, atol=1e-4, rtol=0)


def test_a_pooler_that_a_classifier_does_not_read_may_be_any(tmp_path):
    theirs = theirs_of("ViTForImageClassification", pooler_act="relu", pooler_output_size=7)
    assert_equal_models(load_model(saved(tmp_path / "classifier", theirs))[0], theirs)
    for change, said in (
        ({"pooler_act": "relu"}, "this ViT has pooler_act = relu; only one with tanh"),
        ({"pooler_output_size": 7}, "this ViT has pooler_output_size = 7; only one with 21"),
    ):
        with pytest.raises(CheckpointError, match=said):
            load_model(changed(saved(tmp_path / "body", theirs_of("ViTModel")), **change))


@pytest.mark.parametrize(
    ("said", "gives"),
    [
        ({"num_labels": 3, "problem_type": "multi_label_classification"}, "several labels at once"),
        ({"num_labels": 3, "problem_type": "regression"}, "numbers"),
        ({"num_labels": 1}, "numbers"),
    ],
)
def test_what_gives_an_image_no_label_of_several_is_refused(tmp_path, said, gives):
    directory = saved(tmp_path, theirs_of("ViTForImageClassification", **said))
    with pytest.raises(CheckpointError, match=f"this ViT gives an image {gives}; only one label out of two or more"):
        ImageClassifier.load(directory)
    several = theirs_of("ViTForImageClassification", num_labels=3, problem_type="single_label_classification")
    assert len(ImageClassifier.load(saved(tmp_path / "one", several)).names) == 3


def test_a_config_that_names_no_architecture_is_that_of_an_encoder(tmp_path):
    theirs = theirs_of("ViTModel")
    saved(tmp_path, theirs)
    for nothing in ("gone", None, []):
        ours = load_model(changed(tmp_path, architectures=nothing))[0]
        assert type(ours) is ViT
        assert_equal_models(ours, theirs)


@pytest.mark.parametrize("head", ["classifier.weight", "vit.embeddings.cls_token", "vit.layernorm.bias"])
def test_a_tensor_that_is_missing_is_an_error(tmp_path, head):
    directory = saved(tmp_path, theirs_of("ViTForImageClassification"))
    rewritten(directory, lambda held: {name: tensor for name, tensor in held.items() if name != head})
    with pytest.raises(CheckpointError, match=f"the checkpoint has no tensor {head}, which a ViT of its config must"):
        load_model(directory, kinds=(ViTClassifier,))
