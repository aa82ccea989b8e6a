"""Creating, reading, changing and listing objects, inside the process."""

from __future__ import annotations

import re

import pytest
from tests.apiserver.support import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    FixedClock,
    config_map,
    deployment,
    node,
    pod,
    refusal,
)

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.patch import JSON_PATCH, MERGE_PATCH, STRATEGIC
from kubesched.apiserver.storage.store import decode

# --- create -----------------------------------------------------------------------------------------------------------


async def test_create_gives_identity(client: LocalClient) -> None:
    """A new object gets a UID, a date and a version, and keeps the fields that it has."""
    made = await client.create(CONFIG_MAPS, {**config_map("a", x="1"), "immutable": True})
    meta = made["metadata"]
    assert re.fullmatch(r"[0-9a-f-]{36}", meta["uid"])
    assert meta["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert made["immutable"] is True
    assert await client.get(f"{CONFIG_MAPS}/a") == made


async def test_create_twice_is_a_conflict(client: LocalClient) -> None:
    """A name can be given once."""
    await client.create(CONFIG_MAPS, config_map("a"))
    error = await refusal(client.create(CONFIG_MAPS, config_map("a")))
    assert (error.code, error.reason) == (409, "AlreadyExists")
    assert error.message == 'configmaps "a" already exists'


async def test_generate_name(client: LocalClient) -> None:
    """A prefix becomes a name with five more characters."""
    obj = config_map()
    obj["metadata"] = {"generateName": "run-"}
    names = {(await client.create(CONFIG_MAPS, obj | {"metadata": {"generateName": "run-"}}))["metadata"]["name"]}
    names.add((await client.create(CONFIG_MAPS, obj))["metadata"]["name"])
    assert len(names) == 2
    assert all(re.fullmatch(r"run-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_create_needs_a_name(client: LocalClient) -> None:
    """Without a name or a prefix there is nothing to create."""
    error = await refusal(client.create(CONFIG_MAPS, {"metadata": {}}))
    assert error.message == ('ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required')


async def test_namespaces_must_exist_and_match(client: LocalClient) -> None:
    """An object goes into the namespace of the path, and that has to be there."""
    missing = await refusal(client.create("/api/v1/namespaces/none/configmaps", config_map("a")))
    assert (missing.code, missing.message) == (404, 'namespaces "none" not found')
    other = config_map("a")
    other["metadata"]["namespace"] = "kube-system"
    mismatch = await refusal(client.create(CONFIG_MAPS, other))
    assert (mismatch.code, mismatch.reason) == (400, "BadRequest")


async def test_dry_run_stores_nothing(client: LocalClient, api: ApiServer) -> None:
    """A dry run returns the result and stores nothing."""
    version = api.store.version
    made = await client.create(f"{PODS}?dryRun=All", pod("a"))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert api.store.version == version
    assert (await refusal(client.get(f"{PODS}/a"))).code == 404


async def test_kind_and_version_must_be_right(client: LocalClient) -> None:
    """The body has to be of the path's kind."""
    error = await refusal(client.create(PODS, node("a")))
    assert error.code == 400
    wrong = await refusal(client.create(DEPLOYMENTS, {**deployment(), "apiVersion": "apps/v1beta1"}))
    assert "does not match the expected API version (apps/v1)" in wrong.message


# --- fields -----------------------------------------------------------------------------------------------------------


async def test_wrong_types_are_refused_in_go_s_words(client: LocalClient) -> None:
    """A value of the wrong type is named as Go's decoder would."""
    error = await refusal(client.create(DEPLOYMENTS, deployment(replicas="three")))  # type: ignore[arg-type]
    assert error.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into'
        " Go struct field DeploymentSpec.spec.replicas of type int32"
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"containers": "x"},
            "cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        ({"nodeSelector": ["a"]}, "cannot unmarshal array into Go struct field PodSpec.spec.nodeSelector of type map"),
        ({"hostNetwork": "yes"}, "cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool"),
        ({"nodeName": 5}, "cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string"),
        ({"priority": 2**40}, "cannot unmarshal number into Go struct field PodSpec.spec.priority of type int32"),
        ({"overhead": {"cpu": "many"}}, "quantities must match the regular expression"),
    ],
)
async def test_wrong_types_of_every_sort(client: LocalClient, spec: dict[str, object], text: str) -> None:
    """Lists, maps, booleans, strings, numbers and quantities are told apart."""
    error = await refusal(client.create(PODS, pod("a", **spec)))
    assert error.code == 400
    assert text in error.message


