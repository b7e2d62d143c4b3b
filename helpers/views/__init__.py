"""What a cell shows: tables of tasks, and the ledger as a picture and as a text."""

from helpers.views.bars import bars
from helpers.views.frames import read_ledger
from helpers.views.picture import Timeline, timeline
from helpers.views.remaining import remaining
from helpers.views.sentences import describe
from helpers.views.sequence import Message, sequence
from helpers.views.tables import Table, task_table

__all__ = [
    "Message",
    "Table",
    "Timeline",
    "bars",
    "describe",
    "read_ledger",
    "remaining",
    "sequence",
    "task_table",
    "timeline",
]
