"""A marker in a Secret, in pods and in credentials, which no output of a running cluster may show."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.test_up import Up, eventually, free_port

from kubesched.cli.main import main

MARKER = "marker-7f3a91"
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, cpu: str) -> dict[str, Any]:
    """A pod with the marker wherever a container may have a secret."""
    container = {
        "name": "main",
        "image": "nginx",
        "command": ["run", MARKER],
        "args": [MARKER],
        "env": [{"name": "PASSWORD", "value": MARKER}],
        "livenessProbe": {"exec": {"command": [MARKER]}},
        "resources": {"requests": {"cpu": cpu}},
    }
    return {"metadata": {"name": name}, "spec": {"containers": [container]}}


def refusal_of(url: str) -> str:
    """The response to a request with the marker as token."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {MARKER}"})
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=120, context=context)
    assert caught.value.code == 401
    return caught.value.read().decode()


def printed(*arguments: str) -> str:
    """What a command writes."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 3), result.output
    return result.output


PAGE = (
    "about",
    "nodes",
    "rates",
    "node?name=node-1",
    "node/explanation?name=node-1",
    "pods?text=",
    "pending",
    "decision?pod=default/huge",
    "attempts?pod=default/huge",
    "timeline",
    "placements",
    "configuration",
    "objects/kinds",
    "objects?kind=pods",
    "objects?kind=secrets",
)
"""Everything that the web page shows, except objects that its user opens or exports."""


def page_of(up: Up) -> dict[str, str]:
    """What the web page of a cluster gets, by path."""
    (link,) = re.findall(r"http://127\.0\.0\.1:\d+/\?token=\S+", up.out)
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    opener.open(link, timeout=120).read()
    base = link.partition("?")[0]
    return {path: opener.open(f"{base}api/{path}", timeout=120).read().decode() for path in PAGE}


def test_no_output_shows_a_secret(tmp_path: Path) -> None:
    """Logs at the highest verbosity, events, history, snapshots, recordings, explanations, reports, the web page and
    refusals have neither the marker nor the administrator's token."""
    log, database, port = tmp_path / "decisions.jsonl", tmp_path / "decisions.db", free_port()
    flags = ("--v=10", "--nodes=2", f"--decision-log={log}", f"--decision-db={database}", f"--secure-port={port}")
    up = Up(tmp_path, *flags)
    try:
        up.call("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"a": MARKER}})
        up.call("POST", PODS, pod("fits", "1"))
        up.call("POST", PODS, pod("huge", "1000"))
        eventually(lambda: up.phase("fits") == "Running" and log.exists() and "huge" in log.read_text("utf-8"))
        eventually(lambda: any("Insufficient cpu" in each for each in messages(up)))
        config = ("--kubeconfig", str(up.kubeconfig))
        recording, snapshot, report = (tmp_path / name for name in ("recording.jsonl", "snapshot.json", "report.html"))
        printed("snapshot", *config, "-o", str(snapshot))
        wanted = tmp_path / "wanted.json"
        wanted.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod("huge", "1")}), "utf-8")
        page = page_of(up)
        outputs = {
            "report": printed("simulate", str(snapshot), "--html", str(report)),
            "capacity in HTML": printed("capacity", *config, "-f", str(wanted), "-o", "html"),
            **{f"page: {path}": text for path, text in page.items()},
            "events": json.dumps(up.call("GET", "/api/v1/events")),
            "snapshot": printed("snapshot", *config),
            "explanations": printed("explain", *config),
            "an explanation": printed("explain", *config, "pod", "huge"),
            "record": printed("record", *config, "-o", str(recording), "--duration", "1s"),
            "refusal of the API server": refusal_of(f"{up.url}/api/v1/pods"),
            "refusal of the secure port": refusal_of(f"https://127.0.0.1:{port}/metrics"),
        }
    finally:
        up.stop()
    for each in (recording, snapshot, report, log, database, tmp_path / "out", tmp_path / "err"):
        outputs[each.name] = each.read_bytes().decode("utf-8", "replace")
    described = (
        "events",
        "snapshot",
        "explanations",
        "an explanation",
        "recording.jsonl",
        "snapshot.json",
        "report.html",
        "page: pods?text=",
        log.name,
        database.name,
        "err",
    )
    assert [name for name in described if "huge" not in outputs[name]] == []
    secrets = (MARKER, up.token)
    assert [name for name, text in outputs.items() if any(each in text for each in secrets)] == []


def messages(up: Up) -> list[str]:
    return [each.get("message") or each.get("note") or "" for each in up.call("GET", "/api/v1/events")["items"]]
