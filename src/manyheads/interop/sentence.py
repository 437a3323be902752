"""sentence-transformers directories: a BERT, and in modules.json how its vectors become one for each text."""

from pathlib import Path
from typing import Any

from manyheads.core.errors import CheckpointError
from manyheads.core.files import inner_path, parse_json
from manyheads.interop.config_json import refuse
from manyheads.interop.schema import check_types
from manyheads.interop.weights import read_json, write_json
from manyheads.models.bert import POOLINGS, Bert, BertEmbedder

# Theirs before version 6, since when they are called as ours are.
_OLDER_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
_TYPES = "sentence_transformers.models."


def is_sentence_model(directory: Path) -> bool:
    """Whether a directory says how texts become vectors."""
    return (directory / "modules.json").is_file()


def encoder_of(directory: Path) -> Path:
    """Where the encoder's own files are, which older versions keep in a folder of their own."""
    if not is_sentence_model(directory) or (directory / "config.json").is_file():
        return directory
    return directory / _modules(directory).get("Transformer", "")


def embedder(directory: Path, body: Bert) -> BertEmbedder:
    """The encoder with the pooling, the norm and the length that the directory says; a plain encoder with the usual."""
    if not is_sentence_model(directory):
        return BertEmbedder(body)
    modules = _modules(directory)
    _refuse_other_texts(directory, modules)
    if "Pooling" not in modules:
        raise CheckpointError(f"{directory / 'modules.json'} names no Pooling, so that a text has no one vector")
    pooling = _pooling(directory / modules["Pooling"] / "config.json")
    return BertEmbedder(body, pooling, normalised="Normalize" in modules, longest=_longest(directory, modules))


def write(directory: Path, model: BertEmbedder) -> None:
    """modules.json and what it names, as sentence-transformers of every version reads them."""
    modes = {theirs: ours == model.pooling for theirs, ours in _OLDER_MODES.items()}
    settings = {"Transformer": None, "Pooling": {"word_embedding_dimension": model.config.width, **modes}}
    settings |= {"Normalize": {}} if model.normalised else {}
    table = []
    for number, (kind, setting) in enumerate(settings.items()):
        path = f"{number}_{kind}" if number else ""
        table.append({"idx": number, "name": str(number), "path": path, "type": _TYPES + kind})
        if setting is not None:
            (directory / path).mkdir()
            write_json(directory / path / "config.json", setting)
    write_json(directory / "modules.json", table)
    write_json(directory / "sentence_bert_config.json", {"max_seq_length": model.longest, "do_lower_case": False})
    write_json(directory / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})


def _modules(directory: Path) -> dict[str, str]:
    """The kinds of parts and where they are; one that this library has not is refused."""
    file = directory / "modules.json"
    try:
        entries = parse_json(file.read_text(encoding="utf-8"))
        if not isinstance(entries, list) or not all(map(_is_module, entries)):
            raise ValueError("it must list modules, each with a type and a path")
        found = {entry["type"].rpartition(".")[2]: entry["path"] for entry in entries}
        for path in found.values():
            inner_path(directory, path)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file} cannot be read ({error}); fetch it again") from None
    for kind in found:
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise CheckpointError(f"{file} names a {kind}; only Transformer, Pooling and Normalize are known")
    return found


def _is_module(entry: Any) -> bool:
    return isinstance(entry, dict) and all(isinstance(entry.get(name), str) for name in ("type", "path"))


def _pooling(file: Path) -> str:
    table = read_json(file)
    check_types(table, {**dict.fromkeys(_OLDER_MODES, bool), "pooling_mode": str}, f"{file}: ")
    asked = [ours for theirs, ours in _OLDER_MODES.items() if table.get(theirs)]
    asked += [mode for mode in POOLINGS if table.get("pooling_mode") == mode]
    others = [name for name, value in table.items() if name.startswith("pooling_mode_") and value is True]
    if len(asked) != 1 or set(others) - set(_OLDER_MODES):
        raise CheckpointError(f"{file} pools in a way that is not known; known are {', '.join(POOLINGS)}, one of them")
    return asked[0]


def _refuse_other_texts(directory: Path, modules: dict[str, str]) -> None:
    """What would be done to every text before it is read, and is not done here."""
    for path, field in (
        (directory / modules.get("Transformer", "") / "sentence_bert_config.json", "do_lower_case"),
        (directory / "config_sentence_transformers.json", "default_prompt_name"),
    ):
        if path.is_file():
            refuse(read_json(path), f"{path.name} of {directory}", **{field: False if "lower" in field else None})


def _longest(directory: Path, modules: dict[str, str]) -> int | None:
    for file, field in (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length")):
        path = directory / modules.get("Transformer", "") / file
        table = read_json(path) if path.is_file() else {}
        check_types(table, {field: float | None}, f"{path}: ")
        found = table.get(field)
        if found is not None and found < 1:
            raise CheckpointError(f"{path}: {field} is {found}; it must be at least 1")
        if isinstance(found, int) and found < 1_000_000:  # larger ones stand for none
            return found
    return None
