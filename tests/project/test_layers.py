"""The rooms of the package lie in layers: each imports those below it alone, says what it is for, and stays small."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/cocal"
LIBRARY = [
    *("errors", "runtime", "store", "config.base", "config.parse", "answers", "models", "features"),
    *("generation.settings", "generation.states", "generation.engine", "generation.states_connector"),
    *("generation.states_scheduler", "generation.vllm_engine"),
    *(
        "metrics",
        "companion",
        "rewards",
        "policy.objectives",
        "policy.learner",
        "integrations",
        "exhibits.drawing.style",
    ),
    *("exhibits.drawing.bins", "own_policy", "serving", "commands.outputs", "commands.flags", "commands.words"),
    *("commands.catalogue.own", "commands.catalogue", "commands.fit", "commands.score", "commands.evaluate"),
    *("commands.decide", "commands.monitor", "commands.serve", "cli"),
]
"""What somebody needs for a policy of her own, as rooms or single modules, from the lowest to the highest."""
STUDY = [
    *("store.code", "store.owner", "runtime.slurm", "config", "study", "metrics.cells", "metrics.cube"),
    *("metrics.resamples", "questions", "models.packaged", "models.pretraining", "models.importing"),
    *("features.evaluated", "features.replay", "generation", "companion.latency", "methods", "checks", "policy"),
    *("integrations.importing", "integrations.slime.hooks", "integrations.slime.run", "evidence", "exhibits"),
    *(
        "resources",
        "commands.stage_flags",
        "commands.catalogue.stages",
        "commands.catalogue.study",
        "commands.catalogue.whole",
        "commands",
    ),
]
"""The reproduction, likewise."""
LAYERS = [*LIBRARY, *STUDY]
ROOTS = {"__init__", "__main__"}
"""The modules that belong to no room: the version, and `python -m cocal`."""
LONGEST = 400
"""Lines of a file, at most."""
CODE = {".py", ".smk", ".sh", ".yaml"}


def _layer(name: str) -> int:
    """The layer of a module or of a name in one, by its dotted name without the package."""
    words = name.split(".")
    rooms = (".".join(words[:count]) for count in range(len(words), 0, -1))
    return next((LAYERS.index(room) for room in rooms if room in LAYERS), -1)


def _module(file: Path, package: Path) -> str:
    return ".".join(file.relative_to(package).with_suffix("").parts).removesuffix(".__init__")


def _imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that a module imports, inside its functions too."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import hides where it leads"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _upward(package: Path) -> list[str]:
    """The imports of a module that lies above the importing one."""
    found = []
    for file in sorted(package.rglob("*.py")):
        module = _module(file, package)
        for line, name in _imports(file.read_text(encoding="utf-8")):
            first, _, imported = name.partition(".")
            if first == "cocal" and module not in ROOTS and _layer(imported) > _layer(module):
                upper, lower = LAYERS[_layer(imported)], LAYERS[_layer(module)]
                found.append(f"{module}:{line} imports {name}: {upper} is not below {lower}")
    return found


def test_every_module_has_its_layer():
    modules = {_module(file, PACKAGE) for file in PACKAGE.rglob("*.py")}
    assert {module for module in modules - ROOTS if _layer(module) < 0} == set()
    assert {layer for layer in LAYERS if all(_layer(module) != LAYERS.index(layer) for module in modules)} == set()


def test_imports_go_down_and_the_library_never_imports_the_study():
    assert LAYERS.index(LIBRARY[-1]) < LAYERS.index(STUDY[0])
    assert _upward(PACKAGE) == []


@pytest.mark.parametrize(
    "room", sorted(place.name for place in PACKAGE.iterdir() if place.is_dir() and place.name != "__pycache__")
)
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
