"""What was typed, as the parser takes it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def repeated(arguments: Sequence[str], command: Any) -> list[str]:
    """Writes `--set a b` as `--set a --set b`, for every option of the command that takes several values.

    Where that leaves a command without its model, as in `--data a b runs/mine`, one of the values is the model.
    """
    depth, command = _found(arguments, command)
    options = [each for each in command.params if each.param_type_name == "option"]
    several = {flag for each in options if each.multiple for flag in each.opts}
    valued = {flag for each in options if not (each.multiple or each.is_flag) for flag in each.opts}
    written, free, further = list(arguments[:depth]), 0, []
    flag, used, value_next = None, False, False
    for place, argument in enumerate(arguments[depth:], start=depth):
        if argument == "--":
            free += len(arguments) - place - 1
            written += arguments[place:]
            break
        if value_next:
            value_next = False
        elif argument.startswith("-") and argument != "-":
            flag, used, value_next = (argument if argument in several else None), False, argument in valued
        elif flag and used:
            further.append(len(written))
            written.append(flag)
        elif flag:
            used = True
        else:
            free += 1
        written.append(argument)
    if further and not free and len(options) < len(command.params):
        # A model is a directory; where none is one, it was meant to stand last.
        directories = [place for place in further if Path(written[place + 1]).is_dir()]
        del written[(directories or further)[-1]]
    return written


def _found(arguments: Sequence[str], command: Any) -> tuple[int, Any]:
    """The command that is asked for, and how many arguments say so."""
    for place, argument in enumerate(arguments):
        if not hasattr(command, "get_command"):
            return place, command
        command = command.get_command(None, argument) or command
    return len(arguments), command