async def test_unknown_fields_as_the_client_wishes(client: LocalClient) -> None:
    """Strict refuses, warn warns, ignore says nothing; none stores the field."""
    body = pod("a", containerz=[1])
    strict = await refusal(client.create(f"{PODS}?fieldValidation=Strict", body))
    assert 'strict decoding error: unknown field "spec.containerz"' in strict.message
    warned = await client.send("POST", f"{PODS}?fieldValidation=Warn", pod("a", containerz=[1]))
    assert warned.warnings == ['unknown field "spec.containerz"']
    ignored = await client.send("POST", f"{PODS}?fieldValidation=Ignore", pod("b", containerz=[1]))
    assert ignored.warnings == []
    for name in ("a", "b"):
        assert "containerz" not in (await client.get(f"{PODS}/{name}"))["spec"]


async def test_so_many_unknown_fields_are_reported(client: LocalClient) -> None:
    """The first hundred, as upstream's decoder counts them."""
    body = pod("a", **{f"x{number}": 1 for number in range(150)})
    strict = await refusal(client.create(f"{PODS}?fieldValidation=Strict", body))
    assert (strict.message.count("unknown field"), '"spec.x99"' in strict.message) == (100, True)


@pytest.mark.parametrize(
    ("form", "patch", "words"),
    [
        (STRATEGIC, {"spec": {"replicas": "many"}}, '"map[spec:map[replicas:many]]": unrecognized type: int32'),
        (STRATEGIC, {"spec": {"replicas": 1.5}}, '"map[spec:map[replicas:1.5]]": cannot convert float64 to int32'),
        (STRATEGIC, {"spec": [1, None, True]}, '"map[spec:[1 <nil> true]]": cannot restore struct from: slice'),
        (
            STRATEGIC,
            {"metadata": {"labels": {"a": 1}}},
            '"map[metadata:map[labels:map[a:1]]]": cannot convert int64 to string',
        ),
        (
            MERGE_PATCH,
            {"spec": {"replicas": "many"}},
            "json: cannot unmarshal string into Go struct field DeploymentSpec",
        ),
        (MERGE_PATCH, {"spec": {"nosuch": 1}}, 'strict decoding error: unknown field "spec.nosuch"'),
        (STRATEGIC, {"nosuch": 1}, '"map[nosuch:1]": strict decoding error: unknown field "nosuch"'),
    ],
)
async def test_a_patch_with_a_wrong_value(client: LocalClient, form: str, patch: object, words: str) -> None:
    """A value of the wrong type or an unknown field in a patch is invalid: kubectl edit then opens its editor again."""
    await client.create(DEPLOYMENTS, deployment("d", 1))
    path = f"{DEPLOYMENTS}/d?fieldValidation=Strict"
    error = await refusal(client.call("PATCH", path, patch, content_type=form))
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith(' "" is invalid: patch: Invalid value: ')
    assert words in error.message


@pytest.mark.parametrize(
    ("form", "body", "warning"),
    [
        (STRATEGIC, b'{"data": {"x": "1", "x": "2"}}', 'duplicate field "data.x"'),
        (MERGE_PATCH, b'{"data": {"x": "1", "x": "2"}}', 'duplicate field "data.x"'),
        (
            JSON_PATCH,
            b'[{"op": "add", "op": "replace", "path": "/data/x", "value": "2"}]',
            'json patch duplicate field "[0].op"',
        ),
        (
            JSON_PATCH,
            b'[{"op": "replace", "path": "/data/x", "value": "2", "why": 1}]',
            'json patch unknown field "[0].why"',
        ),
    ],
)
async def test_fields_that_a_patch_repeats(client: LocalClient, form: str, body: bytes, warning: str) -> None:
    """A field that a patch has twice is refused, warned about or ignored, as the client wishes."""
    await client.create(CONFIG_MAPS, config_map("a", x="0"))
    path = f"{CONFIG_MAPS}/a?fieldValidation="
    error = await refusal(client.call("PATCH", f"{path}Strict", body, content_type=form))
    assert (error.code, error.message.endswith(f"strict decoding error: {warning}")) == (422, True)
    warned = await client.send("PATCH", f"{path}Warn", body, content_type=form)
    ignored = await client.send("PATCH", f"{path}Ignore", body, content_type=form)
    assert (warned.warnings, ignored.warnings) == ([warning], [])
    assert (await client.get(f"{CONFIG_MAPS}/a"))["data"] == {"x": "2"}


