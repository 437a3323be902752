"""Objectives: what a batch asks of a model.  Shapes:  B batch  T positions  N positions that count  W width"""

from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.ops.chart import log_partition
from manyheads.ops.losses import smoothed_cross_entropy
from manyheads.ops.masks import document_mask


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, so that batches of any size can be added up."""

    total: Tensor
    """What training makes small, with label smoothing."""
    likelihood: Tensor
    """Negative log-likelihood, for perplexity."""
    tokens: int


def translation_loss(
    model, batch, *, smoothing: float = 0.0, source: tuple[Tensor, ...] | None = None, word_dropout: float = 0.0
) -> Loss:
    """Each target token from those before it, of which some are hidden, and the source: the batch's, or others that
    the model reads together."""
    pad, start = model.config.pad, model.config.start
    before_BT = torch.cat([torch.full_like(batch.target[:, :1], start), batch.target[:, :-1]], dim=1)
    if word_dropout:  # what is hidden is as padding, whose embedding is zero
        before_BT = before_BT.masked_fill(torch.rand(before_BT.shape, device=before_BT.device) < word_dropout, pad)
    states_BTW, real_BT = model.states(*(source or (batch.source,)), before_BT), batch.target != pad
    total, likelihood = _predicted(model.output, states_BTW, batch.target, real_BT, smoothing=smoothing, never=pad)
    return Loss(total, likelihood, batch.target_tokens)


def language_loss(model, batch, *, smoothing: float = 0.0, document_end: int | None = None, state=None) -> Loss:
    """Each token from those before it; with `document_end`, from those of its own document alone.

    A model that reads on goes on from `state`, which is behind the batch afterwards.
    """
    inputs_BT, targets_BT = batch.ids[:, :-1], batch.ids[:, 1:]
    mask = None if document_end is None else document_mask(inputs_BT, document_end)
    states_BTW = model.states(inputs_BT, mask) if state is None else model.states(inputs_BT, mask, state)
    total, likelihood = _predicted(model.output, states_BTW, targets_BT, batch.counted, smoothing=smoothing)
    return Loss(total, likelihood, batch.target_tokens)


def _predicted(
    output, states_BTW: Tensor, targets_BT: Tensor, counted_BT: Tensor | None, **settings
) -> tuple[Tensor, Tensor]:
    """The cross-entropy of the targets that count, or of all; the vocabulary is only multiplied there."""
    states_NW, targets_N = states_BTW.flatten(0, 1), targets_BT.flatten()
    if counted_BT is not None:
        counted = counted_BT.flatten().nonzero().squeeze(1)
        states_NW, targets_N = states_NW.index_select(0, counted), targets_N.index_select(0, counted)
    return smoothed_cross_entropy(states_NW, output.weight, output.bias, targets_N, **settings)


def classification_loss(model, batch, *, auxiliary: float = 0.0) -> Loss:
    """The right label, or number, of each example, and `auxiliary` times a language model's loss on the same texts.

    Both are sums over examples (Radford et al. 2018, section 3.2), the second with the mean over the batch's tokens as
    the loss of each; `likelihood` is that of the labels alone.
    """
    if not auxiliary:
        loss = label_loss(compared(model(batch.ids, batch.lengths), batch.candidates), batch.labels)
        return Loss(loss, loss.detach(), batch.target_tokens)
    states_BTW = model.states(batch.ids)
    loss = label_loss(compared(model.scores(states_BTW, batch.lengths), batch.candidates), batch.labels)
    positions_T = torch.arange(batch.ids.shape[1] - 1, device=batch.ids.device)
    real_BT = positions_T < batch.lengths[:, None] - 1
    text_loss, _ = _predicted(model.body.output, states_BTW[:, :-1], batch.ids[:, 1:], real_BT)
    total = loss + auxiliary * batch.target_tokens * text_loss / real_BT.sum()
    return Loss(total, loss.detach(), batch.target_tokens)


def image_loss(scores, targets, *, smoothing: float = 0.0) -> Loss:
    """The right label of each image, or the shares of those it was mixed of; `likelihood` is without smoothing."""
    scores_BL = scores.float()
    likelihood = torch.nn.functional.cross_entropy(scores_BL, targets, reduction="sum")
    total = likelihood
    if smoothing:
        total = torch.nn.functional.cross_entropy(scores_BL, targets, reduction="sum", label_smoothing=smoothing)
    return Loss(total, likelihood.detach(), len(targets))


def label_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Summed over examples: the negative log-likelihood of labels, or the squared error of numbers."""
    if labels.is_floating_point():
        return torch.nn.functional.mse_loss(scores[:, 0].float(), labels, reduction="sum")
    return torch.nn.functional.cross_entropy(scores.float(), labels, reduction="sum")


