"""Digest of the code that a result depends on; when it changes, the workflow reruns the rule that made the result.

The digest follows the names that a command uses, from definition to definition through the package, and hashes those
definitions. It imports and runs nothing. Comments, docstrings, annotations of functions, error texts and log lines
compute nothing and are left out. So are the modules of `OUTSIDE` and the commands, though names in these are followed.

If a command composes a module's name and imports it, the digest cannot follow it, so the caller names such modules
beside the command. They may belong to another package that brings a method; then the digest follows that package, too.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import NamedTuple

_PACKAGES = {"cocal", "cocal_study"}
_ROOT = Path(__file__).resolve().parents[2]
"""The folder of the packages."""
OUTSIDE = (
    "cocal.cli",
    # the values of settings reach a rule as its parameters, and a new key must not rerun a training
    *("cocal_study.config", "cocal.settings.base"),
    *(f"cocal.{room}.settings" for room in ("answers", "companion", "engines", "metrics")),
    "cocal.errors",
    "cocal_study.resources",
    "cocal.runtime.gpus",
    "cocal.runtime.lock",
    "cocal.runtime.machine_errors",
    "cocal.runtime.progress",
    "cocal.store.damage",
    "cocal_study.provenance.owner",
)
"""Packages and modules that compute no result: messages, locks, progress and what is checked before a run."""
_FOLLOWED = ("cocal.commands", "cocal_study.commands", "cocal_study.stages")
"""The packages whose definitions are followed but not hashed."""
_LOGS = {"logging", "logger"}


class Definition(NamedTuple):
    """A definition at the top of a module, or the whole module if `name` is None."""

    module: str
    name: str | None = None


@cache
def code_digest(*modules: str) -> str:
    """Digest of the definitions that these modules, or definitions such as "cocal_study.planning.plan:layers_of", use,
    directly or through others: "code:" and 16 hexadecimal digits. Raises ValueError if there is no such module or
    definition."""
    codes = definitions(*modules)
    text = "\n".join(
        f"{definition.module}:{definition.name}\n{codes[definition]}"
        for definition in sorted(codes, key=str)
        if codes[definition]
    )
    return f"code:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def definitions(*modules: str) -> dict[Definition, str]:
    """The definitions that `code_digest` covers, each with its code; no code for those that are only followed."""
    codes: dict[Definition, str] = {}
    todo = [Definition(module, name or None) for module, _, name in (words.partition(":") for words in modules)]
    while todo:
        definition = todo.pop()
        if definition not in codes and not _inside(definition.module, *OUTSIDE):
            code, used = _looked_up(definition)
            codes[definition] = "" if _inside(definition.module, *_FOLLOWED) else code
            todo += used
    return codes


def _inside(module: str, *rooms: str) -> bool:
    return any(module == room or module.startswith(f"{room}.") for room in rooms)


@cache
def _looked_up(definition: Definition) -> tuple[str, tuple[Definition, ...]]:
    """The code of a definition and the definitions that it uses; no code for a module or an imported name."""
    source = _module(definition.module)
    if definition.name is None:
        return "", tuple(Definition(definition.module, name) for name in source.definitions)
    if definition.name in source.definitions:
        nodes = [*source.body, *source.definitions[definition.name]]
        return "\n".join(map(ast.unparse, nodes)), tuple(used for node in nodes for used in source.names_in(node))
    if definition.name in source.imports:
        return "", (source.imports[definition.name],)
    if _file(f"{definition.module}.{definition.name}") is not None:
        return "", (Definition(f"{definition.module}.{definition.name}"),)
    raise ValueError(f"{definition.module} defines no {definition.name}")


class _Source:
    """The statements of a module that compute something: definitions and imports at its top, by name, and its `body` of
    other statements, which run whenever a name of the module is used."""

    def __init__(self, module: str, path: Path):
        self._module = module
        self._parent = module if path.stem == "__init__" else module.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, Definition] = {}
        self.body: list[ast.stmt] = []
        for node in _Computing().visit(tree).body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.imports |= dict(self._imported(node))
            elif names := list(_defined(node)):
                for name in names:
                    self.definitions.setdefault(name, []).append(node)
            elif not isinstance(node, ast.Pass) and not _is_for_types(node):
                self.body.append(node)

    def names_in(self, node: ast.AST) -> Iterator[Definition]:
        """The definitions of this package, or of the module's own package, that a statement uses."""
        parts = list(ast.walk(node))
        local = {
            name: target
            for part in parts
            if isinstance(part, (ast.Import, ast.ImportFrom))
            for name, target in self._imported(part)
        }
        yield from local.values()
        for part in parts:
            if isinstance(part, ast.Name) and part.id not in local:
                if part.id in self.definitions:
                    yield Definition(self._module, part.id)
                elif part.id in self.imports:
                    yield self.imports[part.id]

    def _imported(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Definition]]:
        """Names that a statement imports from this package or the module's own, each with its definition."""
        followed = {*_PACKAGES, self._module.split(".")[0]}
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in followed:
                    yield (alias.asname or alias.name).split(".")[0], Definition(alias.name)
        else:
            module = resolve_name("." * node.level + (node.module or ""), self._parent)
            if module.split(".")[0] in followed:
                for alias in node.names:
                    yield alias.asname or alias.name, Definition(module, alias.name)


class _Computing(ast.NodeTransformer):
    """Takes docstrings, log lines, annotations of functions and error texts out of a module."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        of_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if of_text or _is_log_call(node.value) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        if isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
        return node


def _is_log_call(node: ast.expr) -> bool:
    """True for `logging.info(...)` and `logging.getLogger(...).info(...)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).partition(".")[0] in _LOGS


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _is_for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _file(module: str) -> Path | None:
    """The source file of a module; None if there is no such module or it has no source file."""
    if module.partition(".")[0] in _PACKAGES:
        path = _ROOT.joinpath(*module.split("."))
        files = [path.with_suffix(".py"), path / "__init__.py"]
        return next((file for file in files if file.is_file()), None)
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@cache
def _module(name: str) -> _Source:
    file = _file(name)
    if file is None:
        raise ValueError(f"there is no module {name}")
    return _Source(name, file)
