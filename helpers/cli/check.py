"""What one line of `doctor` says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One line: is it well (None: it could not be checked, or need not be mended), what was found, what mends it."""

    well: bool | None
    text: str
    cure: str = ""
