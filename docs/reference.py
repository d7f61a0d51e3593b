"""Pages that are written: from the code configuration keys, commands, contracts of tables and the workflow's rules; and
a notebook's."""

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from notebook import page
from rules import draw, graph, rules_page

from cocal import cli
from cocal.commands.catalogue.own import OWN
from cocal.companion.settings import OnlineSettings
from cocal.store import contracts
from cocal_study.commands.catalogue.stages import STAGES
from cocal_study.commands.catalogue.study import STUDY
from cocal_study.config.study import Study
from cocal_study.store import contracts as study_contracts


def write_reference(folder: Path) -> None:
    """Write all pages into a folder, and leave those alone that are the same."""
    folder.mkdir(exist_ok=True)
    waits = graph()
    for name, text in {
        "configuration": configuration_page(Study.model_json_schema()),
        "commands": commands_page(),
        "contracts": contracts_page(),
        "rules": rules_page(waits),
        "own_policy": page(Path(__file__).with_name("own_policy.ipynb")),
    }.items():
        file = folder / f"{name}.md"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    draw(waits, folder / "rules.png")


def configuration_page(schema: dict[str, Any]) -> str:
    """Every key of a study, from its JSON schema: one section for the study and one for each kind of settings."""
    parts = [
        "# Configuration keys",
        "Written from the model of the configuration, which `cocal schema` prints as JSON schema. A key without a "
        "default is required.",
        "## The study",
        *_keys(schema),
    ]
    recording = {"OnlineSettings": OnlineSettings.model_json_schema()}  # no study has these
    for name, settings in (schema["$defs"] | recording).items():
        parts += [f"## {name}", _markdown(settings.get("description", "")), *_keys(settings)]
    return "\n\n".join(parts) + "\n"


def _keys(settings: dict[str, Any]) -> Iterator[str]:
    rows = ["| key | value | default | |", "|---|---|---|---|"]
    for key, value in settings.get("properties", {}).items():
        default = (
            f"`{json.dumps(value['default'])}`" if _brief(value) else "" if "default" not in value else "see there"
        )
        rows.append(f"| `{key}` | {_value(value)} | {default} | {_cell(value.get('description', ''))} |")
    yield "\n".join(rows)


def _brief(value: dict[str, Any]) -> bool:
    return "default" in value and not isinstance(value["default"], dict)


def _value(value: dict[str, Any]) -> str:
    """What a key takes, in words, with links to the settings that it holds."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if choices := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_value, choices)))
    if words := value.get("enum", [value["const"]] if "const" in value else []):
        return " or ".join(f"`{word}`" for word in words)
    kind = value.get("type", "any")
    if kind == "array":
        return f"list of {_value(value['items']) if 'items' in value else len(value['prefixItems'])}"
    if kind == "object":
        named = [*value.get("patternProperties", {}).values(), value.get("additionalProperties")]
        return f"by name: {_value(named[0])}" if isinstance(named[0], dict) else "mapping"
    return {"null": "`null`", "integer": "whole number", "boolean": "`true` or `false`"}.get(kind, kind) + _limits(
        value
    )


def _limits(value: dict[str, Any]) -> str:
    names = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    found = [f"{sign} {value[name]:g}" for name, sign in names.items() if name in value]
    return f" {', '.join(found)}" if found else ""


def _markdown(docstring: str) -> str:
    """A docstring with its lines joined into paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in docstring.split("\n\n"))


def _cell(docstring: str) -> str:
    return " ".join(docstring.split()).replace("|", "\\|")


def commands_page() -> str:
    """The help of every command, as its parser prints it."""
    parts = ["# Commands", "What `cocal COMMAND --help` prints for every command."]
    groups = {"Your own policy": OWN, "A study": STUDY, "Stages of the workflow": STAGES}
    for title, commands in groups.items():
        names = [[name, *way] for name, command in commands.items() for way in [[way] for way in command.ways] or [[]]]
        parts.append(f"## {title}")
        parts += [f"### cocal {' '.join(words)}\n\n```text\n{_help(*words).strip()}\n```" for words in names]
    return "\n\n".join(parts) + "\n"


def _help(*words: str) -> str:
    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        cli.main([*words, "--help"])
    return printed.getvalue()


def contracts_page() -> str:
    """The columns and rules of every table that one stage writes and another reads."""
    source = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (contracts, study_contracts))
    parts = [
        "# Contracts of tables",
        "Every table is checked against its contract when it is written and when it is read. A column that may be null "
        "says so.",
    ]
    for name, contract in (vars(contracts) | vars(study_contracts)).items():
        if isinstance(contract, contracts.Contract):
            words = re.search(rf'^{name} = .*?^"""(.*?)"""', source, re.MULTILINE | re.DOTALL)
            rows = [f"| `{column}` | {kind} | {_checks(contract, column)} |" for column, kind in contract.types.items()]
            parts += [f"## {contract.name.capitalize()}", _markdown(words[1])]
            parts.append("\n".join(["| column | type on disk | |", "|---|---|---|", *rows]))
            rules = [rule.text for rule in contract.rules]
            rules += [f"({', '.join(contract.unique)}) must be unique"] if contract.unique else []
            parts += ["\n".join(f"* {rule}" for rule in rules)] if rules else []
    return "\n\n".join(parts) + "\n"


_WORDS = {
    "isin": "{allowed_values}",
    "greater_than_or_equal_to": "≥ {min_value}",
    "less_than_or_equal_to": "≤ {max_value:g}",
    "in_range": "from {min_value:g} to {max_value:g}",
    "str_length": "at least {min_value} characters",
    "whole_number": "whole number",
}
"""Pandera's checks in print, by their names."""


def _checks(contract: contracts.Contract, column: str) -> str:
    """What holds for the values of a column, in words."""
    if column not in contract.checks:
        return ""
    check = contract.checks[column]
    words = [_WORDS[one.name].format(**_printed(one.statistics or {})) for one in check.checks]
    return ", ".join([*words, *(["may be null"] if check.nullable else [])])


def _printed(statistics: dict[str, Any]) -> dict[str, Any]:
    """The bounds of a check, a list of words as one text."""
    listed = {
        name: " or ".join(f"`{one}`" for one in value) for name, value in statistics.items() if name == "allowed_values"
    }
    return statistics | listed
