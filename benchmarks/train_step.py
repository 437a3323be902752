"""Training steps on a CPU: manyheads, transformers' Marian and torch.nn.Transformer, in turns, in one process.

    python benchmarks/train_step.py              about 2 minutes on 2 cores
    python benchmarks/train_step.py --rounds 1 --tokens 200 --layers 1      a few seconds, to see that it works

The original Transformer, 3+3 layers, width 256, 4 heads, inner 1024, ReLU, post-norm, one tied vocabulary of 8,000, in
float32. A step is: forward with dropout 0.1 (on embeddings and sub-layers, nowhere else), cross-entropy with label
smoothing 0.1, backward, gradients clipped to norm 1, one update by fused Adam. All three begin with the same weights,
which is checked by their loss without dropout, and see the same padded batches of pairs of about equal length (8 to 30
tokens a side). The peers compute their loss as their users do: F.cross_entropy on the logits of all positions.

Prints the share of padding, the three losses, and target tokens (padding not counted) a second: the median, the range
over rounds, and the ratio of ours to each peer.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from common import describe_machine, in_turns, marian_twin, report, training_rate
from torch import Tensor, nn

from manyheads.data.batches import Batch
from manyheads.data.pairs import pair_batches, pair_store
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.ops.rotary import sinusoid
from manyheads.train.config import TrainConfig
from manyheads.train.objectives import translation_loss
from manyheads.train.optim import build_optimizer

SMOOTHING, CLIP, RATE = 0.1, 1.0, 1e-4


class Manyheads:
    """Our step, as `train/loop.py` takes it."""

    def __init__(self, model: Transformer):
        self.model = model
        self.optimizer = build_optimizer(model, TrainConfig(smoothing=SMOOTHING, clip=CLIP))
        for group in self.optimizer.param_groups:
            group["lr"] = RATE

    def loss(self, batch: Batch) -> Tensor:
        return translation_loss(self.model, batch, smoothing=SMOOTHING).total / batch.target_tokens


class Peer:
    """A step as users of a peer write it: logits, F.cross_entropy, the same Adam in its fused form."""

    def __init__(self, model: nn.Module, config: TransformerConfig):
        self.model, self.config = model, config
        self.optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def logits(self, source: Tensor, before: Tensor) -> Tensor:
        return self.model(source, before)

    def loss(self, batch: Batch) -> Tensor:
        pad, start = self.config.pad, self.config.start
        labels = batch.target.masked_fill(batch.target == pad, -100)
        before = torch.cat([torch.full_like(batch.target[:, :1], start), batch.target[:, :-1]], dim=1)
        logits = self.logits(batch.source, before)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=SMOOTHING)


class Marian(Peer):
    """transformers' MarianMTModel, with its default (SDPA) attention."""

    def logits(self, source: Tensor, before: Tensor) -> Tensor:
        mask = (source != self.config.pad).long()
        return self.model(input_ids=source, attention_mask=mask, decoder_input_ids=before, use_cache=False).logits


