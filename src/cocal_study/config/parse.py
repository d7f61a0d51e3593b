"""Settings from YAML or JSON: a validated model, or one clear error."""

import json
import reprlib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cocal.errors import ConfigError

M = TypeVar("M", bound=BaseModel)


class _UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML would silently keep the last value."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice (line {line})")
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises ConfigError if the file is missing, is not YAML, repeats a key or holds no
    mapping."""
    path = Path(path)
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)  # a SafeLoader
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file; check the path, or run in the checkout") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected a mapping of keys, found {type(content).__name__}")
    return content


def merged(content: Mapping[str, Any], keys: Mapping[str, Any], *, removing: bool = False) -> dict[str, Any]:
    """The content with the values of `keys` put in; nested mappings are merged key by key. With `removing`, a key with
    the value None is removed."""
    combined = dict(content)
    for key, value in keys.items():
        if removing and value is None:
            combined.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(combined.get(key), Mapping):
            combined[key] = merged(combined[key], value, removing=removing)
        else:
            combined[key] = value
    return combined


def validate(model: type[M], content: Mapping[str, Any], source: str) -> M:
    """Validate `content` as `model`. Raises ConfigError if it is not valid; the message names `source` and has a line
    for each wrong key."""
    try:
        return model.model_validate(content)
    except ValidationError as error:
        lines = [f"{source}: {error.error_count()} problem(s) in the configuration"]
        for problem in error.errors():
            key = ".".join(str(part) for part in problem["loc"]) or "(whole file)"
            if problem["type"] == "extra_forbidden":
                lines.append(f"  {key}: unknown key{_suggestion(model, problem['loc'])}")
            elif problem["type"] == "missing":
                lines.append(f"  {key}: required, but missing")
            else:
                lines.append(f"  {key}: {problem['msg']} (got {reprlib.repr(problem['input'])})")
        raise ConfigError("\n".join(lines)) from None


def _suggestion(model: type[BaseModel], location: tuple[Any, ...]) -> str:
    """A hint that names the nearest known key, found by walking the JSON schema along `location`."""
    schema = model.model_json_schema()

    def alternatives(node: dict[str, Any]) -> list[dict[str, Any]]:
        while "$ref" in node:
            node = schema["$defs"][node["$ref"].rpartition("/")[2]]
        below = (part for kind in ("oneOf", "anyOf") for part in node.get(kind, ()))
        return [node, *(alternative for part in below for alternative in alternatives(part))]

    nodes = alternatives(schema)
    for part in location[:-1]:
        below = [node.get("properties", {}).get(part, node.get("additionalProperties")) for node in nodes]
        # the name of a variant is part of a location and not of the schema
        nodes = [alternative for node in below if isinstance(node, dict) for alternative in alternatives(node)] or nodes
    keys = {key for node in nodes for key in node.get("properties", ())}
    nearest = get_close_matches(str(location[-1]), keys, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def parse_settings(model: type[M], text: str | None, flag: str = "--settings") -> M:
    """Settings of one command: JSON text, the path of a YAML or JSON file, or None for the defaults. Errors name
    `flag`, which gave the text. Raises ConfigError if they are not valid for `model`."""
    if text is None:
        return validate(model, {}, "default settings")
    if not text.lstrip().startswith("{"):
        return validate(model, read_yaml(text), text)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{flag}: not valid JSON: {error}") from None
    return validate(model, content, flag)
