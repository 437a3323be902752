"""What every predictor owes: each text gets what it would get alone, in any order and company, from any directory."""

from dataclasses import astuple, is_dataclass
from typing import Any

import numpy as np
import pytest
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError, ConfigError
from manyheads.interop.directory import load_model
from manyheads.tasks.inside.align import align, with_translations
from manyheads.tasks.inside.look import look_inside
from manyheads.tasks.inside.walk import walk_through
from manyheads.tasks.similarity.use import score_pairs
from manyheads.tasks.translate.use import Translator, score
from tests.unit.tasks.tiny import PREDICTORS, made, ready

TEXTS = ["the cat", "a", "the dog danced under a table", "", "sleeps", "the table sleeps", "the cat"]
HIDDEN = ["the [MASK] danced", "[MASK]", "a cat [MASK] and [MASK]", "[MASK] dog", "the table danced [MASK]"]
LONG = "a dog danced under the table and the cat sleeps " * 4  # more than fits one window
GIVEN: dict[str, list[Any]] = {
    **dict.fromkeys(["translator", "gpt", "llama", "classifier", "decoder's classifier"], TEXTS),
    **{key: list(zip(TEXTS, TEXTS[::-1])) for key in ["of pairs", "of numbers"]},
    "of choices": [(text, TEXTS[place : place + 2 + place % 3]) for place, text in enumerate(TEXTS[:5])],
    "masked": HIDDEN,
    "tagger": [*TEXTS, LONG],
    "embedder": TEXTS,
    "answerer": [(text, context) for text in ("who", "the cat") for context in (LONG, "a dog danced", "sleeps")],
}
AT_ONCE = {
    **{"translate.use.ENCODED_AT_ONCE": 2, "language.use.ROWS_AT_ONCE": 3, "similarity.use.TEXTS_AT_ONCE": 2},
    **{"similarity.use.CPU_TOKENS_AT_ONCE": 20},
    "labelled.CELLS_AT_ONCE": 40,
    "masked.use.CELLS_AT_ONCE": 40,
}
WRONG: dict[str, list[list[Any]]] = {
    **{key: [[("a", "b")]] for key in ["classifier", "decoder's classifier"]},
    **{key: [["a"], [("a", ["b"])], [("a", 3)]] for key in ["of pairs", "of numbers"]},
    **{"of choices": [[("a", "b")], [("a", 3)], [(3, ["b", "c"])], [("a", [])]], "tagger": [[["the", 3]]]},
    "answerer": [["what?"], [("what?", None)], [("a", "b", "c")]],
}
every = pytest.mark.parametrize("name", GIVEN)


def asked(predictor: Any, given: Any) -> Any:
    if hasattr(predictor, "complete"):
        return predictor.complete(given, tokens=40, temperature=0.0, stop=("at",))
    return predictor.translate(given, beam=3) if hasattr(predictor, "translate") else predictor(given)


def leaves(found: Any) -> list[Any]:
    """The words and numbers of an answer, whatever it is made of."""
    if is_dataclass(found) and not isinstance(found, type):
        found = astuple(found)
    if isinstance(found, list | tuple | np.ndarray):
        return [leaf for each in found for leaf in leaves(each)]
    return [found]


def same(one: Any, other: Any) -> None:
    """The same words, with the same numbers up to the order of sums."""
    words, others = ([each for each in leaves(side) if isinstance(each, str)] for side in (one, other))
    assert words == others
    numbers, others = ([float(each) for each in leaves(side) if not isinstance(each, str)] for side in (one, other))
    assert_close(numbers, others, atol=1e-5, rtol=1e-4)


@every
def test_many_at_a_time_give_what_each_gets_alone_in_any_order_and_in_any_batches(name, monkeypatch):
    predictor, given = ready(name), GIVEN[name]
    together = asked(predictor, given)
    assert len(together) == len(given)
    for one, found in zip(given, together, strict=True):
        same(asked(predictor, [one])[0], found)
    same(asked(predictor, iter(given[::-1])), together[::-1])
    for where, count in AT_ONCE.items():
        monkeypatch.setattr(f"manyheads.tasks.{where}", count)
    same(asked(predictor, given), together)
    assert len({str(leaves(found)) for found in together}) > 2  # and the test can tell


