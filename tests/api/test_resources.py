"""Resource arithmetic: a pod's requests in every form, what a node offers, and invalid quantities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.objects import (
    Container,
    ContainerStatus,
    InvalidObject,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Quantity,
    ResourceList,
    ResourceRequirements,
)
from kubesched.api.quantity import nanos
from kubesched.api.resources import (
    NodeResources,
    Requests,
    allocatable,
    is_attachable_volume,
    is_extended,
    is_hugepage,
    is_native,
    is_pod_level,
    is_scalar,
    node_requests,
    pod_requests,
    scheduling_requests,
)

MI = 1024 * 1024
DEFAULT_MILLI_CPU, DEFAULT_MEMORY = 100, 200 * MI


def requirements(**requests: Quantity) -> ResourceRequirements:
    return ResourceRequirements(requests={name.replace("_", "-"): quantity for name, quantity in requests.items()})


def container(name: str = "c", **requests: Quantity) -> Container:
    return Container(name=name, resources=requirements(**requests))


def sidecar(name: str = "s", **requests: Quantity) -> Container:
    return Container(name=name, resources=requirements(**requests), restart_policy="Always")


def pod_of(
    *containers: Container,
    init: tuple[Container, ...] = (),
    overhead: ResourceList | None = None,
    resources: ResourceRequirements | None = None,
    status: PodStatus | None = None,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="a", namespace="shop"),
        spec=PodSpec(containers=containers, init_containers=init, overhead=overhead or {}, resources=resources),
        status=status or PodStatus(),
    )


def total(pod: Pod, *, use_status: bool = False, non_zero: bool = False) -> dict[str, str]:
    """A pod's requests, readably."""
    amounts = pod_requests(pod, use_status=use_status, non_zero=non_zero)
    return {name: f"{amount // 10**6}m" for name, amount in amounts.items()}


# --- containers -------------------------------------------------------------------------------------------------------


def test_containers_add_up() -> None:
    """Containers run together, so their requests are added."""
    pod = pod_of(container(cpu="100m", memory="1"), container(cpu="200m"), container())
    assert total(pod) == {"cpu": "300m", "memory": "1000m"}


def test_the_largest_init_container_counts() -> None:
    """Init containers run alone, one after another; one matters only if it needs more than all containers do."""
    pod = pod_of(
        container(cpu="2", memory="1"),
        container(cpu="1", memory="1"),
        init=(container(cpu="2", memory="1"), container(cpu="2", memory="3")),
    )
    assert total(pod) == {"cpu": "3000m", "memory": "3000m"}


def test_sidecars_stay() -> None:
    """A restartable init container runs beside the containers, and beside the init containers after it."""
    pod = pod_of(
        container(cpu="1"),
        init=(container("early", cpu="5"), sidecar(cpu="2"), container("late", cpu="4")),
    )
    assert total(pod) == {"cpu": "6000m"}


def test_a_sidecar_does_not_run_beside_what_came_before() -> None:
    """An init container ahead of a sidecar has ended when the sidecar starts."""
    pod = pod_of(container(cpu="1"), init=(container("early", cpu="5"), sidecar(cpu="2")))
    assert total(pod) == {"cpu": "5000m"}


def test_sidecars_pile_up_while_starting() -> None:
    """Each init container runs beside all sidecars started so far."""
    pod = pod_of(
        container(cpu="100m"),
        init=(sidecar("s1", cpu="1"), sidecar("s2", cpu="2"), container("i", cpu="3")),
    )
    assert total(pod) == {"cpu": "6000m"}


@pytest.mark.parametrize("policy", [None, "OnFailure", "Never"])
def test_only_always_makes_a_sidecar(policy: str | None) -> None:
    """Any other restart policy leaves an init container ordinary."""
    init = Container(resources=requirements(cpu="1"), restart_policy=policy)
    assert total(pod_of(container(cpu="2"), init=(init,))) == {"cpu": "2000m"}


def test_overhead_comes_on_top() -> None:
    """The overhead of the runtime is added to whatever the containers need, also for resources they do not name."""
    pod = pod_of(container(cpu="1"), init=(container(cpu="3"),), overhead={"cpu": "500m", "memory": "1"})
    assert total(pod) == {"cpu": "3500m", "memory": "1000m"}


amounts = st.integers(0, 50)


