import dataclasses
import inspect
from itertools import zip_longest

import pytest
import torch
from helpers import randomised

from manyheads.core.errors import ConfigError
from manyheads.generate.sample import Sampling
from manyheads.generate.steps import SpecialIds
from manyheads.interop.directory import save_model
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.tasks.language.use import Completion, LanguageModel
from manyheads.text.language import LanguageTokenizer

CONTEXT = 13
PROMPTS = ["the cat", "a", "", "the dög sees the cat", "sleeps"]
SIZES = {"context": CONTEXT, "width": 12, "layers": 2}


@pytest.fixture(scope="module")
def tokenizer() -> LanguageTokenizer:
    return LanguageTokenizer.train(["the cat sees a dög and sleeps"] * 3, 280)


def made(tokenizer, family="gpt", beyond=0, **changes) -> LanguageModel:
    sizes = {**SIZES, "vocabulary": len(tokenizer) + beyond, "end": tokenizer.end, **changes}
    body = GPT(GPTConfig(heads=3, **sizes)) if family == "gpt" else Llama(LlamaConfig(heads=2, inner=17, **sizes))
    return LanguageModel(randomised(body), tokenizer)


@pytest.fixture
def model(tokenizer) -> LanguageModel:
    return made(tokenizer)


def steps_taken(model: LanguageModel, monkeypatch) -> list[int]:
    """How many positions each pass through the model had, as they come."""
    passes, states = [], model.model.states

    def counted(ids, *more, **others):
        passes.append(ids.shape[1])
        return states(ids, *more, **others)

    monkeypatch.setattr(model.model, "states", counted)
    return passes


def test_the_first_piece_comes_before_the_last_is_computed(model, monkeypatch):
    passes = steps_taken(model, monkeypatch)
    pieces = model.generate("the cat", tokens=40, seed=2, stream=True)
    assert not isinstance(pieces, str)
    first = next(pieces)
    early = len(passes)
    rest = list(pieces)
    assert early < 10 < len(passes)
    assert first + "".join(rest) == model.generate("the cat", tokens=40, seed=2)


def test_whoever_reads_a_stream_may_learn_meanwhile_and_read_another(model):
    """While a piece is read, nothing of how it was computed is in force."""
    alone = [model.generate(prompt, tokens=20, seed=2) for prompt in ("the cat", "a")]
    streams = [model.generate(prompt, tokens=20, seed=2, stream=True) for prompt in ("the cat", "a")]
    texts = ["", ""]
    for pieces in zip_longest(*streams, fillvalue=""):
        texts = [text + piece for text, piece in zip(texts, pieces)]
        assert not torch.is_inference_mode_enabled()
        weight = torch.ones(3, requires_grad=True)
        (weight * 2).sum().backward()
        assert weight.grad.tolist() == [2.0] * 3
    assert texts == alone


def test_greedy_text_is_the_best_token_each_time(model):
    ids = model.encode(["the cat"])[0]
    begun = len(ids)
    with torch.no_grad():
        while len(ids) < CONTEXT:
            ids.append(int(model.model(torch.tensor([ids]))[0, -1].argmax()))
    ends = [*ids[begun:], model.tokenizer.end].index(model.tokenizer.end)
    found = model.generate("the cat", tokens=CONTEXT - begun, temperature=0.0)
    assert found == model.tokenizer.decode([ids[begun : begun + ends]])[0]


@pytest.mark.parametrize("family", ["gpt", "llama"])
@pytest.mark.parametrize("how", [{"temperature": 0.0}, {"temperature": 0.8, "top_p": 0.9, "repetition_penalty": 1.3}])
def test_completions_together_are_those_alone_in_any_batches(tokenizer, monkeypatch, family, how):
    model = made(tokenizer, family)
    options = {"tokens": 3 * CONTEXT, "samples": 2, "stop": ("at",), **how}
    together = model.complete(PROMPTS, **options)
    assert together == [model.complete([prompt], **options)[0] for prompt in PROMPTS]
    monkeypatch.setattr("manyheads.tasks.language.use.ROWS_AT_ONCE", 4)
    assert model.complete(PROMPTS, **options) == together
    assert [row[0].prompt for row in together] == PROMPTS
    assert len({row[0].text for row in together}) > 1
    assert all((row[0] == row[1]) is (how == {"temperature": 0.0}) for row in together)


