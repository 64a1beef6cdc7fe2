"""The only place that knows which engine carries requests."""

from ringrift.kernel.extras import require_module
from ringrift.kernel.settings import WireSettings
from ringrift.wire.ports import Wire


def open_wire(settings: WireSettings, *, trust_any: bool = False, authority: str = "") -> Wire:
    """The wire between machines.  Raises MissingExtra.

    *authority*, as PEM, is trusted instead of that of the settings: for the address of one peer.
    With *trust_any* it talks to whoever has a certificate: only for a join, which proves both sides by the token and
    learns which authority to trust from then on.
    """
    require_module("httptools", "cluster")
    from ringrift.wire.http.engine import HttpWire  # only here: a run on one machine does not load it

    return HttpWire(settings, trust_any=trust_any, authority=authority)
