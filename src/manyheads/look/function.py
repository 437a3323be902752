"""What networks that learn a picture as a function have drawn: side by side, with how well, and as they learned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.look.drawing import COLOURS, LETTERS, TITLE, TOKENS, drawing, save_figure

PANEL = 288  # pixels of an animation's panels, at most
GAP, ABOVE, SIZE = 12, 62, 20  # pixels between panels and above them, and of letters
SHOWN, STAYS = 120, 4000  # milliseconds of a frame, and of the last one
QUALITY = 70  # of WebP


@dataclass(frozen=True)
class Learned:
    """What one network has drawn, and how well it drew after each step, the first number before all of them."""

    name: str
    note: str
    picture: np.ndarray
    """[S, S, 3] in uint8."""
    seconds: Sequence[float]
    decibels: Sequence[float]


def compared(original: np.ndarray, learned: Sequence[Learned], path: Path, *, title: str) -> None:
    """Saves the original and all that was drawn of it, with how well, against steps and against seconds."""
    with drawing():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.1 * (1 + len(learned)), 8.2), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1)  # type: ignore
        figure.suptitle(title, fontsize=TITLE, parse_math=False)
        parts: Any = figure.subfigures(2, 1, height_ratios=(1.0, 0.95))
        above, below = parts
        panels = above.subplots(1, 1 + len(learned))
        _draw_picture(panels[0], original, "the picture", f"{len(original)} × {len(original)} pixels", "")
        for panel, each, colour in zip(panels[1:], learned, COLOURS):
            decibels = f"{each.decibels[-1]:.1f} dB"
            _draw_picture(panel, each.picture, each.name, decibels, each.note, color=colour, fontweight="bold")
        by_step, by_second = below.subplots(1, 2, sharey=True)
        for each, colour in zip(learned, COLOURS):
            style: dict[str, Any] = {"color": colour, "linewidth": 2.4, "label": each.name}
            by_step.plot(range(len(each.decibels)), each.decibels, **style)
            by_second.plot(each.seconds, each.decibels, **style)
        by_step.set_ylabel("PSNR in dB: higher is better", fontsize=LETTERS)
        for axes, label in ((by_step, "steps"), (by_second, "seconds of its own")):
            axes.set_xlabel(label, fontsize=LETTERS)
            axes.tick_params(labelsize=TOKENS, labelleft=True)
            axes.grid(alpha=0.4)
        by_step.legend(fontsize=TOKENS, loc="best")
    save_figure(figure, path)


def _draw_picture(axes: Any, picture: np.ndarray, name: str, below: str, note: str, **style: Any) -> None:
    axes.imshow(picture, interpolation="nearest")
    axes.set(xticks=[], yticks=[])
    axes.set_title(name, fontsize=LETTERS, **style)
    axes.set_xlabel(f"{below}\n{note}", fontsize=LETTERS)


def animated(
    original: np.ndarray, frames: Sequence[tuple[int, Sequence[np.ndarray]]], learned: Sequence[Learned], ending: str
) -> bytes:
    """A .webp or a .gif of what was drawn after some steps, beside the original."""
    images = [_frame(original, step, pictures, learned) for step, pictures in frames]
    times = [SHOWN] * (len(images) - 1) + [STAYS]
    options: Mapping[str, Any] = {".webp": {"quality": QUALITY}, ".gif": {}}[ending]
    if ending == ".gif":
        images = [_in_few_colours(each, COLOURS[: len(learned)]) for each in images]
    written = BytesIO()
    images[0].save(written, ending[1:], save_all=True, append_images=images[1:], duration=times, loop=0, **options)
    return written.getvalue()


def _in_few_colours(frame: Any, names: Sequence[str]) -> Any:
    """In the 256 colours of a GIF, with those of the names among them, whose few pixels would get none of their own."""
    from PIL import Image, ImageColor

    few = frame.quantize(256 - len(names))
    kept = [*few.getpalette()[: 3 * (256 - len(names))], *(part for each in names for part in ImageColor.getrgb(each))]
    palette = Image.new("P", (1, 1))
    palette.putpalette(kept)
    return frame.quantize(palette=palette, dither=Image.Dither.NONE)


def _frame(original: np.ndarray, step: int, pictures: Sequence[np.ndarray], learned: Sequence[Learned]) -> Any:
    from PIL import Image, ImageDraw, ImageFont

    panels = [_enlarged(each) for each in (original, *pictures)]
    pitch = max(panels[0].width, PANEL // 2) + GAP
    whole = Image.new("RGB", (pitch * len(panels) + GAP, ABOVE + panels[0].height + GAP), "white")
    draw, letters = ImageDraw.Draw(whole), ImageFont.load_default(SIZE)
    words = [f"step {step:,}", *(f"{each.name}\n{each.decibels[step]:.1f} dB" for each in learned)]
    for place, (panel, text, colour) in enumerate(zip(panels, words, ("#000000", *COLOURS))):
        left = GAP + place * pitch
        whole.paste(panel, (left, ABOVE))
        draw.multiline_text((left, GAP // 2), text, fill=colour, font=letters)
    return whole


def _enlarged(picture: np.ndarray) -> Any:
    """Each pixel a square of whole pixels; what is larger than a panel is made smaller."""
    from PIL import Image

    image = Image.fromarray(picture)
    if image.width > PANEL:
        return image.resize((PANEL, PANEL), Image.Resampling.BOX)
    times = PANEL // image.width
    return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
