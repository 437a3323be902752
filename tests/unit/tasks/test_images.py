"""Classifiers of images: how a recipe is completed, what a classifier takes, and what it is scored by."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import randomised
from torch import nn
from torch.testing import assert_close

from manyheads.core.configs import to_toml
from manyheads.core.errors import ConfigError, DataError
from manyheads.data.images import READ_AHEAD, ImageProcessor
from manyheads.interop.directory import save_model
from manyheads.models.vit import PRESETS, ViT, ViTClassifier, ViTConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks import run as runs
from manyheads.tasks.ask.recipe import AskData
from manyheads.tasks.caption.recipe import CaptionData
from manyheads.tasks.images.recipe import Evaluation, ImageData, ImagesRecipe
from manyheads.tasks.images.training import Images
from manyheads.tasks.images.use import ImageClassifier
from manyheads.tasks.pictures import usual_patch
from tests.unit.tasks.test_images_data import broken, folder, told

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")

NAMES = ("ant", "bee", "cow")
SMALL = ViTConfig(image_size=12, patch_size=4, width=12, layers=2, heads=3, inner=14)
OTHER_MEAN, OTHER_DEVIATION = (0.2, 0.5, 0.6), (0.3, 0.4, 0.7)


def recipe(*places: Path, assignments=(), model: Path | None = None, preset=None, file=None, **data) -> ImagesRecipe:
    """What `manyheads train images` would train."""
    flags = {"data": {**({"data": tuple(map(str, places))} if places else {}), **data}}
    flags |= {"fine_tune": {"model": str(model)}} if model else {}
    return runs.resolve("images", flags=flags, assignments=tuple(assignments), preset=preset, file=file)


@pytest.fixture(scope="module")
def grey(tmp_path_factory) -> Path:
    return folder(tmp_path_factory.mktemp("images") / "grey", size=(12, 12))


@pytest.fixture(scope="module")
def coloured(tmp_path_factory) -> Path:
    place = folder(tmp_path_factory.mktemp("images") / "coloured", size=(12, 12))
    Image.new("RGB", (12, 12), "red").save(place / "white" / "red.png")
    return place


# The recipe


def test_size_and_colours_follow_from_the_images_unless_somebody_says_otherwise(grey, coloured, tmp_path):
    tall, large = folder(tmp_path / "tall", size=(10, 14)), folder(tmp_path / "large", size=(257, 14))
    for found, size, channels in (
        (recipe(grey), 12, 1),
        (recipe(coloured), 12, 3),
        (recipe(grey, coloured), 12, 3),
        (recipe(tall), 14, 1),  # the longer side, so that nothing is lost
        (recipe(grey, tall), 64, 1),  # of several sizes: the preset's
        (recipe(coloured, grey=True), 12, 1),
        (recipe(coloured, size=35), 35, 3),
        (recipe(folder(tmp_path / "just", size=(256, 14))), 256, 1),
        (recipe(large), 64, 1),  # as photos, whose own size nobody asked for
        (recipe(large, size=260), 260, 1),
        (recipe(large, assignments=["model.image_size=260"]), 260, 1),
    ):
        assert (found.model.image_size, found.model.channels) == (size, channels)


def test_a_patch_is_the_largest_of_which_there_are_still_seven_along_the_side(grey):
    for size in range(1, 225):
        even = [patch for patch in range(1, size + 1) if size % patch == 0]
        largest = max([patch for patch in even if size // patch >= 7], default=1)
        assert usual_patch(size) == (largest if size // largest <= 16 else None)
    assert recipe(grey, size=35).model.patch_size == 5
    assert recipe(grey, size=35, assignments=["model.patch_size=7"]).model.patch_size == 7
    assert recipe(grey, size=35, preset="vit_mini").model.patch_size == 5
    assert recipe(grey, size=32, preset="vit_ti16").model.patch_size == 16  # as published, however few there are


def test_a_side_of_too_many_patches_is_made_the_nearest_that_has_few(tmp_path, grey, capfd):
    faces = folder(tmp_path / "faces", size=(178, 218))  # of 2 pixels each there would be 11,881
    found = recipe(faces).model
    assert (found.image_size, found.patch_size) == (217, 31)
    assert "images are made 217 pixels a side, not 218, to be cut into patches of 31" in capfd.readouterr().err
    with pytest.raises(ConfigError, match=r"218 pixels splits into no 7 to 16 patches; give data\.size 217, or say"):
        recipe(faces, size=218)
    assert recipe(faces, assignments=["model.patch_size=109"]).model.image_size == 218
    assert recipe(grey, size=34, assignments=["model.patch_size=2"]).model.grid == 17  # who asks for it has it


def test_sides_and_patches_that_do_not_fit_are_refused_with_the_nearest_that_do(grey):
    said = "a side of 12 pixels does not split into patches of 16; the nearest that does is 16: set data.size"
    with pytest.raises(ConfigError, match=said):
        recipe(grey, preset="vit_ti16")
    with pytest.raises(ConfigError, match="patches of 5; the nearest that does is 10"):
        recipe(grey, assignments=["model.patch_size=5"])
    with pytest.raises(ConfigError, match=r"data\.size is 0; it must be at least 1"):
        recipe(grey, size=0)


def test_a_side_that_no_processor_would_open_again_is_refused_before_anything_is_read(grey, tmp_path):
    for kind in (ImageData, CaptionData, AskData):
        assert kind(size=4096).size == 4096
        with pytest.raises(ConfigError, match=r"data\.size is 4,097; images are made at most 4,096 pixels along a"):
            kind(size=4097)
    wide = folder(tmp_path / "wide", size=(300, 12))
    with pytest.raises(ConfigError, match=r"model\.image_size is 8,000; images are made at most 4,096 pixels along"):
        recipe(wide, assignments=["model.image_size=8000"])


def test_what_follows_from_the_images_is_asked_for_by_what_makes_them_so(grey):
    with pytest.raises(ConfigError, match=r"model\.image_size is 24, but follows from the images, as 12; set data\.si"):
        recipe(grey, assignments=["model.image_size=24"])
    with pytest.raises(ConfigError, match=r"model\.channels is 3, but follows from the images, as 1; set data\.grey"):
        recipe(grey, assignments=["model.channels=3"])
    assert recipe(grey, assignments=["model.image_size=12", "model.channels=1"]) == recipe(grey)


def test_left_and_right_change_places_in_colour_alone_unless_somebody_says_otherwise(grey, coloured):
    assert [recipe(each).augment.flip for each in (grey, coloured)] == [False, True]
    assert recipe(coloured, grey=True).augment.flip is False
    assert recipe(grey, assignments=["augment.flip=true"]).augment.flip is True
    assert recipe(coloured, assignments=["augment.flip=false"]).augment.flip is False


def test_training_follows_from_the_width_and_from_how_many_images_there_are(grey):
    narrow, wide = recipe(grey).train, recipe(grey, assignments=["model.width=256"]).train
    assert narrow.learning_rate == pytest.approx(2 * wide.learning_rate)
    assert narrow.steps == 30  # epochs of the 36 images that are left, in one batch
    assert recipe(grey, assignments=["data.examples=8"]).train.steps == 30 * 5


def test_other_presets_are_refused_with_those_that_there_are(grey):
    with pytest.raises(ConfigError, match=r"no preset bert_tiny; there are vit_micro, vit_mini, vit_ti8"):
        recipe(grey, preset="bert_tiny")
    assert [recipe(grey, preset=name, size=224).model.width for name in ("vit_ti16", "vit_b32")] == [192, 768]
    assert recipe(grey, preset="vit_b16", size=224, assignments=["model.channels=1"]).model == replace(
        PRESETS["vit_b16"](), channels=1
    )


# Another's weights


@pytest.fixture(scope="module")
def pre_trained(tmp_path_factory) -> dict[str, Path]:
    """Models of 3 × 3 patches: an encoder, one with a pooler, a classifier, and one that learns no positions."""
    place, processor = (
        tmp_path_factory.mktemp("vit"),
        ImageProcessor(size=12, mean=OTHER_MEAN, deviation=OTHER_DEVIATION),
    )
    torch.manual_seed(3)
    made = {
        "encoder": ViT(SMALL),
        "with a pooler": ViT(SMALL, pooler=True),
        "classifier": ViTClassifier(ViT(SMALL), ("x", "y", "z", "zebra")),
        "sinusoidal": ViT(replace(SMALL, positions=PositionsConfig(kind="sinusoidal"))),
    }
    for name, model in made.items():
        save_model(place / name, randomised(model), processor, "")
    return {name: place / name for name in made}


def begun(found: ImagesRecipe, directory: Path) -> tuple[Images, ViT, ViTClassifier]:
    """A task that is about to train, what it begins with, and its model."""
    task = Images(found)
    body, processor = task.pre_trained(begun=False)
    directory.mkdir()
    runs.prepare(task, directory, processor)
    return task, body, task.build(body)  # type: ignore


@pytest.mark.parametrize("name", ["encoder", "with a pooler", "classifier", "sinusoidal"])
@pytest.mark.parametrize("size", [None, 20])
def test_any_vit_goes_on_at_its_own_size_or_another_with_its_weights(grey, pre_trained, tmp_path, name, size):
    found = recipe(grey, model=pre_trained[name], **({"size": size} if size else {}))
    side = size or 12
    assert (found.model.image_size, found.model.patch_size, found.model.channels) == (side, 4, 3)
    task, body, model = begun(found, tmp_path / "run")
    assert (task.processor.size, task.processor.mean, task.processor.deviation) == (side, OTHER_MEAN, OTHER_DEVIATION)
    assert (model.names, model.score.out_features) == (("black", "white"), 2)  # and not those that it had
    before, after = body.state_dict(), model.body.state_dict()
    assert {*before} - {*after} == ({"pooler.weight", "pooler.bias"} if "pooler" in name else set())
    changed = [each for each in after if not torch.equal(before[each], after[each])]
    assert changed == (["positions.table.weight"] if size and name != "sinusoidal" else [])
    pixels = task.processor.normalised(next(task.batches().epoch(0)).pixels)
    assert pixels.shape == (36, 3, side, side)
    assert model(pixels).shape == (36, 2)


def test_positions_for_more_patches_lie_where_those_of_fewer_lay(grey, pre_trained, tmp_path):
    found = recipe(grey, model=pre_trained["encoder"], size=36)
    task = Images(found)
    body, _ = task.pre_trained(begun=False)
    rows, columns = torch.meshgrid(torch.arange(3.0), torch.arange(3.0), indexing="ij")
    table = torch.zeros(10, 12)
    table[0] = 99
    table[1:, 0], table[1:, 1], table[1:, 2] = rows.flatten(), columns.flatten(), 7
    body.positions.table.weight.data = table
    drawn = task.body(body).positions.table.weight
    assert (drawn[0] == 99).all()  # the classification token lies nowhere
    down, across, same = drawn[1:, :3].T.reshape(3, 9, 9)
    assert_close(down[1::3, 1::3], rows, atol=1e-5, rtol=0)  # the middles of patches that became nine
    assert_close(across, down.T)
    assert (down.diff(dim=0)[1:-1] > 0).all()
    assert_close(down, down[:, :1].expand(9, 9))
    assert_close(same, torch.full((9, 9), 7.0))


def test_a_model_keeps_its_sizes_and_colours(grey, coloured, pre_trained, tmp_path):
    model = pre_trained["encoder"]
    with pytest.raises(ConfigError, match=r"model\.layers of .*encoder is 2 and cannot change; leave it away"):
        recipe(grey, model=model, assignments=["model.layers=3"])
    with pytest.raises(ConfigError, match="has sizes of its own; leave the preset vit_b16 or the model away"):
        recipe(grey, model=model, preset="vit_b16")
    with pytest.raises(ConfigError, match="a side of 21 pixels does not split into patches of 4; the nearest that doe"):
        recipe(grey, model=model, size=21)
    assert recipe(grey, model=model, assignments=["model.dropout=0.3"]).model.dropout == 0.3
    assert recipe(grey, model=model).augment.flip is True  # a grey picture is read in its colours
    torch.manual_seed(3)
    save_model(tmp_path / "grey", ViT(replace(SMALL, channels=1)), ImageProcessor.of(12, 1), "")
    found = recipe(coloured, model=tmp_path / "grey")
    assert (found.model.channels, found.augment.flip) == (1, False)


def test_shades_of_grey_are_not_asked_for_of_a_model_that_reads_colours(coloured, pre_trained):
    assert recipe(coloured, model=pre_trained["encoder"], grey=False).model.channels == 3
    with pytest.raises(ConfigError, match="grey"):  # or the recipe says grey where the model is trained in colour
        recipe(coloured, model=pre_trained["encoder"], grey=True)


@pytest.mark.parametrize("size", [None, 20])
def test_the_recipe_of_a_fine_tuned_model_reproduces_itself(grey, pre_trained, tmp_path, size):
    found = recipe(grey, model=pre_trained["encoder"], **({"size": size} if size else {}))
    (tmp_path / "mine.toml").write_text(to_toml(found), encoding="utf-8")
    assert recipe(file=tmp_path / "mine.toml") == found


def test_a_frozen_model_learns_its_head_alone_and_fast(grey, pre_trained, tmp_path):
    whole = recipe(grey, model=pre_trained["encoder"])
    frozen = recipe(grey, model=pre_trained["encoder"], assignments=["fine_tune.freeze=true"])
    assert frozen.train.learning_rate > whole.train.learning_rate
    _, _, model = begun(frozen, tmp_path / "run")
    assert [name for name, each in model.named_parameters() if each.requires_grad] == ["score.weight", "score.bias"]
    with pytest.raises(ConfigError, match="an untrained model is not worth freezing"):
        Images(recipe(grey, assignments=["fine_tune.freeze=true"])).check()


# The objective


def test_what_is_learned_is_what_is_used(grey, pre_trained, tmp_path):
    found = recipe(grey, model=pre_trained["encoder"], assignments=["augment.flip=false"])
    task, _, model = begun(found, tmp_path / "run")
    randomised(model)  # a new head has no weights yet
    batch = next(task.valid_batches().epoch(0))
    loss = task.loss(model, batch)
    scores = ImageClassifier(model, task.processor).scores(list(batch.pixels.numpy()))
    assert_close(task.scores(model, batch).detach(), scores, atol=1e-5, rtol=0)
    assert_close(loss.likelihood.detach(), nn.functional.cross_entropy(scores, batch.labels, reduction="sum"))
    assert task.recipe.train.smoothing == 0.1
    smooth = nn.functional.cross_entropy(scores, batch.labels, reduction="sum", label_smoothing=0.1)
    assert_close(loss.total.detach(), smooth)
    with torch.inference_mode():
        found = task.validate(model)
    assert found["loss"] == pytest.approx(float(loss.likelihood.detach()) / len(batch.labels), rel=1e-4)
    assert found["accuracy"] == 100 * float((scores.argmax(dim=1) == batch.labels).float().mean())


# What a classifier takes


@pytest.fixture(scope="module")
def classifier() -> ImageClassifier:
    torch.manual_seed(8)
    return ImageClassifier(randomised(ViTClassifier(ViT(SMALL), NAMES)), ImageProcessor.of(12, 3))  # type: ignore


def noise(count: int, seed: int = 5) -> list[np.ndarray]:
    """Pictures of random pixels, a little larger or smaller than a model reads."""
    source = np.random.default_rng(seed)
    return [source.integers(0, 256, (10 + each % 4, 13, 3), dtype=np.uint8) for each in range(count)]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    """Thirteen pictures of random pixels."""
    place = tmp_path_factory.mktemp("noise")
    paths = [place / f"{number}.png" for number in range(13)]
    for path, pixels in zip(paths, noise(13)):
        Image.fromarray(pixels).save(path)
    return paths


def test_paths_pictures_arrays_and_tensors_are_one_and_the_same(classifier, files):
    arrays = noise(13)
    expected = classifier.scores(arrays)
    assert len({each.index for each in classifier(arrays)}) > 1  # and the test can tell
    assert not torch.allclose(expected[0], expected[4], atol=1e-2)
    for same in (
        files,
        [str(path) for path in files],
        [Image.open(path) for path in files],
        [torch.from_numpy(pixels) for pixels in arrays],
        [torch.from_numpy(pixels).movedim(-1, 0) for pixels in arrays],
        (path for path in files),
        tuple(files),
        iter(arrays),
        dict.fromkeys(files).keys(),
    ):
        assert_close(classifier.scores(same), expected, atol=1e-5, rtol=0)
    stacked = np.stack([pixels[:10] for pixels in arrays])
    assert_close(classifier.scores(stacked), classifier.scores(list(stacked)), atol=1e-5, rtol=0)
    assert_close(classifier.scores(torch.from_numpy(stacked)), classifier.scores(stacked), atol=1e-5, rtol=0)


def test_a_label_is_the_likeliest_with_its_probability(classifier, files):
    chances = classifier.probabilities(files)
    assert_close(chances.sum(dim=1), torch.ones(13))
    for label, row in zip(classifier(files), chances):
        assert (label.name, label.probability) == (NAMES[label.index], float(row.max()))
        assert row[label.index] == row.max()
    assert classifier([]) == []
    assert classifier.probabilities(iter([])).shape == (0, 3)


@pytest.mark.parametrize("kind", ["a name", "a path", "a picture", "an array", "a grey array", "a tensor", "a number"])
def test_one_image_is_not_taken_for_several(classifier, files, kind):
    one = {
        "a name": str(files[0]),
        "a path": files[0],
        "a picture": Image.open(files[0]),
        "an array": noise(1)[0],
        "a grey array": noise(1)[0][:, :, 0],
        "a tensor": torch.from_numpy(noise(1)[0]).movedim(-1, 0),
        "a number": 7,
    }[kind]
    with pytest.raises(ConfigError, match="an image classifier takes a list of images; put one into brackets"):
        classifier(one)
    if kind != "a number":
        assert len(classifier([one])) == 1


@pytest.fixture
def few(monkeypatch) -> int:
    """Three images in a batch; two threads read."""
    monkeypatch.setattr("manyheads.tasks.images.use.CELLS_AT_ONCE", 35)  # of ten patches and tokens each
    monkeypatch.setattr("manyheads.data.images.os", SimpleNamespace(cpu_count=lambda: 2))
    return 3


def test_each_image_is_scored_alone_as_in_any_batch_and_in_its_place(classifier, files, few, monkeypatch):
    alone = torch.cat([classifier.scores([path]) for path in files])
    sizes, own = [], classifier._scores
    monkeypatch.setattr(classifier, "_scores", lambda pixels: sizes.append(len(pixels)) or own(pixels))
    assert_close(classifier.scores(files), alone, atol=1e-5, rtol=0)
    assert_close(classifier.scores(reversed(files)), alone.flip(0), atol=1e-5, rtol=0)
    assert sizes == [few] * 4 + [1] + [few] * 4 + [1]


def test_no_more_than_a_batch_and_a_few_images_ahead_are_in_memory(classifier, few):
    taken = 0

    def endless() -> Iterator[np.ndarray]:
        nonlocal taken
        while True:
            taken += 1
            yield noise(1)[0]

    found = classifier.each_scores(endless())
    for number in range(50):
        next(found)
        assert taken <= number + few + 2 * READ_AHEAD
    assert taken >= 50
    found.close()


def test_what_cannot_be_read_says_so_in_its_place_and_the_others_keep_theirs(classifier, files, few, tmp_path):
    gone, bad = tmp_path / "gone.png", broken(tmp_path / "bad.png")
    mixed = [gone, *files[:4], bad, 7, bad, *files[4:7], gone]
    found = list(classifier.each_scores(mixed))
    said = [None if isinstance(each, torch.Tensor) else str(each).split(";")[0] for each in found]
    assert [said[place] for place in (1, 2, 3, 4, 8, 9, 10)] == [None] * 7
    assert said[0] == said[-1] == f"{gone} is not there"
    assert said[5] == said[7] == f"{bad} is no picture of a kind that is read, or its beginning is damaged"
    assert said[6] == "int is no picture"
    scores = torch.stack([each for each in found if isinstance(each, torch.Tensor)])
    assert_close(scores, classifier.scores(files[:7]), atol=1e-5, rtol=0)
    with pytest.raises(DataError, match=r"bad.png is no picture"):
        classifier([*files, bad, gone])


# Scores


def labelled(path: Path, files: list[Path], names: list[str]) -> Path:
    """A folder of folders in which the files have these labels."""
    for file, name in zip(files, names):
        (path / name).mkdir(parents=True, exist_ok=True)
        (path / name / file.name).write_bytes(file.read_bytes())
    return path


def test_scores_are_those_counted_by_hand(classifier, files, tmp_path):
    truth = [NAMES[number % 3] for number in range(13)]
    place = labelled(tmp_path / "test", files, truth)
    said = [label.name for label in classifier(files)]
    found = classifier.evaluate(Evaluation(data=(str(place),)))
    pairs = list(zip(truth, said))
    assert found.numbers["accuracy"] == pytest.approx(sum(right == label for right, label in pairs) / 13)
    assert 0 < found.numbers["accuracy"] < 1
    assert found.numbers["labels"] == NAMES
    for each in found.numbers["classes"]:
        name = each["label"]
        hits, own, given = pairs.count((name, name)), truth.count(name), said.count(name)
        assert (each["images"], each["recall"]) == (own, pytest.approx(hits / own))
        assert each["precision"] == (pytest.approx(hits / given) if given else None)
    assert [list(row) for row in found.numbers["confusion"]] == [
        [pairs.count((right, label)) for label in NAMES] for right in NAMES
    ]


def test_what_never_occurs_has_no_share(classifier, files, tmp_path):
    place = labelled(tmp_path / "test", files, ["ant", "cow"] * 7)
    never = deepcopy(classifier)
    never.model.score.bias.data[2] = -99.0
    found = never.evaluate(Evaluation(data=(str(place),)))
    ant, bee, cow = found.numbers["classes"]
    assert (bee["images"], bee["recall"], cow["recall"], cow["precision"]) == (0, None, 0.0, None)
    assert ant["images"] == 7
    lines = {line.split()[0]: line.split()[1:] for line in str(found).splitlines() if line.startswith(NAMES)}
    assert lines["cow"] == ["6", "0.00", "%", "-"]
    assert lines["bee"][:2] == ["0", "-"]


def test_files_that_cannot_be_read_are_named_and_count_for_nothing(classifier, files, few, tmp_path, capfd):
    truth = [NAMES[number % 2] for number in range(13)]
    place = labelled(tmp_path / "test", files, truth)
    expected = classifier.evaluate(Evaluation(data=(str(place),))).numbers
    for name in ("ant/0a.png", "ant/9a.png", "bee/0a.png"):
        broken(place / name)
    capfd.readouterr()
    found = classifier.evaluate(Evaluation(data=(str(place),))).numbers
    for name in ("confusion", "classes", "examples", "accuracy"):
        assert found[name] == expected[name]
    assert found["accuracy"] < 1  # so that a label in another's place would show
    assert "left out: " + str(place / "bee" / "0a.png") in told(capfd)
    for path in place.rglob("*.png"):
        broken(path)
    with pytest.raises(DataError, match=r"none of the 16 images can be read; the first: .*0\.png is no picture"):
        classifier.evaluate(Evaluation(data=(str(place),)))


def test_only_images_of_known_labels_are_scored_on(classifier, files, tmp_path):
    place = labelled(tmp_path / "test", files, ["ant", "dog"] * 7)
    with pytest.raises(DataError, match=r"the label 'dog' is not among those of the training images \(ant, bee, cow\)"):
        classifier.evaluate(Evaluation(data=(str(place),)))
    with pytest.raises(ConfigError, match="nothing to score an image classifier on: give --data, a folder as it is tr"):
        classifier.evaluate(Evaluation())


def test_a_divided_folder_is_scored_by_its_test_part(classifier, files, tmp_path):
    labelled(tmp_path / "all" / "train", files[:5], ["ant", "bee"] * 3)
    labelled(tmp_path / "all" / "test", files[5:], ["bee", "cow"] * 4)
    found = classifier.evaluate(Evaluation(data=(str(tmp_path / "all"),))).numbers
    assert [each["images"] for each in found["classes"]] == [0, 4, 4]


def test_heads_are_ranked_by_the_likelihood_of_the_right_label(classifier, files, tmp_path):
    truth = [NAMES[number % 3] for number in range(13)]
    place = labelled(tmp_path / "test", files, truth)
    measure = classifier.measure(Evaluation(data=(str(place),)), None)
    chances = classifier.probabilities(files)
    by_hand = -sum(float(row[NAMES.index(name)].log()) for row, name in zip(chances, truth)) / 13
    assert measure.score() == pytest.approx(by_hand, rel=1e-5)
