"""How large images may be made, for recipes too; no torch."""

from manyheads.core.errors import ConfigError

LARGEST = 4096  # pixels along a side that a model reads


def refuse_large_side(name: str, size: int | None) -> None:
    """A side must not be longer than a model's own file may say; `name` is the field that says how long it is."""
    if size and size > LARGEST:
        raise ConfigError(f"{name} is {size:,}; images are made at most {LARGEST:,} pixels along a side")
