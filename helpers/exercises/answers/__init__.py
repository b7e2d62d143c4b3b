"""Right answers. SOLUTION is what a learner is shown; OTHERS are right too, and written in another way."""