def masked_loss(model, batch) -> Loss:
    """Each chosen word from all others, and whether the second text follows: the sum of both means, times the words.

    Devlin et al. (2019), appendix A.2; `likelihood` is that of the words alone.
    """
    states_BTW = model.body(batch.ids, batch.lengths)
    chosen_NW = states_BTW.flatten(0, 1).index_select(0, batch.places)
    total, likelihood = smoothed_cross_entropy(
        model.guesses(chosen_NW), model.body.embedding.weight, model.bias, batch.targets
    )
    if batch.follows is not None:
        logits = model.following(states_BTW).float()
        total = total + batch.target_tokens * torch.nn.functional.cross_entropy(logits, 1 - batch.follows)
    return Loss(total, likelihood, batch.target_tokens)


def compared(scores: Tensor, candidates: Tensor | None) -> Tensor:
    """Scores of rows as those of examples: with `candidates`, [examples, choices], each choice is a row, -1 is none."""
    if candidates is None:
        return scores
    return scores[:, 0][candidates.clamp(min=0)].masked_fill(candidates < 0, -torch.inf)


def tagging_loss(model, batch) -> Loss:
    """The label of each word, where its first piece stands; positions of which nothing is asked count for nothing."""
    loss = tag_loss(model(batch.ids, batch.lengths), batch.labels)
    return Loss(loss, loss.detach(), batch.target_tokens)


def tag_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """The negative log-likelihood of labels, [B, T], summed over the positions that have one; -1 is none."""
    flat = scores.flatten(0, 1).float()
    return torch.nn.functional.cross_entropy(flat, labels.flatten(), ignore_index=-1, reduction="sum")


def parsing_loss(model, batch) -> Loss:
    """The negative log-likelihood of each sentence's tree among all trees, and that of the words' tags."""
    states_BTW = model.states(batch.ids, batch.lengths)
    scores_BIIL = model.span_scores(states_BTW, batch.before, batch.behind).float()
    tree = tree_loss(scores_BIIL, batch.labels, batch.words, batch.ways)
    return Loss(
        tree + tag_loss(model.tag_scores(states_BTW, batch.behind), batch.tags), tree.detach(), batch.target_tokens
    )


def tree_loss(scores_BIIL: Tensor, labels_BII: Tensor, words_B: Tensor, ways_B: Tensor) -> Tensor:
    """How unlikely the trees are whose spans have these labels, 0 for none, summed over sentences of so many words.

    `ways_B` are the logarithms of how many binary trees each is, which differ in spans without a label, that score 0.
    """
    right = scores_BIIL.gather(-1, labels_BII[..., None]).sum() + ways_B.sum()
    return log_partition(scores_BIIL.logsumexp(dim=-1), words_B).sum() - right


def answer_loss(model, batch) -> Loss:
    """Where the answer begins and ends in each window, or that it has none, which is said by pointing at its start."""
    loss = span_loss(model(batch.ids, batch.lengths), batch.lengths, batch.starts, batch.ends)
    return Loss(loss, loss.detach(), batch.target_tokens)


def span_loss(scores: Tensor, lengths: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """The negative log-likelihood of first and last positions by scores, [B, T, 2]: the mean of both, summed over B.

    Positions from `lengths` on are padding, which nothing points at.
    """
    padding_BT = torch.arange(scores.shape[1], device=scores.device) >= lengths[:, None]
    real = scores.float().masked_fill(padding_BT[:, :, None], -torch.inf)
    return torch.nn.functional.cross_entropy(real, torch.stack([starts, ends], dim=1), reduction="sum") / 2


COSINE_SCALE = 20.0  # a cosine ends at 1, which as a logit would leave every candidate likely


def similarity_loss(model, batch) -> Loss:
    """The cosine of each pair is to be its score; without scores, each first text is to find its own second text.

    The latter is known as multiple negatives ranking: the other second texts of the batch are the wrong answers.
    """
    loss = label_loss(cosine_scores(model(batch.ids, batch.lengths), batch.candidates), batch.labels)
    return Loss(loss, loss.detach(), batch.target_tokens)


def cosine_scores(vectors: Tensor, candidates: Tensor | None) -> Tensor:
    """Cosines of the first half of the vectors with the second half: each with its own, [pairs, 1].

    With `candidates`, [pairs, pairs], they are the logits of each with every candidate, scaled.
    """
    # Half precision cannot tell cosines near 1 apart.
    with torch.autocast(vectors.device.type, enabled=False):
        first, second = torch.nn.functional.normalize(vectors.float(), dim=-1).chunk(2)
        if candidates is None:
            return (first * second).sum(dim=-1, keepdim=True)
        return (COSINE_SCALE * first @ second.T).masked_fill(~candidates, -torch.inf)
