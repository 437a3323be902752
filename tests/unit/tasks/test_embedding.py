"""Word vectors as the beginning of an embedding."""

import numpy as np
import pytest
import torch

from manyheads.core.errors import ConfigError, DataError
from manyheads.data.readers.vectors import write_vectors
from manyheads.models.bert import Bert, BertConfig
from manyheads.models.conv import ByteNet, ByteNetConfig, ConvSeq2Seq, ConvSeq2SeqConfig
from manyheads.models.gpt import GPT, GPTConfig
from manyheads.models.heads import EncoderClassifier
from manyheads.models.llama import Llama, LlamaConfig
from manyheads.models.rnn import RNN, RNNConfig
from manyheads.models.transformer import Transformer, TransformerConfig
from manyheads.tasks.embedding import begin_with_vectors, embeddings_of
from manyheads.tasks.sections import EmbeddingData
from manyheads.text.words import WordTokenizer

WORDS = ["The", "cat", "CAT", "zebra", "sat"]
MATRIX = np.arange(1, 61, dtype=np.float32).reshape(5, 12)


@pytest.fixture
def file(tmp_path):
    write_vectors(tmp_path / "v.txt", WORDS, MATRIX)
    return tmp_path / "v.txt"


def test_which_embeddings_a_model_has():
    assert len(embeddings_of(Bert(BertConfig(vocabulary=9, width=12, layers=1, heads=2, segments=2)))) == 1
    classifier = EncoderClassifier(Bert(BertConfig(vocabulary=9, width=12, layers=1, heads=2)))
    assert embeddings_of(classifier) == [classifier.body.embedding]
    sizes = {"vocabulary": 9, "width": 12, "layers": 1, "heads": 2, "pad": 0}
    assert len(embeddings_of(Transformer(TransformerConfig(**sizes)))) == 1
    assert len(embeddings_of(Transformer(TransformerConfig(**sizes, tied=False)))) == 2
    assert embeddings_of(torch.nn.Linear(2, 3)) == []
    few = {"vocabulary": 9, "width": 12, "layers": 1}
    for model in (Llama(LlamaConfig(**few, heads=2)), RNN(RNNConfig(**few)), ByteNet(ByteNetConfig(**few))):
        assert embeddings_of(model) == [model.embedding]
    assert len(embeddings_of(ConvSeq2Seq(ConvSeq2SeqConfig(**few, pad=0, tied=True)))) == 1


def test_a_word_gets_its_vector_as_it_is_or_else_in_small_letters(file, capsys):
    tokenizer = WordTokenizer.of(["The", "the", "Cat", "CAT", "sat", "dog"], lowercase=False)
    model = GPT(GPTConfig(vocabulary=len(tokenizer), width=12, layers=1, heads=2, context=8))
    begin_with_vectors(model, tokenizer, file)
    rows = {word: model.embedding.weight[each].tolist() for each, word in tokenizer.words().items()}
    assert [rows[word] for word in ("The", "Cat", "CAT", "sat")] == [MATRIX[row].tolist() for row in (0, 1, 2, 4)]
    drawn = torch.tensor([*rows["the"], *rows["dog"]])  # "the" is not there, only "The"
    assert 0.3 < float(drawn.std() / torch.from_numpy(MATRIX[[0, 1, 2, 4]]).std()) < 2
    assert "4 of 6 words among the 8 tokens have vectors" in " ".join(capsys.readouterr().err.split())


def test_a_model_that_multiplies_its_embedding_sees_the_vectors_as_they_are(file):
    tokenizer = WordTokenizer.of(["cat", "dog"])
    sizes = {"width": 12, "layers": 1, "heads": 2, "scale_embeddings": True}
    model = Transformer(TransformerConfig(vocabulary=len(tokenizer), pad=0, **sizes))
    begin_with_vectors(model, tokenizer, file)
    ids = torch.tensor([[tokenizer.id_of("cat"), 0]])
    torch.testing.assert_close(model.encoder.embedding(ids)[0], torch.tensor([MATRIX[1].tolist(), [0.0] * 12]))
    assert model.encoder.embedding.scale > 3


def test_few_words_are_warned_of_and_none_refused(file, capsys):
    model = GPT(GPTConfig(vocabulary=8, width=12, layers=1, heads=2, context=8))
    begin_with_vectors(model, WordTokenizer.of(["cat", "un", "deux", "trois"]), file)
    assert "warning: only 25 % of the words have vectors" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(DataError, match="none of the 4 tokens is a word of"):
        begin_with_vectors(model, WordTokenizer.of(["un", "deux"]), file)


def test_nothing_is_frozen_that_did_not_begin_with_vectors():
    with pytest.raises(ConfigError, match=r"data\.freeze_vectors is set without data\.vectors"):
        EmbeddingData(freeze_vectors=True)
