"""The daemons of a node: one small file each, which declares its ``SPEC``.

The modules of this package are the list.  A daemon starts behind those that its SPEC names in ``after`` and ``needs``,
otherwise in the order of names; :data:`DAEMONS` is that start order, and stopping goes the other way.
"""

from importlib import import_module
from pkgutil import iter_modules

from ringrift.supervision.spec import Daemon, in_order

_MODULES = sorted(module.name for module in iter_modules(__path__))
DAEMONS: tuple[Daemon, ...] = in_order([import_module(f"{__name__}.{name}").SPEC for name in _MODULES])
ROLES: tuple[str, ...] = tuple(sorted({daemon.role for daemon in DAEMONS if daemon.role is not None}))
