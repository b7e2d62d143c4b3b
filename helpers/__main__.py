"""Start of the command line: python3 -m helpers COMMAND.

This file and __init__.py keep to syntax (and to ASCII) that Python 2.7 can read: an old Python must get far enough
to say which one is needed.
"""

import sys

TOO_OLD = "The lab needs Python 3.11 or newer; this is Python %d.%d. Install one from https://www.python.org/downloads/ and call it by its name, for example: python3.11 -m helpers lab"  # noqa: E501
INTERRUPTED = "Interrupted."

if sys.version_info < (3, 11):  # noqa: UP036  (the package's own requirement does not stop an old Python here)
    sys.exit(TOO_OLD % sys.version_info[:2])

if __name__ == "__main__":
    try:
        from helpers.inherited import restore

        restore()
        from helpers.cli import main  # an old Python could not read it

        code = main()
    except KeyboardInterrupt:  # whenever it comes, also while modules are imported
        sys.stderr.write(INTERRUPTED + "\n")
        code = 130
    sys.exit(code)
