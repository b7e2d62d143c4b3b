"""Lesson 3's exercise: a claim that waits for nobody, and is committed before the work."""

LESSON = 3