@given(
    st.lists(amounts, min_size=1, max_size=4),
    st.lists(st.tuples(amounts, st.booleans()), max_size=5),
    amounts,
)
def test_a_request_covers_every_moment_of_a_pods_life(
    containers: list[int], init: list[tuple[int, bool]], overhead: int
) -> None:
    """The request is the most that ever runs at once, over all stages of starting and running, plus the overhead."""
    stages = []
    running = 0
    for amount, stays in init:
        stages.append(running + amount)
        running += amount if stays else 0
    stages.append(running + sum(containers))
    pod = pod_of(
        *(container(cpu=amount) for amount in containers),
        init=tuple(sidecar(cpu=amount) if stays else container(cpu=amount) for amount, stays in init),
        overhead={"cpu": overhead},
    )
    assert pod_requests(pod, use_status=False) == {"cpu": nanos(max(stages) + overhead)}


def test_fractions_are_added_before_they_are_rounded() -> None:
    """Three times a third of a thousandth is one thousandth and not three."""
    part = container(cpu="333333n")
    assert scheduling_requests(pod_of(part, part, part)).milli_cpu == 1


# --- pod-level requests -----------------------------------------------------------------------------------------------


def test_pod_level_requests_replace_the_sum() -> None:
    """What is requested for the pod as a whole takes the place of what its containers request, overhead aside."""
    pod = pod_of(
        container(cpu="4", memory="1"),
        resources=requirements(cpu="1", hugepages_2Mi="2"),
        overhead={"cpu": "500m"},
    )
    assert total(pod) == {"cpu": "1500m", "memory": "1000m", "hugepages-2Mi": "2000m"}


def test_only_some_resources_exist_at_pod_level() -> None:
    """Anything but CPU, memory and huge pages is ignored there."""
    pod = pod_of(container(cpu="1"), resources=ResourceRequirements(requests={"example.com/gpu": "1", "pods": "3"}))
    assert total(pod) == {"cpu": "1000m"}


def test_pod_level_limits_are_no_requests() -> None:
    """Limits at pod level change nothing."""
    assert total(pod_of(container(cpu="1"), resources=ResourceRequirements(limits={"cpu": "9"}))) == {"cpu": "1000m"}


# --- resizing in place ------------------------------------------------------------------------------------------------


def resized(spec: str, actual: str | None, allocated: str | None, *conditions: PodCondition) -> Pod:
    """A pod whose only container requests, has and was allocated these amounts of CPU."""
    status = ContainerStatus(
        name="c",
        resources=None if actual is None else requirements(cpu=actual),
        allocated_resources={} if allocated is None else {"cpu": allocated},
    )
    return pod_of(container("c", cpu=spec), status=PodStatus(container_statuses=(status,), conditions=conditions))


INFEASIBLE = PodCondition(type="PodResizePending", reason="Infeasible")
DEFERRED = PodCondition(type="PodResizePending", reason="Deferred")


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (resized("1", "2", "3"), "3000m"),
        (resized("3", "2", "1"), "3000m"),
        (resized("1", "3", None), "3000m"),
        (resized("1", None, "3"), "1000m"),
        (resized("9", "2", "3", DEFERRED), "9000m"),
        (resized("9", "2", "3", INFEASIBLE), "3000m"),
        (resized("9", "4", "3", INFEASIBLE), "4000m"),
        (resized("9", "2", "3", DEFERRED, INFEASIBLE), "9000m"),
        (resized("9", "2", "3", PodCondition(type="Ready", reason="Infeasible")), "9000m"),
    ],
)
def test_a_resize_holds_the_most_of_wish_promise_and_reality(pod: Pod, expected: str) -> None:
    """While a container is resized the larger amount counts, but a resize that cannot be granted does not."""
    assert total(pod, use_status=True) == {"cpu": expected}


def test_without_status_only_the_spec_counts() -> None:
    """For a pod that is yet to be placed there is nothing but its spec."""
    assert total(resized("1", "2", "3")) == {"cpu": "1000m"}


def test_the_status_of_sidecars_counts_and_that_of_init_containers_does_not() -> None:
    """Only what keeps running can be resized."""
    statuses = tuple(ContainerStatus(name=name, resources=requirements(cpu="9")) for name in ("s", "i"))
    status = PodStatus(init_container_statuses=statuses)
    assert total(pod_of(init=(sidecar("s", cpu="1"),), status=status), use_status=True) == {"cpu": "9000m"}
    assert total(pod_of(init=(container("i", cpu="1"),), status=status), use_status=True) == {"cpu": "1000m"}


def test_a_resource_only_in_the_status_counts() -> None:
    """What a container still holds counts even if its spec no longer requests it."""
    status = ContainerStatus(name="c", resources=requirements(memory="5"))
    pod = pod_of(container("c", cpu="1"), status=PodStatus(container_statuses=(status,)))
    assert total(pod, use_status=True) == {"cpu": "1000m", "memory": "5000m"}


