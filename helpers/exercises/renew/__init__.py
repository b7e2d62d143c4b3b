"""Lesson 5's exercise: a renewal that only the current attempt can make, and only while its lease is in force."""

LESSON = 5
