"""The model card: README.md of a model directory, with front matter that model hubs read; and a model in a line."""

from typing import Any

import manyheads
from manyheads.core.configs import to_toml
from manyheads.core.words import counted


def in_a_line(predictor: Any) -> str:
    """What is ready to use: its model with its sizes and labels, where it is and what it was loaded from."""
    model, config, names = predictor.model, predictor.model.config, getattr(predictor, "names", ())
    layers = counted(config.layers, "layer")
    if hasattr(config, "decoder_layers"):
        layers = f"{config.layers}+{config.decoder_layers or config.layers} layers"
    parts = [
        type(model).__name__,
        f"{layers} of width {config.width}",
        f"{sum(each.numel() for each in model.parameters()):,} parameters",
        *([f"{config.vocabulary:,} tokens"] if hasattr(config, "vocabulary") else []),
        *([f"labels {', '.join(names)}"] if names else []),
        f"on {predictor.device}",
        *([f"from {predictor.path}"] if predictor.path else []),
    ]
    return f"{type(predictor).__name__}({', '.join(parts)})"


def model_card(
    recipe: Any,
    scores: dict[str, float],
    *,
    pipeline_tag: str,
    title: str,
    about: str,
    meaning: str,
    library: str = "manyheads",
) -> str:
    """What the model is, how well it did on validation data and what that means, and how it was trained."""
    table = "\n".join(f"| {name} | {value:.4f} |" for name, value in scores.items())
    return f"""---
library_name: {library}
pipeline_tag: {pipeline_tag}
---
# {title} trained with manyheads {manyheads.__version__}

{about.strip()}

| on validation data | |
| --- | --- |
{table}

{meaning.strip()}

## Recipe
```toml
{to_toml(recipe).strip()}
```
"""
