"""The words of `dp-bench run`, looked at before Hydra is: what it would accept silently, or refuse with a traceback."""

import re
import traceback
from collections.abc import Collection, Sequence

from dp_bench.errors import UserError, did_you_mean, invalid
from dp_bench.experiment.conf import groups
from dp_bench.experiment.config import boolean_keys

_NO_NAME = re.compile(r"(null|true|false|[-+\d.]*|\[.*|\{.*|.*\.\./.*)", re.IGNORECASE)
_OPTIONS = (
    *("-m", "--multirun", "-c", "--cfg", "-p", "--package", "--resolve", "-i", "--info", "--hydra-help"),
    *("-cd", "--config-dir", "-cn", "--config-name", "-cp", "--config-path", "-r", "--run", "--version"),
)
_ONLY_WITH_CFG = ("-p", "--package", "--resolve")
# Of Hydra's own keys; the others would move results, run code or be silently ignored.
_HYDRA = re.compile(r"hydra/launcher|hydra/sweeper|hydra\.mode|hydra\.launcher\..+|hydra\.sweeper\.params\..+")
_SHOWS = ("-c", "--cfg", "-i", "--info", "--hydra-help")
_THEIRS, _OURS = ("hydra", "omegaconf", "antlr4", "yaml"), ("dp_bench", "hydra_plugins")
_NUMBER = re.compile(r"[-+]?[\d_.]*\d[\d_.]*(e[-+]?\d+)?|[-+]?(nan|inf)", re.IGNORECASE)
_READ_AS_THEY_ARE = re.compile(r"-?\d+|-?\d+\.\d*[1-9]")  # of numbers


def check_words(words: Sequence[str]) -> None:
    """Refuse a word that cannot be meant."""
    booleans = boolean_keys()
    shows = any(word.partition("=")[0] in _SHOWS for word in words)
    for word in words:
        if "\0" in word:
            raise invalid(word.partition("=")[0], "text", "a NUL character", "leave it out")
        if word.startswith("-") and not word.startswith("-="):
            _check_option(word.partition("=")[0], shows)
        elif not shows:
            _check_override(word)
            _check_kind(word, booleans)


def _check_option(option: str, shows: bool) -> None:
    if option not in _OPTIONS:
        near = did_you_mean(option, [known for known in _OPTIONS if known.startswith("--")])
        raise invalid("arguments", "what dp-bench run --help lists", option, near or "leave it out")
    if option in _ONLY_WITH_CFG and not shows:
        raise invalid(option, "--cfg job with it", "none", "add it, or leave this out")


def _check_override(word: str) -> None:
    key, _, value = word.partition("=")
    key = key.lstrip("+")
    if key.startswith("~"):
        raise invalid(key[1:], "a value", "a deletion (~)", "leave it out for the default")
    if not key:
        raise invalid(repr(word), "KEY=VALUE", "no key", "leave it out")
    if key == "hydra/sweeper" and value != "grid":
        raise invalid(word, "hydra/sweeper=grid, as no other divides a budget", "another", "leave it out")
    if not is_for_users(key):
        raise invalid(key, "hydra/launcher=NAME or hydra.launcher.KEY=VALUE", word, "leave it out")
    if key == "hydra.mode" and value not in ("RUN", "MULTIRUN"):
        raise invalid(key, "RUN or MULTIRUN", value or "nothing", "leave it out")
    if key in groups():
        names = [value] if value.startswith(("[", "{")) else value.split(",")
        for name in names if not value.startswith(("glob(", "choice(")) else ():
            if _NO_NAME.fullmatch(name) and not (key == "experiment" and name == "null"):
                raise invalid(key, "a name", name or "nothing", "see dp-bench run --help")


def is_for_users(key: str) -> bool:
    """Whether a key chooses what is run, and is none by which Hydra would move results or run code."""
    own = key.partition(".")[0].partition("/")[0] == "hydra"
    return "_target_" not in key.split(".") and not (own and (not _HYDRA.fullmatch(key) or "@" in key))


def _check_kind(word: str, booleans: Collection[str]) -> None:
    """Refuse what OmegaConf would make something else of."""
    key, _, value = word.lstrip("+").partition("=")
    for part in re.split(r"""[,()\[\]'"\s]+""", value) if key in booleans else ():
        if _NUMBER.fullmatch(part):
            raise invalid(key, "true or false", part, "correct it")
    for part in value.split(",") if key == "runs" else ():
        number = _NUMBER.fullmatch(part) and not _READ_AS_THEY_ARE.fullmatch(part)
        if number or part.lower() in ("true", "false"):
            raise invalid(key, "a folder", f"{part}, which is not text", f"write runs=./{part}")


def is_hydras(error: BaseException) -> bool:
    """Whether Hydra, or what it reads files with, raised this itself: then it is about the command or its files."""
    modules = (str(frame.f_globals.get("__name__", "")) for frame, _ in traceback.walk_tb(error.__traceback__))
    packages = (module.partition(".")[0] for module in modules)
    known = [package for package in packages if package in (*_THEIRS, *_OURS)]  # the others they call, as a codec
    return bool(known) and known[-1] in _THEIRS


def in_hydras_words(error: BaseException) -> UserError:
    """The first line of what it said."""
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return invalid("command", "what Hydra can compose", said, "correct it, or see dp-bench run --help")
