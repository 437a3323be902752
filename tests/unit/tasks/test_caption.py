"""Captions of images and answers to questions about them: what is read, what is written, and what that is worth."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import translation_tokenizer

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.augmentation import TextAugmentation
from manyheads.data.image_text import ImageTextProcessor
from manyheads.data.images import READ_AHEAD, ImageProcessor
from manyheads.data.ragged import Store
from manyheads.data.readers.image_texts import ImageTexts, read_image_texts
from manyheads.models.vision_encoder_decoder import VisionEncoderDecoderConfig
from manyheads.tasks import run as runs
from manyheads.tasks.ask.data import COLUMNS as ASKED
from manyheads.tasks.ask.data import questions_of_shapes
from manyheads.tasks.ask.recipe import AskData
from manyheads.tasks.ask.recipe import Evaluation as AskEvaluation
from manyheads.tasks.ask.use import ImageAnswerer
from manyheads.tasks.caption.data import (
    Asked,
    ImageTextSplit,
    asked_of,
    captions_of_shapes,
    read_all,
    read_files,
    store_image_texts,
    stored_questions,
)
from manyheads.tasks.caption.recipe import CaptionData, Evaluation
from manyheads.tasks.caption.use import Captioner, ImageWriter, multi_bleu
from manyheads.tasks.task import Task
from tests.unit.tasks.preparing import prepared
from tests.unit.tasks.test_images_data import broken, told

Image = pytest.importorskip("PIL.Image", reason="pillow is not installed: pip install 'manyheads[images]'")

SAID = ("its caption",)
COLOURS = {"red": (230, 20, 30), "green": (20, 200, 40), "blue": (30, 40, 220)}
PLACES = {"above": (slice(0, 4), slice(4, 8)), "below": (slice(8, 12), slice(4, 8)), "left": (slice(4, 8), slice(0, 4))}


def numbered(folder: Path, count: int) -> list[Path]:
    """Grey pictures whose shade is their number."""
    folder.mkdir(parents=True)
    paths = [folder / f"{number}.png" for number in range(count)]
    for number, path in enumerate(paths):
        Image.new("L", (6, 6), number).save(path)
    return paths


def table(path: Path, *rows: tuple[str | Path, ...]) -> Path:
    """A file with a row on each line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return path


def all_of(data: CaptionData | AskData, names: tuple[str, ...] = SAID, seed: int = 1) -> ImageTextSplit:
    return read_all(data, names, captions_of_shapes, seed)


def said_of(found: ImageTexts) -> dict[str, list[str]]:
    """All texts of each image, by the name of its file."""
    texts: dict[str, list[str]] = {path.name: [] for path in found.images}
    for image, *text in found.rows:
        texts[found.images[image].name].append(" ".join(text))
    return texts


# Files


def test_an_image_that_several_lines_and_files_name_is_one_image(tmp_path):
    one = table(tmp_path / "one.tsv", ("a.png", "first"), ("b.png", "second"), ("./a.png", "third"))
    two = table(tmp_path / "two.tsv", (tmp_path / "b.png", "fourth"), ("c.png", "fifth"), ("a.png", "sixth"))
    found = read_files((str(one), str(two)), SAID)
    assert found.images == [tmp_path / "a.png", tmp_path / "b.png", tmp_path / "c.png"]
    assert found.rows == [(0, "first"), (1, "second"), (0, "third"), (1, "fourth"), (2, "fifth"), (0, "sixth")]


def test_and_so_is_one_that_is_named_from_another_folder(tmp_path):
    numbered(tmp_path / "pictures", 2)
    one = table(tmp_path / "one.tsv", ("pictures/0.png", "first"), ("pictures/1.png", "second"))
    two = table(tmp_path / "more" / "two.tsv", ("../pictures/0.png", "third"))
    found = read_files((str(one), str(two)), SAID)
    assert len(found.images) == 2  # or it might be learned from and held out as well
    assert [image for image, _ in found.rows] == [0, 1, 0]


