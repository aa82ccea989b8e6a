"""What commands say when a cluster, a file or the output cannot be used: one line that ends in what to do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from click.testing import CliRunner

from kubesched.cli.main import main

KUBESCHED = (sys.executable, "-c", "from kubesched.cli.main import main; main()")
COMMANDS = {
    "explain": ("explain",),
    "whatif": ("whatif", "drain n1"),
    "snapshot": ("snapshot", "-o", "-"),
    "record": ("record", "-o", "recording.jsonl"),
    "ui": ("ui", "--port=0"),
}


class _Refusing(BaseHTTPRequestHandler):
    """An API server that accepts nobody."""

    def do_GET(self) -> None:
        body = b'{"kind": "Status", "reason": "Unauthorized", "message": "Unauthorized", "code": 401}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def refusing() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def said(folder: Path, monkeypatch: pytest.MonkeyPatch, port: int, *command: str) -> str:
    """The last line of a command on a cluster at a port; it must not be a traceback."""
    monkeypatch.chdir(folder)
    write_config(folder, port)
    result = CliRunner().invoke(main, [*command, "--kubeconfig", "config"])
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    return result.stderr.splitlines()[-1]


def write_config(folder: Path, port: int) -> None:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_cluster_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The address is named, and what to check; nothing is tried again and again."""
    line = said(tmp_path, monkeypatch, 1, *COMMANDS[name])
    assert "http://127.0.0.1:1/" in line
    assert line.endswith("Connection refused; check that the cluster runs, and its address in the kubeconfig")


@pytest.mark.parametrize("name", COMMANDS)
def test_credentials_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It is said that the credentials of the kubeconfig are the problem."""
    with refusing() as port:
        line = said(tmp_path, monkeypatch, port, *COMMANDS[name])
    assert line == (
        "Error: Unauthorized: the cluster refuses the credentials in the kubeconfig; they are wrong, or have expired"
    )


def test_a_context_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contexts that there are are named."""
    line = said(tmp_path, monkeypatch, 1, "explain", "--context", "y")
    assert line == "Error: config: contexts: there is no context 'y'; there are: x"


def test_a_port_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page names the port and says how to choose another."""
    with refusing() as port:
        line = said(tmp_path, monkeypatch, port, "ui", f"--port={port}")
    assert line == (
        f"Error: 127.0.0.1:{port}: Address already in use; choose another --port, or --port=0 for a free one"
    )


def test_a_configuration_that_is_no_text(tmp_path: Path) -> None:
    """The file is named."""
    file = tmp_path / "config.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    node = tmp_path / "node.yaml"
    node.write_text("{apiVersion: v1, kind: Node, metadata: {name: n1}}")
    result = CliRunner().invoke(main, ["explain", "--from", str(node), "--config", str(file)])
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {file}: not valid YAML: ")


def test_a_file_without_a_cluster_in_it(tmp_path: Path) -> None:
    """A file that has no nodes and no pods is accepted, with a warning that names what it has."""
    file = tmp_path / "config.yaml"
    file.write_text("{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration}")
    result = CliRunner().invoke(main, ["explain", "--from", str(file)])
    assert result.exit_code == 0
    assert result.stderr == f"Warning: no node and no pod in {file}; ignored: 1 KubeSchedulerConfiguration\n"


@pytest.mark.parametrize("name", ["explain", "snapshot", "record", "ui"])
def test_ctrl_c_while_a_cluster_is_silent(tmp_path: Path, name: str) -> None:
    """A cluster that accepts a connection and says nothing does not hold the command up."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_config(tmp_path, silent.getsockname()[1])
        command = [*KUBESCHED, *COMMANDS[name], "--kubeconfig", "config"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path) as process:
            silent.settimeout(60)
            connection, _ = silent.accept()
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
            connection.close()
    assert process.returncode in (1, 130)
    assert b"Traceback" not in errors


def test_a_full_disk_under_the_output() -> None:
    """It is one line on stderr, and no traceback."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*KUBESCHED, "learn"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "Error: No space left on device: the output is not complete\n"


def test_an_output_that_cannot_show_every_character() -> None:
    """In a locale without the signs of a table, a command runs to its end."""
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [*KUBESCHED, "learn", "3"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u2713 expected" in done.stdout


@pytest.mark.parametrize("command", [("new-plugin", "QuietHours"), ("learn", "3", "--edit")])
def test_a_folder_that_cannot_be_written(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The file is named, without a traceback."""
    done = subprocess.run(
        ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *KUBESCHED, *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert done.stderr.endswith(": No such file or directory\n")
    assert "Traceback" not in done.stderr


def test_an_output_that_is_closed() -> None:
    """A command without stdout runs to its end."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *KUBESCHED, "learn"], stderr=subprocess.PIPE, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_help_fits_a_terminal_of_80_columns() -> None:
    """No line of `kubesched --help` is broken by a terminal of the usual width."""
    lines = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout.splitlines()
    assert max(map(len, lines)) <= 80
