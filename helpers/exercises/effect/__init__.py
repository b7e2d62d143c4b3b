"""Lesson 6's exercise: a document that is created once, however often it is asked for."""

LESSON = 6
