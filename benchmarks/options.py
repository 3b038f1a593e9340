"""The options that the benchmarks' commands share."""

import argparse

from contenders import DATASETS


def parser(description: str | None, repetitions: int) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--models", nargs="+", choices=list(DATASETS), default=list(DATASETS))
    made.add_argument("--repetitions", type=int, default=repetitions)
    return made


def add_threads(made: argparse.ArgumentParser) -> None:
    made.add_argument("--threads", nargs="+", type=int, default=[1, 2])
