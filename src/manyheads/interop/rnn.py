"""Recurrent models: no other library has a type for them, so that they are always saved under ours."""

from typing import Any

from torch import Tensor

from manyheads.interop.foreign import Decoder
from manyheads.models.rnn import RNN


class RNNNames(Decoder):
    """A recurrent language model, or a classifier on top of one; there are no foreign names to read or write."""

    TYPES = ()
    SCHEMA = {}  # noqa: RUF012
    model = RNN

    def fits(self, model: Any) -> bool:
        return False

    def write_config(self, config: Any) -> dict[str, Any]:
        raise NotImplementedError

    def read_config(self, table: dict[str, Any]) -> Any:
        raise NotImplementedError

    def name(self, config: Any) -> str:
        raise NotImplementedError

    def body_views(self, body: Any) -> dict[str, Tensor]:
        raise NotImplementedError
