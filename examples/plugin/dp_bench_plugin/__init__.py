"""A strategy and a task for dp_bench."""
