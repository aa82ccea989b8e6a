"""Who may do what: tokens, certificates, roles, reviews, impersonation."""

from __future__ import annotations

import pytest
from tests.apiserver.support import CONFIG_MAPS, NODES, PODS, FixedClock, as_user, node, pod, refusal

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.impersonation import impersonated
from kubesched.apiserver.auth.rbac import AccessRequest, PolicyRule
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.rest.patch import MERGE_PATCH
from kubesched.apiserver.storage.store import decode
from kubesched.apiserver.wire.request import JSON_TYPE, ApiRequest, UserInfo
from kubesched.base.types import JSON

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


async def _with_token(api: ApiServer, token: str, path: str = PODS) -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return (await api.handle(ApiRequest("GET", path, headers=headers))).status


# --- authentication ---------------------------------------------------------------------------------------------------


async def test_anonymous_users_may_read_little(api: ApiServer) -> None:
    """Without credentials a user is anonymous and may read health and version only; wrong ones are 401."""
    assert await _with_token(api, "") == 403
    assert await _with_token(api, "wrong") == 401
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert await _with_token(api, "", path) == 200


async def test_static_tokens(api: ApiServer) -> None:
    """A static token identifies its user."""
    api.authenticator.add_token("secret", UserInfo("root", ("system:masters",)))
    assert await _with_token(api, "secret") == 200


async def test_service_account_tokens(api: ApiServer, client: LocalClient, clock: FixedClock) -> None:
    """A token identifies its account until it expires or the account is deleted."""
    path = "/api/v1/namespaces/default/serviceaccounts"
    await client.create(path, {"metadata": {"name": "robot"}})
    token = (await client.create(f"{path}/robot/token", {}))["status"]["token"]
    assert await _with_token(api, token) == 403
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]
    await client.create(
        f"{RBAC}/clusterrolebindings",
        {"metadata": {"name": "robot"}, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": subjects},
    )
    assert await _with_token(api, token) == 200
    clock.time += 3700
    assert await _with_token(api, token) == 401
    clock.time -= 3700
    assert await _with_token(api, token + "x") == 401
    await client.delete(f"{path}/robot")
    assert await _with_token(api, token) == 401


async def test_a_token_bound_to_a_pod_ends_with_it(api: ApiServer, client: LocalClient) -> None:
    """A token bound to a pod is invalid once the pod is gone."""
    await client.create(PODS, pod("p"))
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}}
    token = (await client.create(path, bound))["status"]["token"]
    assert await _with_token(api, token) == 403
    await client.delete(f"{PODS}/p")
    assert await _with_token(api, token) == 401


async def test_token_reviews(client: LocalClient) -> None:
    """Another server can ask for the user of a token."""
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = (await client.create(path, {}))["status"]["token"]
    review = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
    assert review["status"]["authenticated"]
    assert review["status"]["user"]["username"] == "system:serviceaccount:default:default"
    assert "system:serviceaccounts:default" in review["status"]["user"]["groups"]
    wrong = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}})
    assert "authenticated" not in wrong["status"]
    audience = {"spec": {"token": token, "audiences": ["elsewhere"]}}
    elsewhere = await client.create("/apis/authentication.k8s.io/v1/tokenreviews", audience)
    assert "authenticated" not in elsewhere["status"]


async def test_who_am_i(api: ApiServer) -> None:
    """Every user may ask who they are. The answer has a time, as upstream."""
    answer = await as_user(api, "bob", "staff").create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer["metadata"]["creationTimestamp"]
    assert answer["status"]["userInfo"] == {"username": "bob", "groups": ["staff", "system:authenticated"]}


# --- rules ------------------------------------------------------------------------------------------------------------

READ_PODS: JSON = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}

