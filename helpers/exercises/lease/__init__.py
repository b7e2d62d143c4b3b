"""Lesson 4's exercise: a claim with a lease, and a completion that an old claim cannot pass."""

LESSON = 4
