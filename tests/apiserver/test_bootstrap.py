"""The objects of a new cluster, and what a restarted server adds to those of an older one."""

from __future__ import annotations

import pytest

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.bootstrap_roles import default_roles
from kubesched.apiserver.storage.store import Store
from kubesched.base.types import JSON

ROLES, BINDINGS = "rbac.authorization.k8s.io/clusterroles", "rbac.authorization.k8s.io/clusterrolebindings"
SCHEDULER = "system:kube-scheduler"
UPDATED = "rbac.authorization.kubernetes.io/autoupdate"


def _load(store: Store, storage: str, name: str) -> JSON:
    record = store.get(storage, name)
    assert record is not None
    return record.load()


@pytest.mark.parametrize("updated", ["true", "false"])
def test_an_older_role_gets_what_it_lacks(updated: str) -> None:
    """A default role and its binding are completed at start, keep what users added, and may be exempted from it."""
    store = Store()
    ApiServer(store)
    wanted = _load(store, ROLES, SCHEDULER)["rules"]
    for storage, field in ((ROLES, "rules"), (BINDINGS, "subjects")):
        old = _load(store, storage, SCHEDULER)
        old["metadata"]["annotations"][UPDATED] = updated
        store.put(storage, SCHEDULER, {**old, field: [{"verbs": ["get"]}]})
    ApiServer(store)
    rules, subjects = _load(store, ROLES, SCHEDULER)["rules"], _load(store, BINDINGS, SCHEDULER)["subjects"]
    assert rules == [{"verbs": ["get"]}, *(wanted if updated == "true" else [])]
    assert len(subjects) == (2 if updated == "true" else 1)


def test_unions_have_the_rules_of_their_parts() -> None:
    """Without controllers to unite them, `admin` has the rules of `edit`, and that the rules of `view`."""
    store = ApiServer().store
    admin, view = (_load(store, ROLES, name)["rules"] for name in ("admin", "system:aggregate-to-view"))
    assert all(rule in admin for rule in view)


def test_roles_of_programs_that_do_not_run_here_are_left_out() -> None:
    """A simulated cluster starts with few roles; one that people use has upstream's."""
    few, all_of_them = (set(ApiServer(all_roles=flag).store.shelf(ROLES).records) for flag in (False, True))
    assert few < all_of_them
    assert {role.name for role in default_roles(with_controllers=True) if not role.namespace} == all_of_them
