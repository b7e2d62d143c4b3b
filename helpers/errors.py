"""The one kind of error that is meant to be read by a person: a sentence, and what to do about it."""


class LabError(Exception):
    """Something the user can mend. Its message says what is wrong and names the cure.

    The command line and the worker print the message alone; so does a notebook (see below).
    """

    def _render_traceback_(self) -> list[str]:
        """Ask IPython to show the sentence instead of a traceback (a protocol of IPython's)."""
        return [str(self)]
