"""The machinery that checks a learner's functions, in a process and a database of their own. It knows no exercise.

To write an exercise: `parts` (Definition, Rule, Finding), `calls` (call a function once), `orders` (in every order of
its statements), `database` and `tasks` (rows), and, for claims with more to them, `leased`, `queues` and `batches`.
To run one: `courier` takes the functions to the process of `child` and brings the findings back, `attempted` says
whether there is anything to check, `verdict` shows what was found, `progress` and `kept` remember it.
"""
