"""Texts for the terminal: why a job runs, its name, and what a run has built."""

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from cocal.runtime.progress import in_words, job_name

LONGEST = 100
"""Largest number of characters of a reason."""

SHOWN = ("results/tables", "results/figures")
"""Folders of what a reader looks at, in the order of interest."""
VERDICT = "results/verdict.txt"
"""The verdict on the paper. A run that has built it ends with its first line."""
FIRST = ("results/tables/claims.html", "results/tables/main.html", "results/tables/all.tex")
"""The file to open first is the first of these that a run has built."""

_REASONS = {
    "Forced execution": "it is forced",
    "Missing output files": "its output is missing",
    "Incomplete output files": "its output is incomplete",
    "Updated input files": "input changed",
    "Set of input files has changed": "the list of its inputs changed",
    "Code has changed": "code changed",
    "Params have changed": "parameters changed",
    "Software environment": "software environment changed",
    "Input files updated by another job": "its input is made anew",
}
"""Short texts for Snakemake's reasons, by how these begin; the most informative ones come first."""
_CODE = "code"
_DIGEST = re.compile(r"\b([a-z]+):([0-9a-f]{16})\b")
_BETWEEN = re.compile("; (?=" + "|".join(_REASONS) + ")")
_SHELL = re.compile(r"\d*>|\|")
"""The redirection or pipe that ends a command."""


def reason_line(reason: str) -> str:
    """Why a job runs, in at most `LONGEST` characters: "its output is missing", "parameters changed: passes".

    Args:
        reason: Snakemake's text, such as "Missing output files: a, b; Code has changed since last execution".
    """
    parts = _BETWEEN.split(reason)
    given = {begin: part for begin in _REASONS for part in parts if part.startswith(begin)}
    if not given:
        return _cut(reason)
    if len(given) > 1:  # this reason is left out if there is another one
        given.pop("Input files updated by another job", None)
    said = []
    for begin, part in given.items():
        facts = ""
        if begin == "Updated input files":
            facts = part.partition(": ")[2]
        elif begin == "Params have changed":
            changed = _changed(part)
            if _CODE in changed:
                said.append(_REASONS["Code has changed"])
                changed.remove(_CODE)
                if not changed:
                    continue
            facts = ", ".join(changed)
        said.append(f"{_REASONS[begin]}: {facts}" if facts else _REASONS[begin])
    return _cut("; ".join(dict.fromkeys(said)))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4].rstrip(' ,')} ..."


def _changed(part: str) -> list[str]:
    """Names of the settings that differ between the parameters before and now. Snakemake gives only the values of
    parameters: JSON objects, whose keys are the names, and digests that are named "code" and "prompts"."""
    before, _, now = part.partition(" now: ")
    old, new = ({**dict(_leaves(_objects(text))), **_digests(text)} for text in (before, now))
    return [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]


def _digests(text: str) -> dict[str, set[str]]:
    """The digests in a text by their names."""
    found: dict[str, set[str]] = {}
    for name, digest in _DIGEST.findall(text):
        found.setdefault(name, set()).add(digest)
    return found


def _objects(text: str) -> list:
    """The JSON objects in a text."""
    decoder, found, place = json.JSONDecoder(), [], text.find("{")
    while place >= 0:
        try:
            value, end = decoder.raw_decode(text, place)
            found.append(value)
        except json.JSONDecodeError:
            end = place + 1
        place = text.find("{", end)
    return found


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """The dotted name and the JSON text of every value that is not an object."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and not name:
        for inner in value:
            yield from _leaves(inner)
    else:
        yield name, json.dumps(value)


def called(rule: str, wildcards: Mapping[str, str], shellcmd: str | None) -> str:
    """The name of a job, which is the one in its command's log lines (`cocal.runtime.progress.job_name`).

    If that is only the command's name, the wildcards follow. A job that runs no `cocal` command is named by its rule
    and wildcards.

    Args:
        shellcmd: The job's shell command, if it has one.
    """
    try:
        words = shlex.split(shellcmd or "")
    except ValueError:
        words = []
    start = next((place for place, word in enumerate(words, start=1) if PurePath(word).name == "cocal"), None)
    if start is None:
        return " ".join([rule, *map(str, wildcards.values())])
    end = next((place for place, word in enumerate(words) if place > start and _SHELL.match(word)), None)
    name = job_name(words[start:end])
    if " " not in name:
        return " ".join([name, *map(str, wildcards.values())])
    # the features of factual questions have the same command and folder, so they need another name
    return f"{name} factual" if rule.startswith("factual") and "factual" not in name else name


def summary(built: Sequence[str], seconds: float) -> str:
    """The last lines of a run: how long it took, what it has built where, what to open first, and the verdict.

    Args:
        built: Paths of all outputs of the finished jobs.
        seconds: Duration of the run.
    """
    folders = Counter("/".join(PurePath(path).parent.parts[:2]) or "." for path in built)
    order = sorted(folders, key=lambda folder: (folder not in SHOWN, SHOWN.index(folder) if folder in SHOWN else 0))
    files = ", ".join(f"{folder} ({folders[folder]})" for folder in order)
    count = f"{len(built)} files and folders were" if len(built) > 1 else "1 file or folder was"
    lines = [f"Done in {in_words(seconds)}: {count} built, in {files}."]
    lines += [f"Open {first} first." for first in FIRST if first in built][:1]
    if VERDICT in built:
        lines += Path(VERDICT).read_text(encoding="utf-8").splitlines()[:1]
    return "\n".join(lines)
