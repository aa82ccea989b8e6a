"""The custom resource definitions of scheduler-plugins' kinds.

`kubesched up` and simulations install them. For other clusters they are in `deploy/contrib/crds.yaml`, which a test
compares with these.
"""

from __future__ import annotations

from typing import Any, Final

JSON = dict[str, Any]

STRING: Final[JSON] = {"type": "string"}
TIME: Final[JSON] = {"type": "string", "format": "date-time"}
QUANTITY: Final[JSON] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
    "x-kubernetes-int-or-string": True,
}


def integer(bits: int, **more: int) -> JSON:
    """A whole number."""
    return {"type": "integer", "format": f"int{bits}", **more}


def fields(required: str = "", **properties: JSON) -> JSON:
    """An object; `required` has the names of fields that must be there, separated by spaces."""
    return {"type": "object", "properties": properties} | ({"required": required.split()} if required else {})


def many(items: JSON) -> JSON:
    """A list."""
    return {"type": "array", "items": items}


def by_name(value: JSON) -> JSON:
    """A map from names."""
    return {"type": "object", "additionalProperties": value}


def definition(
    kind: str,
    group: str,
    version: str,
    short_names: str,
    schema: JSON,
    *,
    namespaced: bool = True,
    columns: tuple[tuple[str, str, str], ...] = (),
    status: bool = False,
    approved: str = "",
) -> JSON:
    """A definition with one version."""
    singular = kind.lower()
    plural = f"{singular[:-1]}ies" if singular.endswith("y") else f"{singular}s"
    meta: JSON = {"name": f"{plural}.{group}"}
    if approved:
        meta["annotations"] = {"api-approved.kubernetes.io": approved}
    served: JSON = {"name": version, "served": True, "storage": True}
    served["schema"] = {"openAPIV3Schema": _with_type(schema)}
    if columns:
        served["additionalPrinterColumns"] = [{"name": n, "type": t, "jsonPath": p} for n, t, p in columns]
    if status:
        served["subresources"] = {"status": {}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": singular}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {
            "group": group,
            "names": {**names, "shortNames": short_names.split()},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served],
        },
    }


def _with_type(schema: JSON) -> JSON:
    head = {"apiVersion": STRING, "kind": STRING, "metadata": {"type": "object"}}
    return {**schema, "properties": head | schema["properties"]}


AGE: Final = ("Age", "date", ".metadata.creationTimestamp")
SCHEDULING: Final = "scheduling.x-k8s.io"
NAMED_VALUES: Final = many(fields("name value", name=STRING, value=STRING))
WORKLOAD: Final = fields(
    "kind name selector", apiVersion=STRING, kind=STRING, name=STRING, namespace=STRING, selector=STRING
)

POD_GROUP: Final = definition(
    "PodGroup",
    SCHEDULING,
    "v1alpha1",
    "pg pgs",
    fields(
        spec=fields(
            minMember=integer(32, minimum=1), minResources=by_name(QUANTITY), scheduleTimeoutSeconds=integer(32)
        ),
        status=fields(
            phase=STRING,
            occupiedBy=STRING,
            running=integer(32),
            succeeded=integer(32),
            failed=integer(32),
            scheduleStartTime=TIME,
        ),
    ),
    columns=(
        ("Phase", "string", ".status.phase"),
        ("MinMember", "integer", ".spec.minMember"),
        ("Running", "integer", ".status.running"),
        ("Succeeded", "integer", ".status.succeeded"),
        ("Failed", "integer", ".status.failed"),
        AGE,
    ),
    status=True,
    approved="https://github.com/kubernetes-sigs/scheduler-plugins/pull/50",
)

ELASTIC_QUOTA: Final = definition(
    "ElasticQuota",
    SCHEDULING,
    "v1alpha1",
    "eq eqs",
    fields(spec=fields(min=by_name(QUANTITY), max=by_name(QUANTITY)), status=fields(used=by_name(QUANTITY))),
    columns=(("Used", "string", ".status.used"), ("Max", "string", ".spec.max"), AGE),
    status=True,
    approved="https://github.com/kubernetes-sigs/scheduler-plugins/pull/52",
)

NODE_RESOURCE_TOPOLOGY: Final = definition(
    "NodeResourceTopology",
    "topology.node.k8s.io",
    "v1alpha2",
    "node-res-topo",
    fields(
        "zones",
        attributes=NAMED_VALUES,
        topologyPolicies=many(STRING),
        zones=many(
            fields(
                "name type",
                name=STRING,
                type=STRING,
                parent=STRING,
                attributes=NAMED_VALUES,
                costs=many(fields("name value", name=STRING, value=integer(64))),
                resources=many(
                    fields(
                        "allocatable available capacity name",
                        name=STRING,
                        capacity=QUANTITY,
                        allocatable=QUANTITY,
                        available=QUANTITY,
                    )
                ),
            )
        ),
    ),
    namespaced=False,
    approved="https://github.com/kubernetes/enhancements/pull/1870",
)

APP_GROUP: Final = definition(
    "AppGroup",
    "appgroup.diktyo.x-k8s.io",
    "v1alpha1",
    "ag",
    fields(
        spec=fields(
            "numMembers topologySortingAlgorithm workloads",
            numMembers=integer(32, minimum=1),
            topologySortingAlgorithm=STRING,
            workloads=many(
                fields(
                    "workload",
                    workload=WORKLOAD,
                    dependencies=many(
                        fields(
                            "workload",
                            workload=WORKLOAD,
                            minBandwidth=QUANTITY,
                            maxNetworkCost=integer(64, minimum=0, maximum=10000),
                        )
                    ),
                )
            ),
        ),
        status=fields(
            runningWorkloads=integer(32, minimum=0),
            scheduleStartTime=TIME,
            topologyCalculationTime=TIME,
            topologyOrder=many(fields(workload=WORKLOAD, index=integer(32))),
        ),
    ),
)

NETWORK_TOPOLOGY: Final = definition(
    "NetworkTopology",
    "networktopology.diktyo.x-k8s.io",
    "v1alpha1",
    "nt",
    fields(
        spec=fields(
            "configmapName weights",
            configmapName=STRING,
            weights=many(
                fields(
                    "name topologyList",
                    name=STRING,
                    topologyList=many(
                        fields(
                            "originList topologyKey",
                            topologyKey=STRING,
                            originList=many(
                                fields(
                                    "origin",
                                    origin=STRING,
                                    costList=many(
                                        fields(
                                            "destination networkCost",
                                            destination=STRING,
                                            networkCost=integer(64, minimum=0),
                                            bandwidthCapacity=QUANTITY,
                                            bandwidthAllocated=QUANTITY,
                                        )
                                    ),
                                )
                            ),
                        )
                    ),
                )
            ),
        ),
        status=fields(nodeCount=integer(64, minimum=0), weightCalculationTime=TIME),
    ),
)

DEFINITIONS: Final = (POD_GROUP, ELASTIC_QUOTA, NODE_RESOURCE_TOPOLOGY, APP_GROUP, NETWORK_TOPOLOGY)

_GROUPS: Final = dict.fromkeys(each["spec"]["group"] for each in DEFINITIONS)
_PLURALS: Final = (each["spec"]["names"]["plural"] for each in DEFINITIONS)
READ_GROUPS: Final = " ".join([*_GROUPS, "scheduling.k8s.io", "metrics.k8s.io"])
READ_RESOURCES: Final = " ".join([*_PLURALS, "priorityclasses", "nodes"])
"""What a scheduler with these plugins reads beside what kube-scheduler reads."""
