"""A captioner is transformers' VisionEncoderDecoderModel of a ViT and Marian's decoder, both ways."""

import json

import pytest
import torch
from checkpoints import PIECES, transformers
from helpers import changed, config_of, randomised, rewritten, unsealed
from torch.testing import assert_close

from manyheads.core.errors import CheckpointError
from manyheads.data.image_text import ImageTextProcessor
from manyheads.data.images import ImageProcessor
from manyheads.generate.steps import SpecialIds
from manyheads.interop.directory import load_model, save_model
from manyheads.models.vision_encoder_decoder import (
    VisionEncoderDecoder,
    VisionEncoderDecoderConfig,
    VisionQuestionDecoder,
)
from manyheads.tasks.caption.use import decode_seen

SIZES = {"image_size": 15, "patch_size": 5, "width": 24, "layers": 2, "decoder_layers": 3, "heads": 3, "inner": 40}
IDS = {"vocabulary": len(PIECES), "pad": PIECES.pad, "start": PIECES.start, "end": PIECES.end}
PROCESSOR = ImageTextProcessor(ImageProcessor.of(15, 3), PIECES)


def ours_of(network=VisionEncoderDecoder, **changes):
    return randomised(network(VisionEncoderDecoderConfig(**{**SIZES, **IDS, "activation": "relu", **changes}))).eval()


def theirs_of(encoder=None, decoder=None):
    sizes = {"num_attention_heads": 3, "intermediate_size": 40, "hidden_act": "relu", "layer_norm_eps": 1e-5}
    seen = transformers.ViTConfig(
        **{"image_size": 15, "patch_size": 5, "hidden_size": 24, "num_hidden_layers": 2, **sizes, **(encoder or {})}
    )
    sizes = {"vocab_size": len(PIECES), "d_model": 24, "decoder_layers": 3, "decoder_attention_heads": 3}
    ids = {"pad_token_id": PIECES.pad, "eos_token_id": PIECES.end, "decoder_start_token_id": PIECES.pad}
    ways = {"activation_function": "relu", "scale_embedding": True, "decoder_ffn_dim": 40, "forced_eos_token_id": None}
    written = transformers.MarianConfig(**{**sizes, **ids, **ways, **(decoder or {})})
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(seen, written)
    config.decoder_start_token_id, config.pad_token_id, config.eos_token_id = PIECES.pad, PIECES.pad, PIECES.end
    return randomised(transformers.VisionEncoderDecoderModel(config)).eval()


def saved(directory, model):
    if isinstance(model, transformers.PreTrainedModel):
        model.save_pretrained(directory)
        PROCESSOR.save(directory)
    else:
        save_model(directory, model, PROCESSOR, "card")
    return unsealed(directory)


def images() -> torch.Tensor:
    return torch.randn(3, 3, 15, 15, generator=torch.Generator().manual_seed(3))


