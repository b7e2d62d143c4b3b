"""The subject of the course: one module a mechanism, in the order of the lessons."""
