"""The rooms of the package lie in layers: each imports those below it alone, says what it is for, and stays small."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
LIBRARY = [
    "errors",
    "runtime",
    "store",
    "settings",
    "answers",
    "models",
    "features",
    "engines",
    "metrics",
    "rewards",
    "companion",
    "integrations",
    "drawing",
    "own_policy",
    "serving",
    "commands",
    "cli",
]
"""The rooms of the library, from the lowest to the highest."""
STUDY = [
    "provenance",
    "config",
    "planning",
    "cubes",
    "questions",
    "backbones",
    "generation",
    "methods",
    "checks",
    "policy",
    "slime",
    "evidence",
    "exhibits",
    "resources",
    "stages",
    "commands",
]
"""The rooms of the study, likewise."""
LAYERS = [*(f"cocal.{room}" for room in LIBRARY), *(f"cocal_study.{room}" for room in STUDY)]
ROOTS = {"cocal", "cocal.__main__", "cocal_study"}
"""The modules that belong to no room: the version, and `python -m cocal`."""
LONGEST = 400
"""Lines of a file, at most."""
CODE = {".py", ".smk", ".sh", ".yaml"}


def _layer(name: str) -> int:
    """The layer of a module or of a name in one, by its dotted name."""
    words = name.split(".")
    rooms = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((LAYERS.index(room) for room in rooms if room in LAYERS), -1)


def _module(file: Path) -> str:
    return ".".join(file.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def _imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports, inside its functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _files() -> list[Path]:
    return sorted(file for package in ("cocal", "cocal_study") for file in (SRC / package).rglob("*.py"))


def _upward() -> list[str]:
    """The imports of a module that lies above the importing one."""
    found = []
    for file in _files():
        module = _module(file)
        for line, name in _imports(file.read_text(encoding="utf-8")):
            if module not in ROOTS and _layer(name) > _layer(module):
                upper, lower = LAYERS[_layer(name)], LAYERS[_layer(module)]
                found.append(f"{module}:{line} imports {name}: {upper} is not below {lower}")
    return found


def test_every_module_has_its_layer():
    modules = {*map(_module, _files())}
    assert {module for module in modules - ROOTS if _layer(module) < 0} == set()
    assert {layer for layer in LAYERS if all(_layer(module) != LAYERS.index(layer) for module in modules)} == set()


def test_imports_go_down_and_the_library_never_imports_the_study():
    assert _upward() == []


@pytest.mark.parametrize("room", [layer for layer in LAYERS if (SRC / layer.replace(".", "/")).is_dir()])
def test_every_room_says_what_it_is_for(room):
    assert ast.get_docstring(ast.parse((SRC / room.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")))


def test_the_library_does_not_know_the_workflow_manager():
    """Snakemake runs the commands; nothing of the package imports it."""
    found = [
        f"{file.relative_to(SRC)}:{line}"
        for file in _files()
        for line, name in _imports(file.read_text(encoding="utf-8"))
        if name.split(".")[0].startswith("snakemake")
    ]
    assert found == []


def test_no_file_is_long():
    files = [file for folder in ("src", "workflow", "tests") for file in (ROOT / folder).rglob("*.*")]
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.suffix in CODE}
    assert {str(file.relative_to(ROOT)): count for file, count in lines.items() if count > LONGEST} == {}