RULES: list[tuple[JSON, AccessRequest, bool]] = [
    (READ_PODS, AccessRequest("get", resource="pods"), True),
    (READ_PODS, AccessRequest("delete", resource="pods"), False),
    (READ_PODS, AccessRequest("get", resource="nodes"), False),
    (READ_PODS, AccessRequest("get", "apps", "pods"), False),
    (READ_PODS, AccessRequest("get", resource="pods", subresource="status"), False),
    ({**READ_PODS, "resources": ["pods/status"]}, AccessRequest("get", resource="pods", subresource="status"), True),
    ({**READ_PODS, "resources": ["*/status"]}, AccessRequest("get", resource="nodes", subresource="status"), True),
    ({**READ_PODS, "resources": ["*"]}, AccessRequest("get", resource="nodes", subresource="status"), True),
    ({**READ_PODS, "apiGroups": ["*"]}, AccessRequest("get", "apps", "pods"), True),
    ({**READ_PODS, "verbs": ["*"]}, AccessRequest("delete", resource="pods"), True),
    ({**READ_PODS, "resourceNames": ["a"]}, AccessRequest("get", resource="pods", name="a"), True),
    ({**READ_PODS, "resourceNames": ["a"]}, AccessRequest("get", resource="pods", name="b"), False),
    ({**READ_PODS, "resourceNames": ["a"]}, AccessRequest("list", resource="pods"), False),
    ({"verbs": ["put"], "nonResourceURLs": ["/debug/flags/v"]}, AccessRequest("put", path="/debug/flags/v"), True),
    ({"verbs": ["put"], "nonResourceURLs": ["/debug/flags/v"]}, AccessRequest("get", path="/debug/flags/v"), False),
    ({"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}, AccessRequest("get", path="/healthz/ping"), True),
    ({"verbs": ["get"], "nonResourceURLs": ["*"]}, AccessRequest("get", path="/anything"), True),
    (READ_PODS, AccessRequest("get", path="/pods"), False),
]


@pytest.mark.parametrize(("rule", "action", "allowed"), RULES)
def test_rules(rule: JSON, action: AccessRequest, allowed: bool) -> None:
    """A rule allows its verbs on its resources, names and paths, and nothing else."""
    assert PolicyRule.from_json(rule).allows(action) is allowed


async def test_bindings_reach_as_far_as_they_say(api: ApiServer, client: LocalClient) -> None:
    """A role binding opens its namespace, a cluster role binding all of them; by user or by group."""
    bob = as_user(api, "bob", "staff")
    denied = await refusal(bob.get(PODS))
    assert denied.message == (
        'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"'
    )
    local = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "name": "staff"}],
    }
    await client.create(f"{RBAC}/namespaces/default/rolebindings", local)
    await bob.get(PODS)
    elsewhere = await refusal(bob.get("/api/v1/namespaces/kube-system/pods"))
    assert elsewhere.code == 403
    assert "at the cluster scope" in (await refusal(bob.get("/api/v1/pods"))).message
    await client.create(f"{RBAC}/clusterrolebindings", {**local, "subjects": [{"kind": "User", "name": "bob"}]})
    await bob.get("/api/v1/pods")
    assert (await refusal(bob.create(CONFIG_MAPS, {"metadata": {"name": "x"}}))).code == 403
    await client.delete(f"{RBAC}/clusterrolebindings/b")
    assert (await refusal(bob.get("/api/v1/pods"))).code == 403


IN_TEAM = "/api/v1/namespaces/team"
TEAM_APIS = "/apis/{}/namespaces/team"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"{IN_TEAM}/nodes"),
        ("GET", f"{IN_TEAM}/nodes?watch=true&timeoutSeconds=1"),
        ("GET", "/api/v1/watch/namespaces/team/nodes?timeoutSeconds=1"),
        ("POST", f"{IN_TEAM}/nodes"),
        ("DELETE", f"{IN_TEAM}/nodes"),
        ("GET", f"{IN_TEAM}/nodes/n"),
        ("PATCH", f"{IN_TEAM}/nodes/n"),
        ("PATCH", f"{IN_TEAM}/nodes/n/status"),
        ("DELETE", f"{IN_TEAM}/nodes/n"),
        ("GET", f"{IN_TEAM}/namespaces"),
        ("DELETE", f"{IN_TEAM}/namespaces/other"),
        ("GET", f"{TEAM_APIS.format('rbac.authorization.k8s.io/v1')}/clusterroles"),
        ("DELETE", f"{TEAM_APIS.format('rbac.authorization.k8s.io/v1')}/clusterroles/view"),
        ("POST", f"{TEAM_APIS.format('apiextensions.k8s.io/v1')}/customresourcedefinitions"),
        ("POST", f"{TEAM_APIS.format('authentication.k8s.io/v1')}/tokenreviews"),
    ],
)
async def test_rights_in_a_namespace_end_with_it(api: ApiServer, client: LocalClient, method: str, path: str) -> None:
    """Paths with a namespace never reach cluster-scoped kinds, whatever rights the user has in the namespace."""
    for namespace in ("team", "other"):
        await client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    await client.create(NODES, node("n"))
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    await client.create(f"{RBAC}/namespaces/team/roles", {"metadata": {"name": "all"}, "rules": rules})
    reference = {"kind": "Role", "name": "all", "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": "bob"}, "roleRef": reference, "subjects": [{"kind": "User", "name": "bob"}]}
    await client.create(f"{RBAC}/namespaces/team/rolebindings", binding)
    bob, before = as_user(api, "bob"), api.store.version
    assert (await bob.get(f"{IN_TEAM}/pods"))["items"] == []
    form = MERGE_PATCH if method == "PATCH" else JSON_TYPE
    assert (await bob.send(method, path, {}, content_type=form)).status == 404
    assert api.store.version == before


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/pods", 200),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("GET", "/api/v1/pods/p", 404),
        ("DELETE", "/api/v1/pods/p", 404),
        ("POST", "/api/v1/pods/p/binding", 404),
        ("POST", "/api/v1/bindings", 404),
        ("POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", 404),
    ],
)
async def test_kinds_of_namespaces_are_only_listed_outside(
    client: LocalClient, method: str, path: str, code: int
) -> None:
    """Outside of a namespace its kinds can be listed and watched, as upstream, and nothing else."""
    await client.create(PODS, pod("p"))
    assert (await client.send(method, path, {})).status == code
    assert await client.get(f"{PODS}/p")


