"""Tables and figures. Each has one module, which holds everything about it."""

import pkgutil

MODULES = tuple(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
"""Names of the exhibits, each of which is the module of that name."""