def test_a_completion_says_why_it_ended(model):
    length = model.complete(["the cat"], tokens=6, temperature=0.0)[0][0]
    assert length == Completion("the cat", length.text, 6, "length")
    middle = length.text[len(length.text) // 2 :]
    stopped = model.complete(["the cat"], tokens=6, temperature=0.0, stop=(middle,))[0][0]
    assert stopped.reason == "stop"
    assert stopped.text == length.text[: length.text.index(middle)]
    with torch.no_grad():
        best = int(model.model(torch.tensor(model.encode(["the cat"])))[0, -1].argmax())
    model.special = SpecialIds(stop_ids=(best,))
    assert model.complete(["the cat"], tokens=6, temperature=0.0)[0][0] == Completion("the cat", "", 0, "end")


def test_one_string_is_one_stop_string_wherever_there_are_some(model):
    text = model.generate("the cat", tokens=12, temperature=0.0)
    stop = text[3:6]
    for stops in (stop, [stop], iter([stop]), ("never said", stop)):
        assert model.generate("the cat", tokens=12, temperature=0.0, stop=stops) == text[: text.index(stop)]
    assert model.generate("the cat", tokens=12, temperature=0.0, stop=stop[::-1] + "x") == text  # and not its letters
    for stops in ([stop], stop, iter([stop])):
        rows = model.complete(["the cat", "the cat"], tokens=12, temperature=0.0, stop=stops)
        assert [row[0].text for row in rows] == [text[: text.index(stop)]] * 2
    with pytest.raises(ConfigError, match="3 is given where stop takes a text"):
        model.generate("the cat", stop=[3])


def test_every_way_of_asking_takes_any_iterable_and_no_other_thing(model):
    assert model.search(iter(["the cat"]), tokens=3) == model.search(["the cat"], tokens=3)
    assert model.encode(iter(["the cat", "a"])) == model.encode(["the cat", "a"])
    assert list(model.stream(iter(["the cat"]), tokens=3)) == list(model.stream(["the cat"], tokens=3))
    assert model.log_probabilities(iter([("the", " cat")])) == model.log_probabilities([("the", " cat")])
    for ask in (model.search, model.encode, model.stream, model.complete, model.log_probabilities):
        for wrong in ("the cat", 3, [3], ["the cat", None], [["a"]]):
            with pytest.raises(ConfigError, match="takes"):
                ask(wrong)
    with pytest.raises(ConfigError, match="3 is given where a language model takes a text"):
        model.generate(3)


def test_signatures_say_what_can_be_asked(model):
    fields = [field.name for field in dataclasses.fields(Sampling)]
    for ask in (model.generate, model.complete):
        parameters = inspect.signature(ask).parameters
        assert [name for name in parameters if name in fields] == fields
        assert {parameters[field.name].default == field.default for field in dataclasses.fields(Sampling)} == {True}


def test_rows_that_no_text_has_are_never_said(tokenizer):
    model = made(tokenizer, beyond=400)  # most of what it could say
    found = model.complete(["the cat"] * 3, tokens=30, samples=3)
    assert all(each.tokens == 30 or each.reason == "end" for row in found for each in row)
    assert model.special.banned == tuple(range(len(tokenizer), len(tokenizer) + 400))
    assert isinstance(model.search(["the cat"], tokens=5)[0], str)


@pytest.mark.parametrize("family", ["gpt", "llama"])
def test_a_row_of_ids_is_gone_on_with_as_greedy_text_is(tokenizer, family):
    model = made(tokenizer, family, beyond=9)
    ids = model.encode(["the cat"])[0]
    found = model.continued(ids, 7)
    assert 0 < len(found) <= 7
    assert model.tokenizer.decode([found])[0] == model.generate("the cat", tokens=7, temperature=0.0)
    with torch.inference_mode():
        for place, each in enumerate(found):
            logits = model.model(torch.tensor([[*ids, *found[:place]]]))[0, -1, : len(tokenizer)]
            assert each == int(logits.argmax())
    assert model.continued(ids, 3) == found[:3]


def test_a_row_of_ids_is_gone_on_with_up_to_any_end_and_without_it(tokenizer):
    ids = tokenizer.encode(["the cat"])[0]
    torch.manual_seed(5)
    free = made(tokenizer, "llama")
    found = free.continued(ids, 6)
    other = next(place for place, each in enumerate(found) if each not in found[:place] and place)
    torch.manual_seed(5)
    ended = made(tokenizer, "llama", other_ends=(found[other],))
    assert ended.continued(ids, 6) == found[:other]
    everything = made(tokenizer, "llama", other_ends=tuple(range(1, len(tokenizer))))
    assert everything.continued(ids, 6) == []
    assert everything.complete(["the cat"], tokens=6) == [[Completion("the cat", "", 0, "end")]]


def test_an_empty_prompt_stands_behind_the_end_of_a_text_unless_the_tokenizer_has_a_template(model, tokenizer):
    assert model.encode(["", "a"]) == [[tokenizer.end], tokenizer.encode(["a"])[0]]
    assert model.encode(["a<|endoftext|>"])[0][-1] == tokenizer.end  # special tokens can be asked for
    wrapped = tokenizer.with_special(["<s>", "<delimiter>"]).with_template(["<s>", "$A", "<delimiter>"])
    before, behind = wrapped.id_of("<s>"), wrapped.id_of("<delimiter>")
    ids = tokenizer.encode(["the cat"])[0]
    assert made(wrapped).encode(["the cat", ""]) == [[before, *ids, behind], [before, behind]]


def test_prompts_may_fill_the_context_and_no_more(model):
    full = "a" * CONTEXT
    assert len(model.encode([full])[0]) == CONTEXT
    assert len(model.complete([full], tokens=5)[0]) == 1
    with pytest.raises(ConfigError, match=f"has {CONTEXT + 1} tokens, but the model sees {CONTEXT}; shorten it"):
        model.stream([full + "a"])


def test_a_prompt_that_is_much_too_long_is_refused_before_it_is_encoded(model, monkeypatch):
    monkeypatch.setattr(model.tokenizer, "encode", None)  # what cannot be called
    with pytest.raises(
        ConfigError, match=r"has 3,000,000 characters, but the model sees .* tokens of at most \d+; sho"
    ):
        model.generate("ab " * 1_000_000)


def test_log_probabilities_are_those_of_the_logits(model):
    rows = [("the cat", " sees"), ("", "the cat"), ("a" * 3 * CONTEXT, " dög")]
    for (begun, rest), found in zip(rows, model.log_probabilities(rows)):
        before, after = model.tokenizer.encode([begun, rest])
        ids = [*(before or [model.tokenizer.end]), *after][-CONTEXT - 1 :]
        with torch.no_grad():
            logs = model.model(torch.tensor([ids[:-1]]))[0].double().log_softmax(1)
        expected = sum(float(logs[len(ids) - 1 - len(after) + each, after[each]]) for each in range(len(after)))
        assert found.total == pytest.approx(expected, abs=1e-3)
        assert found.tokens == len(after)
    for rest in ("", "a" * (CONTEXT + 1)):
        with pytest.raises(ConfigError, match=f"must have at least one and fit the model's {CONTEXT}"):
            model.log_probabilities([("the", rest)])


def test_a_beam_as_wide_as_the_vocabulary_finds_the_best_of_all_texts_of_two_tokens(model):
    ids = model.encode(["the cat"])[0]
    count = len(model.tokenizer)
    with torch.no_grad():
        first = model.model(torch.tensor([ids]))[0, -1].log_softmax(0)
        second = model.model(torch.tensor([[*ids, each] for each in range(count)]))[:, -1].log_softmax(1)
    second[model.tokenizer.end] = -torch.inf
    second[model.tokenizer.end, 0] = 0  # behind the end nothing is said
    best = int((first[:, None] + second).argmax())
    expected = [each for each in divmod(best, count) if each != model.tokenizer.end]
    assert model.search(["the cat"], tokens=2, beam=count) == model.tokenizer.decode([expected])
    assert model.search(["the cat", "a"], tokens=7, beam=1) == [
        model.generate(prompt, tokens=7, temperature=0.0) for prompt in ("the cat", "a")
    ]


def test_what_cannot_be_asked_is_refused(model):
    for options in ({"tokens": 0}, {"samples": 0}):
        with pytest.raises(ConfigError, match="both must be at least 1"):
            model.complete(["a"], **options)
    with pytest.raises(ConfigError, match="both must be at least 1"):
        model.search(["a"], beam=0)
    with pytest.raises(ConfigError, match=r"1,000,000,000 texts at once need .* of memory, but .* are free on"):
        model.complete(["a"], samples=10**9)
    with pytest.raises(ConfigError, match="a beam of 1,000,000 is asked for"):
        model.search(["a"], beam=10**6)
    with pytest.raises(ConfigError, match="top-p is 2"):
        model.generate("a", top_p=2)


def test_a_directory_is_loaded_in_the_precision_asked_for(model, tmp_path):
    save_model(tmp_path / "model", model.model, model.tokenizer, "card")
    for precision, dtype in (("auto", torch.float32), ("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        loaded = LanguageModel.load(tmp_path, device="cpu", precision=precision)
        assert loaded.model.output.weight.dtype == dtype
        assert isinstance(loaded.generate("the cat", tokens=5), str)
    assert LanguageModel.load(tmp_path / "model").generate("the", seed=4) == model.generate("the", seed=4)
    with pytest.raises(ConfigError, match="precision is 'half'"):
        LanguageModel.load(tmp_path, precision="half")