def test_a_line_is_a_path_and_its_texts_and_the_others_are_told_of(tmp_path, capfd):
    file = table(
        tmp_path / "a.tsv", ("image", "caption"), (" a.png ", " one "), ("",), ("b.png", " "), ("", "x"), ("c.png", "b")
    )
    found = read_image_texts(file, SAID)
    assert (found.images, found.rows) == ([tmp_path / "a.png", tmp_path / "c.png"], [(0, "one"), (1, "b")])
    said = told(capfd)
    assert "a.tsv: 2 lines with an empty column left out, the first of them line 4" in said
    assert "names the columns" in said
    with pytest.raises(
        DataError, match=r"line 2: 3 columns where there must be 2, the path of an image, its caption, w"
    ):
        read_image_texts(table(tmp_path / "b.tsv", ("a.png", "one"), ("a.png", "one", "two")), SAID)
    with pytest.raises(
        DataError, match=r"2 columns where there must be 3, the path of an image, a question and its an"
    ):
        read_image_texts(file, ASKED)
    with pytest.raises(DataError, match="has no line with the path of an image and its caption"):
        read_image_texts(table(tmp_path / "c.tsv", ("image", "caption")), SAID)


def test_a_path_to_no_picture_that_is_there_is_no_header(tmp_path, capfd):
    for path in ("../ok/none", "./none", "none.png", "/none"):
        file = table(tmp_path / "a.tsv", (path, "first caption"), ("b.png", "second"))
        assert [text for _, text in read_image_texts(file, SAID).rows] == ["first caption", "second"]
    assert told(capfd) == ""


def test_a_null_byte_is_refused_by_its_line(tmp_path):
    row, other = ("a\0.png", "one"), ("c.png", "two")
    for place, rows in ((1, [row, other]), (2, [other, row])):
        with pytest.raises(DataError, match=rf"a\.tsv, line {place}: the path of the image holds a null byte; mend"):
            read_files((str(table(tmp_path / "a.tsv", *rows)),), SAID)


def test_a_tenth_of_the_images_is_held_out_with_all_that_is_said_of_them(tmp_path):
    rows = [(f"{number}.png", f"{number} said {time}") for time in range(3) for number in range(time, 31)]
    file = table(tmp_path / "a.tsv", *rows)
    found = all_of(CaptionData(pairs=(str(file),)))
    train, valid = said_of(found.train), said_of(found.valid)
    assert (len(train), len(valid)) == (28, 3)
    assert not {*train} & {*valid}
    whole = said_of(read_image_texts(file, SAID))
    assert train | valid == whole
    assert {len(texts) for texts in whole.values()} == {1, 2, 3}
    other = said_of(all_of(CaptionData(pairs=(str(file),)), seed=2).valid)
    assert other != valid
    assert said_of(all_of(CaptionData(pairs=(str(file),))).valid) == valid


def test_images_for_validation_are_those_given_and_otherwise_there_must_be_enough(tmp_path):
    file, other = table(tmp_path / "a.tsv", ("a.png", "one")), table(tmp_path / "b.tsv", ("b.png", "two"))
    found = all_of(CaptionData(pairs=(str(file),), valid=(str(other),)))
    assert (said_of(found.train), said_of(found.valid)) == ({"a.png": ["one"]}, {"b.png": ["two"]})
    with pytest.raises(DataError, match="too few images, 1, to hold some out; give others with --valid"):
        all_of(CaptionData(pairs=(str(file),)))
    with pytest.raises(ConfigError, match=r"data\.valid is given without data\.pairs; give both or neither"):
        CaptionData(valid=(str(file),))
    with pytest.raises(ConfigError, match=r"data\.valid is given without data\.data; give both or neither"):
        AskData(valid=(str(file),))
    with pytest.raises(ConfigError, match=r"data\.longest is 1; it must be at least 2"):
        CaptionData(longest=1)


