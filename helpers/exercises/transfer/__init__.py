"""Lesson 2's exercise: a transfer between two rows, whose locks cannot form a circle."""

LESSON = 2
