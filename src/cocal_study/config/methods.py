"""The registry of confidence methods, which finds the modules that declare one; to add a method, add a module.

A module declares a method by an attribute `METHOD` (`cocal_study.config.method.Method`), or several by a tuple of them.
The registry looks at every public module of `cocal_study.methods`, and of the packages and modules that other
distributions name by entry points of the group `cocal_study.methods`:

    [project.entry-points."cocal_study.methods"]
    mine = "my_package.methods"
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Annotated, Any

from pydantic import AfterValidator, GetJsonSchemaHandler

from cocal.errors import ConfigError
from cocal_study.config.method import Method

PACKAGE = "cocal_study.methods"
"""Package that declares CoCal's own methods."""
GROUP = "cocal_study.methods"
"""Group of entry points by which other distributions name the packages or modules that declare theirs."""


class _Registry(Mapping[str, Method]):
    """The methods by name. They are searched for on first use and not on import, because a module that declares a
    method imports `cocal_study.config` itself."""

    def __getitem__(self, name: str) -> Method:
        return _found()[name][1]

    def __iter__(self) -> Iterator[str]:
        return iter(_found())

    def __len__(self) -> int:
        return len(_found())


METHODS: Mapping[str, Method] = _Registry()
"""All methods in the order of their positions.

Raises:
    ConfigError: on first use, if a module cannot be imported, declares no valid method, or declares a method whose name
        another module has already declared.
"""


def built_in() -> tuple[str, ...]:
    """The names of this package's own methods in their order. They are a study's default, so that no study changes when
    another package is installed."""
    return tuple(name for name, (module, _) in _found().items() if module.startswith(f"{PACKAGE}."))


def declarations(names: Iterable[str]) -> list[str]:
    """The definitions of these methods, with their labels, colours and markers, as `code_digest` takes them."""
    return [f"{_found()[name][0]}:METHOD" for name in names]


@cache
def _found() -> dict[str, tuple[str, Method]]:
    """The module and the declaration of each method by name, in the order of positions."""
    found: dict[str, tuple[str, Method]] = {}
    others = sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value))
    places = [(f"package {PACKAGE}", PACKAGE)]
    places += [(f"entry point {one.name!r} of {one.dist.name}", one.value) for one in others]
    for source, place in places:
        try:
            declared = list(_declared(place))
        except Exception as error:  # the code of another package may raise anything
            text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            raise ConfigError(
                f"{source}: the methods of {place} cannot be loaded; repair or uninstall it ({text})"
            ) from error
        for module, method in declared:
            if method.name in found:
                raise ConfigError(
                    f"{source}: {module} declares the method {method.name!r}, which {found[method.name][0]} declares; "
                    "give one of them another name"
                )
            found[method.name] = module, method
    return dict(sorted(found.items(), key=lambda item: (item[1][1].position, item[0])))


def _declared(place: str) -> Iterator[tuple[str, Method]]:
    """Names of modules with the methods that they declare; a single module must declare one."""
    modules = [place]
    if hasattr(package := import_module(place), "__path__"):
        modules = [f"{place}.{one.name}" for one in iter_modules(package.__path__) if not one.name.startswith("_")]
        modules = [module for module in modules if _assigns_method(module)]
    for module in modules:
        declared = getattr(import_module(module), "METHOD", None)
        for method in declared if isinstance(declared, tuple) else (declared,):
            if not isinstance(method, Method):
                raise ConfigError(f"{module}: METHOD is not a cocal_study.config.method.Method but {method!r}")
            yield module, method


def _assigns_method(module: str) -> bool:
    """True if a module's text assigns METHOD. Other modules are not imported, because that may be slow."""
    return re.search(r"^METHOD\b", find_spec(module).loader.get_source(module) or "", re.MULTILINE) is not None


class _OfRegistry:
    """The JSON schema of a method's name: editors offer the methods of this package and admit others."""

    @staticmethod
    def __get_pydantic_json_schema__(core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(built_in())}, handler(core)]}


def _known(name: str) -> str:
    if name in METHODS:
        return name
    near = get_close_matches(name, METHODS, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"there is no method {name!r}; {hint}there are {', '.join(METHODS)}")


MethodName = Annotated[str, AfterValidator(_known), _OfRegistry()]
"""The name of a method in a configuration."""
