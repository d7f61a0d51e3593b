"""The registry of confidence methods, which finds the modules that declare one; to add a method, add a module.

A module declares a method by an attribute `METHOD` (`cocal_study.config.method.Method`), or several by a tuple of them,
and scores that tables/recalibrated compares with companions by a tuple `BASELINES`
(`cocal_study.config.method.Baseline`). The registry looks at every public module of `cocal_study.methods`, and of the
packages and modules that other distributions name by entry points of the group `cocal_study.methods`:

    [project.entry-points."cocal_study.methods"]
    mine = "my_package.methods"
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Annotated, Any, NamedTuple, cast

from pydantic import AfterValidator, GetJsonSchemaHandler

from cocal.errors import ConfigError
from cocal_study.config.method import Baseline, Method

PACKAGE = "cocal_study.methods"
"""Package that declares CoCal's own methods."""
GROUP = "cocal_study.methods"
"""Group of entry points by which other distributions name the packages or modules that declare theirs."""


class _Registry(Mapping[str, Method]):
    """The methods by name. They are searched for on first use and not on import, because a module that declares a
    method imports `cocal_study.config` itself."""

    def __getitem__(self, name: str) -> Method:
        return _found().methods[name][1]

    def __iter__(self) -> Iterator[str]:
        return iter(_found().methods)

    def __len__(self) -> int:
        return len(_found().methods)


METHODS: Mapping[str, Method] = _Registry()
"""All methods in the order of their positions.

Raises:
    ConfigError: on first use, if a module cannot be imported, declares no valid method, or declares a method whose name
        another module has already declared.
"""


def built_in() -> tuple[str, ...]:
    """The names of this package's own methods in their order. They are a study's default, so that no study changes when
    another package is installed."""
    return tuple(name for name, (module, _) in _found().methods.items() if module.startswith(f"{PACKAGE}."))


def declarations(names: Iterable[str]) -> list[str]:
    """The definitions of these methods, with their labels, colours and markers, as `code_digest` takes them."""
    return [f"{_found().methods[name][0]}:METHOD" for name in names]


def declared_baselines() -> list[Baseline]:
    """All baselines in the order of their positions. Raises ConfigError as `METHODS` does, and if a baseline scores the
    responses of a method that no module declares."""
    baselines = _found().baselines.values()
    for module, baseline in baselines:
        if baseline.method not in METHODS:
            raise ConfigError(
                f"{module}: the baseline {baseline.name!r} scores responses of {baseline.method!r}, no method"
            )
    labelled = [replace(baseline, label=baseline.label or METHODS[baseline.method].label) for _, baseline in baselines]
    return sorted(labelled, key=lambda baseline: baseline.position)


def scored_method(confidence: str) -> Method:
    """The method whose responses a confidence scores; `confidence` names a method, or a baseline and possibly a
    calibration, such as "length+platt-all". Raises ConfigError if there is no method or baseline of this name."""
    if confidence in METHODS:
        return METHODS[confidence]
    if (name := confidence.partition("+")[0]) in _found().baselines:
        return METHODS[_found().baselines[name][1].method]
    known = ", ".join(dict.fromkeys([*METHODS, *_found().baselines]))
    raise ConfigError(f"{confidence!r} is no method and no baseline; known are {known}")


class _Found(NamedTuple):
    """The module and the declaration of each method and baseline by name, methods in the order of positions."""

    methods: dict[str, tuple[str, Method]]
    baselines: dict[str, tuple[str, Baseline]]


@cache
def _found() -> _Found:
    by_type: dict[type, dict[str, tuple[str, Any]]] = {Method: {}, Baseline: {}}
    entries = sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))
    places = [(f"package {PACKAGE}", PACKAGE)]
    places += [(f"entry point {entry.name!r} of {entry.dist and entry.dist.name}", entry.value) for entry in entries]
    for source, place in places:
        try:
            declared = list(_declared(place))
        except Exception as error:  # the code of another package may raise anything
            text = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            remedy = f"cannot be loaded; repair or uninstall it ({text})"
            raise ConfigError(f"{source}: the methods of {place} {remedy}") from error
        for module, declaration in declared:
            known = by_type[type(declaration)]
            kind = type(declaration).__name__.lower()
            for other, there in known.values():
                for same in ("name", "label", "look"):
                    if (value := getattr(declaration, same, None)) and value == getattr(there, same):
                        raise ConfigError(
                            f"{source}: {module} declares a {kind} with the {same} {value!r}, as {other} does; "
                            f"give one of them another {same}"
                        )
            known[declaration.name] = module, declaration
    methods = sorted(by_type[Method].items(), key=lambda item: (item[1][1].position, item[0]))
    return _Found(dict(methods), by_type[Baseline])


def _declared(place: str) -> Iterator[tuple[str, Method | Baseline]]:
    """Names of modules with the methods and baselines that they declare; a single module must declare one."""
    modules = [place]
    if hasattr(package := import_module(place), "__path__"):
        modules = [f"{place}.{info.name}" for info in iter_modules(package.__path__) if not info.name.startswith("_")]
        modules = [module for module in modules if _assigned(module)]
    for module in modules:
        loaded = import_module(module)
        if not hasattr(loaded, "METHOD") and not hasattr(loaded, "BASELINES"):
            raise ConfigError(f"{module}: declares neither METHOD nor BASELINES")
        for name, kind in (("METHOD", Method), ("BASELINES", Baseline)):
            declared = getattr(loaded, name, ())
            for declaration in declared if isinstance(declared, tuple) else (declared,):
                if not isinstance(declaration, kind):
                    wanted = f"cocal_study.config.method.{kind.__name__}"
                    raise ConfigError(f"{module}: {name} is not a {wanted} but {declaration!r}")
                yield module, declaration


def _assigned(module: str) -> bool:
    """True if a module's text assigns METHOD or BASELINES. Other modules are not imported, because that may be slow."""
    text = cast(Any, find_spec(module)).loader.get_source(module) or ""
    return re.search(r"^(METHOD|BASELINES)\b", text, re.MULTILINE) is not None


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


def _known_baseline(name: str) -> str:
    if name in _found().baselines:
        return name
    raise ValueError(
        f"there is no baseline {name!r}; there are {', '.join(baseline.name for baseline in declared_baselines())}"
    )


BaselineName = Annotated[str, AfterValidator(_known_baseline)]
"""The name of a baseline in a configuration."""
