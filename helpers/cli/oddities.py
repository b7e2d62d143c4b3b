"""What is unusual about the person's environment, for `doctor`. Standard library only; silent where nothing is."""

import os
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from helpers.cli.check import Check
from helpers.surroundings import is_home_usable, was_set_aside

# What a person reads.
SET_ASIDE = "set, but not heard by the lab: {names}"
HEARD = "set, and heard for the server of DATABASE_URL: {names}"
NO_HOME = "your own folder ({folder}) cannot be written; the lab keeps its files in .lab, which is fine"
UNKNOWN_HOME = "HOME is not set"
READ_ONLY = "The project's folder {folder} cannot be written."
CURE_READ_ONLY = "copy the folder to where you may write, or make it writable for you"
NOTEBOOKS = "the notebooks in {folder} are read-only: they run, but what you write into them cannot be saved"
NO_TEMPORARY = "{name} names a folder that is not there ({folder}); {other} serves instead"
NOWHERE_TEMPORARY = "There is no folder for temporary files."
CURE_TEMPORARY = "set TMPDIR to a folder that you may write"
PROXY = "a proxy is set ({names}): pip uses it; the lab's own connections on this machine do not"
ANOTHER = "another environment is active ({folder}); the lab runs in its own"
ASCII = "this terminal shows ASCII only: other characters become question marks"


def oddities(root: Path, ready: bool) -> Iterator[Check]:
    """Yield a check for each setting that is unusual; `ready` is whether the environment is complete."""
    yield from _writable(root, ready)
    yield from _temporary()
    if not is_home_usable():
        yield Check(None, NO_HOME.format(folder=os.environ.get("HOME") or UNKNOWN_HOME))
    if proxies := urllib.request.getproxies():
        yield Check(True, PROXY.format(names=", ".join(sorted(proxies))))
    active = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX")
    if active and Path(active).resolve() != Path(sys.prefix).resolve():
        yield Check(True, ANOTHER.format(folder=active))
    if (sys.stdout.encoding or "ascii").lower().replace("-", "") in ("ascii", "usascii"):
        yield Check(None, ASCII)


def unheard() -> Iterator[Check]:
    """The variables that the lab set aside, and those of libpq that it kept. To be asked after the server was found."""
    if names := was_set_aside():
        yield Check(None, SET_ASIDE.format(names=", ".join(names)))
    kept = sorted(name for name in os.environ if name.startswith("PG") and name != "PGAPPNAME")
    if kept and os.environ.get("DATABASE_URL"):
        yield Check(None, HEARD.format(names=", ".join(kept)))


def _writable(root: Path, ready: bool) -> Iterator[Check]:
    if not os.access(root, os.W_OK):
        yield Check(None if ready else False, READ_ONLY.format(folder=root), CURE_READ_ONLY)
    folder = root / "notebooks"
    if not all(os.access(path, os.W_OK) for path in [folder, *folder.glob("*.ipynb")]):
        yield Check(None, NOTEBOOKS.format(folder=folder))


def _temporary() -> Iterator[Check]:
    try:
        serves = tempfile.gettempdir()
    except FileNotFoundError:
        yield Check(False, NOWHERE_TEMPORARY, CURE_TEMPORARY)
        return
    for name in ("TMPDIR", "TEMP", "TMP"):
        folder = os.environ.get(name)
        if folder and not Path(folder).is_dir():
            yield Check(None, NO_TEMPORARY.format(name=name, folder=folder, other=serves))
