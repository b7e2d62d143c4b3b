"""The command line. Standard library only up to `bootstrap.ensure`; each command imports what it needs after that."""

import argparse
import errno
import io
import os
import sys
from collections.abc import Callable

from helpers import bootstrap, surroundings
from helpers.errors import LabError

TEST_DATABASE = "backend_training_lab_test"
READER_GONE = 141  # what a shell shows for SIGPIPE
KINDS = ("url", "docker", "embedded")

# What a person reads.
ABOUT = 'The lab course "Task 42". A first call sets up the environment in .venv; later ones take seconds.'
HELP = {
    "lab": "start PostgreSQL and JupyterLab, and open the first notebook",
    "run": "run one lesson without a browser and print what its experiments showed",
    "test": "run the tests: code, database, notebooks; --thorough for all of them; further arguments go to pytest",
    "reset": "rebuild the lab's tables as a lesson finds them",
    "stop": "end PostgreSQL and workers that were left behind",
    "doctor": "check everything the lab needs and name what mends it; installs nothing",
    "build": "run notebooks and store their outputs (for developers)",
}
HELP_SERVER = (
    "which PostgreSQL: url (the environment variable DATABASE_URL), docker (Docker Compose) or embedded "
    "(from a package); without this option the first of them that is there"
)
HELP_NO_BROWSER = "open no browser; the address is printed"
HELP_LESSON = "number of the lesson"
HELP_RESET_LESSON = "number of the lesson; without it the tables as the course begins"
HELP_LESSONS = "numbers of the notebooks; without any, all of them"
USAGE_TEST = "%(prog)s [-h] [--server {url,docker,embedded}] [pytest arguments ...]"
STILL_RUNS = "PostgreSQL keeps running. To end it: {command} stop"
NOTHING_RAN = "Nothing was running."
FULL = "The disk is full: {what} could not be written. Free some space and run the same command again."
FORBIDDEN = (
    "{what} may not be read or written by you ({reason}). Change its owner or its permissions, "
    "and run the same command again."
)
A_FILE = "a file"

# What any command may meet, wherever it writes.
SENTENCES = {
    **dict.fromkeys([errno.ENOSPC, errno.EDQUOT, errno.EFBIG], FULL),
    **dict.fromkeys([errno.EACCES, errno.EPERM, errno.EROFS], FORBIDDEN),
}


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for an error that is told in a sentence, 2 for a wrong call."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without a character shows a question mark
    arguments = _parse(argv)
    if arguments.server:
        os.environ["LAB_SERVER"] = arguments.server  # for kernels, workers and tests as well
    command: Callable[[argparse.Namespace, list[str]], int] = COMMANDS[arguments.command]
    try:
        code = command(arguments, argv)
        sys.stdout.flush()
        return code
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read our output has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python flushes in vain at its end
        return READER_GONE
    except OSError as error:
        text = SENTENCES.get(error.errno or 0)
        if text is None:
            raise
        print(text.format(what=error.filename or A_FILE, reason=error.strerror), file=sys.stderr)
        return 1


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=bootstrap.COMMAND, description=ABOUT)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    database = argparse.ArgumentParser(add_help=False)
    database.add_argument("--server", choices=KINDS, help=HELP_SERVER)
    made = {
        name: commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", parents=[database], allow_abbrev=False
        )
        for name, text in HELP.items()
    }
    made["lab"].add_argument("--no-browser", action="store_true", help=HELP_NO_BROWSER)
    made["run"].add_argument("lesson", type=int, metavar="N", help=HELP_LESSON)
    made["reset"].add_argument("lesson", type=int, nargs="?", metavar="N", help=HELP_RESET_LESSON)
    made["build"].add_argument("lessons", type=int, nargs="*", metavar="N", help=HELP_LESSONS)
    made["test"].usage = USAGE_TEST
    arguments, others = parser.parse_known_args(argv)
    if others and arguments.command != "test":
        made[arguments.command].error(f"unrecognized arguments: {' '.join(others)}")
    arguments.others = others[1:] if others[:1] == ["--"] else others
    return arguments


def _lab(arguments: argparse.Namespace, argv: list[str]) -> int:
    bootstrap.ensure(argv)
    from helpers import jupyter

    with jupyter.reserve() as running:
        if running:
            return jupyter.show(running, browser=not arguments.no_browser)
        kind = _find_server()
        code = jupyter.run(browser=not arguments.no_browser)
    if kind != "url":
        print(STILL_RUNS.format(command=bootstrap.COMMAND))
    return code


def _run(arguments: argparse.Namespace, argv: list[str]) -> int:
    bootstrap.ensure(argv)
    from helpers.notebooks import run_lesson

    _find_server()
    return run_lesson(arguments.lesson)


def _test(arguments: argparse.Namespace, argv: list[str]) -> int:
    bootstrap.ensure(argv)
    os.environ["LAB_DATABASE"] = TEST_DATABASE  # a learner's rows are in another one
    _find_server()
    os.chdir(bootstrap.ROOT)
    bootstrap.hand_over([sys.executable, "-m", "pytest", *arguments.others])


def _reset(arguments: argparse.Namespace, argv: list[str]) -> int:
    bootstrap.ensure(argv)
    from helpers.lab import rebuild

    _find_server()
    print(rebuild(arguments.lesson))
    return 0


def _stop(_arguments: argparse.Namespace, argv: list[str]) -> int:
    if bootstrap.find_ready() is None and not (bootstrap.ROOT / ".lab").exists():
        print(NOTHING_RAN)  # not worth an installation
        return 0
    bootstrap.ensure(argv)
    from helpers.lab import stop_stray_workers
    from helpers.servers import stop_server

    lines = stop_stray_workers()
    stopped = stop_server()
    lines += [stopped] if stopped else []
    print("\n".join(lines) or NOTHING_RAN)
    return 0


def _doctor(_arguments: argparse.Namespace, argv: list[str]) -> int:
    bootstrap.enter_if_ready(argv)
    from helpers.cli import doctor

    return doctor.run()


def _build(arguments: argparse.Namespace, argv: list[str]) -> int:
    bootstrap.ensure(argv)
    from helpers.notebooks import build

    _find_server()
    return build(arguments.lessons)


def _find_server() -> str:
    """Find or start the server, say which one it is, let all children use the same, and return its kind."""
    from helpers.paths import lab_home
    from helpers.servers import find_server

    server = find_server()
    print(server.describe(), flush=True)
    os.environ["LAB_SERVER"] = server.kind
    surroundings.settle_folders(lab_home())
    return server.kind


COMMANDS: dict[str, Callable[[argparse.Namespace, list[str]], int]] = {
    "lab": _lab,
    "run": _run,
    "test": _test,
    "reset": _reset,
    "stop": _stop,
    "doctor": _doctor,
    "build": _build,
}
