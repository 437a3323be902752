from dataclasses import dataclass, field, replace
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.core.configs import assigned, field_docs, read_toml, to_table, to_toml, updated
from manyheads.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    """A section in a section."""

    kind: str = "plain"
    """What sort;
    a docstring of two lines, with "quotes" and a # in it."""
    rate: float | None = None
    """A rate; unset: none."""


@dataclass(frozen=True, kw_only=True)
class Middle:
    """A section."""

    width: int = 12
    heads: int = 4
    """Must divide the width."""
    inner: Inner = field(default_factory=Inner)

    def __post_init__(self):
        if self.width % self.heads:
            raise ConfigError(f"width {self.width} does not split over {self.heads} heads")


@dataclass(frozen=True, kw_only=True)
class Whole:
    """The recipe."""

    name: str = "a"
    """Its name."""
    files: tuple[str, ...] = ()
    on: bool = False
    scale: float = 1.0
    middle: Middle = field(default_factory=Middle)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CONFIGS = st.builds(
    Whole,
    name=TEXTS,
    files=st.lists(TEXTS, max_size=3).map(tuple),
    on=st.booleans(),
    scale=st.floats(allow_nan=False),
    middle=st.builds(
        Middle,
        width=st.integers(1, 10**12).map(lambda n: 4 * n),
        inner=st.builds(Inner, kind=TEXTS, rate=st.none() | st.floats(allow_nan=False)),
    ),
)


@given(config=CONFIGS, documented=st.booleans())
def test_what_is_written_reads_back_equal(tmp_path_factory, config, documented):
    path = tmp_path_factory.mktemp("toml") / "recipe.toml"
    path.write_text(to_toml(config, documented=documented), encoding="utf-8", newline="")
    assert updated(Whole(), read_toml(path)) == config
    assert updated(Whole(), to_table(config)) == config


def test_written_twice_is_written_the_same():
    config = replace(Whole(), name='a "b" \\ c\n\td\x7f…', files=("ü.en", "two"))
    assert to_toml(updated(Whole(), to_table(config))) == to_toml(config)


def test_docs_of_fields_stand_above_them():
    lines = to_toml(Whole(), documented=True).splitlines()
    assert lines[lines.index("heads = 4") - 1] == "# Must divide the width."
    assert "# rate is unset" in lines
    assert lines[lines.index('kind = "plain"') - 1] == '# a docstring of two lines, with "quotes" and a # in it.'
    assert field_docs(Middle) == {"heads": "Must divide the width."}
    assert "Must divide" not in to_toml(Whole())


def test_only_what_the_table_names_changes():
    config = updated(Whole(name="x"), {"middle": {"width": 20}})
    assert config == Whole(name="x", middle=Middle(width=20))
    assert updated(Whole(), {"scale": 3}).scale == 3.0
    assert isinstance(updated(Whole(), {"scale": 3}).scale, float)
    assert updated(Whole(), {"files": ["a", "b"]}).files == ("a", "b")


@pytest.mark.parametrize(
    ("assignment", "read"),
    [
        ("name=word", lambda c: c.name == "word"),
        ('name="two words"', lambda c: c.name == "two words"),
        ("name=cuda:1", lambda c: c.name == "cuda:1"),
        ("name=a=b", lambda c: c.name == "a=b"),
        ("name=none", lambda c: c.name == "none"),
        ("middle.inner.kind=none", lambda c: c.middle.inner.kind == "none"),
        ("middle.inner.rate=1e-3", lambda c: c.middle.inner.rate == 1e-3),
        ("middle.inner.rate=none", lambda c: c.middle.inner.rate is None),
        ("middle.inner.rate=unset", lambda c: c.middle.inner.rate is None),
        ("middle.width=16", lambda c: c.middle.width == 16),
        ("on=true", lambda c: c.on is True),
        ('files=["a.en", "b.en"]', lambda c: c.files == ("a.en", "b.en")),
        (" middle.width = 16 ", lambda c: c.middle.width == 16),
    ],
)
def test_values_are_written_as_in_toml_and_bare_words_are_strings(assignment, read):
    assert read(assigned(updated(Whole(), {"middle": {"inner": {"rate": 0.5}}}), [assignment]))
    assert not read(updated(Whole(), {"middle": {"inner": {"rate": 0.5}}}))


def test_assignments_count_together_and_the_last_one_wins():
    # 10 does not split over 4 heads, nor 12 over 5: each alone is refused
    for one in ("middle.width=10", "middle.heads=5"):
        with pytest.raises(ConfigError, match="does not split"):
            assigned(Whole(), [one])
    assert assigned(Whole(), ["middle.width=10", "middle.heads=5"]).middle == Middle(width=10, heads=5)
    assert assigned(Whole(), ["name=a", "name=b"]).name == "b"


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("nam=b", "nam is not a field of the recipe; it has: name, files, on, scale, middle"),
        ("middle.depth=3", r"middle\.depth is not a field of the recipe; middle has: width, heads, inner"),
        ("middle.inner.knd=3", r"middle\.inner\.knd is not a field"),
        ("middle=3", r"middle is a section; set its fields, such as middle\.width"),
        ("name.first=3", "name"),
        ("middle.width=wide", "middle.width is 'wide'; it must be of type int"),
        ("middle.width=1.5", "middle.width is 1.5; it must be of type int"),
        ("middle.width=true", "middle.width is True; it must be of type int"),
        ("middle.width=none", "middle.width is 'none'; it must be of type int"),
        ("on=1", "on is 1; it must be of type bool"),
        ("scale=true", "scale is True; it must be of type float"),
        ("middle.inner.rate=fast", "middle.inner.rate is 'fast'; it must be of type float or unset"),
        ("files=a.en", "files is 'a.en'; it must be of type list of str"),
        ("files=[1]", "files is 1; it must be of type str"),
        ("files=['\udcff.png']", r"files is '\\udcff\.png', which is not UTF-8, as a recipe is; rename it"),
        ("middle.width", "'middle.width' is not an assignment; write --set section.field=value"),
        ("name=a name.first=3", "name"),
        ("=3", "'=3' is not an assignment"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(assignment, sentence):
    with pytest.raises(ConfigError, match=sentence):
        assigned(Whole(), assignment.split())


def test_files_that_are_no_toml_are_named(tmp_path):
    path = tmp_path / "x.toml"
    with pytest.raises(ConfigError, match=r"x\.toml cannot be read"):
        read_toml(path)
    path.write_text("a = = 3")
    with pytest.raises(ConfigError, match=r"x\.toml is not TOML"):
        read_toml(path)
    for content in (b"a = '\xff'", b"a = " + b"[" * 200_000):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=r"x\.toml is not TOML"):
            read_toml(path)


def test_what_belongs_to_the_class_is_no_field():
    @dataclass(frozen=True)
    class Fixed:
        width: int = 2
        layers: ClassVar[int] = 1

    assert assigned(Fixed(), ["width=3"]).width == 3
    with pytest.raises(ConfigError, match=r"layers is not a field of the recipe; it has: width$"):
        assigned(Fixed(), ["layers=2"])
