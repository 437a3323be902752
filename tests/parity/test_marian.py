"""Marian checkpoints, in both directions: transformers and CTranslate2 open ours, we open theirs."""

import json
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError
from manyheads.interop.directory import load_model, save_model
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.nn.positions import PositionsConfig
from manyheads.tasks.translate.use import Translator, decode_all
from manyheads.text.tokenizer import Tokenizer

transformers = pytest.importorskip("transformers")

LINES = ["the cat danced", "die Katze tanzte", "a dog sleeps under the table", "ein Hund schläft unter dem Tisch"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(LINES, 300)


def tiny(tokenizer, **changes) -> Transformer:
    config = TransformerConfig(
        **{
            **{"vocabulary": len(tokenizer), "width": 24, "heads": 3, "inner": 40, "layers": 2, "decoder_layers": 3},
            **{"pad": tokenizer.pad, "start": tokenizer.start, "end": tokenizer.end},
            **changes,
        }
    )
    torch.manual_seed(11)
    model = Transformer(config).eval()
    with torch.no_grad():
        # Norms and biases that are not one and zero, and logits that differ enough for a search to be decided.
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        model.encoder.embedding.weight.mul_(3.0)
        model.output.bias[config.end] = 9.0  # so that sentences end
    return model


def batch(tokenizer):
    source = torch.randint(2, tokenizer.pad, (3, 7))
    source[:, -1] = tokenizer.end
    source[1, 4:] = tokenizer.pad
    return source, torch.randint(2, tokenizer.pad, (3, 5))


def rows_of(source, pad):
    return [[each for each in row if each != pad] for row in source.tolist()]


@pytest.fixture
def saved(tmp_path, tokenizer):
    model = tiny(tokenizer)
    save_model(tmp_path / "model", model, tokenizer, "card")
    return tmp_path / "model", model


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_transformers_gives_our_logits(tmp_path, tokenizer, activation):
    model = tiny(tokenizer, activation=activation)
    save_model(tmp_path / "model", model, tokenizer, "card")
    theirs, report = transformers.MarianMTModel.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    source, target = batch(tokenizer)
    with torch.no_grad():
        found = theirs.eval()(
            input_ids=source, attention_mask=(source != tokenizer.pad).long(), decoder_input_ids=target
        ).logits
        assert_close(found, model(source, target), atol=1e-4, rtol=0)
        assert not torch.allclose(found, model(source.flip(0), target), atol=1e-2)  # and the test can tell


def test_we_give_the_logits_of_a_model_of_theirs(tmp_path, tokenizer):
    config = transformers.MarianConfig(
        **{"vocab_size": len(tokenizer), "d_model": 24, "encoder_layers": 2, "decoder_layers": 1, "init_std": 0.2},
        **{"encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40},
        **{"activation_function": "swish", "pad_token_id": tokenizer.pad, "eos_token_id": tokenizer.end},
        **{"decoder_start_token_id": tokenizer.pad, "forced_eos_token_id": None, "scale_embedding": True},
    )
    theirs = transformers.MarianMTModel(config).eval()
    theirs.final_logits_bias.normal_()
    theirs.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    ours, _ = load_model(tmp_path)
    source, target = batch(tokenizer)
    with torch.no_grad():
        expected = theirs(
            input_ids=source, attention_mask=(source != tokenizer.pad).long(), decoder_input_ids=target
        ).logits
        assert_close(ours(source, target), expected, atol=1e-4, rtol=0)
    assert _theirs(theirs, source, tokenizer, num_beams=1) == _ours(ours, source, tokenizer, beam=1)


def _theirs(model, source, tokenizer, **options):
    found = model.generate(
        input_ids=source,
        attention_mask=(source != tokenizer.pad).long(),
        max_new_tokens=12,
        do_sample=False,
        bad_words_ids=[[tokenizer.pad]],
        **options,
    )
    return [_until_end(row[1:], tokenizer) for row in found.tolist()]


def _ours(model, source, tokenizer, *, beam, alpha=0.0, count=1):
    found = decode_all(model, rows_of(source, tokenizer.pad), beam=beam, alpha=alpha, limit=12)
    return [hypothesis.ids for row in found for hypothesis in row[:count]]


def _until_end(row, tokenizer):
    for stop in (tokenizer.end, tokenizer.pad):
        row = row[: row.index(stop)] if stop in row else row
    return row


def test_the_same_greedy_and_beam_output(saved, tokenizer):
    directory, model = saved
    theirs = transformers.MarianMTModel.from_pretrained(directory).eval()
    source = torch.cat([batch(tokenizer)[0] for _ in range(5)])
    greedy = _ours(model, source, tokenizer, beam=1)
    assert _theirs(theirs, source, tokenizer, num_beams=1) == greedy
    options = {"num_beams": 4, "length_penalty": 0.0, "early_stopping": False, "num_return_sequences": 4}
    beams = _ours(model, source, tokenizer, beam=4, count=4)
    assert _theirs(theirs, source, tokenizer, **options) == beams
    assert beams[::4] != greedy  # beam search found something else somewhere
    assert any(len(ids) < 12 for ids in beams)  # and some sentences came to an end


def test_their_tokenizer_reads_ours(saved, tokenizer):
    theirs = transformers.AutoTokenizer.from_pretrained(saved[0])
    assert theirs(LINES).input_ids == tokenizer.encode(LINES)


def test_ctranslate2_opens_it_and_translates_alike(saved, tokenizer, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    directory, model = saved
    converted = tmp_path / "converted"
    ctranslate2.converters.TransformersConverter(str(directory)).convert(str(converted))
    engine = ctranslate2.Translator(str(converted), device="cpu", compute_type="float32")
    pieces = transformers.AutoTokenizer.from_pretrained(directory)
    source = torch.cat([batch(tokenizer)[0] for _ in range(3)])
    tokens = [pieces.convert_ids_to_tokens(row) for row in rows_of(source, tokenizer.pad)]
    for beam in (1, 4):
        limits = {"max_decoding_length": 12, "min_decoding_length": 0}
        results = engine.translate_batch(tokens, beam_size=beam, length_penalty=0.0, **limits)
        found = [pieces.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
        assert found == _ours(model, source, tokenizer, beam=beam)


def test_what_marian_cannot_express_keeps_our_own_type_and_comes_back_equal(tmp_path, tokenizer):
    changes = {"positions": PositionsConfig(kind="rotary"), "norm_order": "pre", "tied": False, "key_value_heads": 1}
    model = tiny(tokenizer, **changes)
    save_model(tmp_path / "model", model, tokenizer, "card")
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "manyheads-transformer"
    again, _ = load_model(tmp_path / "model")
    assert again.config == model.config
    source, target = batch(tokenizer)
    assert torch.equal(again(source, target), model(source, target))


def test_left_over_and_missing_tensors_are_errors(saved):
    from safetensors.torch import load_file, save_file

    directory, _ = saved
    tensors = load_file(directory / "model.safetensors")
    extra = {**tensors, "model.encoder.layers.0.extra.weight": torch.zeros(1)}
    save_file(extra, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match="extra"):
        load_model(directory)
    tensors.pop("model.decoder.layers.2.fc1.bias")
    save_file(tensors, directory / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.2\.fc1\.bias"):
        load_model(directory)


def test_a_pickle_is_refused(saved):
    directory, _ = saved
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="pickle"):
        load_model(directory)


def test_a_translator_of_another_kind_is_refused(saved):
    directory, _ = saved
    (directory / "config.json").write_text(json.dumps({"model_type": "t5"}))
    with pytest.raises(CheckpointError, match="t5"):
        Translator.load(directory)


def test_embeddings_kept_apart_are_refused(saved):
    directory, model = saved
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "share_encoder_decoder_embeddings": False}))
    with pytest.raises(CheckpointError, match="apart"):
        load_model(directory)
    assert replace(model.config, tied=True) == model.config
