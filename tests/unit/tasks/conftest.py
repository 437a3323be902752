"""What the tests of several tasks share."""

from pathlib import Path

import pytest

from tests.unit.tasks.tiny import MAKERS, TRANSLATION, made, saved


@pytest.fixture(scope="session")
def models(tmp_path_factory) -> dict[str, Path]:
    """The directory of a tiny model of every kind, to be read and never changed."""
    folder, found = tmp_path_factory.mktemp("models"), {}
    for name in MAKERS:
        model = made(name, **({"norm_order": "pre"} if name == "translator" else {}))
        if name == "translator":
            model.output.bias.data[TRANSLATION.end] = 5.0  # so that a translation ends
        found[name] = saved(folder / name, model)
    return found