def test_all_right_texts_of_an_image_or_of_a_question_about_it_stand_together():
    captions = ImageTexts(["a", "b"], [(0, "one"), (1, "two"), (0, "three"), (0, "one")])
    assert asked_of(captions) == [Asked(0, None, ("one", "three")), Asked(1, None, ("two",))]
    questions = ImageTexts(["a", "b"], [(0, "what", "x"), (1, "what", "y"), (0, "who", "z"), (0, "what", "w")])
    assert asked_of(questions) == [Asked(0, "what", ("x", "w")), Asked(1, "what", ("y",)), Asked(0, "who", ("z",))]


def test_the_sample_has_all_captions_and_one_answer_to_each_question():
    found = asked_of(captions_of_shapes("seen"))
    assert [each.image for each in found] == [*range(len(found))]
    assert max(len(each.right) for each in found) > 1
    questions = asked_of(questions_of_shapes("seen"))
    assert {len(each.right) for each in questions} == {1}
    assert all(each.question and each.question.endswith("?") for each in questions)


# What is laid down


def processor(grey: bool = True, size: int = 6) -> ImageTextProcessor:
    return ImageTextProcessor(ImageProcessor.of(size, 1 if grey else 3), translation_tokenizer())


def laid_down(data: CaptionData, directory: Path) -> dict[str, list[tuple[int, str]]]:
    """The shade of the picture of each text, and the text."""
    directory.mkdir()
    store_image_texts(all_of(data), processor(), data, directory)
    found = {}
    for part in ("train", "valid"):
        texts, pixels = Store.open(directory / part), Store.open(directory / f"{part}_images")["pixels"]
        shades = [int(pixels[image][0]) for image in texts["image"].tolist()]
        written = translation_tokenizer().decode([texts["target"][row].tolist() for row in range(len(texts))])
        found[part] = list(zip(shades, written))
    return found


def test_images_that_cannot_be_read_are_left_out_with_their_texts(tmp_path, capfd):
    paths = numbered(tmp_path / "pictures", 9)
    for bad in (0, 3, 7):
        broken(paths[bad])
    paths[4].unlink()
    names = [path.relative_to(tmp_path) for path in paths]
    rows = [(name, f"{time} {number}") for time in ("once", "twice") for number, name in enumerate(names)]
    train, valid = table(tmp_path / "a.tsv", *rows[:6], *rows[9:15]), table(tmp_path / "b.tsv", *rows[6:9], *rows[15:])
    found = laid_down(CaptionData(pairs=(str(train),), valid=(str(valid),)), tmp_path / "run")
    assert found["train"] == [(number, f"{time} {number}") for time in ("once", "twice") for number in (1, 2, 5)]
    assert found["valid"] == [(number, f"{time} {number}") for time in ("once", "twice") for number in (6, 8)]
    right = [Asked(0, None, ("once 6", "twice 6")), Asked(1, None, ("once 8", "twice 8"))]
    assert stored_questions(tmp_path / "run") == right
    said = told(capfd)
    assert [f"left out: {path} " in said for path in paths] == [number in (0, 3, 4, 7) for number in range(9)]
    assert f"{paths[4]} is not there" in said
    assert "6 texts of 3 images to learn from, 4 of 2 to validate on" in said


def test_texts_that_are_too_long_are_dropped_and_counted(tmp_path, capfd):
    names = [path.relative_to(tmp_path) for path in numbered(tmp_path / "pictures", 3)]
    length = len(translation_tokenizer().encode(["a cat danced"])[0])
    rows = [
        (names[0], "a cat danced"),
        (names[1], "a cat danced under the table"),
        (names[1], "a dog"),
        (names[2], "a"),
    ]
    file, other = table(tmp_path / "a.tsv", *rows), table(tmp_path / "b.tsv", (names[2], "a cat"))
    data = CaptionData(pairs=(str(file),), valid=(str(other),), longest=length)
    found = laid_down(data, tmp_path / "run")
    assert found["train"] == [(0, "a cat danced"), (1, "a dog"), (2, "a")]
    assert f"dropped: 1 of 4 train texts, which have over {length} tokens (data.longest)" in told(capfd)
    with pytest.raises(DataError, match=r"no valid texts are left: each has more than 2 tokens; raise data\.longest"):
        laid_down(CaptionData(pairs=(str(file),), valid=(str(other),), longest=2), tmp_path / "again")


