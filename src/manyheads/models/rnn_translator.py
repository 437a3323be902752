"""Translators before the Transformer: two recurrent networks, and what the second one sees of the source.

An encoder reads the source in both directions; h_j is what it knows at position j. A decoder writes the target, its
state s_i behind each word y_i. What it sees of the source is all that differs between the three of them:

    context     c    = the encoder's last states, the same at every step (Cho et al. 2014)
    bahdanau    c_i  = Σ_j α_ij h_j with α_i = softmax_j vᵀ tanh(W s_{i-1} + U h_j), asked for before s_i (2015)
    dot         c_i  = Σ_j α_ij h_j with α_i = softmax_j s_iᵀ h_j, asked for behind it (Luong et al. 2015)

Everything here is [batch, positions, width]; ids are [batch, positions]; masks are bool, True = may look.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from manyheads.core.configs import refuse_below_one, refuse_no_fraction
from manyheads.core.errors import ConfigError
from manyheads.nn.attention import MultiHeadAttention
from manyheads.nn.layers import Linear, OutputProjection, TokenEmbedding
from manyheads.nn.recurrent import CELLS, Recurrence, RecurrentState, States, TwoDirections, places_backwards
from manyheads.ops.attention import reference
from manyheads.ops.masks import padding_mask


@dataclass(frozen=True, kw_only=True)
class RNNTranslatorConfig:
    """The sizes of a recurrent translator, and what its decoder sees of the source."""

    vocabulary: int = 0
    """How many tokens there are; 0: as many as the tokenizer has."""
    sees: str = "bahdanau"
    """context: the encoder's last states; bahdanau or dot: all of them, through that attention."""
    cell: str = "gru"
    """elman, gru or lstm."""
    width: int = 512
    """The size of embeddings and of every layer's state; in the encoder half of it for each direction."""
    layers: int = 1
    """Recurrent layers of the encoder, and as many of the decoder."""
    norm: bool = False
    """Layer norm inside each cell (Ba et al. 2016), which no fused kernel has."""
    tied: bool = True
    """One matrix for both embeddings and the output."""
    dropout: float = 0.1
    """On the embeddings, between layers and before the output."""
    pad: int = 0
    """The id that fills rows up."""
    start: int = 0
    """The id the decoder starts from; the pad, whose embedding is zero."""
    end: int = 1
    """The id that ends a sentence."""
    other_ends: tuple[int, ...] = ()
    """More ids that end a translation."""

    def __post_init__(self):
        refuse_below_one(self, "width", "layers")
        refuse_no_fraction(self, "dropout")
        for name, known in (("cell", CELLS), ("sees", DECODERS)):
            if getattr(self, name) not in known:
                raise ConfigError(f"model.{name} is '{getattr(self, name)}'; it can be {', '.join(known)}")


class Encoder(nn.Module):
    """Source ids in, a state h_j for each position out: what was read up to there from either side."""

    def __init__(self, config: RNNTranslatorConfig, embedding: TokenEmbedding):
        super().__init__()
        self.embedding, self.dropout = embedding, nn.Dropout(config.dropout)
        sizes = (CELLS[config.cell], config.width, config.width, config.norm)
        self.layers = nn.ModuleList(TwoDirections(*sizes) for _ in range(config.layers))

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        x, places = self.dropout(self.embedding(ids)), places_backwards(real)
        for layer in self.layers:
            x = self.dropout(layer(x, places))
        return x


class Decoder(nn.Module):
    """What the three decoders share: where they begin, their layers, and what the output projection reads."""

    reads: ClassVar[int] = 2
    """How many vectors of the state's width the first layer reads: the embedding, and what is seen of the source."""
    tells: ClassVar[int] = 3
    """And how many the output does: the state, what is seen, the embedding."""

    def __init__(self, config: RNNTranslatorConfig, embedding: TokenEmbedding):
        super().__init__()
        width, cell = config.width, CELLS[config.cell]
        self.embedding, self.dropout = embedding, nn.Dropout(config.dropout)
        self.begin = nn.ModuleList(Linear(width, width) for _ in range(config.layers))
        inputs = [self.reads * width, *[width] * (config.layers - 1)]
        self.layers = nn.ModuleList(cell(each, width, config.norm) for each in inputs)
        self.readout = Linear(self.tells * width, width)

    def memory(self, states: Tensor) -> Tensor:
        """What is kept of the encoder's states for every step."""
        return states

    def begun(self, summary: Tensor) -> list[States]:
        """tanh(W h) of the encoder's last states, for each layer; an LSTM's cell begins with zeros."""
        starts = [layer.start(len(summary), summary) for layer in self.layers]  # type: ignore
        return [(torch.tanh(begin(summary)), *start[1:]) for begin, start in zip(self.begin, starts)]

    def through(self, x: Tensor, states: list[Any]) -> tuple[Tensor, list[States]]:
        """All positions through all layers."""
        after = []
        for layer, before in zip(self.layers, states):
            x, behind = layer(x, before)
            x = self.dropout(x)
            after.append(behind)
        return x, after

    def told(self, *vectors: Tensor) -> Tensor:
        """tanh(W [s; c; y]): what is compared with every token's embedding."""
        return self.dropout(torch.tanh(self.readout(torch.cat(vectors, dim=-1))))


