"""The model card: README.md of a model directory, with front matter that model hubs read."""

import manyheads


def translation_card(recipe: str, pairs: int, which: str, scores: dict[str, float], signature: str) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    about = f"""
An encoder-decoder Transformer (Vaswani et al. 2017), trained on {pairs:,} sentence pairs; these are its weights
{which}. `manyheads translate`, `manyheads.Translator` and, where `config.json` says `"model_type": "marian"`,
`transformers.MarianMTModel` and CTranslate2 open this directory.
"""
    meaning = f"BLEU is of greedy search (`{signature}`); loss is the negative log-likelihood of a token."
    return _card("translation", "A translator", about, scores, meaning, recipe)


def language_card(recipe: str, which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    about = f"""
A decoder-only Transformer; these are its weights {which}. `manyheads generate`, `manyheads.LanguageModel` and, where
`config.json` says gpt2, openai-gpt or llama, `transformers` open this directory.
"""
    meaning = "Loss is the negative log-likelihood of a token, in nats; perplexity is its exponential."
    return _card("text-generation", "A language model", about, scores, meaning, recipe)


def classifier_card(
    recipe: str, examples: int, form: str, names: tuple[str, ...], which: str, scores: dict[str, float], encoder: bool
) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    start, between, behind = ("[CLS]", "[SEP]", "[SEP]") if encoder else ("<start>", "<delimiter>", "<extract>")
    shape = {
        "text": f"`{start} text {behind}`",
        "pair": f"`{start} text {between} text {behind}`",
        "choice": f"`{start} context {between} choice {behind}`, once for each choice",
    }[form]
    labels = f"Its labels are {', '.join(names)}." if names else "It gives a number."
    labels = "It says which choice fits its context best." if form == "choice" else labels
    what = (
        "An encoder with one linear layer on the vector of its first token, trained on {} examples as BERT was "
        "fine-tuned\n(Devlin et al. 2019)"
        if encoder
        else "A decoder-only Transformer with one linear layer on the state of its last token, trained on {} examples "
        "as\nGPT-1 was fine-tuned (Radford et al. 2018)"
    ).format(f"{examples:,}")
    about = f"""
{what}; these are its weights {which}. It reads
{shape}. {labels}
`manyheads classify`, `manyheads.Classifier` and, where `config.json` says bert, gpt2, openai-gpt or llama,
transformers' `AutoModelForSequenceClassification` open this directory.
"""
    meaning = """
Accuracy and correlation are in percent; loss is the negative log-likelihood of a label, or the squared error of a
number.
"""
    return _card("text-classification", "A classifier", about, scores, meaning, recipe)


def masked_card(recipe: str, next_sentence: bool, which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    both = ", and to tell whether a text follows another" if next_sentence else ""
    kind = "BertForPreTraining" if next_sentence else "BertForMaskedLM"
    about = f"""
An encoder, pre-trained as BERT was (Devlin et al. 2019) to guess hidden words{both}; these are its weights {which}.
`manyheads fill`, `manyheads.Filler` and transformers' `{kind}` open this directory; `manyheads train classify`, `tag`,
`similarity` and `answer` fine-tune it with `--model`.
"""
    meaning = "Loss is the negative log-likelihood of a hidden word, in nats; accuracies are in percent."
    return _card("fill-mask", "A masked language model", about, scores, meaning, recipe)


def tag_card(recipe: str, sentences: int, names: tuple[str, ...], which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    about = f"""
An encoder with one linear layer on the state of each word's first piece, trained on {sentences:,} sentences as BERT was
fine-tuned to find names (Devlin et al. 2019); these are its weights {which}. Its labels are
{", ".join(names)}.
`manyheads tag`, `manyheads.Tagger` and transformers' `AutoModelForTokenClassification` open this directory.
"""
    meaning = """
Accuracy is in percent of the words; F1, where there is one, is of entities as the CoNLL shared tasks counted them, in
percent; loss is the negative log-likelihood of a label.
"""
    return _card("token-classification", "A tagger", about, scores, meaning, recipe)


def answer_card(recipe: str, windows: int, impossible: bool, which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    some, every = "some of which have no answer; it says so", "all of which have an answer; it always gives one"
    about = f"""
An encoder with one linear layer on the state of each token, which scores it as the first and as the last of the answer,
trained as BERT was on SQuAD (Devlin et al. 2019); these are its weights {which}. It reads
`[CLS] question [SEP] context [SEP]` and learned from {windows:,} windows of contexts, with questions
{some if impossible else every}.
`manyheads answer`, `manyheads.Answerer` and transformers' `AutoModelForQuestionAnswering` open this
directory.
"""
    meaning = """
Exact match and F1 are in percent, as SQuAD's own evaluation counts them; loss is the negative log-likelihood of the
first and of the last token of an answer, their mean, by window.
"""
    return _card("question-answering", "An answerer", about, scores, meaning, recipe)


def embedder_card(recipe: str, pairs: int, scored: bool, pooling: str, which: str, scores: dict[str, float]) -> str:
    """What the model is, how it was trained and how well it did on validation data."""
    pooled = {"mean": "the mean of its tokens' vectors", "cls": "the vector of its first token"}
    shape = pooled.get(pooling, "the largest of each number in its tokens' vectors")
    aim = "the cosine of two texts is their score" if scored else "a text finds the one it belongs to by its cosine"
    known = {
        "spearman": "Spearman's and Pearson's correlations of cosines with scores are in percent; loss is the squared "
        "error of a\ncosine",
        "accuracy": "accuracy is the percent of texts whose nearest in the batch is their own; loss is the negative\n"
        "log-likelihood of that one",
    }
    said = "; ".join(text for name, text in known.items() if name in scores)
    about = f"""
An encoder that gives each text one vector, {shape}, trained on {pairs:,} pairs of texts so that
{aim}; these are its weights {which}.
`manyheads embed`, `manyheads similar`, `manyheads.Embedder` and sentence-transformers'
`SentenceTransformer` open this directory.
"""
    meaning = f"Of these, {said}."
    return _card("sentence-similarity", "An embedder", about, scores, meaning, recipe, library="sentence-transformers")


def _card(
    pipeline_tag: str,
    title: str,
    about: str,
    scores: dict[str, float],
    meaning: str,
    recipe: str,
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
{recipe.strip()}
```
"""
