"""The second seed's plugin, its ConfigMap and its main."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from example import Example

from kubesched.simulator import ScenarioClient
from kubesched.simulator import node as machine
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

HERE = Path(__file__).parent
CONFIG = HERE / "scheduler-config.yaml"


def test_filter_logs_every_node(cluster: VirtualCluster) -> None:
    """A pod of profile example-scheduler is scheduled, and each node's resources are in the log."""
    cluster.know(Example)
    cluster.configure(CONFIG)
    cluster.add(node("n1", cpu="4", memory="8Gi"), node("n2", cpu="500m", memory="1Gi"))
    assert cluster.schedule(pod("web", scheduler="example-scheduler")).node in ("n1", "n2")
    logged = [each.fields for each in cluster.log if each.message == "Filter"]
    assert logged == [
        {"pod": "web", "node": "n1", "cpu": 4000, "memory": 8 * 2**30},
        {"pod": "web", "node": "n2", "cpu": 500, "memory": 2**30},
    ]


def test_the_config_map_holds_the_configuration() -> None:
    """What a pod that mounts the ConfigMap reads is the file beside it."""
    data = yaml.safe_load((HERE / "example-cm.yaml").read_text("utf-8"))["data"]
    assert data["scheduler-config.yaml"] == CONFIG.read_text("utf-8")


@pytest.mark.parametrize("name", ["example", "example.com/example"])
def test_the_main_knows_the_plugin_by_one_name(tmp_path: Path, name: str) -> None:
    """main.py takes the configuration of the ConfigMap; with the other name of the seed it says what is wrong."""
    config, written = tmp_path / "config.yaml", tmp_path / "written.yaml"
    config.write_text(CONFIG.read_text("utf-8").replace('"example"', f'"{name}"'), "utf-8")
    command = [sys.executable, str(HERE / "main.py"), f"--config={config}", f"--write-config-to={written}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if name == Example.name:
        assert done.returncode == 0, done.stderr
        (profile,) = yaml.safe_load(written.read_text("utf-8"))["profiles"]
        assert (profile["schedulerName"], profile["plugins"]["filter"]["enabled"][-1]["name"]) == (
            "example-scheduler",
            "example",
        )
    else:
        assert done.returncode == 1
        assert "example.com/example" in done.stderr


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: the pod of the manifest runs."""

    async def act(client: ScenarioClient) -> None:
        for number in (1, 2, 3):
            await client.create(machine(f"node-{number}"))
        await embedded.apply(client, "pod.yaml")
        await client.sleep(5)
        await client.expect(pod="web", phase="Running")

    embedded.run(act, plugin="example.py", config="scheduler-config.yaml")


def test_it_keeps_the_contract() -> None:
    """It changes nothing and rejects no node."""
    check_plugin(Example)
