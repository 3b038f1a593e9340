"""Dataclasses from plain JSON: the inverse of `dataclasses.asdict` and JSON, checked against the declared types."""

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

# What looking into JSON of another shape raises.
FOREIGN = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RecursionError)


def from_plain(declared: type[T], plain: Any, narrower: Mapping[str, type] | None = None) -> T:
    """An instance of the dataclass `declared`. Numbers stay as they are stored: an int is not made a float.

    A key that is missing takes its default, as in files from before there was such a key. Raises ValueError for a
    missing key without a default, for an unknown key and for a value of another type. `narrower` gives subclasses to
    take for the declared types of some of its fields.
    """
    return cast(T, _value(declared, plain, "", narrower))


def _value(declared: Any, plain: Any, key: str, narrower: Mapping[str, type] | None = None) -> Any:
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if dataclasses.is_dataclass(declared) and isinstance(plain, dict):
        return _instance(declared, plain, key, narrower)
    if origin in (types.UnionType, typing.Union):  # X | None
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if plain is None else _value(inner, plain, key)
    if origin in (list, tuple) and isinstance(plain, list):
        return origin(_value(arguments[0], item, key) for item in plain)
    if origin in (dict, Mapping) and isinstance(plain, dict):
        return {name: _value(arguments[1], value, f"{key}.{name}") for name, value in plain.items()}
    if declared is Any or (origin is typing.Literal and plain in arguments) or type(plain) is declared:
        return plain
    if declared is float and type(plain) is int:
        return plain
    raise ValueError(
        f"{key.lstrip('.') or 'content'}: expected {getattr(declared, '__name__', declared)}, got {plain!r}"
    )


def _instance(declared: Any, plain: dict[str, Any], key: str, narrower: Mapping[str, type] | None) -> Any:
    hints, required = _fields(declared)
    hints = {**hints, **(narrower or {})}
    if unknown := plain.keys() - hints.keys():
        raise ValueError(f"{f'{key}.{min(unknown)}'.lstrip('.')}: unknown to this version")
    if missing := required - plain.keys():
        raise ValueError(f"{f'{key}.{min(missing)}'.lstrip('.')}: missing")
    return declared(**{name: _value(hints[name], value, f"{key}.{name}") for name, value in plain.items()})


@functools.cache
def _fields(declared: Any) -> tuple[dict[str, Any], set[str]]:
    """The type of each field, and the fields that have no default."""
    hints = typing.get_type_hints(declared)
    missing = dataclasses.MISSING
    fields = dataclasses.fields(declared)
    required = {field.name for field in fields if field.default is missing and field.default_factory is missing}
    return {field.name: hints[field.name] for field in fields}, required
