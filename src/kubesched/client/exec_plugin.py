"""Credentials from a program: the client side of client.authentication.k8s.io.

Cloud providers issue short-lived credentials this way. The program gets its input in KUBERNETES_EXEC_INFO and writes a
token, a client certificate or both to its standard output, with their expiry.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from kubesched.client.kubeconfig import Exec

TIMEOUT = 60.0
"""Seconds after which a program that cannot wait for a user is killed: all requests wait for it."""


class CredentialError(OSError):
    """No credentials are available. It is an OSError: to callers the API server is unreachable."""


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The credentials that the program returned. They must never be shown."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None

    def __repr__(self) -> str:
        return "Status(…)"

    @property
    def expires(self) -> float | None:
        """Seconds since the epoch, or None for never."""
        if self.expiration_timestamp is None:
            return None
        moment = datetime.fromisoformat(self.expiration_timestamp)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: ExecStatus | None = None


async def run(command: Exec, cluster: Mapping[str, Any] | None, env: Mapping[str, str] | None = None) -> ExecStatus:
    """Run the program and return its credentials."""
    interactive = _is_interactive(command)
    environment = {
        **(os.environ if env is None else env),
        **{variable.name: variable.value for variable in command.env},
        "KUBERNETES_EXEC_INFO": _exec_info(command, cluster, interactive),
    }
    output = await _output_of(command, environment, interactive)
    return _checked(command, output)


def _is_interactive(command: Exec) -> bool:
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if command.interactive_mode == "Always" and not terminal:
        problem = "needs to ask questions, but standard input is not a terminal"
        raise CredentialError(f"exec plugin {command.command}: {problem}; run this in a terminal")
    return terminal and command.interactive_mode != "Never"


def _exec_info(command: Exec, cluster: Mapping[str, Any] | None, interactive: bool) -> str:
    spec: dict[str, Any] = {"interactive": interactive}
    if cluster is not None:
        spec["cluster"] = cluster
    body = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
    return msgspec.json.encode(body).decode()


async def _output_of(command: Exec, environment: Mapping[str, str], interactive: bool) -> bytes:
    stdin = None if interactive else asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            command.command, *command.args, stdin=stdin, stdout=asyncio.subprocess.PIPE, env=environment
        )
    except OSError as error:
        problem = f"exec plugin {command.command} cannot be run: {error.strerror}"
        hint = command.install_hint or "install it or correct exec.command in the kubeconfig"
        raise CredentialError(f"{problem}; {_printable(hint)}") from None
    try:
        async with asyncio.timeout(None if interactive else TIMEOUT):
            output, _ = await process.communicate()
    except TimeoutError:
        problem = f"did not end within {TIMEOUT:g} s"
        raise CredentialError(f"exec plugin {command.command} {problem}; run it by hand to see why") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        problem = f"failed with exit code {process.returncode}"
        raise CredentialError(f"exec plugin {command.command} {problem}; run it by hand to see why")
    return output


def _printable(text: str) -> str:
    """Escape sequences in a hint must not reach the terminal."""
    return "".join(char if char.isprintable() or char in "\t\n" else f"U+{ord(char):04X}" for char in text)


def _checked(command: Exec, output: bytes) -> ExecStatus:
    def wrong(problem: str) -> CredentialError:
        # The output itself may hold credentials and is never shown.
        return CredentialError(f"exec plugin {command.command} {problem}; check its version and its settings")

    try:
        answer = msgspec.json.decode(output, type=_Answer)
    except (msgspec.DecodeError, RecursionError):
        raise wrong("did not return an ExecCredential") from None
    if answer.kind != "ExecCredential" or answer.api_version != command.api_version:
        version = f"{answer.api_version!r} {answer.kind!r}"
        raise wrong(f"is configured for {command.api_version} but returned {version}")
    status = answer.status
    if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
        raise wrong("returned neither a token nor a certificate and key")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise wrong("returned only one of certificate and key")
    try:
        _ = status.expires
    except ValueError:
        raise wrong("returned an expirationTimestamp that is not a date") from None
    return status
