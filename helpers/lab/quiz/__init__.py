"""Predictions before an experiment and questions after it, with their texts."""
