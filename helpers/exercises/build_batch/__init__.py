"""Lesson 9's exercise: which tasks a batch takes, in plain Python: quotas first, then what is left."""

LESSON = 9
