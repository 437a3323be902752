"""`manyheads image-function [photo.png]`"""

from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.flags import Device, Json
from manyheads.cli.lines import print_json, there


def image_function(
    photo: Annotated[
        Path | None,
        typer.Argument(help="A picture; none: that of a cat, which ships.", metavar="PHOTO", callback=there),
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("runs/image-function"),
    size: Annotated[int, typer.Option(help="Pixels along a side, to which its middle is made smaller.")] = 96,
    steps: Annotated[int, typer.Option(help="How often each network learns from all pixels.")] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same pictures.")] = 1,
    gif: Annotated[bool, typer.Option("--gif", help="Write the animation as GIF, not as WebP.")] = False,
    as_json: Json = False,
    device: Device = "auto",
) -> None:
    """Learn a photo as a function of x and y, with and without sines: what positional encodings are good for.

    The same network learns it three times: told x and y themselves, the sines of a Transformer's positions, and random
    sines. Writes a picture, an animation and metrics.jsonl; prints PSNR, parameters and seconds.
    """
    from manyheads.labs.image_function import compare

    comparison = compare(photo, out, size=size, steps=steps, seed=seed, device=device, gif=gif)
    for each in comparison.results():
        if as_json:
            print_json(each)
        else:
            print(f"{each['arm']}\t{each['psnr']:.1f} dB\t{each['parameters']:,} parameters\t{each['seconds']:.1f} s")
