"""`python -m manyheads` is the command `manyheads`."""

import os
import signal


def main() -> None:
    """Runs the command line; Ctrl-C while it is still being imported ends it without a word."""
    minded = signal.getsignal(signal.SIGINT)
    if minded is signal.default_int_handler:  # a shell in the background has it ignored
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from manyheads.cli import main as command_line

    signal.signal(signal.SIGINT, minded)
    command_line.main()


if __name__ == "__main__":
    main()