def assert_equal_captioners(ours, theirs) -> None:
    pixels, target = images(), torch.randint(2, PIECES.pad, (3, 5), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        mine = ours(pixels, target)
        expected = theirs(pixel_values=pixels, decoder_input_ids=target).logits
        other = ours(pixels.flip(0), target)
    real = [each for each in range(mine.shape[2]) if each != PIECES.pad]  # which ours never writes
    assert_close(mine[..., real], expected[..., real], atol=1e-4, rtol=0)
    assert not torch.allclose(other[..., real], expected[..., real], atol=1e-2)  # and the test can tell


@pytest.mark.parametrize("changes", [{}, {"channels": 1, "patch_size": 3}, {"activation": "gelu", "inner": None}])
def test_ours_opens_there(tmp_path, changes):
    ours = ours_of(**changes)
    if "channels" in changes:
        save_model(tmp_path, ours, ImageTextProcessor(ImageProcessor.of(15, 1), PIECES), "card")
        table = config_of(unsealed(tmp_path))
        assert (table["model_type"], table["encoder"]["num_channels"]) == ("vision-encoder-decoder", 1)
        again = load_model(tmp_path)[0]
        grey = images()[:, :1]
        target = torch.full((3, 2), 2)
        theirs = transformers.VisionEncoderDecoderModel.from_pretrained(tmp_path).eval()
        with torch.no_grad():
            assert torch.equal(again(grey, target), ours(grey, target))
            expected = theirs(pixel_values=grey, decoder_input_ids=target).logits[..., : PIECES.pad]
        assert_close(ours(grey, target)[..., : PIECES.pad], expected, atol=1e-4, rtol=0)
        return
    theirs = transformers.VisionEncoderDecoderModel.from_pretrained(saved(tmp_path, ours)).eval()
    assert_equal_captioners(ours, theirs)


def test_theirs_opens_here_and_goes_back(tmp_path):
    theirs = theirs_of()
    ours, processor = load_model(saved(tmp_path / "theirs", theirs))
    assert type(ours) is VisionEncoderDecoder
    assert isinstance(processor, ImageTextProcessor)
    assert_equal_captioners(ours, theirs)
    again = transformers.VisionEncoderDecoderModel.from_pretrained(saved(tmp_path / "again", ours)).eval()
    assert_equal_captioners(ours, again)


@pytest.mark.parametrize("beams", [1, 4])
def test_the_same_ids_are_written_there(tmp_path, beams):
    ours = ours_of()
    theirs = transformers.VisionEncoderDecoderModel.from_pretrained(saved(tmp_path, ours)).eval()
    with torch.no_grad():
        written = theirs.generate(pixel_values=images(), max_new_tokens=9, num_beams=beams, do_sample=False)
    mine = decode_seen(ours, (images(),), beam=beams, alpha=1.0, tokens=9)
    special = SpecialIds(stop_ids=(PIECES.end,), banned=(PIECES.pad,))
    for row, expected in zip(mine, written.tolist()):
        found = [each for each in expected[1:] if each not in (*special.stop_ids, PIECES.pad)]
        assert row[0].ids[: len(found)] == found
        assert len(found) > 0


def test_their_processors_open_its_directory(tmp_path):
    saved(tmp_path, ours_of())
    text = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert text.decode(PIECES.encode(["the cat danced"])[0], skip_special_tokens=True).strip() == "the cat danced"
    assert transformers.ViTImageProcessor.from_pretrained(tmp_path).size == {"height": 15, "width": 15}


def test_names_of_today_and_a_start_that_only_the_decoder_says(tmp_path):
    theirs = theirs_of()
    saved(tmp_path, theirs)
    before = config_of(tmp_path)
    changed(tmp_path, decoder_start_token_id=None, decoder={**before["decoder"], "decoder_start_token_id": PIECES.pad})
    held = {name: tensor.contiguous() for name, tensor in theirs.state_dict().items()}
    rewritten(tmp_path, lambda kept: {name: held[name] for name in held if name in kept or name.startswith("encoder.")})
    ours, _ = load_model(tmp_path)
    assert ours.config.start == PIECES.pad
    assert_equal_captioners(ours, theirs)


def test_what_reads_questions_is_of_our_own_type(tmp_path):
    model = ours_of(VisionQuestionDecoder)
    table = config_of(saved(tmp_path, model))
    assert table["model_type"] == "manyheads-vision-encoder-decoder"
    assert table["architectures"] == ["VisionQuestionDecoder"]
    again, _ = load_model(tmp_path)
    question, target = torch.tensor([[2, 3]] * 3), torch.full((3, 2), 2)
    assert torch.equal(again(images(), question, target), model(images(), question, target))


@pytest.mark.parametrize(
    ("side", "said", "sentence"),
    [
        ("encoder", {"qkv_bias": False}, "its encoder"),
        ("encoder", {"model_type": "deit"}, "its encoder is of type deit; only one of type vit can be opened"),
        ("decoder", {"model_type": "gpt2"}, "its decoder is of type gpt2; only one of type marian can be opened"),
        ("decoder", {"d_model": 48}, "width of its encoder is 24, of its decoder 48"),
        ("decoder", {"tie_word_embeddings": False}, "its decoder"),
        ("decoder", {"scale_embedding": False}, "does not scale embeddings"),
        ("encoder", {"patch_size": 4}, "images of 15 pixels, which do not split into patches of 4"),
    ],
)
def test_what_ours_cannot_be_is_one_sentence(tmp_path, side, said, sentence):
    directory = saved(tmp_path, theirs_of())
    load_model(directory)
    table = config_of(directory)
    (directory / "config.json").write_text(json.dumps({**table, side: {**table[side], **said}}))
    with pytest.raises(CheckpointError, match=sentence) as refused:
        load_model(directory)
    assert "\n" not in str(refused.value)
