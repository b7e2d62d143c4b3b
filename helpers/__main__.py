"""Start of the command line: python3 -m helpers COMMAND.

This file and __init__.py keep to syntax (and to ASCII) that Python 2.7 can read: an old Python must get far enough
to say which one is needed.
"""

import sys

TOO_OLD = "The lab needs Python 3.11 or newer; this is Python %d.%d. Install one from https://www.python.org/downloads/ and call it by its name, for example: python3.11 -m helpers lab"  # noqa: E501

if sys.version_info < (3, 11):  # noqa: UP036  (the package's own requirement does not stop an old Python here)
    sys.exit(TOO_OLD % sys.version_info[:2])

from helpers.cli import main  # noqa: E402  (an old Python could not read it)

if __name__ == "__main__":
    sys.exit(main())