def test_pod_level_resizing() -> None:
    """Pod-level requests follow the pod's own status in the same way."""
    status = PodStatus(resources=requirements(cpu="3", memory="7"), allocated_resources={"cpu": "2"})
    pod = pod_of(container(memory="1"), resources=requirements(cpu="1"), status=status)
    assert total(pod, use_status=True) == {"cpu": "3000m", "memory": "1000m"}
    assert total(pod) == {"cpu": "1000m", "memory": "1000m"}


def test_an_infeasible_pod_level_wish_without_reality_is_nothing() -> None:
    """If the status has nothing of a resource whose resize cannot be granted, the pod holds none of it."""
    status = PodStatus(resources=requirements(memory="7"), conditions=(INFEASIBLE,))
    assert total(pod_of(resources=requirements(cpu="1"), status=status), use_status=True) == {"cpu": "0m"}


# --- what scoring supposes --------------------------------------------------------------------------------------------


def test_silent_containers_are_supposed_to_use_something() -> None:
    """Scoring assumes 100m and 200Mi for each container without requests; an explicit zero stays zero."""
    pod = pod_of(container(), container(cpu="0"), container(memory="1Mi"))
    books = node_requests(pod)
    assert (books.milli_cpu, books.memory) == (0, MI)
    assert books.nonzero_cpu == 2 * DEFAULT_MILLI_CPU
    assert books.nonzero_memory == 2 * DEFAULT_MEMORY + MI
    assert scheduling_requests(pod) == books


def test_silent_init_containers_too() -> None:
    """The defaults apply to init containers, and to sidecars beside the containers."""
    books = node_requests(pod_of(container(cpu="50m"), init=(sidecar(), container("i"))))
    assert books.nonzero_cpu == 2 * DEFAULT_MILLI_CPU
    assert books.nonzero_memory == 2 * DEFAULT_MEMORY


def test_pod_level_requests_need_no_supposition() -> None:
    """A resource with a pod-level request is known; the other one gets the default per container."""
    books = node_requests(pod_of(container(), container(), resources=requirements(cpu="10m")))
    assert (books.nonzero_cpu, books.nonzero_memory) == (10, 2 * DEFAULT_MEMORY)


def test_the_books_and_the_score_differ_beside_pod_level_requests() -> None:
    """With pod-level requests, one container's request is enough for the node's account; the score adds defaults
    anyway."""
    pod = pod_of(container(memory="1Mi"), container(), resources=requirements(cpu="10m"))
    assert node_requests(pod).nonzero_memory == MI
    assert scheduling_requests(pod).nonzero_memory == MI + DEFAULT_MEMORY


def test_a_pod_without_containers() -> None:
    """A pod without containers requests nothing and gets no defaults."""
    assert node_requests(pod_of()) == Requests()


def test_fitting_ignores_the_status_and_the_books_do_not() -> None:
    """A resize shows in what a pod takes from its node, not in what it would need elsewhere."""
    pod = resized("1", "2", "3")
    assert scheduling_requests(pod).milli_cpu == 1000
    assert node_requests(pod).milli_cpu == 3000


def test_scalar_resources() -> None:
    """Resources besides the three basic ones are stored by name, if the scheduler tracks their kind."""
    requests: ResourceList = {
        "cpu": "1500u",
        "memory": "1.5",
        "ephemeral-storage": "1Ki",
        "hugepages-2Mi": "4Mi",
        "example.com/gpu": 2,
        "attachable-volumes-aws-ebs": "3",
        "kubernetes.io/batch": "1",
        "pods": "7",
        "unknown": "8",
    }
    books = scheduling_requests(pod_of(Container(resources=ResourceRequirements(requests=requests))))
    assert (books.milli_cpu, books.memory, books.ephemeral_storage) == (2, 2, 1024)
    assert books.scalar == {
        "hugepages-2Mi": 4 * MI,
        "example.com/gpu": 2,
        "attachable-volumes-aws-ebs": 3,
        "kubernetes.io/batch": 1,
    }


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_what_a_node_offers() -> None:
    """Allocatable is read in the scheduler's units; capacity plays no part."""
    node = Node(
        status=NodeStatus(
            allocatable={
                "cpu": "3920m",
                "memory": "1Gi",
                "pods": "110",
                "ephemeral-storage": 5,
                "example.com/gpu": "2",
            },
            capacity={"cpu": "4"},
        )
    )
    assert allocatable(node) == NodeResources(3920, 1024 * MI, 5, 110, {"example.com/gpu": 2})


