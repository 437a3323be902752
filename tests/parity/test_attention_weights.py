"""Recorded attention weights are those that transformers gives with output_attentions, whatever kernel runs here."""

import pytest
import torch
from checkpoints import KINDS, MARKED, PIECES, WORDS, pairs, saved, transformers

from manyheads.generate.beam import beam_search
from manyheads.generate.greedy import greedy
from manyheads.generate.prompts import PromptSteps
from manyheads.generate.steps import CachedSteps, SpecialIds
from manyheads.interop.directory import load_model
from manyheads.look.record import recorded_attention

NO_STOP = -1


def spread(model):
    """Queries and keys so large that attention is far from even, and another head's weights far from a head's own.

    What attention finds stays small beside what there was, so that tokens stay different up to the last layer.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            elif any(part in name for part in ("q_proj", "k_proj", "c_attn", "query", "key")):
                parameter.normal_(std=0.5)
    return model.eval()


def both(directory, name):
    """A model of theirs, and what is read here of the directory that it is saved in."""
    theirs = spread(getattr(transformers, name)(KINDS[name].their_config(attn_implementation="eager")))
    return load_model(saved(directory, theirs))[0], theirs


def assert_same(found, expected, rows=None):
    """[B, H, Q, K] of each layer, equal where `rows`, [B, Q], says so."""
    assert len(found) == len(expected) > 0
    for ours, theirs in zip(found, expected):
        assert ours.shape == theirs.shape
        every = torch.ones(ours.shape[0], ours.shape[2], dtype=torch.bool) if rows is None else rows
        ours, theirs = (each.transpose(1, 2)[every] for each in (ours, theirs))  # [rows, heads, columns]
        assert float((ours - theirs).abs().max()) <= 1e-5
        assert float((ours.roll(1, dims=1) - theirs).abs().max()) > 1e-2  # and the test can tell a head from the next
        surest, columns = theirs.max(dim=2).values, (theirs > 1e-4).sum(dim=2)
        assert float((surest - 1 / columns).max()) > 0.1  # and some look at one column more than at the others


def of_kind(weights, ending):
    return [each for name, each in weights.items() if name.endswith(ending)]


# Decoders


decoders = pytest.mark.parametrize("name", ["GPT2LMHeadModel", "LlamaForCausalLM"])


@decoders
@torch.inference_mode()
def test_weights_of_a_decoder(tmp_path, name):
    ours, theirs = both(tmp_path, name)
    ids = torch.randint(1, len(WORDS), (2, 11))
    with recorded_attention(ours) as weights:
        ours(ids)
    assert_same(list(weights.values()), theirs(ids, output_attentions=True).attentions)


@decoders
@torch.inference_mode()
def test_weights_of_a_text_that_is_generated(tmp_path, name):
    """Step by step through the cache on both sides."""
    ours, theirs = both(tmp_path, name)
    prompts, tokens = torch.randint(1, len(WORDS), (2, 5)), 7
    generated = theirs.generate(
        prompts,
        do_sample=False,
        max_new_tokens=tokens,
        eos_token_id=NO_STOP,
        pad_token_id=0,
        output_attentions=True,
        return_dict_in_generate=True,
    )
    with recorded_attention(ours) as weights:
        steps = PromptSteps(ours, prompts.tolist(), 5 + tokens)
        found = greedy(steps, torch.tensor([tokens] * 2), SpecialIds(), scored=False)
    assert [[*prompt, *each.ids] for prompt, each in zip(prompts.tolist(), found)] == generated.sequences.tolist()
    assert len(generated.attentions) == tokens  # the prompt, and one position after the other
    joined = []
    for layer in range(2):
        whole = torch.zeros(2, ours.config.heads, 5 + tokens - 1, 5 + tokens - 1)
        for step in generated.attentions:
            queries, keys = step[layer].shape[2:]
            whole[:, :, keys - queries : keys, :keys] = step[layer]
        joined.append(whole)
    assert_same(list(weights.values()), joined)


# Encoders


@pytest.fixture
def bert(tmp_path):
    return both(tmp_path, "BertModel")


@pytest.mark.parametrize("way", ["padded", "packed"])
@torch.inference_mode()
def test_weights_of_an_encoder_with_two_segments_and_padding(bert, way):
    ours, theirs = bert
    ids, lengths, inputs = pairs()
    with recorded_attention(ours) as weights:
        getattr(ours, way)(ours.embed(ids), lengths)
    real = inputs["attention_mask"].bool()
    assert_same(list(weights.values()), theirs(ids, **inputs, output_attentions=True).attentions, real)


@torch.inference_mode()
def test_weights_of_an_encoder_with_one_text(bert):
    ours, theirs = bert
    ids = torch.tensor([MARKED.wrapped(MARKED.encode(["a cat under the dog"])[0])])
    with recorded_attention(ours) as weights:
        ours(ids)
    assert_same(list(weights.values()), theirs(ids, output_attentions=True).attentions)


# Translators


@pytest.fixture
def marian(tmp_path):
    ours, theirs = both(tmp_path, "MarianMTModel")
    theirs.final_logits_bias[0, PIECES.end] = ours.output.bias[PIECES.end] = 2.0  # so that sentences end
    return ours, theirs


def sources():
    """Padded, and of different lengths."""
    source = torch.randint(2, PIECES.pad, (3, 7))
    source[:, -1] = PIECES.end
    source[1, 4:] = PIECES.pad
    source[1, 3] = PIECES.end
    return source


@torch.inference_mode()
def test_weights_of_a_translator(marian):
    ours, theirs = marian
    source, pad = sources(), PIECES.pad
    target = torch.randint(2, pad, (3, 5))
    with recorded_attention(ours) as weights:
        ours(source, target)
    real = source != pad
    found = theirs(input_ids=source, attention_mask=real.long(), decoder_input_ids=target, output_attentions=True)
    encoder = [each for name, each in weights.items() if name.startswith("encoder.")]
    decoder = of_kind({name: each for name, each in weights.items() if name.startswith("decoder.")}, "self_attention")
    assert_same(encoder, found.encoder_attentions, real)
    assert_same(decoder, found.decoder_attentions)
    assert_same(of_kind(weights, "cross_attention"), found.cross_attentions)
    assert len(weights) == 2 + 3 + 3
    assert not any(each[1, :, :, 4:].any() for each in of_kind(weights, "cross_attention"))


@torch.inference_mode()
def test_weights_of_what_a_beam_search_found(marian):
    """Beams change places while they are searched; the winner's rows are those of its own ids alone."""
    ours, theirs = marian
    source = sources()
    limits, vocabulary = torch.tensor([9, 6, 9]), SpecialIds(stop_ids=(PIECES.end,), banned=(PIECES.pad,))
    with recorded_attention(ours) as weights:
        steps = CachedSteps(ours, *ours.encode(source), 9, 4)
        best = [row[0].ids for row in beam_search(steps, limits, vocabulary, beams=4, alpha=0.6)]
    first = [row.ids for row in greedy(CachedSteps(ours, *ours.encode(source), 9), limits, vocabulary)]
    assert first != best  # so that the winner was not always the first beam
    cross, lengths = of_kind(weights, "cross_attention"), set()
    for row, ids in enumerate(best):
        before = [ours.config.start, *ids][: int(limits[row])]
        lengths.add(len(before))
        real = source[row] != PIECES.pad
        found = theirs(
            input_ids=source[row : row + 1, real], decoder_input_ids=torch.tensor([before]), output_attentions=True
        )
        seen = [each[row : row + 1, :, : len(before), real] for each in cross]
        assert_same(seen, found.cross_attentions)
    assert len(lengths) > 1  # so that some waited while others went on