class ContextDecoder(Decoder):
    """The whole source in one vector: all that the decoder ever sees of it, however long it was."""

    def forward(self, ids: Tensor, memory: Tensor, mask: Tensor | None, cache: RecurrentState) -> Tensor:
        y, context = self.dropout(self.embedding(ids)), last_states(memory, mask, len(ids))
        c = context[:, None].expand_as(y)
        s, after = self.through(torch.cat([y, c], dim=-1), cache.layers or self.begun(context))
        cache.advance(after, ids.shape[1])
        return self.told(s, c, y)


class BahdanauDecoder(Decoder):
    """Before each word the decoder looks at the whole source anew: what it looks for follows from its last state."""

    def __init__(self, config: RNNTranslatorConfig, embedding: TokenEmbedding):
        super().__init__(config, embedding)
        self.cross_attention = AdditiveAttention(config.width)

    def memory(self, states: Tensor) -> Tensor:
        """U h_j beside h_j, so that keys are computed once."""
        return torch.cat([self.cross_attention.key(states), states], dim=-1)

    def forward(self, ids: Tensor, memory: Tensor, mask: Tensor | None, cache: RecurrentState) -> Tensor:
        y, found = self.dropout(self.embedding(ids)), []
        width = y.shape[-1]
        states = cache.layers or self.begun(last_states(memory[..., width:], mask, len(ids)))
        for y_i in y.split(1, dim=1):
            c_i = self.cross_attention(states[-1][0][:, None], memory, mask=mask, cache=cache)
            s_i, states = self.through(torch.cat([y_i, c_i], dim=-1), states)
            cache.advance(states, 1)
            found.append(torch.cat([s_i, c_i], dim=-1))
        return self.told(torch.cat(found, dim=1), y)


class DotDecoder(Decoder):
    """The decoder reads its own words alone; behind each state it looks at the source for what to say next."""

    reads, tells = 1, 2

    def __init__(self, config: RNNTranslatorConfig, embedding: TokenEmbedding):
        super().__init__(config, embedding)
        self.cross_attention = DotAttention(config.width)

    def forward(self, ids: Tensor, memory: Tensor, mask: Tensor | None, cache: RecurrentState) -> Tensor:
        y = self.dropout(self.embedding(ids))
        s, after = self.through(y, cache.layers or self.begun(last_states(memory, mask, len(ids))))
        c = self.cross_attention(s, memory, mask=mask, cache=cache)
        cache.advance(after, ids.shape[1])
        return self.told(s, c)


DECODERS = {"context": ContextDecoder, "bahdanau": BahdanauDecoder, "dot": DotDecoder}


class DotAttention(MultiHeadAttention):
    """softmax(s h) h: one head whose queries, keys and values are the states as they are, unscaled."""

    def __init__(self, width: int, **options: Any):
        super().__init__(width, 1, **options)
        del self.projection
        self.output = nn.Identity()  # type: ignore

    def _memory_keys(self, x: Tensor, memory: Tensor, mask: Tensor | None, cache: Any):
        # Rows that share a memory, beams, become more queries of it, as in every attention.
        q, h = x.reshape(memory.shape[0], 1, -1, x.shape[-1]), memory[:, None]
        options: dict[str, Any] = {"mask": mask, "scale": 1.0}
        return q, h, h, options


