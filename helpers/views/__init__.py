"""What a cell shows: tables of tasks, and the ledger as a picture and as a text."""

from helpers.views.frames import read_ledger
from helpers.views.picture import Timeline, timeline
from helpers.views.sentences import describe
from helpers.views.tables import Table, task_table

__all__ = ["Table", "Timeline", "describe", "read_ledger", "task_table", "timeline"]
