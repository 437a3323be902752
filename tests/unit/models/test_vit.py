"""ViT: sizes as published, and a last block that makes of the patches only what is read."""

import numpy as np
import pytest
import torch
from helpers import randomised
from torch.testing import assert_close

from manyheads.data.images import ImageProcessor
from manyheads.look.record import recorded_attention
from manyheads.models.vit import PRESETS, ViT, ViTClassifier, ViTConfig
from manyheads.ops.attention import reference
from manyheads.tasks.images.use import image_forward

SMALL = ViTConfig(image_size=15, patch_size=5, width=12, layers=3, heads=3, inner=14)
NAMES = ("a", "b", "c", "d", "e")
# With 1,000 labels, as timm, torchvision and transformers count them.
PUBLISHED = {
    "vit_ti16": 5_717_416,
    "vit_s16": 22_050_664,
    "vit_s32": 22_878_952,
    "vit_b8": 86_576_872,
    "vit_b16": 86_567_656,
    "vit_b32": 88_224_232,
    "vit_l16": 304_326_632,
    "vit_l32": 306_535_400,
}
WIDTHS = {"ti": (192, 12), "s": (384, 12), "b": (768, 12), "l": (1024, 24)}


def built() -> ViTClassifier:
    torch.manual_seed(1)
    return randomised(ViTClassifier(ViT(SMALL), NAMES))


@pytest.fixture
def pixels():
    return torch.randn(2, 3, 15, 15)


@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("patch", [8, 16, 32])
def test_presets_have_as_many_parameters_as_published(size, patch):
    name, labels = f"vit_{size}{patch}", tuple(map(str, range(1000)))
    with torch.device("meta"):
        model = ViTClassifier(ViT(PRESETS[name]()), labels)
    found = sum(parameter.numel() for parameter in model.parameters())
    width, layers = WIDTHS[size]
    embedded = width * (3 * patch**2 + 1) + width + width * (1 + (224 // patch) ** 2)
    # A block has four matrices of attention and eight in its feed-forward, nine biases of a width and two norms.
    blocks, norm, head = layers * (12 * width**2 + 9 * width + 4 * width), 2 * width, 1000 * (width + 1)
    assert found == embedded + blocks + norm + head
    assert found == PUBLISHED.get(name, found)


@pytest.mark.parametrize("kernel", ["sdpa", "reference"])
def test_the_classifier_reads_what_the_whole_model_makes_of_its_token(pixels, kernel):
    model = built().double()
    if kernel == "reference":
        for block in model.body.blocks:
            block.attention.kernel = reference  # type: ignore
    whole, pixels = model.states(pixels.double()), pixels.double()
    assert whole.shape == (2, 10, 12)
    assert_close(model.summary(pixels), whole[:, 0], rtol=0, atol=1e-12)
    assert_close(model(pixels), model.score(whole[:, 0]), rtol=0, atol=1e-12)
    assert not torch.allclose(model.summary(pixels), whole[:, 1])


def test_and_learns_the_same(pixels):
    model = built().double()
    aim = torch.linspace(-1, 1, 2 * len(NAMES)).view(2, -1)

    def gradients(scores):
        model.zero_grad()
        (scores * aim).sum().backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}  # type: ignore

    found, expected = gradients(model(pixels.double())), gradients(model.score(model.states(pixels.double())[:, 0]))
    for name, gradient in expected.items():
        assert_close(found[name], gradient, rtol=0, atol=1e-12, msg=lambda said, name=name: f"{name}: {said}")
    assert all(gradient.abs().max() > 0 for gradient in expected.values())


def test_the_last_block_makes_nothing_of_the_patches(pixels):
    model, rows = built(), []
    for block in model.body.blocks:
        block.feedforward.register_forward_hook(lambda _, given, __: rows.append(given[0].shape[1]))  # type: ignore
    model(pixels)
    assert rows == [10, 10, 1]
    rows.clear()
    model.states(pixels)
    assert rows == [10, 10, 10]


def test_every_part_of_the_image_reaches_the_scores(pixels):
    model, before = built(), built()(pixels)
    for row in range(0, 15, 5):
        for column in range(0, 15, 5):
            changed = pixels.clone()
            changed[0, :, row : row + 5, column : column + 5] += 1
            after = model(changed)
            assert not torch.allclose(after[0], before[0])
            assert_close(after[1], before[1])


def test_who_looks_at_a_picture_sees_what_every_patch_looks_at_in_the_last_layer_too():
    model = built().eval()
    picture = np.random.default_rng(3).integers(256, size=(15, 15, 3), dtype=np.uint8)
    passed = image_forward(model, ImageProcessor(size=15), picture)
    with torch.inference_mode(), recorded_attention(model) as weights:
        found = passed.run()
    assert [each.shape for each in weights.values()] == [(1, 3, 10, 10)] * 3
    given = ImageProcessor(size=15).normalised(torch.from_numpy(picture)[None])
    assert_close(found, model(given))


def test_it_compiles_as_one_graph(pixels):
    model = built()
    compiled = torch.compile(model.summary, backend="aot_eager", fullgraph=True)
    assert_close(compiled(pixels), model.summary(pixels))