async def test_unknown_fields_of_operations_are_named_in_order(client: LocalClient) -> None:
    """The message is the same every time: fields are named as the patch has them."""
    await client.create(CONFIG_MAPS, config_map("a", x="0"))
    names = ["q", "b", "z", "a", "m", "c", "y", "d"]
    patch = [{"op": "replace", "path": "/data/x", "value": "1", **dict.fromkeys(names, 1)}]
    response = await client.send("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=JSON_PATCH)
    assert response.warnings == [f'json patch unknown field "[0].{name}"' for name in names]


async def test_a_patch_with_too_many_operations(client: LocalClient) -> None:
    """More than 10,000 operations are refused before any is applied."""
    await client.create(CONFIG_MAPS, config_map("a", x="0"))
    patch = [{"op": "add", "path": "/data/x", "value": "1"}] * 10_001
    error = await refusal(client.call("PATCH", f"{CONFIG_MAPS}/a", patch, content_type=JSON_PATCH))
    limit = "The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert (error.code, error.message) == (413, f"Request entity too large: {limit}")


async def test_a_patch_cannot_change_the_uid(client: LocalClient) -> None:
    """Another UID is a conflict in a PUT, where it is a precondition, and invalid in a patch."""
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    error = await refusal(client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"uid": "other"}}))
    assert error.message == 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    made["metadata"]["uid"] = "other"
    assert (await refusal(client.replace(f"{CONFIG_MAPS}/a", made))).code == 409


async def test_yaml_is_read_and_protobuf_garbage_is_not(client: LocalClient) -> None:
    """Bodies may be YAML; what claims to be protobuf and is not is a bad request; anything else is 415."""
    made = await client.call(
        "POST", CONFIG_MAPS, b"metadata: {name: one}\ndata: {a: b}\n", content_type="application/yaml"
    )
    assert made["data"] == {"a": "b"}
    lease = b"metadata: {name: b, creationTimestamp: 2026-01-01T00:00:00Z}\nspec: {renewTime: 2026-01-01T00:00:00.5Z}\n"
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    stored = await client.call("POST", path, lease, content_type="application/yaml")
    assert stored["spec"]["renewTime"].startswith("2026-01-01T00:00:00.5")
    wrong = await refusal(client.call("POST", PODS, b"a: [", content_type="application/yaml"))
    assert (wrong.code, wrong.message[:30]) == (400, "the object provided is unrecog")
    bad = await refusal(client.call("POST", PODS, b"xx", content_type="application/vnd.kubernetes.protobuf"))
    assert bad.code == 400
    assert (await refusal(client.call("POST", PODS, b"xx", content_type="text/plain"))).code == 415


# --- update -----------------------------------------------------------------------------------------------------------


async def test_optimistic_concurrency(client: LocalClient) -> None:
    """An update of an old version is a conflict; one without a version always goes."""
    first = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    second = await client.replace(f"{CONFIG_MAPS}/a", {**first, "data": {"x": "2"}})
    error = await refusal(client.replace(f"{CONFIG_MAPS}/a", {**first, "data": {"x": "3"}}))
    assert (error.code, error.reason) == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in error.message
    third = await client.replace(f"{CONFIG_MAPS}/a", config_map("a", x="4"))
    assert third["metadata"]["uid"] == second["metadata"]["uid"] == first["metadata"]["uid"]


async def test_a_status_of_an_old_version_is_a_conflict(client: LocalClient) -> None:
    """A status update of an old version is a conflict, and nothing is written."""
    path = f"{DEPLOYMENTS}/d"
    old = await client.create(DEPLOYMENTS, deployment("d", 1))
    await client.patch(path, {"spec": {"replicas": 2}})
    error = await refusal(client.replace(f"{path}/status", {**old, "status": {"replicas": 1}}))
    assert (error.code, error.reason) == (409, "Conflict")
    now = await client.get(path)
    assert (now["spec"]["replicas"], "replicas" in now["status"]) == (2, False)


