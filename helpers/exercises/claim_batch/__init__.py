"""Lesson 8's exercise: a batch by quotas and with a fallback, of which all is claimed or nothing."""

LESSON = 8
