"""The machinery that checks a learner's functions, in a process and a database of their own. It knows no exercise.

What an exercise is written with stands below: rules that call a function (`tried`), and rules that run situations in
every order (`Orders`). `tasks`, `queues` and `batches` have rows to begin with and what must be true of a claim,
`rules` what must be true of a run, and `database` the tables.

What runs a check: `courier` takes the functions to the process of `child` and brings the findings back, `attempted`
says whether there is anything to check, `verdict` shows what was found, `progress` and `kept` remember it.
"""

from helpers.checking import database
from helpers.checking.calls import Outcome, article, call, in_one_line, shown, tried, written
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.situations import Orders, Situation

__all__ = [
    "Calling",
    "Definition",
    "Finding",
    "Functions",
    "Orders",
    "Outcome",
    "Rule",
    "Situation",
    "article",
    "call",
    "database",
    "in_one_line",
    "shown",
    "texts_of",
    "tried",
    "written",
]
