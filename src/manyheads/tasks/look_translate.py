"""What a translator looks at: the attention of each target token over the source."""

from pathlib import Path

import torch

from manyheads.look.figures import heat_map
from manyheads.look.record import recorded_attention
from manyheads.tasks.translate import Translator


def cross_attention(translator: Translator, source: str, target: str) -> tuple[torch.Tensor, list[str], list[str]]:
    """[layers, heads, target tokens, source tokens], the target tokens that are produced and the source tokens."""
    model, tokenizer = translator.model, translator.tokenizer
    device = next(model.parameters()).device
    source_ids, target_ids = tokenizer.encode([source])[0], tokenizer.encode([target])[0]
    before = torch.tensor([[model.config.start, *target_ids[:-1]]], device=device)
    with torch.inference_mode(), recorded_attention(model) as weights:
        model(torch.tensor([source_ids], device=device), before)
    layers = [w[0] for name, w in weights.items() if name.endswith("cross_attention")]  # in the order they ran
    return torch.stack(layers).cpu(), tokenizer.pieces(target_ids), tokenizer.pieces(source_ids)


def draw_cross_attention(translator: Translator, source: str, target: str, path: Path) -> None:
    """Saves the mean over the heads of the last layer as a heat map."""
    weights, rows, columns = cross_attention(translator, source, target)
    heat_map(path, weights[-1].mean(dim=0).numpy(), rows, columns, title=f"{source} → {target}")
