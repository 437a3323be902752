"""The model card: README.md of a model directory, with front matter that model hubs read."""

import manyheads


def translation_card(recipe: str, pairs: int, which: str, scores: dict[str, float], signature: str) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    shown = "\n".join(f"| {name} | {value:.3f} |" for name, value in scores.items())
    return f"""---
library_name: manyheads
pipeline_tag: translation
---
# A translator trained with manyheads {manyheads.__version__}

An encoder-decoder Transformer (Vaswani et al. 2017), trained on {pairs:,} sentence pairs; these are its weights
{which}. `manyheads translate`, `manyheads.Translator` and, where `config.json` says `"model_type": "marian"`,
`transformers.MarianMTModel` and CTranslate2 open this directory.

| on validation data | |
| --- | --- |
{shown}

BLEU is of greedy search (`{signature}`); loss is the negative log-likelihood of a token.

## Recipe
```toml
{recipe.strip()}
```
"""
