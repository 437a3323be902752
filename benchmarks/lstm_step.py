"""Training steps of an LSTM language model on a CPU: manyheads and a plain torch.nn.LSTM model, in turns.

    python benchmarks/lstm_step.py              about 2 minutes on 2 cores
    python benchmarks/lstm_step.py --rounds 1 --width 64      a few seconds, to see that it works

The medium LSTM of Zaremba et al. (2014), two layers of width 650 over 10,000 words, embedding and output tied, in
float32. A step is: 20 rows of 35 tokens that go on from the state of the step before, dropout 0.5 (on embeddings,
between layers, before the output), cross-entropy, backward, gradients clipped to norm 0.25, one update by fused AdamW.
Both begin with the same weights, which is checked by their loss and their gradients without dropout, and see the same
tokens. The peer is written as its users do: nn.Embedding, nn.LSTM with its two layers and their dropout,
F.cross_entropy on all logits.

Prints tokens a second: the median, the range over rounds, and the ratio of ours to the peer.
"""

import argparse
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from common import describe_machine, in_turns, report, training_rate
from torch import Tensor, nn

from manyheads.models.rnn import RNN, RNNConfig
from manyheads.nn.recurrent import RecurrentState
from manyheads.tasks.language.training import adamw
from manyheads.train.objectives import language_loss
from manyheads.train.optim import build_optimizer

CLIP, RATE, VOCABULARY = 0.25, 2e-3, 10_000


class Manyheads:
    """Our step, as `train/loop.py` takes it."""

    def __init__(self, model: RNN):
        self.model, self.carried = model, {}
        self.optimizer = build_optimizer(model, adamw(weight_decay=0.0, clip=CLIP, learning_rate=RATE))
        for group in self.optimizer.param_groups:
            group["lr"] = RATE

    def loss(self, ids: Tensor) -> Tensor:
        state = RecurrentState.of(self.carried)
        batch = SimpleNamespace(ids=ids, counted=None, target_tokens=ids[:, 1:].numel())
        found = language_loss(self.model, batch, state=state)
        self.carried = state.tensors()
        return found.total / found.tokens


class Plain(nn.Module):
    """The same model of torch's own parts."""

    def __init__(self, model: RNN):
        super().__init__()
        width, layers, dropout = model.config.width, model.config.layers, model.config.dropout
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.dropout = nn.Dropout(dropout)
        self.lstm = nn.LSTM(width, width, layers, dropout=dropout, batch_first=True)
        self.output = nn.Linear(width, VOCABULARY, bias=False)
        self.output.weight = self.embedding.weight
        with torch.no_grad():
            self.embedding.weight.copy_(model.embedding.weight)
            ours = [
                weight
                for layer in model.layers
                for weight in (layer.input_weight, layer.hidden_weight, layer.input_bias, layer.hidden_bias)
            ]
            for theirs, mine in zip(self.lstm.parameters(), ours, strict=True):
                theirs.copy_(mine)

    def forward(self, ids: Tensor, state):
        states, state = self.lstm(self.dropout(self.embedding(ids)), state)
        return self.output(self.dropout(states)), state


class Peer:
    """A step as users of torch.nn write it."""

    def __init__(self, model: RNN):
        self.model, self.state = Plain(model), None
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)

    def loss(self, ids: Tensor) -> Tensor:
        logits, state = self.model(ids[:, :-1], self.state)
        self.state = tuple(each.detach() for each in state)
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def check_equal(contenders: dict, ids: Tensor) -> None:
    """The same loss, and the same length of its gradient, of the same weights."""
    found = {}
    for name, contender in contenders.items():
        contender.model.eval()
        loss = contender.loss(ids)
        loss.backward()
        norm = torch.nn.utils.get_total_norm([each.grad for each in contender.model.parameters()])
        found[name] = (float(loss.detach()), float(norm))
        contender.optimizer.zero_grad()
        contender.carried, contender.state = {}, None
    print("without dropout: " + ", ".join(f"{name} loss {a:.5f}, gradient {b:.5f}" for name, (a, b) in found.items()))
    (ours, mine), (theirs, other) = found.values()
    if abs(ours - theirs) > 1e-4 or abs(mine - other) > 1e-3 * other:
        raise SystemExit("the contenders do not compute the same from the same weights: nothing to compare")


def main() -> None:
    parser = argparse.ArgumentParser(description="tokens/s of training steps of an LSTM language model")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=20)
    parser.add_argument("--length", type=int, default=35)
    parser.add_argument("--width", type=int, default=650)
    options = parser.parse_args()
    describe_machine()
    torch.manual_seed(1)
    ours = RNN(RNNConfig(vocabulary=VOCABULARY, width=options.width))
    contenders = {"manyheads": Manyheads(ours), "torch.nn.LSTM": Peer(ours)}
    warmup = 2
    sizes = (options.rounds + warmup + 1, options.rows, options.length + 1)
    first, *batches = torch.randint(0, VOCABULARY, sizes, generator=torch.Generator().manual_seed(7))
    check_equal(contenders, first)
    steps = {
        name: training_rate(contender, batches, CLIP, lambda ids: ids[:, 1:].numel())
        for name, contender in contenders.items()
    }
    report("a training step", in_turns(steps, options.rounds, warmup), "tokens/s")


if __name__ == "__main__":
    main()
