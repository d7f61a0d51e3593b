"""The mutants: wrong lines that a test must notice, one YAML file for each room of the package."""

from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "mutants"


@dataclass(frozen=True)
class Mutant:
    """One wrong line.

    Attributes:
        room: Name of its YAML file.
        name: Its name, which no other mutant of the room has.
        file: The file that it changes, relative to the root of the repository.
        find: Text that occurs exactly once in this file.
        replace: Text that takes its place.
        tests: Test files or node ids that are meant to notice it.
        survives: Why no test can notice it; empty for a mutant that must be noticed.
    """

    room: str
    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    survives: str = ""

    def applied_to(self, text: str) -> str:
        """The wrong text of the file.

        Raises:
            ValueError: if `find` does not occur exactly once, or if the wrong text is no valid Python.
        """
        if text.count(self.find) != 1:
            raise ValueError(f"{self.find!r} occurs {text.count(self.find)} times in {self.file}")
        wrong = text.replace(self.find, self.replace)
        if wrong == text:
            raise ValueError("the mutant changes nothing")
        if self.file.endswith(".py"):
            try:
                compile(wrong, self.file, "exec")
            except SyntaxError as error:
                raise ValueError(f"the mutant is no valid Python: {error}") from error
        return wrong


def all_mutants() -> list[Mutant]:
    """The mutants of all rooms, in the order of the rooms' names."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C reads the files ten times faster
    return [
        Mutant(**{**one, "room": path.stem, "tests": tuple(one["tests"])})
        for path in sorted(FOLDER.glob("*.yaml"))
        for one in yaml.load(path.read_text(encoding="utf-8"), loader)
    ]
