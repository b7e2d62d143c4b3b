"""Exercises: a task, a mini and a full check, hints, a solution, and the progress that a learner has made.

    ex = Exercise("simulate")           # helpers.exercises.exercise; in a notebook: lab.exercise("simulate")
    ex                                  # the task
    ex.check(simulate)                  # the examples
    ex.check(simulate, full=True)       # everything
    ex.hint(), ex.solution()
    ex.replay("A B A")                  # one schedule again, for the exercises with two workers

One folder an exercise, and nothing outside of it knows its name: `__init__` says to which lesson it belongs, `checks`
holds its rules, `answers` right answers, the first of them the solution, `wrong` known wrong ones, each with what the
check says about it, and `texts/` what a learner reads. `catalogue` finds the folders.
The machinery that checks stands below, in `helpers.checking`.
"""
