"""The experiments of the lessons, a module each, named after what it shows."""
