"""TLS of the wire: an authority of one's own, certificates by it, and who is trusted before and after a join."""

import asyncio
import json
import os
import ssl
import stat
import time
from contextlib import suppress
from pathlib import Path

import pytest

from contract.engines import run
from contract.wire_rig import Echo, read, tls_settings
from ringrift.cli.main import main as ringrift
from ringrift.kernel.errors import InputError, NodeAway, SettingsError
from ringrift.kernel.settings import Settings, WireSettings
from ringrift.kernel.value import changed
from ringrift.wire import tls
from ringrift.wire.open import open_wire
from ringrift.wire.ports import Request
from wait import wait_until

SECONDS = 10.0


async def ask(address: str, settings: WireSettings, *, trust_any: bool = False) -> bytes:
    """What a wire with *settings* gets from *address*."""
    wire = open_wire(settings, trust_any=trust_any)
    try:
        return (await wire.request(address, Request(verb="echo", body=b"x"), SECONDS)).body
    finally:
        wire.close()


def test_only_the_authority_of_the_settings_is_trusted(tmp_path: Path) -> None:
    """Another one of the same name, and those of the system, are not; whoever asks is told why."""
    settings, other = tls_settings(tmp_path / "a"), tls_settings(tmp_path / "b")

    async def story() -> None:
        async with open_wire(settings).serve("127.0.0.1:0", Echo()) as address:
            assert address.startswith("https://")
            assert await ask(address, WireSettings(ca=settings.ca)) == b"x"
            for stranger in (WireSettings(ca=other.ca), WireSettings()):
                with pytest.raises(NodeAway, match="certificate is not trusted"):
                    await ask(address, stranger)
                with pytest.raises(NodeAway, match="certificate is not trusted"):
                    await read(open_wire(stranger), address, "numbers", [])
            assert await ask(address, WireSettings(), trust_any=True) == b"x"  # a join, which proves itself

    run(story())


def test_a_certificate_for_another_name_is_not_trusted(tmp_path: Path) -> None:
    """Even if the right authority has signed it."""
    settings = tls_settings(tmp_path, "coordinator.example")

    async def story() -> None:
        async with open_wire(settings).serve("127.0.0.1:0", Echo()) as address:
            with pytest.raises(NodeAway, match="certificate is not trusted"):
                await ask(address, settings)

    run(story())


def test_plain_text_and_old_versions_are_refused(tmp_path: Path) -> None:
    """A coordinator with a certificate speaks TLS 1.3 and nothing else."""
    settings = tls_settings(tmp_path)

    async def story() -> None:
        echo = Echo()
        async with open_wire(settings).serve("127.0.0.1:0", echo) as address:
            with pytest.raises(NodeAway):
                await ask(address.replace("https", "http"), WireSettings())
            old = ssl.create_default_context(cafile=settings.ca)
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            port = int(address.rpartition(":")[2])
            with pytest.raises(OSError):  # noqa: PT011  # an alert of TLS, or a reset if that is quicker
                await asyncio.open_connection("127.0.0.1", port, ssl=old)
            assert not echo.requests
            assert await ask(address, settings) == b"x"

    run(story())


@pytest.mark.parametrize(("seconds", "ended"), [(60.0, 20), (0.3, 40)])
def test_connections_that_never_shake_hands_end_and_are_bounded(tmp_path: Path, seconds: float, ended: int) -> None:
    """No more than there are places for, and none for longer than the head of a request may take."""
    settings = changed(tls_settings(tmp_path), header_seconds_max=seconds, connections_max=20)

    async def end_of(reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            await reader.read()

    async def story() -> None:
        async with open_wire(settings).serve("127.0.0.1:0", Echo()) as address:
            port = int(address.rpartition(":")[2])
            pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
            reads = [asyncio.ensure_future(end_of(reader)) for reader, _ in pairs]
            await wait_until(lambda: sum(one.done() for one in reads) == ended, SECONDS)
            for _, writer in pairs:
                writer.close()
            await asyncio.gather(*reads)

            async def works() -> bool:
                with suppress(NodeAway):
                    return await ask(address, settings) == b"x"
                return False

            await wait_until(works, SECONDS)

    run(story())


def test_names_of_a_certificate_are_names_of_the_coordinator(tmp_path: Path) -> None:
    """A request to one of them is accepted; IP addresses always are."""
    settings = tls_settings(tmp_path, "Coordinator.Example", "*.b.example", "127.0.0.1", "::1")
    assert tls.names_of(settings.cert) == {"coordinator.example", "*.b.example"}
    assert tls.names_of(str(tmp_path / "none")) == frozenset()


def test_an_authority_is_made_once_and_its_key_is_for_its_owner(tmp_path: Path) -> None:
    """A new certificate is signed by the same authority: those who trust it notice nothing."""
    first = tls_settings(tmp_path)
    authority, cert = Path(first.ca).read_bytes(), Path(first.cert).read_bytes()
    tls_settings(tmp_path)
    assert (Path(first.ca).read_bytes() == authority, Path(first.cert).read_bytes() == cert) == (True, False)
    assert {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("ca.key", "coordinator.key")} == {0o600}
    (tmp_path / "ca.key").unlink()
    with pytest.raises(SettingsError, match=r"ca\.key does not open"):
        tls_settings(tmp_path)
    tls_settings(tmp_path / "other")
    (tmp_path / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(SettingsError, match="not the key of"):
        tls_settings(tmp_path)


@pytest.mark.parametrize("name", ["", "a b", "a..b", "a/b", "a\nb", "é", "x" * 300])
def test_a_certificate_has_host_names_and_addresses_only(name: str, tmp_path: Path) -> None:
    """Nothing else can be called."""
    with pytest.raises(InputError, match="neither a host name nor an IP address"):
        tls.make_certificates(tmp_path, [name], time.time(), 30)


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    """The setting, the file, and why."""
    bad = tmp_path / "bad.pem"
    bad.write_text("hello")
    with pytest.raises(SettingsError, match=r"wire\.cert"):
        tls.server_context(str(bad), "")
    with pytest.raises(SettingsError, match=r"wire\.cert"):
        tls.server_context(str(tmp_path / "none.pem"), "")
    with pytest.raises(SettingsError, match=r"wire\.ca"):
        tls.client_context(str(bad))


def test_the_command_makes_what_a_coordinator_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``ringrift certs`` in a home: its files are found there, and a worker that trusts them is served."""
    monkeypatch.setenv("RINGRIFT_HOME", str(tmp_path))
    assert tls.own_settings(str(tmp_path)) == {}
    with pytest.raises(SystemExit, match="0"):
        ringrift(["certs", "--name", "coordinator.example", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert {"coordinator.example", "localhost", "127.0.0.1"} <= set(answer["names"])
    settings = Settings().overlaid(tls.own_settings(str(tmp_path))).wire

    async def story() -> None:
        async with open_wire(settings).serve("127.0.0.1:0", Echo()) as address:
            assert await ask(address, WireSettings(ca=answer["ca"])) == b"x"

    run(story())
    with pytest.raises(SystemExit, match="2"):
        ringrift(["certs", "--name", "a b"])
    assert "neither a host name nor an IP address" in capsys.readouterr().err
