"""Lets pip install what requirements.txt pins, and says what to do where it fails."""

import os
import re
import subprocess
import sys
from pathlib import Path

from helpers.bootstrap.environment import SetupError, folder, python
from helpers.bootstrap.lock import keep
from helpers.bootstrap.stamp import UNFINISHED, wanted_stamp, write_stamp

# What a person reads.
PIP_FAILED = "The requirements could not be installed:\n{cause}\n{cure}"
PIP_ENDED = "pip ended with code {code}"
STILL_MISSING = (
    "The environment in {folder} is not complete: {what}.\nDelete the folder and run the same command again."
)
PYTHON_ENDED = "its Python ended with code {code}"
FREE_SPACE = "Free some disk space (1 GB) and run the same command again."
CURES = (  # the first whose pattern is found in pip's output
    (r"No space left|Errno 28", FREE_SPACE),
    (r"Permission denied|Errno 13", "Make the project's folder writable for you and run the same command again."),
    (
        r"Connection|connection|[Tt]imed? ?out|[Rr]etry|resolve|resolution|SSL|[Pp]roxy|urlopen|unreachable",
        "Check the network (and the proxy, if there is one) and run the same command again: "
        "what was downloaded is kept.",
    ),
    (
        r"No matching distribution|Could not find a version|Requires-Python",
        "Check the network, and that the Python in use is a version the lab supports (3.11 to 3.13); "
        "then run the same command again.",
    ),
)
CURE = "Mend that and run the same command again; what was downloaded is kept."


def install(root: Path, lock: int) -> None:
    """Let pip install requirements.txt, its output shown as it comes, and stamp the environment when it is complete."""
    write_stamp(root, UNFINISHED)
    pip = [str(python(root)), "-I", "-X", "utf8", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    lines: list[str] = []
    with subprocess.Popen(
        [*pip, "-r", "requirements.txt"],
        cwd=root,  # `-e .` counts from the working folder
        env={**os.environ, "PIP_USER": "0", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        **keep(lock),
    ) as process:
        try:
            for line in process.stderr or ():
                lines.append(line.rstrip())
                sys.stderr.write(line)
                sys.stderr.flush()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        errors = [line for line in lines if re.match(r"\s*(ERROR|error):", line)] or lines[-5:]
        errors = errors or [PIP_ENDED.format(code=process.returncode)]
        cause = "\n".join(f"  {line.strip()}" for line in errors[-5:])
        raise SetupError(PIP_FAILED.format(cause=cause, cure=find_cure(lines)))
    program = "import sys; from helpers import bootstrap; sys.exit(next(bootstrap.find_missing(), None))"
    check = [str(python(root)), "-c", program]
    alone = {**os.environ, "PYTHONPATH": str(root)}  # what else is on a person's path is not in the environment
    checked = subprocess.run(
        check, check=False, capture_output=True, encoding="utf-8", errors="replace", cwd=root, env=alone
    )
    if checked.returncode != 0:
        what = checked.stderr.strip().splitlines() or [PYTHON_ENDED.format(code=checked.returncode)]
        raise SetupError(STILL_MISSING.format(folder=folder(root), what=what[-1]))
    write_stamp(root, wanted_stamp(root))


def find_cure(lines: list[str]) -> str:
    """Return what to do about a failure of pip that wrote these lines."""
    return next((cure for pattern, cure in CURES if re.search(pattern, "\n".join(lines))), CURE)


def runs_pip(root: Path) -> bool:
    """Is there a Python that runs in its own environment and has pip? (A half-made one has not.)"""
    program = "import sys, pip; sys.exit(sys.prefix == sys.base_prefix or sys.version_info < (3, 11))"
    command = [str(python(root)), "-I", "-c", program]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False
