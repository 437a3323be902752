import torch

from manyheads.ops.masks import causal_mask, document_mask, padding_mask


def test_a_query_sees_itself_and_what_came_before():
    assert causal_mask(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_queries_stand_at_the_end_of_the_keys():
    assert causal_mask(2, 5).tolist() == [[True] * 4 + [False], [True] * 5]
    assert causal_mask(1, 4).all()


def test_padding_is_not_looked_at():
    ids = torch.tensor([[5, 6, 0], [7, 0, 0]])
    mask = padding_mask(ids, pad=0)
    assert mask is not None
    assert mask.shape == (2, 1, 1, 3)
    assert mask.flatten(1).tolist() == [[True, True, False], [True, False, False]]


def test_without_padding_there_is_no_mask():
    assert padding_mask(torch.tensor([[5, 6], [7, 8]]), pad=0) is None
    assert padding_mask(torch.tensor([[5, 6], [7, 8]]), pad=8) is not None


def test_tokens_of_one_document_look_at_each_other():
    ids = torch.tensor([[5, 6, 1, 7, 1, 8], [5, 6, 7, 8, 9, 2], [1, 1, 5, 6, 7, 1]])
    mask = document_mask(ids, end=1)
    assert mask.shape == (3, 1, 6, 6)
    documents = torch.tensor([[0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 2, 2, 2]])  # each with its end
    for row, numbers in enumerate(documents.tolist()):
        for query in range(6):
            for key in range(6):
                assert bool(mask[row, 0, query, key]) == (numbers[query] == numbers[key])
    assert document_mask(ids, end=3).all()  # where nothing ends there is one document
