"""The helpers of the lab course "Task 42": what notebooks, workers and the command line import."""