@every
def test_nothing_gives_nothing_and_one_string_or_what_is_no_text_is_refused(name):
    predictor = ready(name)
    assert len(asked(predictor, [])) == 0
    with pytest.raises(ConfigError, match=r"takes a list of .*, not one string"):
        asked(predictor, "the cat [MASK]")
    for wrong in [3, [3], ["a [MASK]", None], [b"a"], *WRONG.get(name, [])]:
        with pytest.raises(ConfigError, match="takes"):
            asked(predictor, wrong)


@every
def test_a_model_directory_and_its_run_open_alike_and_a_model_of_another_kind_does_not(models, tmp_path, name):
    kind = PREDICTORS[name]
    (tmp_path / "model").symlink_to(models[name])
    expected = asked(Translator(*load_model(models[name])) if name == "translator" else ready(name), GIVEN[name])
    for path in (tmp_path, str(models[name])):
        same(asked(kind.load(path, device="cpu"), GIVEN[name]), expected)
    for other in ("translator", "gpt") if name == "embedder" else PREDICTORS:  # which takes any encoder
        if PREDICTORS[other] is not kind:
            with pytest.raises(CheckpointError, match="is asked for"):
                kind.load(models[other], device="cpu")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: list(align(ready("translator"), "ab")),
        lambda: list(with_translations(ready("translator"), "ab")),
        lambda: score("ab", ["ab"]),
        lambda: ready("embedder").similarity("ab", ["ab"]),
        lambda: ready("embedder").nearest("ab", "ab"),
    ],
)
def test_one_string_is_nowhere_a_list_of_its_letters(ask):
    with pytest.raises(ConfigError, match="not one string"):
        ask()


def test_no_prompts_stream_nothing_and_hypotheses_are_as_many_as_references():
    assert list(ready("gpt").stream([])) == []
    for found, right in (([], []), (["ab"], ["ab", "cd"])):
        with pytest.raises(ConfigError, match="each must have the other"):
            score(found, right)


def test_choices_are_any_iterable_too():
    predictor, choices = ready("of choices"), ["the cat", "a dog", "sleeps"]
    same(predictor([("a", iter(choices))]), predictor([("a", choices)]))
    assert predictor.probabilities(iter([("a", iter(choices))])).shape == (1, 3)


@pytest.mark.parametrize(
    "ask",
    [
        lambda wrong: look_inside(ready("gpt"), wrong),
        lambda wrong: walk_through(ready("classifier"), "the cat", wrong),
        lambda wrong: ready("embedder").nearest(wrong, ["the cat"]),
        lambda wrong: ready("embedder").similarity(["the cat"], [wrong]),
        lambda wrong: ready("answerer").best("who", wrong),
        lambda wrong: list(align(ready("translator"), [("the cat", wrong)])),
        lambda wrong: list(with_translations(ready("translator"), [wrong])),
        lambda wrong: score([wrong], ["the cat"]),
        lambda wrong: score_pairs(ready("embedder"), [("the cat", wrong)], [1.0]),
    ],
)
def test_whatever_else_takes_texts_refuses_what_is_none(ask):
    for wrong in (3, ["the cat"]):
        with pytest.raises(ConfigError, match="takes"):
            ask(wrong)


@every
def test_what_it_is_is_told_in_a_line(models, name):
    told, kind = repr(PREDICTORS[name].load(models[name], device="cpu")), PREDICTORS[name].__name__
    assert told.startswith(
        f"{kind}({type(made(name)).__name__}, {'2+3' if name == 'translator' else 2} layers of width "
    )
    labels = "labels bad, so so, good, " if getattr(ready(name), "names", ()) else ""
    assert told.endswith(f" tokens, {labels}on cpu, from {models[name]})")
    assert repr(ready(name)).endswith("on cpu)")
