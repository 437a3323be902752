"""Classifiers: what transformers' `…ForSequenceClassification` have in place of the output projection."""

from typing import Any

import torch
from torch import Tensor

from manyheads.core.errors import CheckpointError
from manyheads.interop.rest import KEY
from manyheads.models.classifier import Classifier

_SUFFIX = "ForSequenceClassification"
_ARCHITECTURES = {"gpt2": "GPT2", "openai-gpt": "OpenAIGPT", "llama": "Llama"}
FORMS = ("text", "pair", "choice")


def is_classifier(table: dict[str, Any]) -> bool:
    """Whether a config.json is that of a classifier."""
    return any(str(name).endswith(_SUFFIX) for name in table.get("architectures") or ())


def write_config(table: dict[str, Any], model: Classifier, pad: int | None) -> dict[str, Any]:
    """The config of the classifier's body as that of the classifier; transformers finds a text's end by its padding."""
    names = model.names or tuple(f"LABEL_{each}" for each in range(model.score.out_features))
    problem = {"problem_type": "single_label_classification"} if len(names) > 1 else {}
    return {
        **table,
        "architectures": [_ARCHITECTURES.get(table["model_type"], type(model.body).__name__) + _SUFFIX],
        "id2label": {str(each): name for each, name in enumerate(names)},
        "label2id": {name: each for each, name in enumerate(names)},
        **problem,
        "pad_token_id": pad,
        KEY: {**table.get(KEY, {}), "form": model.form},
    }


def read_names(table: dict[str, Any]) -> tuple[tuple[str, ...], str]:
    """The labels' names and the form of what is classified."""
    form = table.get(KEY, {}).get("form", "text")
    if form not in FORMS:
        raise CheckpointError(f"this classifier is of the form {form}; known are {', '.join(FORMS)}")
    if table.get("problem_type") == "multi_label_classification":
        raise CheckpointError("this classifier gives a text several labels at once; only one label each is known")
    if form == "choice":
        return (), form
    labels = table.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    return tuple(str(labels[each]) for each in sorted(labels, key=int)), form


def with_score(model: Classifier, views: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their names over the body's weights as those over the classifier's, which has no output projection."""
    views = {name: view for name, view in views.items() if name != "lm_head.weight"}
    return {**views, "score.weight": model.score.weight.detach()}


@torch.no_grad()
def fill_output(model: Classifier) -> None:
    """Gives the output projection, which their file has not, the embedding's weights."""
    model.body.output.weight.copy_(model.body.embedding.weight)  # type: ignore
