"""TLS of the wire: contexts of both sides, an authority of one's own, and certificates signed by it."""

import asyncio
import ssl
from asyncio import sslproto
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from ringrift.kernel.errors import InputError, SettingsError
from ringrift.kernel.extras import require_module
from ringrift.wire.address import parse_ip
from ringrift.wire.keys import write_whole

_FILES = {"wire.cert": "coordinator.pem", "wire.key": "coordinator.key", "wire.ca": "ca.pem"}
_CA_DAYS = 3650
_EARLIER = timedelta(days=1)  # valid from then: the clock of a worker may be behind
_NAME_CHARACTERS_MAX = 253
_MARKS = str.maketrans("", "", "-_")


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """TLS 1.3 of a coordinator with the certificate chain *cert* and its *key*.  Raises SettingsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # a worker keeps its connection; tickets would only cost memory
    try:
        context.load_cert_chain(cert, key or None)
    except (OSError, ValueError) as error:
        raise SettingsError("wire.cert", cert, f"cannot be used with wire.key {key!r}: {error}") from error
    return context


class ServerProtocol(sslproto.SSLProtocol):
    """TLS around one connection of a server, with a buffer of a record or two: that of asyncio has 256 KiB for each."""

    max_size = 32 * 1024

    def __init__(
        self, inner: asyncio.Protocol, context: ssl.SSLContext, seconds_max: float, connections: set[Any], most: int
    ) -> None:
        loop, waiter = asyncio.get_running_loop(), cast("asyncio.Future[None]", None)  # nobody waits for the handshake
        times: dict[str, Any] = {"ssl_handshake_timeout": seconds_max, "ssl_shutdown_timeout": 1.0}
        super().__init__(loop, inner, context, waiter, server_side=True, **times)
        self._connections, self._most = connections, most

    def connection_made(self, transport: Any) -> None:
        """Begin the handshake, unless there are too many connections: those that never finish one count too."""
        self._connections.add(self)
        if len(self._connections) > self._most:
            transport.abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, error: BaseException | None) -> None:
        """End."""
        self._connections.discard(self)
        super().connection_lost(error)


def client_context(ca: str, *, trust_any: bool = False, authority: str = "") -> ssl.SSLContext:
    """TLS 1.3 of a node that trusts the authority in the file *ca* alone, or those of the system if it is empty.

    *authority* is trusted instead, as PEM: that of one peer.
    With *trust_any* whoever answers is talked to: for a join, which proves itself.  Raises SettingsError.
    """
    try:
        trusted = {"cadata": authority} if authority else {"cafile": ca or None}
        context = ssl.create_default_context(**trusted)
    except (OSError, ValueError) as error:
        raise SettingsError("wire.ca", ca, f"is not a file of certificates: {error}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if trust_any:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def names_of(cert: str) -> frozenset[str]:
    """The host names for which the first certificate of the file *cert* is valid; IP addresses are not listed."""
    x509: Any = require_module("cryptography.x509", "cluster")
    try:
        first = x509.load_pem_x509_certificate(Path(cert).read_bytes())
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        return frozenset()
    return frozenset(name.lower() for name in names.get_values_for_type(x509.DNSName))


def own_settings(home: str) -> dict[str, object]:
    """The settings of a coordinator whose certificates :func:`make_certificates` has made in *home*, else none."""
    paths = {key: Path(home, "certs", name) for key, name in _FILES.items()}
    return {key: str(path) for key, path in paths.items()} if all(map(Path.is_file, paths.values())) else {}


def make_certificates(folder: Path, names: Iterable[str], now: float, days: int) -> tuple[Path, datetime]:
    """A certificate for *names*, signed by the authority in *folder*, which is made if there is none.

    Returns the certificate's file and until when it is valid.  Raises InputError, SettingsError.
    """
    ca, ca_key, cert, key = (folder / name for name in ("ca.pem", "ca.key", "coordinator.pem", "coordinator.key"))
    begin = datetime.fromtimestamp(now, UTC) - _EARLIER
    if not ca.exists():
        _write(ca, ca_key, _sign("RingRift authority", (), begin, _CA_DAYS, None))
    try:
        authority = _load(ca, ca_key)
    except (OSError, ValueError, TypeError) as error:
        raise SettingsError("authority", str(folder), f"{ca_key.name} does not open: {error}") from error
    end = min(begin + _EARLIER + timedelta(days=days), authority[0].not_valid_after_utc)
    _write(cert, key, _sign("RingRift coordinator", tuple(names), begin, (end - begin).days, authority))
    return cert, end


def _load(cert: Path, key: Path) -> tuple[Any, Any]:
    x509: Any = require_module("cryptography.x509", "cluster")
    serialization: Any = require_module("cryptography.hazmat.primitives.serialization", "cluster")
    pair = x509.load_pem_x509_certificate(cert.read_bytes()), serialization.load_pem_private_key(key.read_bytes(), None)
    if pair[0].public_key() != pair[1].public_key():
        raise ValueError(f"it is not the key of {cert.name}")
    return pair


def _sign(
    subject: str, names: tuple[str, ...], begin: datetime, days: int, authority: tuple[Any, Any] | None
) -> tuple[bytes, bytes]:
    """A new certificate and its key, as PEM; without an *authority* it is one itself."""
    x509: Any = require_module("cryptography.x509", "cluster")
    ec: Any = require_module("cryptography.hazmat.primitives.asymmetric.ec", "cluster")
    primitives: Any = require_module("cryptography.hazmat.primitives", "cluster")
    serialization: Any = require_module("cryptography.hazmat.primitives.serialization", "cluster")
    key, oid = ec.generate_private_key(ec.SECP256R1()), x509.oid.NameOID.COMMON_NAME
    name = x509.Name([x509.NameAttribute(oid, subject)])
    signer = key if authority is None else authority[1]
    builder = x509.CertificateBuilder(
        name if authority is None else authority[0].subject,
        name,
        key.public_key(),
        x509.random_serial_number(),
        begin,
        begin + timedelta(days=days),
    )
    identifiers = x509.SubjectKeyIdentifier.from_public_key, x509.AuthorityKeyIdentifier.from_issuer_public_key
    is_ca = authority is None
    usage = {"content_commitment": False, "key_encipherment": False, "data_encipherment": False, "key_agreement": False}
    usage |= {"encipher_only": False, "decipher_only": False, "digital_signature": not is_ca}
    usage |= {"key_cert_sign": is_ca, "crl_sign": is_ca}
    builder = builder.add_extension(x509.BasicConstraints(is_ca, 0 if is_ca else None), True)
    builder = builder.add_extension(x509.KeyUsage(**usage), True)
    builder = builder.add_extension(identifiers[0](key.public_key()), False)
    builder = builder.add_extension(identifiers[1](signer.public_key()), False)
    if not is_ca:
        server = x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH])
        alternatives = x509.SubjectAlternativeName([_general_name(x509, name) for name in names])
        builder = builder.add_extension(server, False).add_extension(alternatives, False)
    signed = builder.sign(signer, primitives.hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return signed.public_bytes(serialization.Encoding.PEM), private


def _general_name(x509: Any, name: str) -> Any:
    if (ip := parse_ip(name)) is not None:
        return x509.IPAddress(ip)
    labels = name.removeprefix("*.").split(".")
    is_name = all(label and label.translate(_MARKS).isalnum() and label.isascii() for label in labels)
    if not is_name or len(name) > _NAME_CHARACTERS_MAX:
        raise InputError(f"{name!r:.120} is neither a host name nor an IP address")
    return x509.DNSName(name.lower())


def _write(cert: Path, key: Path, pair: tuple[bytes, bytes]) -> None:
    write_whole(key, pair[1], 0o600)
    write_whole(cert, pair[0], 0o644)
