"""The model card: README.md of a model directory, with front matter that model hubs read."""

from typing import Any

import manyheads
from manyheads.core.configs import to_toml


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
