"""What is particular to Marian's checkpoints: transformers and CTranslate2 search as we do."""

import json

import pytest
import torch
from checkpoints import KINDS, PIECES, opened_by_them, saved, theirs_of, transformers

from manyheads.interop.directory import load_model
from manyheads.models.transformer import Transformer
from manyheads.tasks.translate.use import decode_all


@pytest.fixture
def model() -> Transformer:
    """Norms and biases that are not one and zero, and logits that differ enough for a search to be decided."""
    torch.manual_seed(11)
    model = KINDS["MarianMTModel"].make().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        model.encoder.embedding.weight.mul_(3.0)
        model.output.bias[model.config.end] = 9.0  # so that sentences end
    return model


def sources(count: int) -> torch.Tensor:
    """Of which one in three is padded."""
    source = torch.randint(2, PIECES.pad, (count, 7))
    source[:, -1], source[1::3, 4:] = PIECES.end, PIECES.pad
    return source


def rows_of(source: torch.Tensor) -> list[list[int]]:
    return [[each for each in row if each != PIECES.pad] for row in source.tolist()]


def found_there(model, source, **options) -> list[list[int]]:
    limits = {"max_new_tokens": 12, "do_sample": False, "bad_words_ids": [[PIECES.pad]]}
    found = model.generate(input_ids=source, attention_mask=(source != PIECES.pad).long(), **limits, **options)
    return [_until_end(row[1:]) for row in found.tolist()]


def found_here(model, source, *, beam, count=1) -> list[list[int]]:
    found = decode_all(model, rows_of(source), beam=beam, alpha=0.0, limit=12)
    return [hypothesis.ids for row in found for hypothesis in row[:count]]


def _until_end(row: list[int]) -> list[int]:
    for stop in (PIECES.end, PIECES.pad):
        row = row[: row.index(stop)] if stop in row else row
    return row


def test_the_same_greedy_and_beam_output(tmp_path, model):
    theirs = transformers.MarianMTModel.from_pretrained(saved(tmp_path, model)).eval()
    source = sources(15)
    greedy = found_here(model, source, beam=1)
    assert found_there(theirs, source, num_beams=1) == greedy
    options = {"num_beams": 4, "length_penalty": 0.0, "early_stopping": False, "num_return_sequences": 4}
    beams = found_here(model, source, beam=4, count=4)
    assert found_there(theirs, source, **options) == beams
    assert beams[::4] != greedy  # beam search found something else somewhere
    assert any(len(ids) < 12 for ids in beams)  # and some sentences came to an end


def test_further_ends_of_generation_config_end_translations_too(tmp_path, model):
    directory, source = saved(tmp_path, model), sources(6)
    free = found_here(model, source, beam=1)
    further = next(ids[1] for ids in free if len(ids) > 1)
    table = json.loads((directory / "generation_config.json").read_text())
    (directory / "generation_config.json").write_text(json.dumps({**table, "eos_token_id": [PIECES.end, further]}))
    ours, _ = load_model(directory)
    found = found_here(ours, source, beam=1)
    assert found == [ids[: [*ids, further].index(further)] for ids in free] != free
    again = opened_by_them("MarianMTModel", saved(tmp_path / "again", ours))
    assert again.generation_config.eos_token_id == [PIECES.end, further]


def test_a_model_of_theirs_translates_alike_here(tmp_path):
    theirs, source = theirs_of("MarianMTModel"), sources(3)
    theirs.final_logits_bias.normal_()
    ours, _ = load_model(saved(tmp_path, theirs))
    assert found_there(theirs, source, num_beams=1) == found_here(ours, source, beam=1)


def test_ctranslate2_opens_it_and_translates_alike(tmp_path, model):
    ctranslate2 = pytest.importorskip("ctranslate2")
    directory, converted = saved(tmp_path / "model", model), tmp_path / "converted"
    ctranslate2.converters.TransformersConverter(str(directory)).convert(str(converted))
    engine = ctranslate2.Translator(str(converted), device="cpu", compute_type="float32")
    pieces = transformers.AutoTokenizer.from_pretrained(directory)
    source = sources(9)
    tokens = [pieces.convert_ids_to_tokens(row) for row in rows_of(source)]
    for beam in (1, 4):
        limits = {"max_decoding_length": 12, "min_decoding_length": 0}
        results = engine.translate_batch(tokens, beam_size=beam, length_penalty=0.0, **limits)
        found = [pieces.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
        assert found == found_here(model, source, beam=beam)
