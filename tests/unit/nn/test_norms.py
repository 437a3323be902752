import pytest
import torch
from torch.testing import assert_close

from manyheads.core.errors import ConfigError
from manyheads.nn.norms import build_norm


def test_rms_norm_divides_by_the_root_mean_square_and_keeps_the_mean():
    x = 3 * torch.randn(2, 5, 7) + 4
    y = build_norm("rms", 7, 1e-6)(x)
    assert_close(y, x / x.square().mean(-1, keepdim=True).add(1e-6).sqrt())
    assert (y.mean(-1).abs() > 0.1).any()


def test_epsilon_reaches_the_norm():
    x = torch.full((1, 7), 1e-3)
    x[0, 0] = 0
    for kind in ("layer", "rms"):
        assert not torch.allclose(build_norm(kind, 7, 1e-12)(x), build_norm(kind, 7, 1e-2)(x))


def test_an_unknown_norm_is_refused_with_the_names_that_are_known():
    with pytest.raises(ConfigError, match="layer or rms"):
        build_norm("batch", 7, 1e-5)
