"""The options that the benchmarks' commands share."""

import argparse

from job import DATASETS

_SHORT = 0.1  # seconds


def parser(description: str | None, repetitions: int) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--models", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    made.add_argument("--repetitions", type=positive, default=repetitions)
    return made


def add_threads(made: argparse.ArgumentParser) -> None:
    # One, as the jobs of a sweep run: two processes of one thread do more than one process of two.
    made.add_argument("--threads", nargs="+", type=positive, default=[1])


def positive(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"found {text}, expected a whole number from 1 on")
    return int(text)


def rounds(repetitions: int, seconds: float) -> int:
    """How often to repeat what takes so long: short steps are easily disturbed, and four times as many cost little."""
    return 4 * repetitions if seconds < _SHORT else repetitions