async def test_aggregated_roles_follow_their_parts(client: LocalClient) -> None:
    """A role labelled for `view` widens `view`, `edit` and `admin` until it is deleted."""
    role = {
        "metadata": {"name": "extra", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}],
    }
    await client.create(f"{RBAC}/clusterroles", role)
    for name in ("view", "edit", "admin"):
        assert role["rules"][0] in (await client.get(f"{RBAC}/clusterroles/{name}"))["rules"]  # type: ignore[index]
    await client.delete(f"{RBAC}/clusterroles/extra")
    assert role["rules"][0] not in (await client.get(f"{RBAC}/clusterroles/admin"))["rules"]  # type: ignore[index]


async def test_the_scheduler_s_privileges(api: ApiServer, client: LocalClient) -> None:
    """The identity of a scheduler may do what a scheduler does and no more."""
    scheduler = as_user(api, "system:kube-scheduler")
    await client.create(NODES, node("n"))
    await client.create(PODS, pod("p"))
    await scheduler.get("/api/v1/pods")
    await scheduler.get("/apis/storage.k8s.io/v1/csinodes")
    await scheduler.create(f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    await scheduler.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": ""}})
    assert (await refusal(scheduler.delete(f"{NODES}/n"))).code == 403
    assert (await refusal(scheduler.get("/api/v1/secrets"))).code == 403


async def test_a_list_of_one_object_by_its_name(api: ApiServer, client: LocalClient) -> None:
    """A user who may read one object may list and watch it by name. The scheduler watches the client CA this way."""
    maps, one = "/api/v1/namespaces/kube-system/configmaps", "metadata.name=extension-apiserver-authentication"
    await client.create(maps, {"metadata": {"name": "extension-apiserver-authentication"}})
    scheduler = as_user(api, "system:kube-scheduler")
    (found,) = (await scheduler.get(maps, query={"fieldSelector": one}))["items"]
    event = await anext(scheduler.watch(maps, fieldSelector=one))
    assert event["object"]["metadata"]["name"] == found["metadata"]["name"] == "extension-apiserver-authentication"
    others = ("", "metadata.name!=extension-apiserver-authentication", "metadata.name=other", "metadata.name", "a=b")
    for selector in others:
        assert (await refusal(scheduler.get(maps, query={"fieldSelector": selector}))).code == 403, selector
    assert (await refusal(scheduler.call("DELETE", maps, query={"fieldSelector": one}))).code == 403


# --- giving away ------------------------------------------------------------------------------------------------------

ROLE_WRITER: JSON = {
    "metadata": {"name": "writer"},
    "rules": [
        {"verbs": ["create", "patch"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]},
        READ_PODS,
        {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]},
    ],
}


async def _role_writer(api: ApiServer, client: LocalClient) -> LocalClient:
    """Bob, who may write roles and bindings, and read pods and logs."""
    await client.create(f"{RBAC}/clusterroles", ROLE_WRITER)
    binding = {"roleRef": {"kind": "ClusterRole", "name": "writer"}, "subjects": [{"kind": "User", "name": "bob"}]}
    await client.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "writer"}, **binding})
    return as_user(api, "bob", "staff")


