"""Does the running interpreter's environment hold what requirements.txt pins?"""

from collections.abc import Iterator
from pathlib import Path

from helpers.bootstrap.environment import ROOT, read_project

# What a person reads.
NOT_INSTALLED = "{name} is not installed"
WRONG_VERSION = "{name} is {found}, not {wanted}"


def find_missing(root: Path = ROOT) -> Iterator[str]:
    """Yield a phrase for each pinned line of requirements.txt that this interpreter's environment does not meet."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield NOT_INSTALLED.format(name="packaging")
        return
    from importlib.metadata import PackageNotFoundError, version

    for line in (root / "requirements.txt").read_text(encoding="utf-8").splitlines():
        text = line.partition(" #")[0].strip()
        if text == "-e .":  # imported by PYTHONPATH, but installed for the configuration that kernels read
            text = read_project(root)["project"]["name"]
        if not text or text.startswith(("#", "-")):
            continue
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            yield NOT_INSTALLED.format(name=requirement.name)
            continue
        if not found or not requirement.specifier.contains(found, prereleases=True):
            yield WRONG_VERSION.format(name=requirement.name, found=found, wanted=requirement.specifier)
