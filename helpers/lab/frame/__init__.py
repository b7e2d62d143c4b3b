"""The frame of a lesson: open it, run its scripts, ask for a fact, show rows and code."""