class AdditiveAttention(DotAttention):
    """softmax(vᵀ tanh(W s + U h)) h: the scores are no products of queries and keys, so that they come as a bias."""

    def __init__(self, width: int):
        super().__init__(width, kernel=reference)
        self.query, self.key = Linear(width, width), Linear(width, width, bias=False)
        self.score = nn.Parameter(torch.empty(width))

    def _memory_keys(self, x: Tensor, memory: Tensor, mask: Tensor | None, cache: Any):
        keys, h = memory[:, None].chunk(2, dim=-1)
        queries = self.query(x).reshape(memory.shape[0], -1, 1, x.shape[-1])
        scores = (torch.tanh(queries + keys) @ self.score)[:, None]
        if mask is not None:  # every source has a word, so that nobody need ask whether there is any to look at
            scores = scores.masked_fill(~mask, -torch.inf)
        nothing, options = h.new_zeros(1), {"bias": scores}
        return nothing.expand(*scores.shape[:3], 1), nothing.expand(*h.shape[:3], 1), h, options


def last_states(states: Tensor, mask: Tensor | None, rows: int) -> Tensor:
    """[rows, width]: where each direction has read the whole source, onwards its end and backwards its beginning."""
    width = states.shape[-1] // 2
    onward, backward = states[:, -1, :width], states[:, 0, width:]
    if mask is not None:
        ends = mask.sum(dim=-1).view(-1, 1, 1).expand(-1, 1, width) - 1
        onward = states[..., :width].gather(1, ends)[:, 0]
    # Beams of a sentence share its memory.
    return torch.cat([onward, backward], dim=-1).repeat_interleave(rows // len(states), dim=0)


class RNNTranslator(nn.Module):
    """Source ids and target ids in, logits of each next target token out: [batch, positions, vocabulary]."""

    def __init__(self, config: RNNTranslatorConfig):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config, TokenEmbedding(config.vocabulary, config.width, pad=config.pad))
        own = self.encoder.embedding
        embedding = own if config.tied else TokenEmbedding(config.vocabulary, config.width, pad=config.pad)
        self.decoder: Decoder = DECODERS[config.sees](config, embedding)
        weight = embedding.weight if config.tied else nn.Parameter(embedding.weight.detach().clone())
        self.output = OutputProjection(weight, never=config.pad)
        self.reset()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.output(self.states(source, target))

    def states(self, source: Tensor, target: Tensor) -> Tensor:
        """What the output projection reads; a loss that never holds all logits starts here."""
        memory, memory_mask = self.encode(source)
        return self.decoder(target, memory, memory_mask, self.decoding_state())

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the decoder keeps of the encoder's states, and the mask that keeps attention off their padding."""
        states = self.encoder(source, source != self.config.pad)
        return self.decoder.memory(states), padding_mask(source, self.config.pad)

    def decode(
        self, target: Tensor, memory: Tensor, memory_mask: Tensor | None, cache: RecurrentState | None = None
    ) -> Tensor:
        """Logits for target ids whose predecessors, if any, are in the cache."""
        state = self.decoding_state() if cache is None else cache
        return self.output(self.decoder(target, memory, memory_mask, state))

    def decoding_state(self, capacity: int = 0, beams: int = 1) -> RecurrentState:
        """What decoding goes on from, empty: each call that it is passed to advances it."""
        return RecurrentState(beams)

    def reset(self) -> None:
        """Xavier-uniform between states, embeddings and what scores them small."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, Recurrence):
                nn.init.orthogonal_(module.hidden_weight)
            elif isinstance(module, AdditiveAttention):
                nn.init.uniform_(module.score, -(len(module.score) ** -0.5), len(module.score) ** -0.5)


def rnn_bahdanau() -> RNNTranslatorConfig:
    """A small model for corpora of tens of thousands of sentences, with the first attention there was."""
    return RNNTranslatorConfig(dropout=0.4)


def rnn_context() -> RNNTranslatorConfig:
    """The same without attention: what it was invented for."""
    return replace(rnn_bahdanau(), sees="context", dropout=0.5)


def rnn_dot() -> RNNTranslatorConfig:
    """The same with attention by products of states."""
    return replace(rnn_bahdanau(), sees="dot")


def rnn_tiny() -> RNNTranslatorConfig:
    """The least that learns the sample corpus, in minutes on two cores, with Bahdanau's attention."""
    return RNNTranslatorConfig(width=128)


PRESETS: dict[str, Callable[[], RNNTranslatorConfig]] = {
    preset.__name__: preset for preset in (rnn_tiny, rnn_context, rnn_bahdanau, rnn_dot)
}
