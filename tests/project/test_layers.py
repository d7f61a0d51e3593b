"""The rooms of the package lie in layers: each imports those below it alone, says what it is for, and stays small."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/cocal"
LAYERS = [
    *("errors", "runtime", "store", "config", "study", "answers", "questions", "models", "rewards"),
    *("features", "generation", "metrics", "companion", "methods", "checks", "policy", "integrations", "evidence"),
    *("exhibits", "resources", "own_policy", "serving", "commands", "cli"),
]
"""From the lowest room to the highest."""
ROOTS = {"__init__", "__main__"}
"""The modules that belong to no room: the version, and `python -m cocal`."""
LONGEST = 400
"""Lines of a file, at most."""
CODE = {".py", ".smk", ".sh", ".yaml"}


def _room(file: Path, package: Path) -> str:
    return file.relative_to(package).parts[0].removesuffix(".py")


def _imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports, inside its functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _upward(package: Path) -> list[str]:
    """The imports of a room that does not lie below the importing one."""
    found = []
    for file in sorted(package.rglob("*.py")):
        room = _room(file, package)
        for line, name in _imports(file.read_text(encoding="utf-8")):
            first, imported, *_ = [*name.split("."), "", ""]
            if first == "cocal" and imported in LAYERS and room in LAYERS[: LAYERS.index(imported)]:
                found.append(f"{file.relative_to(package)}:{line} imports {name}: {imported} is not below {room}")
    return found


def test_every_room_has_its_layer():
    rooms = {_room(file, PACKAGE) for file in PACKAGE.rglob("*.py")}
    assert rooms - ROOTS == {*LAYERS}
    assert len({*LAYERS}) == len(LAYERS)


def test_imports_go_down():
    assert _upward(PACKAGE) == []


@pytest.mark.parametrize("room", [room for room in LAYERS if (PACKAGE / room).is_dir()])
def test_every_room_says_what_it_is_for(room):
    assert ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")))


def test_the_library_does_not_know_the_workflow_manager():
    """Snakemake runs the commands; nothing of the package imports it."""
    found = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in PACKAGE.rglob("*.py")
        for line, name in _imports(file.read_text(encoding="utf-8"))
        if name.split(".")[0].startswith("snakemake")
    ]
    assert found == []


def test_no_file_is_long():
    files = [file for folder in ("src", "workflow", "tests") for file in (ROOT / folder).rglob("*.*")]
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.suffix in CODE}
    assert {str(file.relative_to(ROOT)): count for file, count in lines.items() if count > LONGEST} == {}
