"""YAML files to typed records, with one sentence for whatever is wrong in them.

Every complaint names the file, the path of the key, what was found and what is allowed, and offers the nearest name
for a typo. Callers print `str(error)` and stop; nothing has been computed by then.
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import jsonschema
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

T = TypeVar("T", bound=BaseModel)


class ConfigError(Exception):
    """Something a user wrote cannot be run; the text is the one sentence to show."""


def complain(file: str, path: str, what: str) -> ConfigError:
    """The sentence itself: file, key path, what is wrong and what is allowed."""
    return ConfigError(f"{file}: {path}: {what}" if path else f"{file}: {what}")


def choice(found: object, allowed: Iterable[str]) -> str:
    """What was found, what is allowed and the nearest name: `found 'zetta'; allowed: ...; did you mean 'zeta'?`."""
    names = sorted(allowed)
    near = difflib.get_close_matches(str(found), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"found {found!r}; allowed: {', '.join(names) or 'nothing'}{hint}"


# ---------------------------------------------------------------- YAML


class _Loader(yaml.CSafeLoader):
    """SafeLoader that refuses a key written twice and reads 1e-3 as a number; libyaml's, which is many times faster."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is written twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def read_yaml(file: Path, shown_as: str) -> dict[str, Any]:
    """The mapping in a YAML file."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise complain(shown_as, "", "the file does not exist") from None
    try:
        found = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise complain(shown_as, where, f"not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(found, dict):
        raise complain(shown_as, "", f"expected a mapping of keys to values, found {kind(found)}")
    return found


# ---------------------------------------------------------------- pydantic


def parse(model: type[T], found: object, file: str, at: str = "") -> T:
    """`found` as a `model`, or a `ConfigError` about its first problem."""
    try:
        return model.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        keys, fields = _follow(model, first["loc"])
        path = ".".join(([at] if at else []) + keys)
        raise complain(file, path, _explain(first, fields)) from None


def _explain(problem: ErrorDetails, fields: list[str]) -> str:
    """What is wrong at one key and what is allowed there; `fields` are the keys beside it."""
    sort, found = problem["type"], problem["input"]
    if sort == "extra_forbidden":
        return "unknown key: " + choice(str(problem["loc"][-1]), fields)
    if sort == "union_tag_not_found":
        return f"the key {problem['ctx']['discriminator']} is missing"
    if sort == "union_tag_invalid":
        tags = [tag.strip().strip("'") for tag in problem["ctx"]["expected_tags"].split(",")]
        return f"{problem['ctx']['discriminator']}: {choice(problem['ctx']['tag'], tags)}"
    if sort == "missing":
        return "this key is missing"
    if sort == "literal_error":
        return choice(found, [part.strip().strip("'") for part in re.split(r",| or ", problem["ctx"]["expected"])])
    if sort == "value_error":
        return str(problem["ctx"]["error"])
    expected = problem["msg"][0].lower() + problem["msg"][1:]
    return f"{expected}; found {kind(found)}"


def _follow(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[list[str], list[str]]:
    """Keys of the path that pydantic names, and the names of the fields beside the last one.

    Where a record is one of several, told apart by a field such as `rule`, pydantic puts the value of that field into
    the path; no such key stands in the file.
    """
    here: Any = model
    keys: list[str] = []
    fields: list[str] = []
    for part in map(str, loc):
        if get_origin(here) in (types.UnionType, Union):
            options = [option for option in get_args(here) if option is not type(None)]
            here = next((option for option in options if part in _tags(option)), options[0])
            if part in _tags(here):
                continue
        keys.append(part)
        if isinstance(here, type) and issubclass(here, BaseModel):
            fields = list(here.model_fields)
            here = here.model_fields[part].annotation if part in here.model_fields else None
        else:
            fields, here = [], (get_args(here) or (None,))[-1]
    return keys, fields


def _tags(option: Any) -> set[str]:
    """Values of the fields by which a record is told apart from others."""
    if not (isinstance(option, type) and issubclass(option, BaseModel)):
        return set()
    kinds = [field.annotation for field in option.model_fields.values() if field.is_required()]
    return {str(get_args(kind)[0]) for kind in kinds if get_origin(kind) is Literal and len(get_args(kind)) == 1}


def kind(found: object) -> str:
    """A value as a person would name it: `'ten' (text)`."""
    words = {str: "text", bool: "true/false", int: "a whole number", float: "a number", dict: "a mapping",
             list: "a list", type(None): "nothing"}  # fmt: skip
    name = words.get(type(found), type(found).__name__)
    return name if found is None or isinstance(found, (dict, list)) else f"{found!r} ({name})"


# ---------------------------------------------------------------- JSON schema (methods and networks, without torch)


def fill(schema: Mapping[str, Any], found: Mapping[str, Any], file: str, at: str) -> dict[str, Any]:
    """`found` checked against a generated schema, defaults filled in and numbers made floats.

    Every field comes back, in the schema's order: two spellings of one configuration give one identity.
    """
    validator = jsonschema.Draft202012Validator(dict(schema))
    for error in sorted(validator.iter_errors(dict(found)), key=lambda e: [str(p) for p in e.absolute_path]):
        path = ".".join([at, *map(str, error.absolute_path)])
        raise complain(file, path, _explain_schema(error)) from None
    full: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        value = found[name] if name in found else field.get("default")
        full[name] = float(value) if field.get("type") == "number" else value
    return full


def _explain_schema(error: jsonschema.ValidationError) -> str:
    schema: Any = error.schema
    instance: Any = error.instance
    if error.validator == "additionalProperties":
        allowed = schema["properties"]
        return "unknown key: " + choice(next(key for key in instance if key not in allowed), allowed)
    if error.validator == "required":
        missing = [name for name in schema["required"] if name not in instance]
        return f"the key {missing[0]!r} is missing"
    if error.validator == "enum":
        return choice(instance, map(str, schema["enum"]))
    if error.validator == "type":
        return f"expected {schema['type']}; found {kind(instance)}"
    return f"{error.message} (expected {json.dumps({str(error.validator): error.validator_value})})"
