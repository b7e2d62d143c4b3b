"""Known wrong answers: WRONG names each, with its functions and a part of what the check must say about it."""