async def test_a_role_gives_no_more_than_its_author_has(api: ApiServer, client: LocalClient) -> None:
    """A role may grant what its author may do. Anything more is refused with upstream's message."""
    bob = await _role_writer(api, client)
    roles = f"{RBAC}/namespaces/default/roles"
    subset = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["one"]}
    await bob.create(roles, {"metadata": {"name": "fewer"}, "rules": [subset]})
    logs = {"verbs": ["get"], "nonResourceURLs": ["/logs/today"]}
    await bob.create(f"{RBAC}/clusterroles", {"metadata": {"name": "logs"}, "rules": [logs]})
    more = {"verbs": ["get", "delete", "list"], "apiGroups": [""], "resources": ["pods", "pods/status"]}
    refused = await refusal(bob.create(roles, {"metadata": {"name": "more"}, "rules": [more]}))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'roles.rbac.authorization.k8s.io "more" is forbidden: user "bob" (groups=["staff" "system:authenticated"])'
        " is attempting to grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}\n'
        '{APIGroups:[""], Resources:["pods/status"], Verbs:["get" "delete" "list"]}'
    )
    assert (await refusal(bob.patch(f"{roles}/fewer", {"rules": [more]}))).code == 403
    await bob.patch(f"{roles}/fewer", {"metadata": {"labels": {"a": "b"}}})
    paths = {"verbs": ["get", "put"], "nonResourceURLs": ["/logs/*", "/metrics"]}
    refused = await refusal(bob.create(f"{RBAC}/clusterroles", {"metadata": {"name": "p"}, "rules": [paths]}))
    assert refused.message.splitlines()[1:] == [
        '{NonResourceURLs:["/logs/*"], Verbs:["put"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
        '{NonResourceURLs:["/metrics"], Verbs:["put"]}',
    ]
    union = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}
    refused = await refusal(bob.create(f"{RBAC}/clusterroles", {"metadata": {"name": "u"}, "aggregationRule": union}))
    assert refused.message.endswith("must have cluster-admin privileges to use the aggregationRule")
    await client.patch(f"{roles}/fewer", {"rules": [more]})
    assert (await refusal(bob.patch(f"{roles}/fewer", {"metadata": {"labels": {"a": "c"}}}))).code == 403
    await bob.patch(f"{roles}/fewer", {"metadata": {"finalizers": ["example.com/hold"]}})


async def test_a_binding_gives_no_more_than_its_author_has(api: ApiServer, client: LocalClient) -> None:
    """A binding to a role with more rights than its author has is refused, unless the author may `bind` it."""
    bob = await _role_writer(api, client)
    bindings = f"{RBAC}/namespaces/default/rolebindings"

    def binding(name: str, kind: str = "ClusterRole") -> JSON:
        subjects = [{"kind": "User", "name": "bob"}]
        return {"metadata": {"name": name}, "roleRef": {"kind": kind, "name": name}, "subjects": subjects}

    refused = await refusal(bob.create(bindings, binding("cluster-admin")))
    assert refused.message.startswith('rolebindings.rbac.authorization.k8s.io "cluster-admin" is forbidden: user "bob"')
    assert refused.message.endswith('{NonResourceURLs:["*"], Verbs:["*"]}')
    assert (await refusal(bob.create(f"{RBAC}/clusterrolebindings", binding("view")))).code == 403
    missing = await refusal(bob.create(bindings, binding("none", "Role")))
    assert (missing.code, missing.message) == (404, 'roles.rbac.authorization.k8s.io "none" not found')
    await bob.create(bindings, binding("writer"))
    admit = {"verbs": ["bind"], "apiGroups": ["*"], "resources": ["clusterroles"], "resourceNames": ["view"]}
    await client.patch(f"{RBAC}/clusterroles/writer", {"rules": [*ROLE_WRITER["rules"], admit]})
    await bob.create(f"{RBAC}/clusterrolebindings", binding("view"))
    assert (await refusal(bob.create(bindings, binding("edit")))).code == 403
    escalate = {"verbs": ["escalate"], "apiGroups": ["*"], "resources": ["roles"]}
    await client.patch(f"{RBAC}/clusterroles/writer", {"rules": [*ROLE_WRITER["rules"], escalate]})
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    await bob.create(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "all"}, "rules": [everything]})


# --- reviews and impersonation ----------------------------------------------------------------------------------------