async def test_an_update_that_changes_nothing_is_none(client: LocalClient, api: ApiServer) -> None:
    """The version stays when the object does."""
    made = await client.create(CONFIG_MAPS, config_map("a", x="1"))
    assert await client.replace(f"{CONFIG_MAPS}/a", made) == made
    assert str(api.store.version) == made["metadata"]["resourceVersion"]


async def test_generation_follows_the_spec(client: LocalClient) -> None:
    """A changed spec is a new generation; labels and status are not."""
    await client.create(DEPLOYMENTS, deployment("d", 1))
    path = f"{DEPLOYMENTS}/d"
    labelled = await client.patch(path, {"metadata": {"labels": {"a": "b"}}})
    scaled = await client.patch(path, {"spec": {"replicas": 2}})
    reported = await client.patch(f"{path}/status", {"status": {"replicas": 2, "observedGeneration": 2}})
    assert [obj["metadata"]["generation"] for obj in (labelled, scaled, reported)] == [1, 2, 2]
    assert reported["status"]["replicas"] == 2


async def test_what_the_defaults_put_back_is_no_change(client: LocalClient) -> None:
    """A PUT or a patch of what a manifest says, without what the defaults had added, leaves version and generation."""
    body = deployment("d", 1)
    made = await client.create(DEPLOYMENTS, body)
    path = f"{DEPLOYMENTS}/d"
    assert "strategy" not in body["spec"]
    assert await client.replace(path, body) == made
    assert await client.patch(path, {"spec": {"strategy": {"$retainKeys": []}}}, content_type=STRATEGIC) == made


async def test_empty_lists_and_maps_are_none(client: LocalClient) -> None:
    """What a chart renders as `tolerations: []` or `nodeSelector: {}` is not stored; to leave it out is no change."""
    body = deployment("d")
    template = body["spec"]["template"]["spec"]
    plain = {**template, "affinity": {}}
    template |= {
        "affinity": {},
        "nodeSelector": {},
        "tolerations": [],
        "containers": [{**plain["containers"][0], "env": []}],
    }
    made = await client.create(DEPLOYMENTS, body)
    stored = made["spec"]["template"]["spec"]
    assert not {"nodeSelector", "tolerations"} & stored.keys()
    assert stored["affinity"] == {}
    assert "env" not in stored["containers"][0]
    body["spec"]["template"]["spec"] = plain
    assert (await client.replace(f"{DEPLOYMENTS}/d", body))["metadata"]["generation"] == 1
    assert "nodeSelector" not in (await client.create(PODS, pod("p", nodeSelector={})))["spec"]


async def test_the_name_is_checked_before_there_is_an_object(client: LocalClient) -> None:
    """A PUT to a path with another name than the object's is wrong, whether something is there or not."""
    error = await refusal(client.replace(f"{CONFIG_MAPS}/other", config_map("c")))
    assert error.message == "the name of the object (c) does not match the name on the URL (other)"


