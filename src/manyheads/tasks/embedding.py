"""Word vectors of a file as the beginning of a model's embedding, whatever the task; frozen or not."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.core.errors import ConfigError, DataError
from manyheads.core.log import say, warn
from manyheads.data.readers.vectors import layout_of, read_vectors
from manyheads.models.bert import MaskedBert
from manyheads.nn.layers import OutputProjection, TokenEmbedding

FEW = 0.5  # of the words that tokens stand for: under so many in the file something is likely amiss


def embeddings_of(model: nn.Module) -> list[TokenEmbedding]:
    """The embeddings of tokens, each once; a BERT's of segments is none."""
    named = [each for name, each in model.named_modules() if f".{name}".endswith(".embedding")]
    return [each for each in named if isinstance(each, TokenEmbedding)]


def refuse_unfit_vectors(recipe: Any, model: nn.Module) -> None:
    """Vectors that this model cannot begin with are refused before anything is written; it may be without memory."""
    data = recipe.data
    if getattr(recipe, "fine_tune", None) and recipe.fine_tune.model:
        raise ConfigError(
            f"both data.vectors and the pre-trained model {recipe.fine_tune.model} say what the embedding begins with; "
            "give one of them"
        )
    embeddings = embeddings_of(model)
    if not embeddings:
        what = type(model).__name__
        raise ConfigError(f"data.vectors are for a model with an embedding, which {what} has none of; leave them away")
    found, width = layout_of(Path(data.vectors)).width, embeddings[0].weight.shape[1]
    if found != width:
        field = "embedding_width" if hasattr(recipe.model, "embedding_width") else "width"
        raise ConfigError(
            f"{data.vectors} has vectors of {found} numbers, but the model's embedding has {width}; make it "
            f"--set model.{field}={found}, or give other vectors"
        )
    if data.freeze_vectors:
        _refuse_frozen_output(recipe, model, embeddings)


def _refuse_frozen_output(recipe: Any, model: nn.Module, embeddings: list[TokenEmbedding]) -> None:
    """An output layer that is the embedding itself must learn."""
    weights = [each.weight for each in embeddings]
    outputs = [each.weight for each in model.modules() if isinstance(each, OutputProjection)]
    if isinstance(model, MaskedBert):
        raise ConfigError(
            "a masked language model's guesses are compared with its embedding, which data.freeze_vectors would keep "
            "from learning; leave that away"
        )
    if any(output is weight for output in outputs for weight in weights):
        raise ConfigError(
            "the output layer is the embedding, which data.freeze_vectors would keep from learning; add --set "
            "model.tied=false"
        )


@torch.no_grad()
def begin_with_vectors(model: nn.Module, processor: Any, path: Path) -> None:
    """Gives each token that stands for a word of the file its vector, as it is there or else in small letters.

    All other rows are drawn with the deviation of the vectors that were found, as Kim (2014) had them; where a model
    multiplies what it looks up, rows are divided by that first, so that it begins with the vectors as they are.
    """
    words = processor.words()
    found = read_vectors(path, {form for word in words.values() for form in (word, word.lower())})
    place = {word: row for row, word in enumerate(found.words)}
    rows = {each: place.get(word, place.get(word.lower())) for each, word in words.items()}
    rows = {each: row for each, row in rows.items() if row is not None}
    if not rows:
        raise DataError(f"none of the {len(processor):,} tokens is a word of {path}; give vectors of the same language")
    say(
        f"{len(rows):,} of {len(words):,} words among the {len(processor):,} tokens have vectors in {path}; "
        "all else is drawn alike"
    )
    if len(rows) < FEW * len(words):
        warn(f"only {100 * len(rows) / len(words):.0f} % of the words have vectors in {path}; is it of this language?")
    vectors = torch.from_numpy(found.matrix)[list(rows.values())]
    for embedding in embeddings_of(model):
        drawn = torch.randn(embedding.weight.shape) * vectors.std()
        drawn[list(rows)] = vectors
        if embedding.pad is not None:
            drawn[embedding.pad] = 0.0
        embedding.weight.copy_(drawn / embedding.scale)


def freeze_embeddings(model: nn.Module) -> None:
    """Keeps them from learning."""
    for embedding in embeddings_of(model):
        embedding.weight.requires_grad_(False)
