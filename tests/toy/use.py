"""Lines in, reversed lines out."""

from manyheads.models.transformer import Transformer
from manyheads.tasks.metrics import Scores
from manyheads.tasks.task import Predictor
from manyheads.tasks.texts import texts_of
from manyheads.tasks.translate.use import decode_all
from toy.data import read_pairs
from toy.recipe import Evaluation


class Reverser(Predictor):
    """A model that is ready to write lines backwards."""

    what, kinds, scored_on = "a reverser", (Transformer,), Evaluation

    def __call__(self, lines):
        """Each line backwards, as far as the model knows."""
        rows = self.tokenizer.encode(texts_of(lines, "a reverser", "lines"))
        return self.tokenizer.decode([found[0].ids for found in decode_all(self.model, rows, beam=1)])

    def evaluate(self, asked):
        pairs = read_pairs(asked.lines)
        right = sum(found == wanted for found, (_, wanted) in zip(self([line for line, _ in pairs]), pairs))
        table = f"reversed {100 * right / len(pairs):6.2f} %   of {len(pairs):,} lines"
        return Scores({"right": right, "lines": len(pairs)}, table)


PREDICTOR = Reverser
