"""dp_bench: what a hyperparameter search costs differentially private learning, and what it buys."""

__version__ = "0.1.0"