async def test_status_and_spec_are_written_apart(client: LocalClient) -> None:
    """A write to the object leaves its status, a write to its status leaves the rest."""
    made = await client.create(PODS, {**pod("a"), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    whole = await client.patch(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Failed"}})
    assert whole["status"]["phase"] == "Pending"
    status = await client.patch(f"{PODS}/a/status", {"spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    assert (status["status"]["phase"], status["spec"].get("nodeName")) == ("Running", None)


async def test_nodes_bring_their_status(client: LocalClient) -> None:
    """A node registers with its capacity, which is allocatable unless it says otherwise."""
    made = await client.create(NODES, node("n"))
    assert made["status"]["allocatable"]["cpu"] == "4"


async def test_server_owned_metadata_stays(client: LocalClient) -> None:
    """Clients cannot change UID, creation date or deletion."""
    made = await client.create(CONFIG_MAPS, config_map("a"))
    sent = config_map("a", x="1")
    sent["metadata"] |= {"creationTimestamp": "2000-01-01T00:00:00Z", "deletionTimestamp": "2000-01-01T00:00:00Z"}
    stored = await client.replace(f"{CONFIG_MAPS}/a", sent)
    assert stored["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert "deletionTimestamp" not in stored["metadata"]
    other = config_map("a")
    other["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    assert "Precondition failed: UID" in (await refusal(client.replace(f"{CONFIG_MAPS}/a", other))).message


# --- patches over REST ------------------------------------------------------------------------------------------------


async def test_patch_kinds(client: LocalClient) -> None:
    """The content type says what kind of patch it is."""
    await client.create(PODS, pod("a"))
    path = f"{PODS}/a"
    merged = await client.patch(path, {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}, STRATEGIC)
    assert merged["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    replaced = await client.patch(path, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH)
    assert replaced["metadata"]["labels"] == {"a": "b"}
    assert (await refusal(client.patch(path, {}, "text/plain"))).code == 415


async def test_patch_checks_a_version_it_names(client: LocalClient) -> None:
    """A patch that names a version is meant for that one."""
    await client.create(CONFIG_MAPS, config_map("a"))
    error = await refusal(client.patch(f"{CONFIG_MAPS}/a", {"metadata": {"resourceVersion": "1"}, "data": {"a": "b"}}))
    assert error.code == 409


# --- lists ------------------------------------------------------------------------------------------------------------


async def _names(client: LocalClient, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await client.get(path))["items"]]


async def test_label_selectors(client: LocalClient) -> None:
    """Lists can be narrowed by labels in every form of the grammar."""
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2", "y": ""}), ("c", {})):
        await client.create(f"{NODES}", {**node(name), "metadata": {"name": name, "labels": labels}})
    cases = {
        "x=1": ["a"],
        "x==1": ["a"],
        "x!=1": ["b", "c"],
        "x": ["a", "b"],
        "!x": ["c"],
        "x in (1,2),y": ["b"],
        "x notin (1)": ["b", "c"],
        "x>1": ["b"],
        "y=": ["b"],
    }
    for selector, expected in cases.items():
        page = await client.get(NODES, query={"labelSelector": selector})
        assert [item["metadata"]["name"] for item in page["items"]] == expected, selector
    for wrong in ("x in 1", "x=1,", "x y"):
        assert (await refusal(client.get(NODES, query={"labelSelector": wrong}))).code == 400


async def test_field_selectors(client: LocalClient) -> None:
    """Lists can be narrowed by the fields that upstream allows, and by no others."""
    await client.create(PODS, pod("a", nodeName="n1", schedulerName="mine"))
    await client.create(PODS, pod("b"))
    cases = {
        "spec.nodeName=n1": ["a"],
        "spec.nodeName=": ["b"],
        "spec.nodeName!=n1": ["b"],
        "metadata.name=b": ["b"],
        "metadata.name!=b": ["a"],
        "metadata.namespace!=default": [],
        "metadata.namespace=default,spec.schedulerName=mine": ["a"],
        "status.phase!=Succeeded,status.phase!=Failed": ["a", "b"],
    }
    for selector, expected in cases.items():
        page = await client.get("/api/v1/pods", query={"fieldSelector": selector})
        assert [item["metadata"]["name"] for item in page["items"]] == expected, selector
    error = await refusal(client.get(PODS, query={"fieldSelector": "spec.colour=red"}))
    assert (error.code, error.message) == (400, "field label not supported: spec.colour")
    error = await refusal(client.get(CONFIG_MAPS, query={"fieldSelector": "data.a=b"}))
    assert error.message == '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'


async def test_a_field_selector_does_not_leave_the_namespace(client: LocalClient) -> None:
    """A field selector cannot reach into another namespace."""
    await client.create(CONFIG_MAPS, config_map("mine"))
    elsewhere = "/api/v1/namespaces/kube-system/configmaps"
    assert (await client.get(elsewhere, query={"fieldSelector": "metadata.namespace=default"}))["items"] == []


async def test_pages_show_one_moment(client: LocalClient) -> None:
    """The pages of a list are of the version of the first one, whatever happens in between."""
    for name in "abcde":
        await client.create(NODES, node(name))
    first = await client.get(f"{NODES}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await client.delete(f"{NODES}/d")
    await client.create(NODES, node("bb"))
    await client.create(NODES, node("f"))
    both = {"continue": first["metadata"]["continue"], "resourceVersion": "1"}
    error = await refusal(client.get(NODES, query=both))
    assert (error.code, error.message) == (400, "specifying resource version is not allowed when using continue")
    rest = await client.get(NODES, query={"limit": "5", "continue": first["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c", "d", "e"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert await _names(client, NODES) == ["a", "b", "bb", "c", "e", "f"]
    for name in "abc":
        await client.create(CONFIG_MAPS, config_map(name))
    await client.create("/api/v1/namespaces/kube-system/configmaps", config_map("elsewhere"))
    assert (await client.get(f"{CONFIG_MAPS}?limit=1"))["metadata"]["remainingItemCount"] == 2


async def test_an_expired_page_is_410(client: LocalClient, api: ApiServer) -> None:
    """A page whose history is gone has to be started over."""
    for name in "abc":
        await client.create(NODES, node(name))
    first = await client.get(f"{NODES}?limit=1")
    await client.create(NODES, node("d"))
    api.store.shelf("/nodes").forget()
    error = await refusal(client.get(NODES, query={"continue": first["metadata"]["continue"]}))
    assert (error.code, error.reason) == (410, "Expired")
    assert (await refusal(client.get(NODES, query={"continue": "!"}))).code == 400


async def test_a_token_expires(client: LocalClient, clock: FixedClock) -> None:
    """After five minutes a token is refused. The refusal has one that continues with the newest objects."""
    for name in "abc":
        await client.create(NODES, node(name))
    first = await client.get(f"{NODES}?limit=1")
    await client.create(NODES, node("d"))
    clock.time += 301
    response = await client.send("GET", NODES, query={"continue": first["metadata"]["continue"]})
    assert response.status == 410
    again = decode(response.body)["metadata"]["continue"]
    rest = await client.get(NODES, query={"continue": again})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]


async def test_reviews_have_no_other_form(client: LocalClient) -> None:
    """A review cannot be asked for as a table."""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    only_table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert (await client.send("POST", path, body, headers=only_table)).status == 406


async def test_resource_version_match(client: LocalClient) -> None:
    """Lists can require an exact or a minimum version; a future version is refused."""
    made = await client.create(NODES, node("a"))
    version = made["metadata"]["resourceVersion"]
    await client.create(NODES, node("b"))
    exact = await client.get(f"{NODES}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert [item["metadata"]["name"] for item in exact["items"]] == ["a"]
    newer = await client.get(f"{NODES}?resourceVersion={version}&resourceVersionMatch=NotOlderThan")
    assert len(newer["items"]) == 2
    unfounded = await refusal(client.get(f"{NODES}?resourceVersionMatch=Exact"))
    assert unfounded.message.endswith("resourceVersionMatch is forbidden unless resourceVersion is provided")
    future = await refusal(client.get(f"{NODES}?resourceVersion=999999"))
    assert (future.code, future.causes[0].reason) == (504, "ResourceVersionTooLarge")


async def test_a_job_that_leaves_its_pods_says_so(client: LocalClient) -> None:
    """Deleting a Job without a policy for its pods keeps them, as upstream, and warns of it."""
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    for name, options in (("a", {}), ("b", {"propagationPolicy": "Background"})):
        await client.create(jobs, {"metadata": {"name": name}, "spec": {"template": template}})
        response = await client.send("DELETE", f"{jobs}/{name}", options)
        assert [text[:32] for text in response.warnings] == (
            ["child pods are preserved by defa"] if name == "a" else []
        )


async def test_delete_collection(client: LocalClient) -> None:
    """deletecollection removes the selected objects and no others."""
    await client.create(CONFIG_MAPS, config_map("a", {"x": "1"}))
    await client.create(CONFIG_MAPS, config_map("b"))
    await client.delete(f"{CONFIG_MAPS}?labelSelector=x=1")
    assert await _names(client, CONFIG_MAPS) == ["b"]
    assert (await refusal(client.delete(NAMESPACES))).code == 405, "namespaces go one by one"


async def test_events_in_two_groups(client: LocalClient, clock: FixedClock) -> None:
    """An event written in one group is read in the other, with each group's names for its fields."""
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reason": "Scheduled",
        "note": "hello",
        "type": "Normal",
        "action": "Binding",
        "reportingController": "default-scheduler",
        "reportingInstance": "x",
        "regarding": {"kind": "Pod", "name": "a", "namespace": "default"},
    }
    await client.create("/apis/events.k8s.io/v1/namespaces/default/events", event)
    old = await client.get("/api/v1/namespaces/default/events/e")
    assert (old["apiVersion"], old["message"], old["involvedObject"]["name"]) == ("v1", "hello", "a")
    query = {"fieldSelector": "involvedObject.name=a,reason=Scheduled"}
    assert len((await client.get("/api/v1/events", query=query))["items"]) == 1
    new = await client.get("/apis/events.k8s.io/v1/events", query={"fieldSelector": "regarding.name=a"})
    assert (new["items"][0]["note"], new["items"][0]["apiVersion"]) == ("hello", "events.k8s.io/v1")


# --- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/widgets", 404),
        ("GET", "/apis/nowhere/v1/things", 404),
        ("GET", f"{PODS}/none", 404),
        ("GET", f"{PODS}/none/log", 404),
        ("POST", "/api/v1/pods", 405),
        ("PUT", PODS, 405),
        ("GET", "/apis/authorization.k8s.io/v1/subjectaccessreviews", 405),
        ("GET", "/nonsense", 404),
    ],
)
async def test_what_is_not_there(client: LocalClient, method: str, path: str, code: int) -> None:
    """Unknown resources and objects are 404, methods that make no sense 405."""
    response = await client.send(method, path, pod("x"))
    assert response.status == code


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        (
            "application/json",
            b'{"metadata": {"name": "c"}, "data": {"a" : "1", "b": "\\":", "a": "2"}, "data": {}}',
            'duplicate field "data.a", duplicate field "data"',
        ),
        (
            "application/json",
            b'{"metadata": {"name": "c", "labels": {"a" :"1", "a" :"2"}}, "x": 1}',
            'duplicate field "metadata.labels.a", unknown field "x"',
        ),
        (
            "application/json",
            b'{"x": 1, "metadata": {"name": "c"}, "x": 1, "data": {"q": "1", "q": "2", "q": "3"}}',
            'unknown field "x", duplicate field "data.q"',
        ),
        (
            "application/yaml",
            b"metadata: {name: c, name: c}\ndata:\n  a: one\n  a: two\nx: 1\n",
            'yaml: unmarshal errors:\n  line 1: key "name" already set in map\n  line 4: key "a" already set in map,'
            ' unknown field "x"',
        ),
    ],
)
async def test_repeated_fields(client: LocalClient, content_type: str, body: bytes, problem: str) -> None:
    """Strict validation refuses fields that a body repeats; by default the client is warned, line by line."""
    error = await refusal(
        client.call("POST", CONFIG_MAPS, body, query={"fieldValidation": "Strict"}, content_type=content_type)
    )
    assert error.message.endswith(f"strict decoding error: {problem}")
    response = await client.send("POST", CONFIG_MAPS, body, content_type=content_type)
    assert response.warnings == re.split(", |\n  ", problem.removeprefix("yaml: unmarshal errors:\n  "))


async def test_warnings_have_limits(client: LocalClient) -> None:
    """Many warnings are cut and then left out, as upstream does it; one with a line break fits no header."""
    body = {**config_map("c"), **{f"{letter}{'x' * 300}": 1 for letter in "abcdefghijklmnopqrst"}, "line\nbreak": 1}
    response = await client.send("POST", CONFIG_MAPS, body)
    assert [len(text) for text in response.warnings] == [256] * 16


async def test_annotations_of_a_deployment_are_a_new_generation(client: LocalClient) -> None:
    """Its controller copies them to replica sets. Labels, and annotations of other kinds or with a status, are not."""
    await client.create(DEPLOYMENTS, deployment("d", 1))
    for change, generation in (
        ({"metadata": {"annotations": {"a": "b"}}}, 2),
        ({"metadata": {"annotations": {"a": "b"}}}, 2),
        ({"metadata": {"labels": {"a": "b"}}}, 2),
        ({"metadata": {"annotations": {"a": None}}}, 3),
    ):
        assert (await client.patch(f"{DEPLOYMENTS}/d", change))["metadata"]["generation"] == generation
    noted = await client.patch(f"{DEPLOYMENTS}/d/status", {"metadata": {"annotations": {"c": "d"}}})
    assert (noted["metadata"]["generation"], noted["metadata"]["annotations"]) == (3, {"c": "d"})
    await client.create(PODS, pod())
    assert (await client.patch(f"{PODS}/p", {"metadata": {"annotations": {"a": "b"}}}))["metadata"]["generation"] == 1
