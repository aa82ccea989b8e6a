"""Who may do what: tokens, certificates, roles, reviews, impersonation."""

from __future__ import annotations

import pytest
from tests.controlplane.support import CONFIG_MAPS, NODES, PODS, FixedClock, as_user, node, pod, refusal

from kubesched.client.protocol import JSON
from kubesched.controlplane.apiserver import ApiServer
from kubesched.controlplane.local import LocalClient
from kubesched.controlplane.rbac import Action, Rule
from kubesched.controlplane.request import Request, User
from kubesched.controlplane.store import decode

RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1"


async def _with_token(api: ApiServer, token: str, path: str = PODS) -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return (await api.handle(Request("GET", path, headers=headers))).status


# --- authentication ---------------------------------------------------------------------------------------------------


async def test_nobody_is_anonymous(api: ApiServer) -> None:
    """Without credentials, or with wrong ones, a request is 401, but for health and version."""
    assert await _with_token(api, "") == 401
    assert await _with_token(api, "wrong") == 401
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert await _with_token(api, "", path) == 200


async def test_static_tokens(api: ApiServer) -> None:
    """A token that was given out says who one is."""
    api.authenticator.add_token("secret", User("root", ("system:masters",)))
    assert await _with_token(api, "secret") == 200


async def test_service_account_tokens(api: ApiServer, client: LocalClient, clock: FixedClock) -> None:
    """A token speaks for its account, until its time is over or the account is gone."""
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
    """What was made for a pod is worth nothing without it."""
    await client.create(PODS, pod("p"))
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    bound = {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p"}}}
    token = (await client.create(path, bound))["status"]["token"]
    assert await _with_token(api, token) == 403
    await client.delete(f"{PODS}/p")
    assert await _with_token(api, token) == 401


async def test_token_reviews(client: LocalClient) -> None:
    """Another server can ask whose token it was shown."""
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
    """Everybody may ask who they are."""
    answer = await as_user(api, "bob", "staff").create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})
    assert answer["status"]["userInfo"] == {"username": "bob", "groups": ["staff", "system:authenticated"]}


# --- rules ------------------------------------------------------------------------------------------------------------

READ_PODS: JSON = {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}

RULES: list[tuple[JSON, Action, bool]] = [
    (READ_PODS, Action("get", resource="pods"), True),
    (READ_PODS, Action("delete", resource="pods"), False),
    (READ_PODS, Action("get", resource="nodes"), False),
    (READ_PODS, Action("get", "apps", "pods"), False),
    (READ_PODS, Action("get", resource="pods", subresource="status"), False),
    ({**READ_PODS, "resources": ["pods/status"]}, Action("get", resource="pods", subresource="status"), True),
    ({**READ_PODS, "resources": ["*/status"]}, Action("get", resource="nodes", subresource="status"), True),
    ({**READ_PODS, "resources": ["*"]}, Action("get", resource="nodes", subresource="status"), True),
    ({**READ_PODS, "apiGroups": ["*"]}, Action("get", "apps", "pods"), True),
    ({**READ_PODS, "verbs": ["*"]}, Action("delete", resource="pods"), True),
    ({**READ_PODS, "resourceNames": ["a"]}, Action("get", resource="pods", name="a"), True),
    ({**READ_PODS, "resourceNames": ["a"]}, Action("get", resource="pods", name="b"), False),
    ({**READ_PODS, "resourceNames": ["a"]}, Action("list", resource="pods"), False),
    ({"verbs": ["put"], "nonResourceURLs": ["/debug/flags/v"]}, Action("put", path="/debug/flags/v"), True),
    ({"verbs": ["put"], "nonResourceURLs": ["/debug/flags/v"]}, Action("get", path="/debug/flags/v"), False),
    ({"verbs": ["get"], "nonResourceURLs": ["/healthz/*"]}, Action("get", path="/healthz/ping"), True),
    ({"verbs": ["get"], "nonResourceURLs": ["*"]}, Action("get", path="/anything"), True),
    (READ_PODS, Action("get", path="/pods"), False),
]


@pytest.mark.parametrize(("rule", "action", "allowed"), RULES)
def test_rules(rule: JSON, action: Action, allowed: bool) -> None:
    """A rule allows its verbs on its resources, names and paths, and nothing else."""
    assert Rule.from_json(rule).allows(action) is allowed


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


async def test_aggregated_roles_follow_their_parts(client: LocalClient) -> None:
    """A role that is labelled for `view` widens `view`, and with it `edit` and `admin`, until it goes."""
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


# --- reviews and impersonation ----------------------------------------------------------------------------------------


async def test_access_reviews(api: ApiServer, client: LocalClient) -> None:
    """What others, and oneself, may do can be asked."""
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
    """Everybody may ask for the list of what they may do."""
    answer = await as_user(api, "bob").create(f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}})
    resources = {name for rule in answer["status"]["resourceRules"] for name in rule["resources"]}
    assert "selfsubjectaccessreviews" in resources


async def test_impersonation(api: ApiServer, client: LocalClient) -> None:
    """Who may, can ask in another's name and is then treated as that other."""
    headers = {"impersonate-user": "bob", "impersonate-group": "staff"}
    refused = await client.send("GET", PODS, headers=headers)
    assert (refused.status, "bob" in decode(refused.body)["message"]) == (403, True)
    account = {"impersonate-user": "system:serviceaccount:default:default"}
    who = await client.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=account)
    assert "system:serviceaccounts" in who["status"]["userInfo"]["groups"]
    nobody = await as_user(api, "bob").send("GET", PODS, headers={"impersonate-user": "root"})
    assert 'cannot impersonate resource "users"' in decode(nobody.body)["message"]
    assert (await client.send("GET", PODS, headers={"impersonate-group": "x"})).status == 400
