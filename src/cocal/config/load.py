"""Reading of configurations: YAML or JSON becomes a validated model, or raises one clear error.

The model of a whole study is imported where one is read. Most commands read the settings of their stage alone.
"""

import json
import reprlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from cocal.errors import ConfigError

if TYPE_CHECKING:
    from cocal.config.study import Study

M = TypeVar("M", bound=BaseModel)
_SINGLE_KEYS = "--config 'companion={passes: 10}'"


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
    """The mapping in a YAML file.

    Raises:
        ConfigError: if the file is missing, is not YAML, repeats a key or holds no mapping.
    """
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


def validate(model: type[M], content: Mapping[str, Any], source: str) -> M:
    """Validate `content` as `model`.

    Raises:
        ConfigError: if it is not valid; the message names `source` and has a line for each wrong key.
    """
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
        return [
            node,
            *(one for kind in ("oneOf", "anyOf") for part in node.get(kind, ()) for one in alternatives(part)),
        ]

    nodes = alternatives(schema)
    for part in location[:-1]:
        below = [node.get("properties", {}).get(part, node.get("additionalProperties")) for node in nodes]
        # the name of a variant is part of a location and not of the schema
        nodes = [one for node in below if isinstance(node, dict) for one in alternatives(node)] or nodes
    keys = {key for node in nodes for key in node.get("properties", ())}
    nearest = get_close_matches(str(location[-1]), keys, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def load_study(path: str | Path, overrides: Mapping[str, Any] | None = None) -> "Study":
    """The study in a YAML file, with `overrides` merged into it key by key.

    Raises:
        ConfigError: if the file or the merged result is not a valid study.
    """
    from cocal.config.study import Study

    return validate(Study, _merge(read_yaml(path), overrides or {}), str(path))


def configured_study(files: Sequence[str | Path], changes: Mapping[str, Any]) -> "Study":
    """The study of a run of the workflow.

    Args:
        files: Files that --configfile names; only one is allowed.
        changes: Values that --config gives for some keys; nested mappings are merged into the study key by key.

    Raises:
        ConfigError: if there are several files, the file is not a whole study, or the result is not a valid study.
    """
    if len(files) > 1:
        raise ConfigError(
            f"--configfile {' '.join(map(str, files))}: a run has one study, and files are never merged; "
            f"change single keys of a study with {_SINGLE_KEYS}"
        )
    if "study" not in read_yaml(files[0]):
        raise ConfigError(
            f"{files[0]}: no key `study:`. A file given with --configfile is a whole study and replaces the default; "
            f"change single keys of a study with {_SINGLE_KEYS}"
        )
    return load_study(files[0], changes)


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def parse_settings(model: type[M], text: str | None, flag: str = "--settings") -> M:
    """Settings of one command: JSON text, the path of a YAML or JSON file, or None for the defaults.

    Args:
        flag: Command-line flag of the text, for errors.

    Raises:
        ConfigError: if they are not valid for `model`.
    """
    if text is None:
        return validate(model, {}, "default settings")
    if not text.lstrip().startswith("{"):
        return validate(model, read_yaml(text), text)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{flag}: not valid JSON: {error}") from None
    return validate(model, content, flag)
