"""Lesson 1's exercise: the number of successful claims, for any order of two steps a worker."""

LESSON = 1
