"""The model card: README.md of a model directory, with front matter that model hubs read."""

import manyheads


def translation_card(recipe: str, pairs: int, which: str, scores: dict[str, float], signature: str) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
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
{_table(scores)}

BLEU is of greedy search (`{signature}`); loss is the negative log-likelihood of a token.

## Recipe
```toml
{recipe.strip()}
```
"""


def language_card(recipe: str, which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    return f"""---
library_name: manyheads
pipeline_tag: text-generation
---
# A language model trained with manyheads {manyheads.__version__}

A decoder-only Transformer; these are its weights {which}. `manyheads generate`, `manyheads.LanguageModel` and, where
`config.json` says gpt2, openai-gpt or llama, `transformers` open this directory.

| on validation data | |
| --- | --- |
{_table(scores)}

Loss is the negative log-likelihood of a token, in nats; perplexity is its exponential.

## Recipe
```toml
{recipe.strip()}
```
"""


def classifier_card(
    recipe: str, examples: int, form: str, names: tuple[str, ...], which: str, scores: dict[str, float]
) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    shape = {
        "text": "`<start> text <extract>`",
        "pair": "`<start> text <delimiter> text <extract>`",
        "choice": "`<start> context <delimiter> choice <extract>`, once for each choice",
    }[form]
    labels = f"Its labels are {', '.join(names)}." if names else "It says which choice fits its context best."
    return f"""---
library_name: manyheads
pipeline_tag: text-classification
---
# A classifier trained with manyheads {manyheads.__version__}

A decoder-only Transformer with one linear layer on the state of its last token, trained on {examples:,} examples as
GPT-1 was fine-tuned (Radford et al. 2018); these are its weights {which}. It reads
{shape}. {labels}
`manyheads classify`, `manyheads.tasks.classify.Classifier` and, where `config.json` says gpt2, openai-gpt or llama,
transformers' `AutoModelForSequenceClassification` open this directory.

| on validation data | |
| --- | --- |
{_table(scores)}

Accuracy is in percent; loss is the negative log-likelihood of a label.

## Recipe
```toml
{recipe.strip()}
```
"""


def masked_card(recipe: str, next_sentence: bool, which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    both = ", and to tell whether a text follows another" if next_sentence else ""
    kind = "BertForPreTraining" if next_sentence else "BertForMaskedLM"
    return f"""---
library_name: manyheads
pipeline_tag: fill-mask
---
# A masked language model trained with manyheads {manyheads.__version__}

An encoder, pre-trained as BERT was (Devlin et al. 2019) to guess hidden words{both}; these are its weights {which}.
`manyheads fill`, `manyheads.Filler` and transformers' `{kind}` open this directory; `manyheads train classify`, `tag`,
`similarity` and `answer` fine-tune it with `--model`.

| on validation data | |
| --- | --- |
{_table(scores)}

Loss is the negative log-likelihood of a hidden word, in nats; accuracies are in percent.

## Recipe
```toml
{recipe.strip()}
```
"""


def _table(scores: dict[str, float]) -> str:
    return "\n".join(f"| {name} | {value:.4f} |" for name, value in scores.items())
