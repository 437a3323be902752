"""Files of word vectors: gensim opens ours, ours opens gensim's."""

import numpy as np
import pytest

from manyheads.data.readers.vectors import read_vectors, write_vectors

gensim = pytest.importorskip("gensim.models", reason="gensim is not installed: pip install 'manyheads[bench]'")

WORDS = ["the", "naïve", "a\u00a0b", "κόσμος"]
MATRIX = np.random.default_rng(1).normal(size=(4, 7)).astype(np.float32)
FORMS = {"word2vec": (".txt", {}), "binary": (".bin", {"binary": True}), "GloVe": (".txt", {"no_header": True})}


@pytest.mark.parametrize("form", FORMS)
def test_gensim_opens_ours(form, tmp_path):
    ending, options = FORMS[form]
    write_vectors(tmp_path / f"v{ending}", WORDS, MATRIX, glove=form == "GloVe")
    found = gensim.KeyedVectors.load_word2vec_format(str(tmp_path / f"v{ending}"), **options)
    assert found.index_to_key == WORDS
    np.testing.assert_array_equal(found.vectors, MATRIX)


@pytest.mark.parametrize("form", FORMS)
def test_ours_opens_gensims(form, tmp_path):
    theirs = gensim.KeyedVectors(7)
    theirs.add_vectors(WORDS, MATRIX)
    ending, options = FORMS[form]
    written = {("write_header" if name == "no_header" else name): name != "no_header" for name in options}
    theirs.save_word2vec_format(str(tmp_path / f"v{ending}"), **written)
    found = read_vectors(tmp_path / f"v{ending}")
    assert found.words == WORDS
    np.testing.assert_array_equal(found.matrix, MATRIX)