class Torch(nn.Module):
    """torch.nn.Transformer between tied embeddings.

    What it has beyond the paper (dropout on attention weights and inside the feed-forward, a last norm on each stack)
    is taken out, so that it does the same work and can run its fused attention.
    """

    def __init__(self, model: Transformer):
        super().__init__()
        config = self.config = model.config
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=config.pad)
        self.register_buffer("table", sinusoid(torch.arange(256), width=config.width, base=10_000.0), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = nn.Transformer(
            *(config.width, config.heads, config.layers, config.layers, config.inner, config.dropout), batch_first=True
        )
        self.transformer.encoder.norm = self.transformer.decoder.norm = None  # type: ignore
        self.transformer.encoder.use_nested_tensor = False  # which only serves inference
        for stack in (self.transformer.encoder, self.transformer.decoder):
            for layer in stack.layers:
                layer.dropout.p = 0.0
        for module in self.modules():
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        self._copy(model)

    def forward(self, source: Tensor, before: Tensor) -> Tensor:
        padding = source == self.config.pad
        causal = nn.Transformer.generate_square_subsequent_mask(before.shape[1])
        out = self.transformer(
            self._embedded(source),
            self._embedded(before),
            tgt_mask=causal,
            tgt_is_causal=True,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        return F.linear(out, self.embedding.weight)

    def _embedded(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * self.config.width**0.5 + self.table[: ids.shape[1]])

    @torch.no_grad()
    def _copy(self, model: Transformer) -> None:
        self.embedding.weight.copy_(model.encoder.embedding.weight)
        for ours, theirs in zip(model.encoder.blocks, self.transformer.encoder.layers, strict=True):
            _copy_block(ours, theirs, {"self_norm": "norm1", "feedforward_norm": "norm2"})
        for ours, theirs in zip(model.decoder.blocks, self.transformer.decoder.layers, strict=True):
            _copy_attention(ours.cross_attention, theirs.multihead_attn)
            _copy_block(ours, theirs, {"self_norm": "norm1", "cross_norm": "norm2", "feedforward_norm": "norm3"})


def _copy_block(ours: nn.Module, theirs: nn.Module, norms: dict[str, str]) -> None:
    _copy_attention(ours.self_attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feedforward.inner.state_dict())
    theirs.linear2.load_state_dict(ours.feedforward.outer.state_dict())
    for our_name, their_name in norms.items():
        getattr(theirs, their_name).load_state_dict(getattr(ours, our_name).state_dict())


def _copy_attention(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.in_proj_weight.copy_(ours.projection.weight)
    theirs.in_proj_bias.copy_(ours.projection.bias)
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def make_batches(config: TransformerConfig, tokens: int, count: int) -> list[Batch]:
    """Random ids in pairs of 8 to 30 tokens a side, both sides about equally long, grouped by length."""
    random = np.random.default_rng(7)
    sources, targets = [], []
    for _ in range(max(4000, tokens * count // 10)):
        length = int(np.clip(round(random.normal(16, 5)), 8, 30))
        other = int(np.clip(round(length * random.normal(1.0, 0.15)), 8, 30))
        for rows, size in ((sources, length), (targets, other)):
            rows.append([*random.integers(2, config.vocabulary - 1, size - 1).tolist(), config.end])
    store = pair_store(sources, targets)
    # A budget counts padding too: 6% more of it makes about `tokens` real ones.
    batches = pair_batches(store, tokens=int(tokens * 1.06), pad=config.pad, seed=3)
    return [batch for batch, _ in zip(batches.epoch(0), range(count))]


def check_equal_loss(contenders: dict, batch: Batch) -> None:
    losses = {}
    with torch.no_grad():
        for name, contender in contenders.items():
            contender.model.eval()
            losses[name] = float(contender.loss(batch))
    print("loss before training: " + ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items()))
    if max(losses.values()) - min(losses.values()) > 2e-3:
        raise SystemExit("the contenders do not compute the same loss from the same weights: nothing to compare")


def main() -> None:
    parser = argparse.ArgumentParser(description="target tokens/s of training steps")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=2000, help="target tokens of a batch, about")
    parser.add_argument("--layers", type=int, default=3)
    options = parser.parse_args()
    describe_machine()
    torch.manual_seed(1)
    sizes = {"width": 256, "heads": 4, "inner": 1024, "layers": options.layers, "vocabulary": 8000}
    config = TransformerConfig(**sizes, pad=7999, start=7999, end=0)
    ours = Transformer(config)
    contenders = {
        "manyheads": Manyheads(ours),
        "transformers MarianMTModel": Marian(marian_twin(ours), config),
        "torch.nn.Transformer": Peer(Torch(ours), config),
    }
    warmup = 2
    batches = make_batches(config, options.tokens, options.rounds + warmup)
    cells = sum(batch.source.numel() + batch.target.numel() for batch in batches)
    real = sum(int((batch.source != config.pad).sum()) + batch.target_tokens for batch in batches)
    targets = sum(batch.target_tokens for batch in batches) / len(batches)
    print(f"{len(batches)} batches of {targets:,.0f} target tokens, {1 - real / cells:.1%} padding")
    check_equal_loss(contenders, batches[0])
    steps = {
        name: training_rate(contender, batches, CLIP, lambda batch: batch.target_tokens)
        for name, contender in contenders.items()
    }
    report("a training step", in_turns(steps, options.rounds, warmup), "target tokens/s")


if __name__ == "__main__":
    main()
