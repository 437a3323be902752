"""Decoding that can only write trees.  Shapes:  R rows (N sentences times K beams)  V vocabulary"""

import torch
from torch import Tensor

from manyheads.generate.steps import CachedSteps

OTHER, OPENS, WORD, CLOSES, ENDS = range(5)
"""What an id does to a tree: nothing, begin a constituent, stand for the next word, end a constituent, end the tree."""
MOST_OPENED = 20  # constituents that begin before the same word


class TreeSteps(CachedSteps):
    """Steps after which only such ids can come as lead to a tree over all words of a sentence, within its limit."""

    def __init__(
        self,
        model,
        memory: Tensor,
        memory_mask: Tensor | None,
        beams: int,
        *,
        does_V: Tensor,
        words_N: Tensor,
        limits_N: Tensor,
    ):
        """`does_V` says what each id does, `words_N` how many words each sentence has."""
        super().__init__(model, memory, memory_mask, int(limits_N.max()), beams)
        device = memory.device
        self.does_V = does_V.to(device)
        self.words_R, self.room_R = (each.to(device).repeat_interleave(beams) for each in (words_N, limits_N))
        """Words and ids that are left."""
        self.open_R, self.opened_R = torch.zeros_like(self.words_R), torch.zeros_like(self.words_R)
        """Constituents that are not ended, and how many of them have nothing in them yet."""
        self.beams = beams

    def __call__(self, ids_R: Tensor) -> Tensor:
        self._advance(ids_R.to(self.does_V.device))
        logits_RV = super().__call__(ids_R)
        return logits_RV.masked_fill(~self.allowed()[:, self.does_V], -torch.inf)

    def _advance(self, ids_R: Tensor) -> None:
        done = torch.where(ids_R < 0, OTHER, self.does_V[ids_R.clamp(min=0)])
        opens, word, closes = (done == each for each in (OPENS, WORD, CLOSES))
        self.words_R = self.words_R - word.long()
        self.open_R = self.open_R + opens.long() - closes.long()
        self.opened_R = torch.where(opens, self.opened_R + 1, torch.where(word | closes, 0, self.opened_R))
        self.room_R = self.room_R - (done != OTHER).long()

    def allowed(self) -> Tensor:
        """Which of the five things may be done next, [R, 5]; one of them can always be."""
        left, inside = self.words_R > 0, self.open_R > 0
        # What must still come: the words, what ends all constituents and this one, and the end.
        fits = self.room_R > self.words_R + self.open_R + 2
        return torch.stack(
            [
                torch.zeros_like(left),
                left & (self.opened_R < MOST_OPENED) & fits,
                left,
                # A beam that only fills up, at no chance, may have opened one without words that are left.
                inside & ((self.opened_R == 0) | ~left),
                ~left & ~inside,
            ],
            dim=1,
        )

    def select(self, beams_NK: Tensor | None, sentences: Tensor | None) -> None:
        super().select(beams_NK, sentences)
        for name in ("words_R", "room_R", "open_R", "opened_R"):
            states_NK = getattr(self, name).view(-1, self.beams)
            if beams_NK is not None:
                states_NK = states_NK.gather(1, beams_NK)
            if sentences is not None:
                states_NK = states_NK[sentences.to(states_NK.device)]
            setattr(self, name, states_NK.flatten())
