"""The manifests fit the program: flags parse, configurations load, roles allow what the scheduler does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.client.endpoints import endpoint_of
from kubesched.config.load import load
from kubesched.daemon.flags import parse
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.handlers import KINDS

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = ("second-scheduler", "replacement")


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def allows(rules: list[Any], group: str, resource: str, verb: str) -> bool:
    return any(group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in rules)


def deployment() -> Any:
    (found,) = documents(DEPLOY / "base" / "deployment.yaml")
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_everything_that_is_watched_may_be_watched(kind: Any) -> None:
    """The role allows to get, list and watch every kind that the scheduler follows."""
    (role,) = documents(DEPLOY / "base" / "cluster-role.yaml")
    group = kind.api_version.rpartition("/")[0]
    resource = endpoint_of(kind).path().rpartition("/")[2]
    assert all(allows(role["rules"], group, resource, verb) for verb in ("get", "list", "watch"))


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("", "pods/binding", "create"),
        ("", "pods/status", "patch"),
        ("", "pods", "delete"),
        ("", "events", "create"),
        ("events.k8s.io", "events", "create"),
        ("events.k8s.io", "events", "patch"),
        ("", "persistentvolumeclaims", "patch"),
        ("", "persistentvolumes", "patch"),
        ("scheduling.k8s.io", "podgroups", "watch"),
        ("scheduling.k8s.io", "podgroups/status", "patch"),
        ("authentication.k8s.io", "tokenreviews", "create"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ],
)
def test_everything_that_is_written_may_be_written(group: str, resource: str, verb: str) -> None:
    """The role allows every call that the client and the server make, and nothing by a wildcard."""
    (role,) = documents(DEPLOY / "base" / "cluster-role.yaml")
    assert allows(role["rules"], group, resource, verb)
    assert not any("*" in (*rule["apiGroups"], *rule["resources"], *rule["verbs"]) for rule in role["rules"])


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_configurations_load_and_the_lease_is_allowed(overlay: str) -> None:
    """Each overlay's configuration is valid, and its replicas may have the lease that it names."""
    folder = DEPLOY / "overlays" / overlay
    loaded = load((folder / "config.yaml").read_text(), overlay, points=in_tree_registry().points)
    (role,) = documents(folder / "leader-locking.yaml")
    named = [rule for rule in role["rules"] if "resourceNames" in rule]
    assert named[0]["resourceNames"] == [loaded.config.leader_election.resource_name]
    assert {"get", "update"} <= set(named[0]["verbs"])
    assert loaded.config.leader_election.leader_elect


def test_the_two_do_not_get_in_each_others_way() -> None:
    """A second scheduler has a lease and a name of its own; the replacement has kube-scheduler's."""
    configs = [load((DEPLOY / "overlays" / each / "config.yaml").read_text()).config for each in OVERLAYS]
    assert [config.leader_election.resource_name for config in configs] == ["kubesched", "kube-scheduler"]
    assert [config.profiles[0].scheduler_name for config in configs] == ["kubesched", "default-scheduler"]


def test_the_deployment_starts_and_probes_what_there_is() -> None:
    """Its flags parse without a word of warning, two replicas run as nobody, probes ask paths open to everybody."""
    pod = deployment()["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    parsed = parse(container["args"])
    assert (parsed.problems, list(parsed.options.warnings())) == ([], [])
    assert deployment()["spec"]["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    open_paths = parsed.options.authorization.authorization_always_allow_paths
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert container[probe]["httpGet"]["path"] in open_paths
        assert container[probe]["httpGet"]["scheme"] == "HTTPS"


def test_the_image_runs_as_nobody() -> None:
    """The Dockerfile ends with a user that is not root, and names no host."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert "USER 65532:65532" in text
    assert "://" not in text
    assert text.count("FROM ") == 2
