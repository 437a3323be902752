"""Walking a text through a model: every matrix on the way from its tokens to what the model says."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.core.errors import ConfigError
from manyheads.look.grid import Grid, digits_for, of_numbers
from manyheads.look.heads import TITLES, attentions, refuse_unknown, title_of
from manyheads.look.lectures import lecture_walk
from manyheads.look.residuals import residual_norms
from manyheads.look.trace import Head, Passage, Trace, followed
from manyheads.look.walk import Section, Walk
from manyheads.models.transformer import Transformer
from manyheads.nn.layers import ACTIVATIONS
from manyheads.nn.parts import Part, attention_parts
from manyheads.nn.positions import Alibi, Buckets, Learned, Positions, Relative, Rotary, Sinusoidal
from manyheads.tasks.inside.forward import ForwardPass, opened, read, tokens_of
from manyheads.tasks.inside.recurrence import walk_of_recurrence
from manyheads.tasks.inside.states import layer_numbers
from manyheads.tasks.task import Predictor

__all__ = ["Walk", "lecture_walk", "walk_through"]

Rows = list[tuple[Grid, ...]]

POSITIONS = {
    Sinusoidal: "Sines and cosines of each position are added to the embeddings.",
    Learned: "A learned vector of each position is added to the embeddings.",
    Rotary: "Nothing is added for the position: in each attention, rotary positions turn q and k instead.",
    Relative: "Nothing is added here: each attention adds a bias, learned for each distance, to its scores.",
    Buckets: "Nothing is added here: each attention adds a bias, learned for each bucket of distances, to its scores.",
    Alibi: "Nothing is added here: each attention takes a penalty that grows with the distance off its scores.",
}
NO_POSITIONS = "Nothing says where a token stands: this model has no positions."
SEGMENTS = " A learned vector of its segment is added to each token, and the sum is normalised."
MULTI_HEAD = "MultiHead(Q, K, V) = Concat(head_0, …, head_h−1) W_O, and each head is softmax(q kᵀ / √d) v."
OTHER_ATTENTION = "Attention of this block that is not the chosen one, in one step."
FEEDFORWARD = "A small network changes each token's vector by itself; nothing passes from token to token."
LAST_NORM = "Pre-norm leaves the sums as they are, so that one more norm ends the stack."


def walk_through(
    model: Any,
    text: str,
    second: str | None = None,
    *,
    layer: int | None = None,
    head: int = 0,
    attention: str | None = None,
    token: int | None = None,
    count: int = 5,
    device: str = "auto",
) -> Walk:
    """A text, or two, on their way through a model, given as a directory or ready to use, with one head in full.

    The layer is unset the first, and in a translator's cross-attention, which it shows unless `attention` names its
    encoder or decoder, the last. Of a recurrent model it is shown at one token, unset the last. `count` candidates end
    it.
    """
    if count < 1:
        raise ConfigError(f"{count} candidates are asked for; ask for at least 1")
    predictor = opened(model, device)[1]
    if layer_numbers(predictor.model):
        if head or attention:
            raise ConfigError("what is shown of a recurrent model is a layer at a token; leave head and attention away")
        return walk_of_recurrence(predictor, read(predictor, text, second), layer, token, count)
    if token is not None:
        raise ConfigError("one token's step is shown of recurrent models, and this is none; leave the token away")
    if not attention_parts(predictor.model):
        if layer is not None or head or attention:
            raise ConfigError(f"{type(predictor.model).__name__} has no layers of heads; leave the choice of one away")
        return predictor.own_walk(read(predictor, text, second))
    part = _chosen(attentions(predictor.model), attention, layer, head)
    if not hasattr(part.module, "projection"):
        raise ConfigError(f"{model} is not walked through: its attention has no projections of its own to follow")
    forward = read(predictor, text, second)
    with torch.inference_mode():
        with followed(predictor.model, part) as trace:
            found = forward.run()
        end = predictor.conclusion(forward, found, count)
        return _Walker(predictor, forward, trace, head).walk(end)


def _chosen(parts: list[Part], attention: str | None, layer: int | None, head: int) -> Part:
    kinds = [kind for kind in TITLES if any(part.kind == kind for part in parts)]
    kind = attention or kinds[0]
    if kind not in kinds:
        raise ConfigError(f"there is no attention '{kind}' in this model; it has {', '.join(kinds)}")
    parts = [part for part in parts if part.kind == kind]
    layer = layer if layer is not None else len(parts) - 1 if kind == "cross" else 0
    refuse_unknown(parts, [layer], [head])
    return parts[layer]


class _Walker:
    """Makes matrices with labels of what a trace holds."""

    def __init__(self, predictor: Predictor, forward: ForwardPass, trace: Trace, head: int):
        self.what, self.forward, self.trace, self.head = predictor.what, forward, trace, head
        self.model, self.part = predictor.model, trace.part
        self.tokens = {side: tokens_of(predictor.tokenizer, ids) for side, ids in forward.ids.items()}
        self.side = "decoder" if self.part.kind == "cross" else self.part.kind
        """The stack that the chosen attention is in, which is where its queries are from."""
        self.rows = self.tokens[self.side]
        self.keys = self.tokens["encoder"] if self.part.kind == "cross" else self.rows
        block, _, _ = self.part.name.rpartition(".")
        self.block = self.model.get_submodule(block)
        self.stack: Any = self.model.get_submodule(block.rpartition("blocks.")[0].rstrip("."))

    def walk(self, end: Section) -> Walk:
        numbers = self.part.module.numbers
        of = f"{len(numbers)}" if not self.part.module.removed else f"the heads {', '.join(map(str, numbers))} left"
        introduction = (
            f"{title_of(self.part).capitalize()}, head {self.head} of {of}, both counted from 0. Every number is the "
            "model's own, taken on the way."
        )
        sections = [self._tokens(), self._embedding(), *self._block(), self._layers(), end]
        texts, says = self.forward.texts, self.forward.says
        what = f"{self.what[0].upper()}{self.what[1:]} reads {' and '.join(f'{text!r:.60}' for text in texts)}"
        return Walk(f"{what} and writes {says!r:.60}" if says else what, introduction, sections)

    def _matrix(self, title: str, numbers: Tensor, formula: str = "", note: str = "", **how: Any) -> Grid:
        """Numbers with a row for each token that goes through the chosen stack, and a column for each of the width."""
        columns = how.pop("columns", None) or [str(place) for place in range(1, numbers.shape[-1] + 1)]
        rows, found = how.pop("rows", self.rows), numbers.float().cpu().numpy()
        return of_numbers(title, found, rows, columns, digits=digits_for(found), formula=formula, note=note, **how)

    def _tokens(self) -> Section:
        names = {"self": "tokens", "encoder": "what the encoder reads", "decoder": "what the decoder reads"}
        grids = tuple(
            Grid(names[side], [[str(each)] for each in ids], self.tokens[side], ["id"])
            for side, ids in self.forward.ids.items()
        )
        text = f"The text is cut into tokens, each with a number among {self.model.config.vocabulary:,}."  # type: ignore
        if isinstance(self.model, Transformer):
            text += " The decoder begins with a mark and reads what it has written so far."
        return Section("Tokens", text, [grids])

    def _embedding(self) -> Section:
        stack, positions = self.stack, self.stack.positions
        # Encoder and decoder may share their embeddings; the encoder is called first.
        embedded = self.trace.of(stack.embedding)[-1 if self.side == "decoder" else 0].gave
        formula = f"E[id] · √{embedded.shape[-1]}" if stack.embedding.scale != 1.0 else "E[id]"
        rows: Rows = [(self._matrix("embeddings", embedded, formula, "One row of a learned matrix for each token."),)]
        adds, segments = type(positions).add is not Positions.add, hasattr(stack, "segments")
        if segments:
            found = self.trace.of(stack.segments)[0].gave
            rows.append((self._matrix("segments", found, "S[segment]", "Which of two texts a token is of."),))
        if adds:
            added = positions.add(torch.zeros_like(embedded)[None], 0)[0]
            rows.append((self._matrix("positions", added, "P[position]", "The same for every text."),))
        if segments:
            norm = self.trace.of(stack.norm)[0]
            formula = "E[id] + S[segment]" + " + P[position]" * adds
            rows.append((self._matrix("sum", norm.given, formula),))
            rows.append((self._matrix("normalised", norm.gave, f"{_norm_name(norm.module)}(sum)"),))
        elif adds:
            first = self.trace.of(stack.blocks[0])[0].given
            rows.append((self._matrix("sum", first, "embeddings + positions", "What the first layer reads."),))
        text = next((said for kind, said in POSITIONS.items() if isinstance(positions, kind)), NO_POSITIONS)
        return Section("Embeddings and positions", text + SEGMENTS * segments, rows)

    def _block(self) -> list[Section]:
        """A section for each sub-layer of the block, in the order in which they are called."""
        calls = self.trace.of(*self.block.children())
        whole = self.trace.of(self.block)[0]
        pairs = list(zip(calls[::2], calls[1::2]))
        sections, x = [], whole.given
        for place, (first, second) in enumerate(pairs):
            # The norm comes before the sub-layer (pre-norm) or behind the sum (post-norm, as published).
            before = not _is_norm(second.module)
            norm, called = (first, second) if before else (second, first)
            behind = pairs[place + 1][0].given if place + 1 < len(pairs) else whole.gave
            sections.append(self._sublayer(x, norm, called, before, behind if before else norm.given))
            x = behind if before else norm.gave
        return sections

    def _sublayer(self, x: Tensor, norm: Passage, called: Passage, before: bool, total: Tensor) -> Section:
        """From what goes into a sub-layer to what goes into the next."""
        norm_name, module = _norm_name(norm.module), called.module
        kind = next((part.kind for part in attentions(self.model) if part.module is module), None)
        chosen, name = module is self.part.module, "MultiHead" if kind else "FFN"
        rows: Rows = [(self._matrix("input", x, "x", "A vector for each token."),)]
        if before:
            rows.append((self._matrix("normalised", norm.gave, f"{norm_name}(x)", "Pre-norm: before the sub-layer."),))
        if chosen:
            rows += self._attention(f"{norm_name}(x)" if before else "x")
        else:
            rows.append((self._matrix("output", called.gave, name if kind else _feedforward_formula(module)),))
        inside = f"{name}({norm_name}(x))" if before else f"{name}(x)"
        rows.append((self._matrix("sum", total, f"x + {inside}", "What was found is added to what was there."),))
        if not before:
            formula = f"{norm_name}(x + {inside})"
            rows.append((self._matrix("normalised", norm.gave, formula, "Post-norm: behind the sum, as published."),))
        text = (MULTI_HEAD if chosen else OTHER_ATTENTION) if kind else FEEDFORWARD
        title = (TITLES[kind] if kind else "feed-forward") + (f", head {self.head}" if chosen else "")
        return Section(f"Layer {self.part.layer}: {title}", text, rows)

    def _attention(self, given: str) -> Rows:
        """The chosen head, step by step, and what becomes of it with the others."""
        module, head = self.part.module, self.trace.head(self.head)
        rows: Rows = []
        if isinstance(self.model, Transformer) and self.part.kind == "cross":
            memory = self.trace.of(self.model.encoder.norm)[0].gave
            rows.append((self._matrix("memory", memory, "", "What the encoder made of the source.", rows=self.keys),))
        rows += [*self._asked(head, given), self._weighed(head)]
        rows.append((self._matrix("mixed values", head.mixed, "weights · v", "Each token's mixture of the values."),))
        output, width = self.trace.of(module.output)[-1], module.value_width
        formula = f"Concat(head_{module.numbers[0]}, …, head_{module.numbers[-1]})"
        place = module.numbers.index(self.head)
        own = f"Head {self.head} is in the columns {place * width + 1} to {(place + 1) * width}."
        rows.append((self._matrix("heads joined", output.given, formula, own),))
        joined = f"{formula} W_O" + (" + b_O" if module.output.bias is not None else "")
        rows.append((self._matrix("output", output.gave, joined, "All heads together, as wide as x."),))
        return rows

    def _asked(self, head: Head, given: str) -> Rows:
        """Queries, keys and values."""
        source = "memory" if self.part.kind == "cross" else given
        sharing = self.part.module.heads // self.part.module.key_value_heads
        shared = f" {sharing} heads share it." if sharing > 1 else ""
        bias = self.part.module.projection.bias is not None
        asks, fits, gives = (f" W_{name}" + (f" + b_{name}" if bias else "") for name in "QKV")
        q, k = head.unturned or (head.q, head.k)
        rows: Rows = [
            (
                self._matrix("q", q, f"{given}{asks}", "What each token asks."),
                self._matrix("k", k, f"{source}{fits}", f"What each token is found by.{shared}", rows=self.keys),
                self._matrix("v", head.v, f"{source}{gives}", f"What each token gives.{shared}", rows=self.keys),
            )
        ]
        if head.unturned:
            note = "Each pair of columns is turned by an angle that grows with the position."
            q, k = self._matrix("q turned", head.q, "R q", note), self._matrix("k turned", head.k, "R k", note)
            rows.append((q, k))
        return rows

    def _weighed(self, head: Head) -> tuple[Grid, ...]:
        """From scores to weights: a row for each token that looks, a column for each that is looked at."""
        look = partial(self._matrix, columns=self.keys)
        scores, formula = head.scores, f"q kᵀ / √{head.q.shape[-1]}"
        row = [look("scores", scores, formula, "How well each key fits each query.")]
        if head.bias is not None:
            scores, formula = scores + head.bias, f"{formula} + b"
            row.append(look("bias", head.bias, "b", "What the distance of query and key adds."))
            row.append(look("scores with bias", scores, formula))
        if head.mask is not None and not bool(head.mask.all()):
            scores, formula = scores.masked_fill(~head.mask, -torch.inf), "masked"
            row.append(look("masked", scores, "", "What a token may not look at is -∞."))
        note = "Each row sums to 1."
        if self.part.kind == "cross":
            note += " A row is named by the token that is read; what it looks for is the next one."
        row.append(look("weights", head.weights, f"softmax({formula})", note, most=1.0))
        return tuple(row)

    def _layers(self) -> Section:
        """How long the vectors are behind each layer, and the last norm."""
        rows: Rows = []
        for side in self.tokens:
            stack: Any = self.stack if side == "self" else self.model.get_submodule(side)
            calls = [self.trace.of(block)[0] for block in stack.blocks]
            lengths = residual_norms([state[None] for state in (calls[0].given, *(call.gave for call in calls))])
            names = ["embeddings", *(f"layer {number}" for number in range(len(calls)))]
            title = "lengths" if side == "self" else f"lengths in the {side}"
            rows.append((self._matrix(title, lengths, "‖x‖", rows=names, columns=self.tokens[side]),))
        final = self.trace.of(stack.norm)
        # Pre-norm ends with a norm; BERT's stands before the layers, and post-norm has none.
        if final and _is_norm(stack.norm) and not hasattr(stack, "segments"):
            formula = f"{_norm_name(stack.norm)}(x)"
            rows.append((self._matrix("normalised", final[-1].gave, formula, LAST_NORM, rows=self.tokens[side]),))
        return Section("All layers", "The length ‖x‖ of each token's vector on its way up.", rows)


def _is_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.LayerNorm | nn.RMSNorm)


def _norm_name(module: nn.Module) -> str:
    return "RMSNorm" if isinstance(module, nn.RMSNorm) else "LayerNorm"


def _feedforward_formula(module: Any) -> str:
    names = {"relu": "max(0, x W₁ + b₁)", "gelu": "GELU(x W₁ + b₁)", "gelu_tanh": "GELU(x W₁ + b₁)"}
    activation = next((name for name, found in ACTIVATIONS.items() if getattr(module, "activation", None) is found), "")
    if not activation:
        return "(SiLU(x W₁) ⊙ x W₂) W₃"
    return f"{names.get(activation, 'SiLU(x W₁ + b₁)')} W₂ + b₂"
