"""The builders make the objects that they say, for tests and for scenarios alike."""

import kubesched.simulator
import kubesched.testing
from kubesched.testing import namespace, node, pod


def test_there_is_one_pair_of_builders() -> None:
    """Scenarios and tests build nodes and pods with the same functions."""
    assert kubesched.simulator.node is kubesched.testing.node
    assert kubesched.simulator.pod is kubesched.testing.pod


def test_a_namespace_has_the_labels_that_it_is_given() -> None:
    """`labels` are the namespace's labels, and not a label called labels."""
    assert namespace("x", labels={"team": "one"}).labels == {"team": "one"}


def test_a_run_time_makes_a_pod_that_ends() -> None:
    """A pod that ends says when, and is not started again."""
    made = pod("job", run_time="90s", annotations={"a": "b"})
    assert made.annotations == {"kubesched.io/run-time": "90s", "a": "b"}
    assert made.spec.restart_policy == "Never"
    assert pod("server").spec.restart_policy == ""


def test_images_have_a_size_or_a_small_one() -> None:
    """Images of a node come with or without sizes."""
    assert [(image.names, image.size_bytes) for image in node(images={"a": 5}).status.images] == [(("a",), 5)]
    assert [image.names for image in node(images=["a", "b"]).status.images] == [("a",), ("b",)]


def test_an_amount_can_be_left_out() -> None:
    """An amount that is None is left to the node's kubelet."""
    assert node(cpu=None, memory=8).status.allocatable == {"memory": 8, "pods": 110}
