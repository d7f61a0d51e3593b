"""Tables and figures. Those that are made alike have one module, which holds everything about them."""

import pkgutil

MODULES = tuple(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)
"""Names of the modules."""
