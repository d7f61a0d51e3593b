"""The rooms of the package lie in layers: each imports those below it alone, says what it is for, and stays small."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
MAP = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").partition("### The companion")[0]
LAYERS = [
    f"{package}.{room}"
    for package, table in re.findall(r"^\| room of `src/(\w+)`(.*?)\n\n", MAP, re.MULTILINE | re.DOTALL)
    for room in re.findall(r"^\| `(\w+)", table, re.MULTILINE)
]
"""The rooms of both packages, from the lowest to the highest, as the map lists them."""
ROOTS = {"cocal", "cocal.__main__", "cocal_study"}
"""The modules that belong to no room: the version, and `python -m cocal`."""
LONGEST = 400
"""Lines of a file, at most."""
CODE = {".py", ".smk", ".sh", ".yaml"}


def _layer(name: str) -> int:
    """The layer of a module or of a name in one, by its dotted name."""
    room = ".".join(name.split(".")[:2])
    return LAYERS.index(room) if room in LAYERS else -1


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


MODULES = {
    _module(file): file.read_text(encoding="utf-8")
    for package in ("cocal", "cocal_study")
    for file in (SRC / package).rglob("*.py")
}


def test_every_module_has_its_layer_on_the_map():
    assert {module for module in MODULES.keys() - ROOTS if _layer(module) < 0} == set()
    assert {*range(len(LAYERS))} <= {*map(_layer, MODULES)}


def test_imports_go_down_and_the_library_never_imports_the_study():
    """Nothing imports Snakemake either, which runs the commands."""
    found = [
        f"{module}:{line} imports {name}"
        for module, text in MODULES.items()
        for line, name in _imports(text)
        if (module not in ROOTS and _layer(name) > _layer(module)) or name.startswith("snakemake")
    ]
    assert found == []


def test_no_modules_import_each_other_even_within_functions():
    """But for the package itself, which imports `cocal.Companion` when it is asked for."""
    found = {}
    for module, text in MODULES.items():
        run = re.sub(r"^if TYPE_CHECKING:\n(?:    .*\n|\n)+", "", text, flags=re.MULTILINE)
        names = {name if name in MODULES else name.rpartition(".")[0] for _, name in _imports(run)}
        found[module] = (names & MODULES.keys()) - ROOTS
    list(TopologicalSorter(found).static_order())  # a CycleError names them


def test_every_room_says_what_it_is_for():
    assert [room for room in LAYERS if ast.get_docstring(ast.parse(MODULES[room])) is None] == []


def test_no_file_is_long():
    files = [file for folder in ("src", "workflow", "tests") for file in (ROOT / folder).rglob("*.*")]
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files if file.suffix in CODE}
    assert {str(file.relative_to(ROOT)): count for file, count in lines.items() if count > LONGEST} == {}
