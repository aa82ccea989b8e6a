"""Expectations in YAML: what each field checks, and what a failure reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.simulator.loading import load
from kubesched.simulator.report import Report
from kubesched.simulator.run import run

CLUSTER = """
objects:
- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: v1, kind: Node, metadata: {name: node1}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: a}}, spec: &spec {containers: [{name: m, image: i}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: team, labels: {app: a}}, spec: *spec}
- apiVersion: v1
  kind: Pod
  metadata: {name: large}
  spec: {containers: [{name: m, image: i, resources: {requests: {cpu: 100}}}]}
"""
WHY = "0/1 nodes are available: 1 Insufficient cpu."


def ran(tmp_path: Path, text: str) -> Report:
    """Run a scenario and return its report."""
    path = tmp_path / "scenario.yaml"
    path.write_text(CLUSTER + text, "utf-8")
    report = run(load(path))
    assert report.error == ""
    return report


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("{pod: web}", ""),
        ("{pod: nobody}", "default/nobody: expected an object, found none of that name"),
        ("{pod: web, exists: true}", ""),
        ("{pod: web, exists: false}", "default/web: expected no object, found one"),
        ("{pod: nobody, exists: false}", ""),
        ("{pod: web, namespace: other}", "other/web: expected an object, found none of that name"),
        ("{pod: web, onNode: node1}", ""),
        ("{pod: web, onNode: [node2, node3]}", "default/web: expected on node2 or node3, found on node1"),
        ("{pod: large, onNode: node1}", f"default/large: expected on node1, found pending: {WHY}"),
        ("{pod: web, pending: true}", "default/web: expected pending, found on node1"),
        ("{pod: large, pending: true}", ""),
        ("{pod: large, pending: false}", f"default/large: expected not pending, found pending: {WHY}"),
        ("{pod: large, because: 1 Insufficient cpu}", ""),
        ("{pod: large, because: memory}", f'default/large: expected the reason "memory", found {WHY}'),
        ("{pod: web, because: memory}", 'default/web: expected the reason "memory", found on node1'),
        ("{pod: web, phase: Running}", ""),
        ("{pod: web, phase: Failed}", "default/web: expected phase Failed, found phase Running; on node1"),
        ("{pod: web, fields: {spec.containers.0.name: m}}", ""),
        ("{pod: web, fields: {spec.containers.1.name: m}}", 'expected "m", found nothing'),
        ("{node: node1, fields: {metadata.labels.kubernetes.io/hostname: node1}}", ""),
        ("{labels: {app: a}, count: 1}", ""),
        ("{labels: {app: a}, count: 2}", "Pods: expected 2, found 1 (of 1)"),
        ("{labels: {app: a}, pending: true, count: 1}", "Pods: expected 1, found 0 (of 1)"),
        ("{labels: {app: b}}", "expected at least one, found none"),
        ("{kind: Pod, onNode: node1}", f"default/large: expected on node1, found pending: {WHY}"),
        ("{kind: Namespace, count: 5}", ""),
        ("{node: node1, fields: {spec.unschedulable: true}}", "node1 spec.unschedulable: expected true, found nothing"),
    ],
)
def test_what_is_expected_and_what_was_found(tmp_path: Path, expected: str, found: str) -> None:
    """An expectation that holds has no findings; one that fails reports what was found."""
    (checked,) = ran(tmp_path, f"steps:\n- at: 5s\n  expect: {expected}\n").expectations
    assert checked.holds is (not found)
    assert found in checked.message
    assert checked.time == 5


def test_an_expectation_sees_what_its_own_moment_brings(tmp_path: Path) -> None:
    """Actions that take no time are complete before an expectation is checked."""
    report = ran(
        tmp_path,
        """
steps:
- at: 5s
  create:
    apiVersion: batch/v1
    kind: Job
    metadata: {name: job}
    spec: {template: {spec: {restartPolicy: Never, containers: [{name: m, image: i}]}}}
  expect: {labels: {job-name: job}, count: 1}
""",
    )
    assert [each.message for each in report.expectations if not each.holds] == []


def test_all_that_a_patch_and_a_deletion_take(tmp_path: Path) -> None:
    """A patch can go to a subresource, and a deletion waits for its grace period."""
    report = ran(
        tmp_path,
        """
cluster: {podStopDelay: 1h}
steps:
- at: 5s
  patch:
  - {pod: web, namespace: team, patch: {metadata: {labels: {new: "yes"}}}}
  - {node: node1, subresource: status, patch: {status: {capacity: {example.com/gpu: "2"}}}}
  delete: {pod: web, grace: 20}
- after: 19s
  expect:
  - {pod: web, fields: {metadata.deletionGracePeriodSeconds: 20}}
  - {pod: web, namespace: team, fields: {metadata.labels.new: "yes"}}
  - {node: node1, fields: {status.capacity.example.com/gpu: "2"}}
- after: 2s
  expect: {pod: web, exists: false}
""",
    )
    assert [each.message for each in report.expectations if not each.holds] == []


def test_amounts_need_no_quotes(tmp_path: Path) -> None:
    """Quantities may be numbers or strings, as in any manifest."""
    capacity = "{status.capacity.cpu: '6', status.capacity.memory: 2Gi, status.capacity.pods: '5'}"
    steps = f"steps: [{{after: 1s, expect: {{node: node1, fields: {capacity}}}}}]"
    assert ran(tmp_path, f"cluster: {{nodeCpu: 6, nodeMemory: 2Gi, nodePods: 5}}\n{steps}\n").passed


def test_how_long_and_with_what_dice(tmp_path: Path) -> None:
    """It lasts for its duration or until its last step, whichever is later, and uses the seed in the file."""
    report = ran(tmp_path, "seed: 7\nduration: 1m\n")
    assert (report.seed, report.virtual_seconds) == (7, 60)
    assert ran(tmp_path, "duration: 1m\nsteps:\n- {at: 2m, log: x}\n").virtual_seconds == 120