async def test_access_reviews(api: ApiServer, client: LocalClient) -> None:
    """Access reviews report the rights of others and one's own."""
    attributes = {"resourceAttributes": {"verb": "list", "resource": "nodes"}}
    other = await client.create(
        f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "system:kube-scheduler", **attributes}}
    )
    bob = await client.create(f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "bob", **attributes}})
    own = await client.create(f"{REVIEWS}/selfsubjectaccessreviews", {"spec": attributes})
    assert [answer["status"]["allowed"] for answer in (other, bob, own)] == [True, False, True]
    path = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    monitor = {"spec": {"user": "x", "groups": ["system:monitoring"], **path}}
    assert (await client.create(f"{REVIEWS}/subjectaccessreviews", monitor))["status"]["allowed"]
    neither = await refusal(client.create(f"{REVIEWS}/subjectaccessreviews", {"spec": {"user": "x"}}))
    assert "exactly one of nonResourceAttributes or resourceAttributes" in neither.message
    assert (await refusal(as_user(api, "bob").create(f"{REVIEWS}/subjectaccessreviews", monitor))).code == 403


async def test_rules_review(api: ApiServer) -> None:
    """Every user may list their own rights."""
    answer = await as_user(api, "bob").create(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    resources = {name for rule in answer["status"]["resourceRules"] for name in rule["resources"]}
    assert "selfsubjectaccessreviews" in resources
    masters = as_user(api, "ann", "system:masters")
    answer = await masters.create(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    assert [rule["nonResourceURLs"] for rule in answer["status"]["nonResourceRules"]].count(["*"]) == 1


async def test_impersonation(api: ApiServer, client: LocalClient) -> None:
    """A user with the right to impersonate is treated as the other user."""
    headers = {"impersonate-user": "bob", "impersonate-group": "staff"}
    refused = await client.send("GET", PODS, headers=headers)
    assert (refused.status, "bob" in decode(refused.body)["message"]) == (403, True)
    account = {"impersonate-user": "system:serviceaccount:default:default"}
    who = await client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=account)
    assert "system:serviceaccounts" in who["status"]["userInfo"]["groups"]
    nobody = await as_user(api, "bob").send("GET", PODS, headers={"impersonate-user": "root"})
    assert 'cannot impersonate resource "users"' in decode(nobody.body)["message"]
    assert (await client.send("GET", PODS, headers={"impersonate-group": "x"})).status == 400


@pytest.mark.parametrize(
    ("user", "group", "groups"),
    [
        ("bob", "", ("system:authenticated",)),
        ("bob", "staff", ("staff", "system:authenticated")),
        ("bob", "system:unauthenticated", ("system:unauthenticated",)),
        ("system:anonymous", "", ("system:unauthenticated",)),
        ("system:anonymous", "system:authenticated", ("system:authenticated", "system:unauthenticated")),
    ],
)
def test_groups_of_impersonated_users(user: str, group: str, groups: tuple[str, ...]) -> None:
    """All have logged in but the anonymous user, and whoever is said not to have."""
    headers = {"impersonate-user": user, **({"impersonate-group": group} if group else {})}
    found = impersonated(ApiRequest("GET", PODS, headers=headers))
    assert found is not None
    assert found.groups == groups


async def test_impersonation_asks_about_every_part(api: ApiServer, client: LocalClient) -> None:
    """Groups and extras that a request names have to be allowed, those of service accounts among them."""
    rules = [{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users", "serviceaccounts"]}]
    await client.create(f"{RBAC}/clusterroles", {"metadata": {"name": "impersonator"}, "rules": rules})
    binding = {
        "roleRef": {"kind": "ClusterRole", "name": "impersonator"},
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    await client.create(f"{RBAC}/clusterrolebindings", {"metadata": {"name": "impersonator"}, **binding})
    bob, who = as_user(api, "bob"), "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    account = {"impersonate-user": "system:serviceaccount:default:default"}
    for headers in ({"impersonate-user": "ann"}, account):
        assert (await bob.send("POST", who, {}, headers=headers)).status == 201
    for header, value, cannot in (
        ("impersonate-group", "system:serviceaccounts:kube-system", 'resource "groups"'),
        ("impersonate-group", "staff", 'resource "groups"'),
        ("impersonate-extra-scopes", "all", 'resource "userextras/scopes"'),
        ("impersonate-uid", "1", 'resource "uids"'),
    ):
        refused = await bob.send("POST", who, {}, headers={"impersonate-user": "ann", header: value})
        assert (refused.status, f"cannot impersonate {cannot}" in decode(refused.body)["message"]) == (403, True)
        assert (await client.send("POST", who, {}, headers={header: value})).status == 400
