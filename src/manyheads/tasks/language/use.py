"""Language models: a model directory in, text that goes on out; how that is scored and looked into."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, overload

import torch
from torch import Tensor

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.words import counted
from manyheads.data.readers.documents import Piece, find_texts, read_documents
from manyheads.generate.beam import beam_search, refuse_wide
from manyheads.generate.greedy import decoded, greedy
from manyheads.generate.prompts import PromptSteps, prompt_steps
from manyheads.generate.sample import Sampler, Sampling
from manyheads.generate.score import Scored, log_probabilities
from manyheads.generate.steps import Hypothesis, SpecialIds, refuse_many_rows
from manyheads.look.walk import Section
from manyheads.models.conv import ByteNet
from manyheads.models.gpt import GPT
from manyheads.models.llama import Llama
from manyheads.models.rnn import RNN
from manyheads.tasks.inside.conclusions import candidates, concluded
from manyheads.tasks.inside.forward import ForwardPass, one_row, refuse_second
from manyheads.tasks.inside.importance import Measure
from manyheads.tasks.language import scoring
from manyheads.tasks.language.recipe import Evaluation
from manyheads.tasks.metrics import Scores
from manyheads.tasks.proofs.selfcheck import Finding, same_decoder_logits, same_texts
from manyheads.tasks.task import Predictor
from manyheads.tasks.texts import text_pairs, texts_of
from manyheads.text.language import LanguageTokenizer
from manyheads.text.stream import TextStream

ALWAYS_ENCODED = 1_000_000  # characters of a prompt: some tokens stand for any number of unknown ones
MOST_TOKENS = 1_000_000_000  # of a text that is written
ROWS_AT_ONCE = 64  # prompts and samples in one batch


@dataclass
class Completion:
    """What a model wrote behind a prompt, and why it stopped: end (of the text), stop (string) or length."""

    prompt: str
    text: str = ""
    tokens: int = 0
    reason: str = "length"


class LanguageModel(Predictor):
    """A language model that is ready to use: a model of ours, or a GPT-2, GPT or Llama checkpoint as it is."""

    what = "a language model"
    kinds = (GPT, Llama, RNN, ByteNet)
    scored_on = Evaluation
    commands = ("generate {model} --prompt 'a beginning'", "train classify --model {model} …")
    continues = True
    exact: ClassVar[dict[str, Any]] = {"precision": "float32"}

    def __init__(self, model: GPT | Llama | RNN | ByteNet, tokenizer: LanguageTokenizer):
        super().__init__(model, tokenizer)
        self.special = SpecialIds.of(model.config, tokenizer)

    @classmethod
    def load(cls, path: str | Path, *, device: str = "auto", precision: str = "auto") -> Self:
        """Precision auto is bfloat16 on a GPU, which halves what each token has to read, and float32 elsewhere."""
        if precision not in ("auto", "float32", "bfloat16"):
            raise ConfigError(f"precision is '{precision}'; it can be auto, float32 or bfloat16")
        found = super().load(path, device=device)
        half = precision == "bfloat16" or (precision == "auto" and found.device.type == "cuda")
        found.model.to(torch.bfloat16 if half else torch.float32)
        return found

    @overload
    def generate(
        self, prompt: str = "", *, tokens: int = ..., stop: str | Iterable[str] = ..., temperature: float = ...,
        top_k: int = ..., top_p: float = ..., min_p: float = ..., repetition_penalty: float = ..., seed: int = ...,
        stream: Literal[True],
    ) -> Iterator[str]: ...  # fmt: skip

    @overload
    def generate(
        self, prompt: str = "", *, tokens: int = ..., stop: str | Iterable[str] = ..., temperature: float = ...,
        top_k: int = ..., top_p: float = ..., min_p: float = ..., repetition_penalty: float = ..., seed: int = ...,
        stream: Literal[False] = ...,
    ) -> str: ...  # fmt: skip

    def generate(
        self,
        prompt: str = "",
        *,
        tokens: int = 200,
        stop: str | Iterable[str] = (),
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 1,
        stream: bool = False,
    ) -> str | Iterator[str]:
        """What follows the prompt, at most `tokens` tokens of it; with `stream`, piece by piece as it comes.

        It ends before the first of the `stop` strings, one or several. The rest are the fields of `Sampling`.
        """
        how = Sampling(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        )
        texts = (piece for _, piece in self.stream([prompt], tokens=tokens, stop=stop, sampling=how))
        return texts if stream else "".join(texts)

    def complete(
        self,
        prompts: Iterable[str],
        *,
        samples: int = 1,
        tokens: int = 200,
        stop: str | Iterable[str] = (),
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        seed: int = 1,
    ) -> list[list[Completion]]:
        """`samples` completions of each prompt, many prompts at a time; each is what it would be alone.

        The rest is as `generate` takes it.
        """
        how = Sampling(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        )
        prompts, stops = texts_of(prompts, "complete", "prompts"), stops_of(stop)
        self._refuse_many(samples)
        found: list[list[Completion]] = []
        at_once = 1 if self.model.rows_share_length or samples < 1 else max(ROWS_AT_ONCE // samples, 1)
        for first in range(0, len(prompts), at_once):
            group = prompts[first : first + at_once]
            rows = [Completion(prompt) for prompt in group for _ in range(samples)]
            options = {"samples": samples, "tokens": tokens, "stop": stops, "sampling": how, "completions": rows}
            for row, piece in self.stream(group, **options):
                rows[row].text += piece
            found += [rows[place : place + samples] for place in range(0, len(rows), samples)]
        return found

    def stream(
        self,
        prompts: Iterable[str],
        *,
        tokens: int = 200,
        samples: int = 1,
        stop: str | Iterable[str] = (),
        sampling: Sampling | None = None,
        completions: list[Completion] | None = None,
    ) -> Iterator[tuple[int, str]]:
        """Pieces of text as they come, each with the number of its row; rows are each prompt `samples` times."""
        if samples < 1 or tokens < 1:
            asked = f"{counted(samples, 'sample')} of {counted(tokens, 'token')}"
            raise ConfigError(f"asked for: {asked}; both must be at least 1")
        self._refuse_many(samples, tokens)
        encoded = self.encode(prompts)
        count, streams = len(encoded) * samples, [sample for _ in encoded for sample in range(samples)]
        how, stops = sampling or Sampling(), [stops_of(stop)] * count
        return self.stream_ids(encoded, [tokens] * count, stops, how, streams, completions=completions)

    @torch.inference_mode()  # which a generator is in only while it computes, not where its pieces are read
    def stream_ids(
        self,
        prompts: list[list[int]],
        limits: list[int],
        stops: Sequence[Sequence[str]],
        sampling: Sampling,
        streams: list[int],
        *,
        completions: list[Completion] | None = None,
    ) -> Iterator[tuple[int, str]]:
        """The same of ids, each row with a limit, stop strings and a stream of random numbers of its own.

        There are as many rows of each prompt as there are limits for it.
        """
        if not prompts:
            return
        copies = len(limits) // len(prompts)
        begun = [row for row in prompts for _ in range(copies)]
        sampler = Sampler(sampling, begun, streams, self.model.config.vocabulary, self.special.banned, self.device)
        texts = [TextStream(self.tokenizer, stop) for stop in stops]
        completions = completions or [Completion("") for _ in begun]
        left = torch.tensor(limits)
        running = [True] * len(begun)
        capacity = max(len(row) + limit for row, limit in zip(begun, limits, strict=True))
        steps = prompt_steps(self.model, prompts, capacity, copies)
        for rows, newest in decoded(steps, left, self.special, sampler):
            for row, token_id in zip(rows.tolist(), newest.tolist(), strict=True):
                if not running[row]:
                    continue
                piece, done = "", completions[row]
                if token_id in self.special.stop_ids:
                    done.reason, running[row] = "end", False
                else:
                    done.tokens += 1
                    piece = texts[row].push(token_id)
                    running[row] = done.tokens < limits[row] and not texts[row].stopped
                if not running[row]:
                    left[row] = 0
                    piece += texts[row].finish()
                if texts[row].stopped:
                    done.reason = "stop"
                if piece:
                    yield row, piece
        steps.close()

    def search(self, prompts: Iterable[str], *, tokens: int = 200, beam: int = 4, alpha: float = 0.0) -> list[str]:
        """The likeliest continuation of each prompt that beam search finds; alpha is its length penalty."""
        if beam < 1 or tokens < 1:
            raise ConfigError(f"a beam of {beam} and {counted(tokens, 'token')} are asked for; both must be at least 1")
        refuse_wide(beam)
        self._refuse_many(beam, tokens)
        found: list[Hypothesis] = []
        with torch.inference_mode():
            for row in self.encode(prompts):
                steps = PromptSteps(self.model, [row], len(row) + tokens, beam)
                limits = torch.tensor([tokens], device=self.device)
                found.append(beam_search(steps, limits, self.special, beams=beam, alpha=alpha)[0][0])
        return self.tokenizer.decode([each.ids for each in found])

    def _refuse_many(self, rows: int, tokens: int = 1) -> None:
        if tokens > MOST_TOKENS:
            raise ConfigError(f"{tokens:,} tokens are asked for; a text can have at most {MOST_TOKENS:,}")
        refuse_many_rows(self.model, rows, min(tokens, self.model.config.context))

    def continued(self, ids: list[int], tokens: int) -> list[int]:
        """What greedy search adds to these ids, at most so many and without an end."""
        with torch.inference_mode():
            steps = prompt_steps(self.model, [ids], len(ids) + tokens)
            found = greedy(steps, torch.tensor([tokens]), self.special, scored=False)[0].ids
            steps.close()
        return found

    def log_probabilities(self, rows: Iterable[tuple[str, str]]) -> list[Scored]:
        """How likely each continuation is behind its beginning, whose border is a border of tokens too.

        A beginning that is longer than the model sees loses its oldest tokens.
        """
        rows = list(text_pairs(rows, "log_probabilities", "(beginning, continuation)"))
        begun = self._encoded([beginning for beginning, _ in rows])
        rest = self.tokenizer.encode([continuation for _, continuation in rows])
        for (_, continuation), ids in zip(rows, rest):
            if not 0 < len(ids) <= self.model.config.context:
                raise ConfigError(
                    f"{continuation[:40]!r} has {len(ids)} tokens; what is scored must have at least one and fit the "
                    f"model's {self.model.config.context}"
                )
        return log_probabilities(self.model, list(zip(begun, rest)))

    def encode(self, prompts: Iterable[str]) -> list[list[int]]:
        """Prompts as ids, behind what begins a text and before what the model was taught to wait for."""
        prompts, context = texts_of(prompts, "a language model", "prompts"), self.model.config.context
        for prompt in prompts:
            # To encode what is much too long takes a hundred times its size in memory.
            if len(prompt) > max(context * self.tokenizer.longest, ALWAYS_ENCODED):
                raise ConfigError(
                    f"the prompt {prompt[:40]!r}… has {len(prompt):,} characters, but the model sees {context:,} "
                    f"tokens of at most {self.tokenizer.longest}; shorten it"
                )
        rows = self._encoded(prompts)
        for prompt, row in zip(prompts, rows):
            if len(row) > context:
                raise ConfigError(
                    f"the prompt {prompt[:40]!r}… has {len(row)} tokens, but the model sees {context}; shorten it"
                )
        return rows

    def _encoded(self, prompts: list[str]) -> list[list[int]]:
        tokenizer, end = self.tokenizer, self.special.end
        rows = [tokenizer.start + ids + tokenizer.behind for ids in tokenizer.encode(prompts, special=True)]
        if not all(rows) and end is None:
            raise ConfigError("this model knows no beginning of a text; give a prompt")
        return [row or [end] for row in rows]  # type: ignore

    def evaluate(self, asked: Evaluation) -> Scores:
        """Perplexity and bits of text, or accuracy on questions with choices."""
        if asked.text and asked.choices:
            raise ConfigError("--text and --choices ask for different things; give one of them")
        if asked.choices:
            questions = scoring.read_choice_questions(Path(asked.choices))
            found = scoring.score_choices(self, questions)
            return Scores(asdict(found), scoring.choice_table(found))
        scores = scoring.score_text(self, self._documents(asked), stride=asked.stride)
        derived = ("perplexity", "word_perplexity", "bits_per_byte", "bits_per_character", "loss")
        numbers = {**{name: getattr(scores, name) for name in derived}, **asdict(scores)}
        return Scores(numbers, scoring.text_table(scores))

    def measure(self, asked: Evaluation, by: str | None) -> Measure:
        documents = list(self._documents(asked))
        return Measure("loss", self.model, lambda: scoring.score_text(self, documents).loss)

    def _documents(self, asked: Evaluation) -> Iterator[Piece]:
        return read_documents(find_texts(self.given(asked.text, "--text, or --choices")), asked.field)

    def forward(self, text: str, second: str | None, tokens: int) -> ForwardPass:
        """A text, and behind it what the model goes on with."""
        refuse_second(second, "a language model reads one text")
        model, row = self.model, self.encode([text])[0]
        if len(row) + tokens > model.config.context:
            raise DataError(
                f"{text!r:.60} has {counted(len(row), 'token')} and {tokens:,} more are asked for, but the model reads "
                f"{model.config.context:,}; shorten it, or ask for fewer"
            )
        written = self.continued(row, tokens) if tokens else []
        ids = row + written
        says = self.tokenizer.decode([written])[0] if written else ""
        return ForwardPass((text,), {"self": ids}, lambda: model(one_row(model, ids)), written, says)

    def conclusion(self, read: ForwardPass, output: Tensor, count: int) -> Section:
        grid = candidates("candidates", output[0, -1], self.tokenizer, count)
        return concluded("The last token's logits, over the whole vocabulary, say what comes next.", grid)

    def selfcheck(self, sentences: int, beam: int) -> list[Finding]:
        return [*same_decoder_logits(self.model), *same_texts(self.model, sentences, beam)]


def stops_of(stop: str | Iterable[str]) -> list[str]:
    """The strings that end a text; one may stand alone."""
    return [stop] if isinstance(stop, str) else texts_of(stop, "stop", "strings")


PREDICTOR = LanguageModel
