"""The code that a result depends on, as a digest: what a rule of the workflow reruns on when code changes.

The digest follows the names that a command uses, from definition to definition through the package, and hashes what
it finds. Nothing is imported or run. A comment, a docstring, an annotation of a function, the text of an error or a
line of the log computes nothing and is left out, and so are the settings models of `cocal.config`: what they decide
reaches a rule as its parameters, and a new key of theirs must not rerun a training.

Modules that a command imports by a name that it puts together cannot be followed. They are given beside the command.
They may be of another package, such as one that brings a method: then they are followed through it, too.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import NamedTuple

_PACKAGE = "cocal"
_ROOT = Path(__file__).resolve().parents[1]
_SETTINGS = "cocal.config"
_LOGS = {"logging", "logger"}


class _Name(NamedTuple):
    """A definition at the top of a module, or the whole module if `name` is None."""

    module: str
    name: str | None = None


def code_digest(*modules: str) -> str:
    """Digest of the definitions that these modules use, directly or through others.

    Args:
        modules: such as "cocal.commands.train"; or one definition, as "cocal.study.plan:layers_of".

    Returns:
        "code:" and the first 16 hexadecimal digits of a SHA-256.

    Raises:
        ValueError: if there is no such module or definition.
    """
    found: dict[_Name, str] = {}
    todo = [_Name(module, name or None) for module, _, name in (words.partition(":") for words in modules)]
    while todo:
        one = todo.pop()
        if one not in found and not one.module.startswith(_SETTINGS):
            found[one], used = _looked_up(one)
            todo += used
    text = "\n".join(f"{one.module}:{one.name}\n{code}" for one, code in sorted(found.items(), key=str) if code)
    return f"code:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@cache
def _looked_up(one: _Name) -> tuple[str, tuple[_Name, ...]]:
    """The code of a definition, and the definitions that it uses; no code of its own for what only leads to others."""
    source = _module(one.module)
    if one.name is None:
        return "", tuple(_Name(one.module, name) for name in source.definitions)
    if one.name in source.definitions:
        nodes = [*source.body, *source.definitions[one.name]]
        return "\n".join(map(ast.unparse, nodes)), tuple(used for node in nodes for used in source.names_in(node))
    if one.name in source.imports:
        return "", (source.imports[one.name],)
    if _file(f"{one.module}.{one.name}") is not None:
        return "", (_Name(f"{one.module}.{one.name}"),)
    raise ValueError(f"{one.module} defines no {one.name}")


class _Source:
    """What a module says, without what computes nothing.

    Attributes:
        definitions: functions, classes and assignments at the top of the module, by name.
        imports: names that the module imports at its top from this package or its own.
        body: other statements at its top, which run whenever a name of the module is used.
    """

    def __init__(self, module: str, path: Path):
        self._module = module
        self._parent = module if path.stem == "__init__" else module.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, _Name] = {}
        self.body: list[ast.stmt] = []
        for node in _bare(tree.body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports |= dict(self._imported(node))
            elif names := list(_defined(node)):
                for name in names:
                    self.definitions.setdefault(name, []).append(node)
            elif not _for_types_alone(node):
                self.body.append(node)

    def names_in(self, node: ast.AST) -> Iterator[_Name]:
        """The definitions of this package, or the module's own, that a statement uses."""
        local = {
            name: target
            for part in ast.walk(node)
            if isinstance(part, (ast.Import, ast.ImportFrom))
            for name, target in self._imported(part)
        }
        yield from local.values()
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id not in local:
                if part.id in self.definitions:
                    yield _Name(self._module, part.id)
                elif part.id in self.imports:
                    yield self.imports[part.id]

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, _Name]]:
        """Names of this package and of the module's own that a statement imports, and what they are."""
        followed = {_PACKAGE, self._module.split(".")[0]}
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in followed:
                    yield (alias.asname or alias.name).split(".")[0], _Name(alias.name)
        else:
            module = resolve_name("." * node.level + (node.module or ""), self._parent)
            if module.split(".")[0] in followed:
                for alias in node.names:
                    yield alias.asname or alias.name, _Name(module, alias.name)


def _bare(statements: list[ast.stmt]) -> list[ast.stmt]:
    """Statements, changed in place, without what computes nothing: texts that stand alone (docstrings), lines of the
    log, annotations of functions, texts of errors."""
    kept = [
        node for node in statements if not (isinstance(node, ast.Expr) and (_text(node.value) or _logs(node.value)))
    ]
    for node in kept:
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for argument in ast.walk(node.args):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            for field in ("body", "orelse", "finalbody"):
                if inner := getattr(part, field, None):
                    setattr(part, field, _bare(inner))
    return kept or [ast.Pass()]


def _text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _logs(node: ast.expr) -> bool:
    """Whether an expression calls a function of a logger: `logging.info(...)`, `logging.getLogger(...).info(...)`."""
    if not isinstance(node, ast.Call):
        return False
    while not isinstance(node, ast.Name):
        if not isinstance(node, (ast.Call, ast.Attribute)):
            return False
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id in _LOGS


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _for_types_alone(node: ast.stmt) -> bool:
    """`if TYPE_CHECKING:`, or nothing."""
    of_types = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return of_types or isinstance(node, ast.Pass)


def _file(module: str) -> Path | None:
    """Where a module is written; None if there is no such module, or no text of it."""
    package, *inner = module.split(".")
    if package == _PACKAGE:
        path = _ROOT.joinpath(*inner)
        files = [path.with_suffix(".py"), path / "__init__.py"]
        return next((file for file in files if file.is_file()), None)
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and str(spec.origin).endswith(".py") else None


@cache
def _module(name: str) -> _Source:
    file = _file(name)
    if file is None:
        raise ValueError(f"there is no module {name}")
    return _Source(name, file)