def test_a_question_that_is_too_long_is_dropped_with_its_answer(tmp_path, capfd):
    names = [path.relative_to(tmp_path) for path in numbered(tmp_path / "pictures", 2)]
    rows = [(names[0], "a cat", "the dog sleeps"), (names[1], "a dog", "a"), (names[0], "a dog sleeps under", "a")]
    file = table(tmp_path / "a.tsv", *rows)
    data = AskData(data=(str(file),), valid=(str(file),), longest=len(translation_tokenizer().encode(["a dog"])[0]))
    (tmp_path / "run").mkdir()
    found = read_all(data, ASKED, questions_of_shapes, 1)
    store_image_texts(found, processor(), data, tmp_path / "run")
    texts = Store.open(tmp_path / "run" / "train")
    assert translation_tokenizer().decode([texts["question"][0].tolist()]) == ["a dog"]
    assert (len(texts), texts["image"].tolist()) == (1, [1])
    assert "dropped: 2 of 3 train texts" in told(capfd)


def test_stored_questions_that_were_changed_are_refused(tmp_path):
    for content in ("no json\n", '{"image": 3}\n', "[1]\n"):
        (tmp_path / "valid.jsonl").write_text(content)
        with pytest.raises(DataError, match=r"valid\.jsonl is damaged .*; begin the run again"):
            stored_questions(tmp_path)


def test_sizes_and_colours_of_a_captioner_follow_from_all_images(tmp_path):
    place, count = tmp_path / "pictures", 32
    place.mkdir()
    for number in range(count):
        Image.new("L", (21, 14), number).save(place / f"{number}.png")
    file = table(tmp_path / "a.tsv", *((place / f"{number}.png", "red") for number in range(count)))

    def sizes(preset=None, **data) -> tuple[int, int, int]:
        model = runs.resolve("caption", flags={"data": {"pairs": (str(file),), **data}}, preset=preset).model
        return model.image_size, model.patch_size, model.channels

    assert sizes(preset="captioner_tiny") == (21, 3, 1)  # the longer side
    Image.new("RGB", (21, 14), "red").save(place / f"{count - 1}.png")
    assert sizes(preset="captioner_tiny") == (21, 3, 3)
    assert sizes(preset="captioner_tiny", size=35, grey=True) == (35, 5, 1)
    assert sizes(size=32) == (32, 16, 3)
    with pytest.raises(ConfigError, match="a side of 21 pixels does not split into patches of 16"):
        sizes()
    broken(place / "3.png")
    assert sizes(preset="captioner_tiny") == (21, 3, 3)
    Image.new("RGB", (24, 14), "red").save(place / f"{count - 1}.png")
    assert sizes() == (224, 16, 3)
    Image.new("L", (24, 14), 9).save(place / f"{count - 1}.png")
    assert sizes() == (224, 16, 1)


# BLEU


def test_bleu_beside_several_right_texts_is_sacrebleus(capsys):
    import sacrebleu

    found = ["the cat sat on the mat today", "a dog barks at a small bird", "two red birds sing in the old tree"]
    right = [
        ("the cat sat on a mat", "there is a cat on the mat today"),
        ("a dog barks at the small bird",),
        ("birds sing", "two red birds sing in a tree", "in the old tree two birds sing"),
    ]
    filled = [[*each, *[each[-1]] * (3 - len(each))] for each in right]  # one that comes twice counts once
    expected = sacrebleu.corpus_bleu(found, [list(each) for each in zip(*filled)])
    score, signature = multi_bleu(found, right)
    assert score == pytest.approx(expected.score)
    assert 0 < score < 100
    assert score != pytest.approx(multi_bleu(found, [each[:1] for each in right])[0])  # and all of them count
    assert multi_bleu(found, [(*each, text) for each, text in zip(right, found)])[0] == pytest.approx(100)
    assert "nrefs:" in signature
    assert "version:" in signature


