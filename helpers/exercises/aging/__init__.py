"""Lesson 7's exercise: a claim that is strict but for aging."""

LESSON = 7
