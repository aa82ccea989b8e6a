"""Credentials: token files are followed, exec plugins are asked as they expect and no more often than needed."""

import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from kubesched.base.clocks import START, VirtualClock, virtual_time
from kubesched.client import exec_plugin
from kubesched.client.connection import Connection
from kubesched.client.credentials import ExecCredentials, Identity, credentials_of
from kubesched.client.exec_plugin import CredentialError
from kubesched.client.kubeconfig import Exec, ExecVariable

V1 = "client.authentication.k8s.io/v1"


class ManualClock:
    """A clock that is set by hand, for code that runs real programs."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time - START

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def plugin(tmp_path: Path, code: str, **fields: Any) -> Exec:
    """An exec plugin that is a small Python program."""
    path = tmp_path / "plugin"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Exec(**{"command": str(path), "api_version": V1, "interactive_mode": "Never", **fields})


def answer(**status: str) -> str:
    return f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential', 'status': {status!r}}}))"


async def test_fixed_credentials() -> None:
    """A token becomes a bearer header, user and password a basic one; without either there is no header."""
    clock = ManualClock()
    for connection, expected in (
        (Connection("https://a", token="t"), "Bearer t"),
        (Connection("https://a", username="u", password="p"), "Basic dTpw"),
        (Connection("https://a"), ""),
    ):
        credentials = credentials_of(connection, clock)
        assert (await credentials.current()).authorization == expected
        assert (await credentials.after_refusal(Identity())).authorization == expected


@virtual_time
async def test_a_token_file_is_read_again_after_a_minute(clock: VirtualClock, tmp_path: Path) -> None:
    """A rotated token is used within a minute, or at once when the old one is refused."""
    path = tmp_path / "token"
    path.write_text("one\n")
    credentials = credentials_of(Connection("https://a", token_file=str(path)), clock)
    assert (await credentials.current()).authorization == "Bearer one"
    path.write_text("two")
    await clock.advance(59)
    assert (await credentials.current()).authorization == "Bearer one"
    await clock.advance(1)
    assert (await credentials.current()).authorization == "Bearer two"
    path.write_text("three")
    assert (await credentials.after_refusal(Identity("Bearer two"))).authorization == "Bearer three"


@virtual_time
async def test_a_token_file_that_is_gone(clock: VirtualClock, tmp_path: Path) -> None:
    """The last token is kept while the file cannot be read; without any token the error names the file."""
    path = tmp_path / "token"
    credentials = credentials_of(Connection("https://a", token_file=str(path)), clock)
    with pytest.raises(CredentialError, match=r"token cannot be read: No such file"):
        await credentials.current()
    path.write_text("")
    with pytest.raises(CredentialError, match="token is empty"):
        await credentials.current()
    path.write_text("one")
    await credentials.current()
    path.unlink()
    await clock.advance(61)
    assert (await credentials.current()).authorization == "Bearer one"
    fallback = credentials_of(Connection("https://a", token_file=str(path), token="given"), clock)
    assert (await fallback.current()).authorization == "Bearer given"


async def test_an_exec_plugin_gets_what_it_needs(tmp_path: Path) -> None:
    """Arguments, variables and the cluster reach the plugin, and its credentials are returned."""
    code = (
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "facts = [sys.argv[1], os.environ['EXTRA'], info['kind'], info['apiVersion'], info['spec']]\n"
        "status = {'token': json.dumps(facts)}\n"
        f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential', 'status': status}}))"
    )
    command = plugin(tmp_path, code, args=("--x",), env=(ExecVariable(name="EXTRA", value="e"),))
    status = await exec_plugin.run(command, {"server": "https://a"})
    spec = {"interactive": False, "cluster": {"server": "https://a"}}
    assert json.loads(status.token) == ["--x", "e", "ExecCredential", V1, spec]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("sys.exit(3)", "failed with exit code 3; run it by hand"),
        ("print('s3cr3t')", "did not return an ExecCredential"),
        (f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential'}}))", "returned neither a token"),
        (answer(token=""), "returned neither a token nor a certificate and key"),
        (answer(clientCertificateData="s3cr3t"), "returned only one of certificate and key"),
        (answer(token="s3cr3t", expirationTimestamp="soon"), "returned an expirationTimestamp that is not a date"),
        ("print(json.dumps({'apiVersion': 'v9', 'kind': 'X', 'status': {'token': 's3cr3t'}}))", "'v9' 'X'"),
    ],
)
async def test_a_failing_exec_plugin(tmp_path: Path, code: str, message: str) -> None:
    """The error names the problem and never shows the plugin's output."""
    command = plugin(tmp_path, code)
    with pytest.raises(CredentialError, match=message) as caught:
        await exec_plugin.run(command, None)
    assert "s3cr3t" not in str(caught.value)
    assert command.command in str(caught.value)


