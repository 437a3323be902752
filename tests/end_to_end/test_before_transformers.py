"""Translators and language models before the Transformer, by the commands that there are for all."""

import pytest

from manyheads import LanguageModel, Translator
from manyheads.interop.directory import load_model

from .conftest import WORDS, called, newest_difference, refused, tables, taught

SETTINGS = [
    *("train.device=cpu", "train.warmup=5", "train.learning_rate=0.01", "train.schedule=constant", "train.average=1"),
    *("train.valid_every=100", "train.checkpoint_every=2", "data.vocabulary=330"),
]
PAIRS = [
    (f"the {noun} {verb} a {other}", f"die {WORDS[noun]} {WORDS[verb]} eine {WORDS[other]}")
    for noun in ("cat", "dog", "bird")
    for verb in ("sees", "likes", "finds")
    for other in ("house", "tree", "bird", "dog", "cat", "bird")
]
PRESETS = {
    "rnn_context": "the encoder's last states are all that the decoder sees",
    "rnn_bahdanau": "additive attention of Bahdanau",
    "rnn_dot": "dot-product attention of Luong",
    "conv_tiny": "convolutions with attention in each layer",
}


@pytest.fixture(scope="module", params=PRESETS)
def runs(request, tmp_path_factory):
    """A translator trained at once, and one in two parts."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "pairs.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in PAIRS), encoding="utf-8")
    given = ["--pairs", folder / "pairs.tsv", "--preset", request.param]
    sizes = [*SETTINGS, "model.width=32", "model.layers=2", "data.batch_tokens=200"]
    for name, steps in (("whole", 9), ("parts", 4)):
        taught("translate", folder / name, *given, settings=[*sizes, f"train.steps={steps}"])
    taught("translate", folder / "parts", "--resume", "--set", "train.steps=9")
    return request.param, folder


def test_a_run_in_parts_is_the_whole_bit_for_bit(runs):
    _, folder = runs
    assert newest_difference(folder / "whole", folder / "parts") is None
    models = [(folder / run / "model" / "model.safetensors").read_bytes() for run in ("whole", "parts")]
    assert models[0] == models[1]


def test_it_translates_and_keeps_its_claims(runs):
    preset, folder = runs
    said = called("selfcheck", folder / "whole", "--sentences", "6")
    assert said.code == 0, said.out
    assert said.out.count("ok  ") == 9
    assert called("translate", folder / "whole", stdin=b"the cat sees a dog\n\n").out.count("\n") == 2
    found = Translator.load(folder / "whole", device="cpu").candidates(["the cat sees a dog"], beam=3, count=3)[0]
    assert len(found) == 3
    assert found[0].score > found[2].score
    (scores,) = tables("evaluate", folder / "whole", "--pairs", folder / "pairs.tsv")
    assert 0 <= scores["BLEU"]["score"] <= 100
    assert PRESETS[preset] in (folder / "whole" / "model" / "README.md").read_text(encoding="utf-8").replace("\n", " ")
    assert called("info", folder / "whole").code == 0


def test_its_attention_is_looked_at_where_it_has_any(runs, tmp_path):
    preset, folder = runs
    look = ("look", folder / "whole", "the cat sees a dog", "die Katze sieht eine Hündin", "--show", "alignment")
    if preset == "rnn_context":
        assert "has no attention" in refused(*look, after_reading=True)
        assert called("look", folder / "whole", "the cat sees", "--show", "hidden").code == 0
        return
    assert "Hündin" in called(*look, "--png", tmp_path / "matrix.png").out
    assert (tmp_path / "matrix.png").stat().st_size > 1000
    if preset != "conv_tiny":  # of which one step is no step of a recurrence
        assert called("walk", *look[1:4], "--html", tmp_path / "walk.html").code == 0


def test_sizes_that_cannot_be_are_one_sentence(tmp_path):
    train = ("train", "translate", "--preset", "rnn_dot", "--out", tmp_path / "run", "--set")
    assert refused(*train, "model.sees=all") == "model.sees is 'all'; it can be context, bahdanau, dot"
    assert "width 33 does not split over two directions" in refused(*train, "model.width=33")
    assert "model.heads is not a field of the recipe; model has: vocabulary, sees, cell" in refused(
        *train, "model.heads=2"
    )
    assert not (tmp_path / "run").exists()


def test_words_between_spaces_are_the_tokens_of_a_language_model(tmp_path):
    """As Penn Treebank's text has them: rare words are <unk> in it, and the end of a line counts as a word."""
    lines = [" the old dog <unk> n't \n", " a cat sees N birds \n", " the bird finds mr. <unk> \n"] * 30
    (tmp_path / "text.txt").write_text("".join(lines), encoding="utf-8")
    given = ("--text", tmp_path / "text.txt", "--preset", "lstm_tiny", "--tokenizer", "words")
    small = [*SETTINGS, "train.steps=3", "model.width=16", "data.rows=2"]
    taught("language", tmp_path / "run", *given, settings=small)
    model, tokenizer = load_model(tmp_path / "run")
    assert len(tokenizer) == 2 + 13 + 1 == model.config.vocabulary
    ids = tokenizer.encode([lines[0] + " unheard \n"])[0]
    assert tokenizer.pieces(ids) == ["the", "old", "dog", "<unk>", "n't", "\n", "<unk>", "\n"]
    (scores,) = tables("evaluate", tmp_path / "run", "--text", tmp_path / "text.txt")
    assert scores["tokens"] == 90 * 6  # five words and the end of each line
    assert LanguageModel.load(tmp_path / "run", device="cpu").generate("the old", tokens=3)
    few = refused(
        "train", "language", *given, "--out", tmp_path / "few", "--set", "data.vocabulary=2", after_reading=True
    )
    assert few == "a vocabulary of 2 has no place for words beside its 2 special tokens; ask for 3 or more"
