"""What every model owes: it learns ten examples by heart, and dropout acts while it learns and never after."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from helpers import padded_on_a_gpu, positions
from torch import Tensor

from manyheads.models.bag import BagClassifier, BagConfig
from manyheads.models.bert import Bert, BertAnswerer, BertConfig, MaskedBert
from manyheads.models.birnn import BiRNN, BiRNNConfig
from manyheads.models.classifier import DecoderClassifier
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier, EncoderTagger
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.models.rnn_translator import DECODERS, RNNTranslator, RNNTranslatorConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.models.vit import ViT, ViTClassifier, ViTConfig
from manyheads.nn.positions import KINDS
from manyheads.train.objectives import (
    answer_loss,
    classification_loss,
    image_loss,
    language_loss,
    masked_loss,
    tagging_loss,
    translation_loss,
)

PAD, END, MASK, ROWS = 0, 1, 3, 10
SIZES = {"vocabulary": 23, "width": 24, "layers": 2, "heads": 3, "inner": 48}
TRANSFORMER = TransformerConfig(**SIZES, pad=PAD, start=PAD, end=END, dropout=0.05)
GPT_2 = GPTConfig(**SIZES, context=11, dropout=0.05)
LLAMA = LlamaConfig(**{**SIZES, "heads": 6}, context=11, key_value_heads=2)
BERT = BertConfig(**SIZES, context=11, segments=3, dropout=0.0, attention_dropout=0.0, separator=2)
NAMES = ("a", "b", "c", "d", "e")


def ten_texts() -> tuple[Tensor, Tensor]:
    """Rows of different lengths whose second tokens differ, so that all the rest can be known."""
    ids, lengths = torch.randint(15, 23, (ROWS, 8), generator=torch.Generator().manual_seed(2)), torch.arange(ROWS)
    ids[:, 0], ids[:, 1], lengths = 1, torch.arange(4, 4 + ROWS), 4 + lengths % 5
    ids[torch.arange(ROWS), lengths - 1] = 2
    return ids.masked_fill(torch.arange(8) >= lengths[:, None], PAD), lengths


def asked(**what) -> SimpleNamespace:
    ids, lengths = ten_texts()
    return SimpleNamespace(ids=ids, lengths=lengths, candidates=None, target_tokens=ROWS, **what)


def pairs() -> SimpleNamespace:
    target, lengths = ten_texts()
    target[torch.arange(ROWS), lengths - 1] = END
    return SimpleNamespace(source=target[:, 1:6], target=target, target_tokens=int((target != PAD).sum()))


def texts() -> SimpleNamespace:
    """Without a first token that all have, after which nobody could know what comes."""
    ids, lengths = ten_texts()
    counted = torch.arange(1, 7) < lengths[:, None] - 1
    return SimpleNamespace(ids=ids[:, 1:], counted=counted, target_tokens=int(counted.sum()))


def masked(follows: Tensor | None) -> SimpleNamespace:
    batch, places = asked(follows=follows), torch.arange(ROWS) * 8 + 2
    batch.places, batch.targets = places, batch.ids.flatten()[places]
    batch.ids = batch.ids.flatten().index_fill(0, places, MASK).view_as(batch.ids)
    return batch


def tagged() -> SimpleNamespace:
    ids, lengths = ten_texts()
    return asked(labels=(ids * 7 % 5).masked_fill(torch.arange(8) >= lengths[:, None], -1))


LSTM = RNNConfig(vocabulary=23, width=96, dropout=0.0)
RECURRENT = RNNTranslatorConfig(vocabulary=23, width=48, dropout=0.05, pad=PAD, start=PAD, end=END)
BAG = BagConfig(vocabulary=23, ngrams=1, weighting="counts", hidden=48, dropout=0.05)
BILSTM = BiRNNConfig(vocabulary=23, width=48, layers=1, dropout=0.05)
VIT = ViTConfig(image_size=9, patch_size=3, channels=2, width=24, layers=2, heads=3, inner=48)
LABELS, FOLLOWS = torch.tensor([0, 1, 1, 4, 0, 4, 1, 0, 4, 1]), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
translating, speaking = partial(translation_loss, batch=pairs()), partial(language_loss, batch=texts())
labelling = partial(classification_loss, batch=asked(labels=LABELS))
counting = partial(classification_loss, batch=asked(labels=torch.linspace(-2, 3, ROWS)))
PIXELS = torch.randn(ROWS, 2, 9, 9, generator=torch.Generator().manual_seed(2))
starts = torch.arange(ROWS) % 3
answering = partial(answer_loss, batch=asked(starts=starts, ends=torch.minimum(starts + 2, ten_texts()[1] - 1)))


def seeing(model):
    return image_loss(model(PIXELS), LABELS)


def transformer(kind, order, norm, activation) -> Transformer:
    config = replace(TRANSFORMER, positions=positions(kind), norm_order=order, norm=norm)
    return Transformer(replace(config, activation=activation))


def gpt(kind, order, norm, activation, scaled) -> GPT:
    config = replace(GPT_2, positions=positions(kind), norm_order=order, norm=norm)
    return GPT(replace(config, activation=activation, scale_embeddings=scaled))


LEARNERS = {
    "Transformer": (lambda: transformer("sinusoidal", "post", "layer", "relu"), translating),
    "Transformer, rotary": (lambda: transformer("rotary", "pre", "rms", "swiglu"), translating),
    "Transformer, relative": (lambda: transformer("relative", "pre", "layer", "gelu"), translating),
    "Transformer, learned": (lambda: transformer("learned", "pre", "rms", "relu"), translating),
    "T-D": (lambda: gpt("sinusoidal", "post", "layer", "relu", True), speaking),
    "GPT-1": (lambda: gpt("learned", "post", "layer", "gelu_tanh", False), speaking),
    "GPT-2": (lambda: gpt("learned", "pre", "layer", "gelu_tanh", False), speaking),
    "GPT, alibi": (lambda: gpt("alibi", "pre", "rms", "swiglu", False), speaking),
    "Llama, tied": (lambda: Llama(replace(LLAMA, tied=True)), speaking),
    "Llama, one key": (lambda: Llama(replace(LLAMA, key_value_heads=1, dropout=0.05)), speaking),
    "Elman": (lambda: RNN(replace(LSTM, cell="elman")), speaking),
    "GRU": (lambda: RNN(replace(LSTM, cell="gru")), speaking),
    "LSTM": (lambda: RNN(LSTM), speaking),
    "LSTM, norm": (lambda: RNN(replace(LSTM, norm=True)), speaking),
    **{
        f"RNN translator, {each}": (lambda each=each: RNNTranslator(replace(RECURRENT, sees=each)), translating)
        for each in DECODERS
    },
    "GPT-2, classifier": (lambda: DecoderClassifier(GPT(GPT_2), NAMES), labelling),
    "Llama, number": (lambda: DecoderClassifier(Llama(LLAMA)), counting),
    "bag of words, network": (lambda: BagClassifier(replace(BAG, layers=2), NAMES), labelling),
    "LSTM, classifier": (lambda: DecoderClassifier(RNN(LSTM), NAMES), labelling),
    "BiLSTM, classifier": (lambda: EncoderClassifier(BiRNN(BILSTM), NAMES), labelling),
    "BiGRU, number": (lambda: EncoderClassifier(BiRNN(replace(BILSTM, cell="gru"))), counting),
    "BiLSTM, tagger": (lambda: EncoderTagger(BiRNN(BILSTM), NAMES), partial(tagging_loss, batch=tagged())),
    "BERT, words": (lambda: MaskedBert(BERT), partial(masked_loss, batch=masked(None))),
    "BERT, words and sentences": (
        lambda: MaskedBert(BERT, next_sentence=True),
        partial(masked_loss, batch=masked(FOLLOWS)),
    ),
    "BERT, classifier": (lambda: EncoderClassifier(Bert(BERT), NAMES), labelling),
    "BERT, number": (lambda: EncoderClassifier(Bert(BERT)), counting),
    "BERT, tagger": (lambda: EncoderTagger(Bert(BERT), NAMES), partial(tagging_loss, batch=tagged())),
    "BERT, answerer": (lambda: BertAnswerer(Bert(BERT)), answering),
    "ViT, classifier": (lambda: ViTClassifier(ViT(replace(VIT, dropout=0.05)), NAMES), seeing),
    "ViT, sinusoidal": (
        lambda: ViTClassifier(ViT(replace(VIT, positions=positions("sinusoidal"))), NAMES),
        seeing,
    ),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_ten_examples_are_learned_by_heart(name):
    (make, objective), losses = LEARNERS[name], []
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(200):
        if step == 160:
            model.eval()  # the rest without dropout
        loss = objective(model)
        (loss.total / loss.tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.total.detach()) / loss.tokens)
    assert losses[0] > 1
    assert losses[-1] < 0.05
    if isinstance(model, Transformer):  # whose padding is no word
        assert not model.encoder.embedding.weight[PAD].any()
        assert model.encoder.embedding.weight[PAD + 1 :].any(dim=1).all()


CHAINED, LENGTH, FIRST_WORD = 67, 21, 4


def chains(seed: int) -> Tensor:
    """Rows in which each word is followed by one of two."""
    draw = torch.Generator().manual_seed(seed)
    follower = torch.randperm(CHAINED - FIRST_WORD, generator=torch.Generator().manual_seed(1))
    words = [torch.randint(0, len(follower), (16,), generator=draw)]
    for _ in range(LENGTH - 1):
        words.append(follower[(words[-1] + 17 * torch.randint(0, 2, (16,), generator=draw)) % len(follower)])
    return torch.stack(words, dim=1) + FIRST_WORD


def chain_loss(model, ids: Tensor):
    """Of the next words, of those of a translation into the same ones, or of what kind of word each is."""
    everything = {"ids": ids, "lengths": torch.full((16,), LENGTH), "target_tokens": ids.numel()}
    if isinstance(model, EncoderTagger):
        return tagging_loss(model, SimpleNamespace(**everything, labels=ids * 7 % 5))
    if isinstance(model, Transformer):
        target = torch.nn.functional.pad(ids, (1, 0), value=PAD)
        return translation_loss(model, SimpleNamespace(source=ids, target=target, target_tokens=ids.numel()))
    everything["target_tokens"] -= 16
    return language_loss(model, SimpleNamespace(**everything, counted=torch.ones(16, LENGTH - 1, dtype=torch.bool)))


OF_CHAINS = {"vocabulary": CHAINED, "width": 32, "layers": 2, "heads": 4, "inner": 64}
PLACED = {
    "Transformer": lambda **places: Transformer(TransformerConfig(**OF_CHAINS, **places)),
    "GPT-1": lambda **places: GPT(GPTConfig(**OF_CHAINS, context=LENGTH, norm_order="post", **places)),
    "GPT-2": lambda **places: GPT(GPTConfig(**OF_CHAINS, context=LENGTH, **places)),
    "Llama": lambda **places: Llama(LlamaConfig(**OF_CHAINS, context=LENGTH, **places)),
    "BERT": lambda **places: EncoderTagger(Bert(BertConfig(**OF_CHAINS, context=LENGTH, **places)), NAMES),
}


@pytest.mark.parametrize("name", PLACED)
def test_with_every_kind_of_positions_a_model_learns_about_as_quickly(name):
    reached = {}
    for kind in KINDS:
        torch.manual_seed(0)
        model, losses = PLACED[name](positions=positions(kind, length=LENGTH + 1)), []
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for step in range(60):
            loss = chain_loss(model.train(step < 50), chains(step))
            (loss.total / loss.tokens).backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.total.detach()) / loss.tokens)
        reached[kind] = sum(losses[50:]) / 10
        assert reached[kind] < losses[0] / 2
    assert max(reached.values()) < 1.4 * min(reached.values()), reached


DROPPING = {
    "Transformer, dropout": (lambda: Transformer(replace(TRANSFORMER, dropout=0.3)), 2),
    **{
        f"{model.__name__}, {where}": (lambda m=model, c=config, where=where: m(replace(c, **{where: 0.3})), 1)
        for model, config, wheres in (
            (GPT, replace(GPT_2, dropout=0.0), ("dropout", "attention_dropout", "inner_dropout")),
            (Llama, LLAMA, ("dropout",)),
            (RNN, LSTM, ("dropout",)),
            (BiRNN, BILSTM, ("dropout",)),
            (Bert, BERT, ("dropout", "attention_dropout")),
            (ViT, VIT, ("dropout", "attention_dropout")),
        )
        for where in wheres
    },
}
DROPPING |= {
    f"{name}, padded": (lambda make=DROPPING[name][0]: padded_on_a_gpu(make()), 1)
    for name in DROPPING
    if name.startswith("Bert")
}


@pytest.mark.parametrize("name", DROPPING)
def test_dropout_acts_in_training_alone(name):
    make, texts = DROPPING[name]
    model, (ids, lengths) = make(), ten_texts()
    given = (ids, lengths) if isinstance(model, Bert | BiRNN) else (ids,) * texts
    given = (PIXELS,) if isinstance(model, ViT) else given
    assert not torch.equal(model(*given), model(*given))
    model.eval()
    assert torch.equal(model(*given), model(*given))
