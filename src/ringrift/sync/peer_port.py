"""Where a worker serves its peers: an address, and TLS by an authority of its own that peers trust for it alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ringrift.kernel.clock import Clock
from ringrift.kernel.settings import Settings
from ringrift.kernel.value import changed
from ringrift.wire.address import Address, is_loopback, parse_address, reachable_host
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Wire
from ringrift.wire.tls import make_certificates

_DAYS = 365  # a new certificate is made at each start
_FOLDER = "peer_certs"


@contextmanager
def open_peer_port(settings: Settings, clock: Clock) -> Iterator[tuple[Wire, str, str]]:
    """A wire to serve by, the address of ``node.serve``, and the authority that peers trust there, as PEM.

    Without TLS only within this machine, or where ``wire.insecure`` says so.  Raises InputError, SettingsError.
    """
    bind, own, authority = parse_address(settings.node.serve), settings.wire, ""
    if own.cert:
        authority = Path(own.ca).read_text() if own.ca else ""
    elif not is_loopback(bind.host) and not own.insecure:
        folder = Path(settings.blobs.address()).parent / _FOLDER
        cert, _ = make_certificates(folder, [reachable_host(bind.host)], clock.now(), _DAYS)
        own = changed(own, cert=str(cert), key=str(cert.with_suffix(".key")))
        authority = (folder / "ca.pem").read_text()
    wire = open_wire(own)
    try:
        yield wire, str(Address(host=bind.host, port=bind.port)), authority
    finally:
        wire.close()