def test_an_empty_node_offers_nothing() -> None:
    """A node that reports nothing has room for nothing."""
    assert allocatable(Node()) == NodeResources()


# --- refusals ---------------------------------------------------------------------------------------------------------

BAD = requirements(cpu="1", memory="-1Gi")
NEGATIVE = 'quantity "-1Gi" is negative; a request must be zero or more'


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (pod_of(container(), Container(resources=BAD)), "spec.containers[1].resources.requests"),
        (pod_of(init=(Container(resources=BAD),)), "spec.initContainers[0].resources.requests"),
        (pod_of(resources=BAD), "spec.resources.requests"),
        (pod_of(overhead=BAD.requests), "spec.overhead"),
        (
            pod_of(container("c"), status=PodStatus(container_statuses=(ContainerStatus("c", BAD),))),
            "status.containerStatuses[0].resources.requests",
        ),
        (
            pod_of(
                init=(sidecar("s"),),
                status=PodStatus(init_container_statuses=(ContainerStatus("s", requirements(), BAD.requests),)),
            ),
            "status.initContainerStatuses[0].allocatedResources",
        ),
        (pod_of(resources=requirements(cpu="1"), status=PodStatus(resources=BAD)), "status.resources.requests"),
        (
            pod_of(
                resources=requirements(cpu="1"),
                status=PodStatus(resources=requirements(), allocated_resources=BAD.requests),
            ),
            "status.allocatedResources",
        ),
    ],
)
def test_a_negative_request_is_refused(pod: Pod, field: str) -> None:
    """A request below zero would free room that is not there; the message names pod, field and value."""
    with pytest.raises(InvalidObject) as caught:
        node_requests(pod)
    assert str(caught.value) == f'Pod shop/a: {field}["memory"]: {NEGATIVE}'


def test_a_malformed_request_is_refused() -> None:
    """A pod built in Python with a bad quantity gets the message that a decoded one would."""
    with pytest.raises(InvalidObject) as caught:
        scheduling_requests(pod_of(container(cpu="1x")))
    assert str(caught.value) == (
        'Pod shop/a: spec.containers[0].resources.requests["cpu"]: quantity "1x" is malformed; '
        "use a number with an optional suffix such as 500m or 1Gi"
    )


def test_a_malformed_offer_is_refused() -> None:
    """So does a node."""
    node = Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(allocatable={"cpu": "1", "memory": "many"}))
    with pytest.raises(InvalidObject, match=r'^Node n1: status.allocatable\["memory"\]: quantity "many" is malformed'):
        allocatable(node)


def test_bad_limits_are_not_looked_at() -> None:
    """Scheduling reads no limits, so they cannot make it fail."""
    pod = pod_of(Container(resources=ResourceRequirements(limits={"cpu": "-1"})))
    assert pod_requests(pod, use_status=True) == {}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "extended", "native", "scalar"),
    [
        ("cpu", False, True, False),
        ("pods", False, True, False),
        ("unknown", False, True, False),
        ("hugepages-2Mi", False, True, True),
        ("attachable-volumes-x", False, True, True),
        ("kubernetes.io/x", False, True, True),
        ("my.kubernetes.io/x", False, True, True),
        ("example.com/gpu", True, False, True),
        ("requests.example.com/gpu", False, False, False),
        ("Example.com/gpu", False, False, False),
        ("example.com/" + "g" * 63, True, False, True),
        ("example.com/" + "g" * 64, False, False, False),
        ("d" * 244 + "/g", True, False, True),
        ("d" * 245 + "/g", False, False, False),
        ("a/b/c", False, False, False),
        ("/gpu", False, False, False),
        ("", False, True, False),
    ],
)
def test_kinds_of_resources(name: str, extended: bool, native: bool, scalar: bool) -> None:
    """The name alone determines the kind of a resource and whether the scheduler tracks it."""
    assert (is_extended(name), is_native(name), is_scalar(name)) == (extended, native, scalar)


def test_prefixes() -> None:
    """Huge pages and attachable volumes are known by how their names begin."""
    assert is_hugepage("hugepages-1Gi")
    assert not is_hugepage("my-hugepages-1Gi")
    assert is_attachable_volume("attachable-volumes-csi-x")
    assert not is_attachable_volume("volumes")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("cpu", True),
        ("memory", True),
        ("hugepages-2Mi", True),
        ("ephemeral-storage", False),
        ("example.com/gpu", False),
    ],
)
def test_pod_level_names(name: str, expected: bool) -> None:
    """Only a few resources can be requested for a whole pod."""
    assert is_pod_level(name) is expected