# Learned by heart


def drawn(colour: str, place: str) -> np.ndarray:
    """A patch in a colour somewhere on black."""
    pixels = np.zeros((12, 12, 3), np.uint8)
    pixels[PLACES[place]] = COLOURS[colour]
    return pixels


PICTURES = [drawn(colour, place) for colour in COLOURS for place in PLACES]
NAMED = [(colour, place) for colour in COLOURS for place in PLACES]
CAPTIONS = [f"a {colour} patch is {place}" if place != "left" else f"{colour}, on the left" for colour, place in NAMED]
QUESTIONS = ("Which colour does it have?", "Where?")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory) -> list[Path]:
    """Nine pictures, each in a file."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = [folder / f"{number}.png" for number in range(9)]
    for path, pixels in zip(paths, PICTURES):
        Image.fromarray(pixels).save(path)
    return paths


def learned(name: str, data: CaptionData | AskData, run: Path) -> tuple[Task, ImageWriter]:
    """A task, and its model once it knows its data by heart."""
    sizes = {"image_size": 12, "patch_size": 4, "width": 24, "layers": 2, "decoder_layers": 1, "heads": 3, "inner": 32}
    torch.manual_seed(4)
    task = prepared(name, data, 0, run, model=VisionEncoderDecoderConfig(**sizes, dropout=0.0))
    task.recipe = replace(task.recipe, train=replace(task.recipe.train, smoothing=0.0))
    model = task.build(None)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    batches = [batch for epoch in range(160) for batch in task.batches().epoch(epoch)]
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = 1e-2 * (1 - step / len(batches))
        loss = task.loss(model, batch)
        (loss.total / loss.tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    kind = Captioner if name == "caption" else ImageAnswerer
    return task, kind(model, task.processor)


@pytest.fixture(scope="module")
def captioning(pictures, tmp_path_factory) -> tuple[Task, Captioner]:
    folder = tmp_path_factory.mktemp("caption")
    file = str(table(folder / "a.tsv", *zip(pictures, CAPTIONS)))
    return learned("caption", CaptionData(pairs=(file,), valid=(file,), vocabulary=290), folder / "run")  # type: ignore


@pytest.fixture(scope="module")
def asking(pictures, tmp_path_factory) -> tuple[Task, ImageAnswerer]:
    folder = tmp_path_factory.mktemp("ask")
    rows = [(path, *pair) for path, named in zip(pictures, NAMED) for pair in zip(QUESTIONS, named)]
    file = str(table(folder / "a.tsv", *rows))
    return learned("ask", AskData(data=(file,), valid=(file,), vocabulary=290), folder / "run")  # type: ignore


@pytest.fixture
def captioner(captioning) -> Captioner:
    return captioning[1]


@pytest.fixture
def answerer(asking) -> ImageAnswerer:
    return asking[1]


def test_captions_learned_by_heart_are_exactly_those(captioning, pictures):
    task, captioner = captioning
    assert captioner(pictures) == captioner(pictures, beam=1) == CAPTIONS
    with torch.inference_mode():
        found = task.validate(captioner.model)
    assert (found["exact"], found["bleu"]) == (100, pytest.approx(100))
    assert found["loss"] < 0.02


def test_images_are_moved_and_words_hidden_in_training_alone(captioning, pictures):
    task, captioner = captioning
    model, [batch, *_] = captioner.model, [*task.batches().epoch(0)]
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def states(pixels, before):
        seen.append((pixels, before))
        return type(model).states(model, pixels, before)

    plain = task.recipe
    try:
        model.states = states
        task.recipe = replace(plain, augment=TextAugmentation(shift=2, word_dropout=0.5))
        task.loss(model, batch)
        task.plain_loss(model, batch)  # as validation has it
        task.recipe = plain
        task.loss(model, batch)
    finally:
        del model.states
        task.recipe = plain
    (moved, hidden), (still, whole), (as_before, all_words) = seen
    assert torch.equal(still, as_before)
    assert torch.equal(whole, all_words)
    assert not torch.equal(moved, still)
    assert ((hidden == whole) | (hidden == task.processor.pad)).all()
    real = whole != task.processor.pad
    assert 0.2 < (hidden[real] == task.processor.pad).float().mean() < 0.8


def test_different_questions_about_one_picture_have_different_answers(asking, pictures):
    task, answerer = asking
    asked = [(path, question) for path in pictures for question in QUESTIONS]
    assert answerer(asked) == [each for pair in NAMED for each in pair]
    with torch.inference_mode():
        assert task.validate(answerer.model)["exact"] == 100


def test_paths_pictures_and_arrays_are_one_and_the_same(captioner, answerer, pictures):
    stacked = np.stack(PICTURES)
    for same in (map(str, pictures), map(Image.open, pictures), PICTURES, stacked, torch.from_numpy(stacked)):
        assert captioner(same) == CAPTIONS
    opened = [(Image.open(path), QUESTIONS[0]) for path in pictures]
    assert answerer(opened) == answerer([*zip(PICTURES, [QUESTIONS[0]] * 9)]) == [colour for colour, _ in NAMED]
    assert captioner([]) == answerer(iter([])) == []


# In batches


@pytest.fixture
def few(monkeypatch) -> int:
    """Four images in a batch; two threads read."""
    monkeypatch.setattr("manyheads.tasks.caption.use.AT_ONCE", 4)
    monkeypatch.setattr("manyheads.data.images.os", SimpleNamespace(cpu_count=lambda: 2))
    return 4


def best(found) -> list[str | None]:
    return [None if isinstance(each, DataError) else each[0].text for each in found]


def test_pictures_that_cannot_be_read_say_so_in_their_places(captioner, pictures, few, tmp_path):
    bad, gone = broken(tmp_path / "bad.png"), tmp_path / "gone.png"
    mixed = [bad, *pictures[:5], gone, bad, gone, bad, bad, *pictures[5:], bad]
    found = list(captioner.written((path, None) for path in mixed))
    captions = dict(zip(pictures, CAPTIONS))
    assert best(found) == [captions.get(path) for path in mixed]
    said = [str(each) for each in found if isinstance(each, DataError)]
    assert [each.split(" ")[0] for each in said] == [str(path) for path in mixed if path not in captions]
    with pytest.raises(DataError, match=r"bad\.png is no picture"):
        captioner(mixed)


def test_each_question_goes_with_its_own_picture_across_batches(answerer, pictures, few, tmp_path):
    bad = broken(tmp_path / "bad.png")
    source = np.random.default_rng(3)
    asked = [
        (int(image), int(question)) for image, question in zip(source.integers(-2, 9, 31), source.integers(0, 2, 31))
    ]
    requests = [(bad if image < 0 else pictures[image], QUESTIONS[question]) for image, question in asked]
    found = best(answerer.written(iter(requests)))
    assert found == [None if image < 0 else NAMED[image][question] for image, question in asked]
    assert found.count(None) > 2


def test_texts_are_the_same_alone_and_in_any_batch(captioner, answerer, pictures, few):
    for how in ({"beam": 3}, {"beam": 1}):
        together = list(captioner.written([(path, None) for path in pictures], **how))
        alone = [next(captioner.written([(path, None)], **how)) for path in pictures]
        assert [row[0].text for row in together] == [row[0].text for row in alone]
        assert [row[0].score for row in together] == pytest.approx([row[0].score for row in alone], abs=1e-4)
    long = "Where, if that can be said, is it? " * 3
    requests = [(pictures[2], QUESTIONS[0]), (pictures[5], QUESTIONS[1]), (pictures[5], long)]
    together, alone = list(answerer.written(requests)), [next(answerer.written([each])) for each in requests]
    scores = [[each[0].score for each in found] for found in (together, alone)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)  # although shorter ones are padded


def test_no_more_than_a_batch_and_a_few_pictures_ahead_are_in_memory(captioner, few):
    taken = 0

    def endless() -> Iterator[tuple[np.ndarray, None]]:
        nonlocal taken
        while True:
            taken += 1
            yield PICTURES[taken % 9], None

    found = captioner.written(endless(), beam=1)
    for number in range(21):
        assert next(found)[0].text == CAPTIONS[(number + 1) % 9]
        assert taken <= number + few + 2 * READ_AHEAD
    found.close()


def test_several_captions_come_best_first_and_tokens_limit_each(captioner, pictures):
    (found,) = captioner.written([(pictures[0], None)], beam=4, count=3)
    assert len({each.text for each in found}) == len(found) == 3
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    assert found[0].text == CAPTIONS[0]
    (cut,) = captioner([pictures[0]], beam=1, tokens=2)
    assert CAPTIONS[0].startswith(cut)
    assert cut != CAPTIONS[0]


def test_a_text_is_one_line_whatever_the_model_writes(captioner, pictures, monkeypatch):
    monkeypatch.setattr(captioner, "tokenizer", SimpleNamespace(decode=lambda rows: ["two\nlines"] * len(rows)))
    assert captioner(pictures[:2]) == ["two lines"] * 2


# What is refused


@pytest.mark.parametrize("kind", ["a name", "a path", "a picture", "an array", "nothing"])
def test_a_captioner_takes_several_images(captioner, pictures, kind):
    one = {
        "a name": str(pictures[0]),
        "a path": pictures[0],
        "a picture": Image.open(pictures[0]),
        "an array": PICTURES[0],
        "nothing": None,
    }[kind]
    with pytest.raises(ConfigError, match="a captioner takes a list of images; put one into brackets"):
        captioner(one)


def test_an_answerer_takes_pairs_of_an_image_and_a_question(answerer, pictures):
    where = QUESTIONS[1]
    for wrong in ("a.png", pictures[0], (str(pictures[0]), where), {pictures[0]: where}, None, 3):
        with pytest.raises((ConfigError, DataError), match=r"\(image, question\)"):
            answerer(wrong)
    for wrong in ("ab", (pictures[0],), (pictures[0], where, where), (pictures[0], 3), (where, pictures[0]), None):
        with pytest.raises(ConfigError, match=r"is given where a model that answers .* takes \(image, question\)"):
            answerer([wrong])
    for empty in ("", "  \n"):
        with pytest.raises(DataError, match="the question is empty; ask one"):
            answerer([(pictures[0], where), (pictures[0], empty)])
    assert answerer([[pictures[0], where]]) == ["above"]  # a list is a pair, too


def test_searches_that_cannot_be_are_refused(captioner, pictures):
    for wrong in ({"beam": 0}, {"beam": 2, "count": 3}, {"alpha": -1.0}, {"tokens": 0}, {"count": 0}):
        with pytest.raises(ConfigError):
            list(captioner.written([(pictures[0], None)], **wrong))
    with pytest.raises(ConfigError, match="a text of 0 tokens is asked for; it must have at least 1"):
        captioner(pictures, tokens=0)


# Scores


def test_any_of_several_right_captions_is_right(captioner, pictures, tmp_path):
    right = {path: [caption] for path, caption in zip(pictures, CAPTIONS)}
    right[pictures[0]] = ["something else", CAPTIONS[0].upper() + "!"]
    right[pictures[1]] = ["nothing of the kind", "nor of this one"]
    rows = [(path, text) for place in (0, 1) for path, texts in right.items() for text in texts[place : place + 1]]
    one, two = table(tmp_path / "a.tsv", *rows[:4]), table(tmp_path / "b.tsv", *rows[4:])
    out = tmp_path / "out.txt"
    found = captioner.evaluate(Evaluation(pairs=(str(one), str(two)), out=str(out)))
    assert found.numbers["images"] == 9
    assert found.numbers["exact"] == pytest.approx(100 * 8 / 9)
    bleu, signature = multi_bleu(CAPTIONS, [right[path] for path in pictures])
    assert found.numbers["BLEU"] == {"score": pytest.approx(bleu), "signature": signature}
    assert out.read_text().splitlines() == CAPTIONS
    assert "88.89   of 9 images" in str(found)
    json.dumps(found.numbers)


def test_any_of_several_right_answers_is_right(answerer, pictures, tmp_path):
    rows = [
        (pictures[0], QUESTIONS[0], "crimson"),
        (pictures[0], QUESTIONS[1], "above"),
        (pictures[0], QUESTIONS[0], "Red."),
        (pictures[1], QUESTIONS[0], "blue"),
    ]
    found = answerer.evaluate(AskEvaluation(data=(str(table(tmp_path / "a.tsv", *rows)),)))
    assert found.numbers == {"exact": pytest.approx(200 / 3), "f1": pytest.approx(200 / 3), "questions": 3}


def test_what_cannot_be_scored_is_refused(captioner, answerer, pictures, tmp_path):
    with pytest.raises(ConfigError, match="nothing to score a captioner on: give --pairs, files as it is trained on"):
        captioner.evaluate(Evaluation())
    with pytest.raises(
        ConfigError, match=r"nothing to score a model that .* on: give --data, files as it is trained on"
    ):
        answerer.evaluate(AskEvaluation())
    file = table(tmp_path / "a.tsv", *((broken(tmp_path / f"{each}.png"), "bad") for each in range(2)))
    with pytest.raises(DataError, match=r"none of the 2 images can be read; the first: .*0\.png is no picture"):
        captioner.evaluate(Evaluation(pairs=(str(file),), out=str(tmp_path / "out.txt")))
    assert not (tmp_path / "out.txt").exists()


def test_images_that_cannot_be_read_are_named_and_count_for_nothing(captioner, answerer, pictures, tmp_path, capfd):
    bad, gone, out = broken(tmp_path / "bad.png"), tmp_path / "gone.png", tmp_path / "out.txt"
    rows = [(bad, "bad"), (pictures[0], CAPTIONS[0]), (gone, "gone"), (pictures[1], "another"), (bad, "worse")]
    found = captioner.evaluate(Evaluation(pairs=(str(table(tmp_path / "a.tsv", *rows)),), out=str(out)))
    assert (found.numbers["images"], found.numbers["exact"]) == (2, 50)
    assert out.read_text().splitlines() == ["", CAPTIONS[0], "", CAPTIONS[1]]  # a line for each image
    assert told(capfd).count("left out: ") == 2
    asked = [(image, question, answer) for image, named in ((bad, NAMED[0]), (pictures[3], NAMED[3]))
             for question, answer in zip(QUESTIONS, named)]  # fmt: skip
    found = answerer.evaluate(AskEvaluation(data=(str(table(tmp_path / "b.tsv", *asked)),), out=str(out)))
    assert (found.numbers["questions"], found.numbers["exact"]) == (2, 100)
    assert out.read_text().splitlines() == ["", "", *NAMED[3]]
    said = told(capfd)
    assert said.count("left out: ") == said.count(f"left out: {bad} is no picture") == 1  # an image is one image


def test_a_text_is_kept_for_each_image_or_question(answerer, pictures, tmp_path):
    rows = [(path, question, "") for path in pictures[:2] for question in QUESTIONS]
    file = table(tmp_path / "a.tsv", *((path, question, "x") for path, question, _ in [*rows, *rows]))
    answerer.evaluate(AskEvaluation(data=(str(file),), out=str(tmp_path / "out.txt")))
    assert (tmp_path / "out.txt").read_text().splitlines() == [each for pair in NAMED[:2] for each in pair]