async def test_a_missing_exec_plugin_gives_its_install_hint(tmp_path: Path) -> None:
    """The hint is shown without the escape sequences it may contain."""
    command = Exec(
        command=str(tmp_path / "none"), api_version=V1, interactive_mode="Never", install_hint="get \x1b[1mit"
    )
    with pytest.raises(CredentialError, match=r"cannot be run: No such file or directory; get U\+001B\[1mit"):
        await exec_plugin.run(command, None)


async def test_an_interactive_exec_plugin_needs_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interactive plugin is refused where there is no terminal."""
    with open(os.devnull) as nobody:
        monkeypatch.setattr(sys, "stdin", nobody)
        with pytest.raises(CredentialError, match="standard input is not a terminal"):
            await exec_plugin.run(plugin(tmp_path, answer(token="t"), interactive_mode="Always"), None)


async def test_an_exec_plugin_is_asked_only_when_needed(tmp_path: Path) -> None:
    """Its credentials are used until they expire or are refused; concurrent requests run it once."""
    calls = tmp_path / "calls"
    code = (
        f"open({str(calls)!r}, 'a').write('x')\n"
        f"number = len(open({str(calls)!r}).read())\n"
        f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential', 'status': "
        "{'token': str(number), 'expirationTimestamp': '2026-01-01T00:10:00Z'}}))"
    )
    clock = ManualClock()
    credentials = ExecCredentials(Connection("https://a", exec=plugin(tmp_path, code)), clock)
    found = await asyncio.gather(*(credentials.current() for _ in range(5)))
    assert {identity.authorization for identity in found} == {"Bearer 1"}
    clock.time += 600
    assert (await credentials.current()).authorization == "Bearer 1"
    clock.time += 1
    assert (await credentials.current()).authorization == "Bearer 2"
    clock.time = START
    refused = await credentials.current()
    renewed = await asyncio.gather(*(credentials.after_refusal(refused) for _ in range(5)))
    assert {identity.authorization for identity in renewed} == {"Bearer 3"}


async def test_an_exec_plugin_may_answer_with_a_certificate(tmp_path: Path) -> None:
    """Certificate and key are used for TLS, and no repr shows the key."""
    command = plugin(tmp_path, answer(clientCertificateData="CERT", clientKeyData="s3cr3t"))
    identity = await ExecCredentials(Connection("https://a", exec=command), ManualClock()).current()
    assert identity.key_pair is not None
    assert (identity.key_pair.certificate, identity.key_pair.key) == (b"CERT", b"s3cr3t")
    assert "s3cr3t" not in repr(identity)


async def test_a_cancelled_exec_plugin_is_ended(tmp_path: Path) -> None:
    """A plugin that hangs is killed when the request is cancelled."""
    mark = tmp_path / "pid"
    command = plugin(tmp_path, f"open({str(mark)!r}, 'w').write(str(os.getpid()))\nimport time; time.sleep(60)")
    running = asyncio.create_task(exec_plugin.run(command, None))
    while not mark.exists() or not mark.read_text():
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


async def test_an_exec_plugin_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that hangs is killed after a time, and the error says so: every request would wait for it."""
    monkeypatch.setattr(exec_plugin, "TIMEOUT", 0.5)
    mark = tmp_path / "pid"
    command = plugin(tmp_path, f"open({str(mark)!r}, 'w').write(str(os.getpid()))\nimport time; time.sleep(60)")
    with pytest.raises(CredentialError, match=r"plugin did not end within 0.5 s; run it by hand to see why"):
        await exec_plugin.run(command, None)
    if mark.exists() and (number := mark.read_text()):
        with pytest.raises(ProcessLookupError):
            os.kill(int(number), 0)
