"""How a process of the lab ends: its exit codes, and what a person can mend as a line instead of a traceback."""

import sys
from collections.abc import Callable

from helpers.diagnosis import DATABASE_ERRORS, explain
from helpers.errors import LabError

EXIT_DONE = 0  # also where there was nothing to do, or the process was asked to stop
EXIT_STALE = 2  # a stale claim was refused
EXIT_CRASH = 17  # the crash that was asked for
EXIT_USAGE = 64  # EX_USAGE; argparse's own 2 is taken
EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE: no server, or a migration is missing
EXIT_ABANDONED = 70  # nobody is left to press Enter
EXIT_INTERRUPTED = 130  # Ctrl-C, as shells have it


def exit_code(name: str, run: Callable[[], int]) -> int:
    """Call `run` and return its exit code; where it meets what a person can mend, say so on standard error.

    `name` stands before the line, as before all lines of this process.
    """
    try:
        return run()
    except LabError as error:
        message = str(error)
    except DATABASE_ERRORS as error:
        message = explain(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    print(f"[{name}] {message}", file=sys.stderr)
    return EXIT_UNAVAILABLE
