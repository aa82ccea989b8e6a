"""The kinds of scheduler-plugins: in the repository for other clusters, and served by the embedded one."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from kubesched.apiserver.apiserver import ApiServer
from kubesched.contrib.crds import DEFINITIONS, READ_RESOURCES

DEPLOY = Path(__file__).parents[2] / "deploy" / "contrib"


def test_the_manifests_are_those_that_are_installed() -> None:
    """`python tests/contrib/test_crds.py` writes the file again."""
    assert (DEPLOY / "crds.yaml").read_text("utf-8") == written()


def test_the_role_covers_what_is_read() -> None:
    """Every kind that a plugin reads is in the cluster role."""
    role = next(yaml.safe_load_all((DEPLOY / "cluster-role.yaml").read_text("utf-8")))
    assert {name for rule in role["rules"] for name in rule["resources"]} == set(READ_RESOURCES.split())


def test_the_embedded_api_server_serves_them() -> None:
    """Each definition is accepted and stays as it is, and its kind is there at once."""
    before = deepcopy(DEFINITIONS)
    api = ApiServer()
    for each in DEFINITIONS:
        api.bootstrap.define(each)
        api.bootstrap.define(each)  # a second time changes nothing
        spec: dict[str, Any] = each["spec"]
        assert api.registry.find(spec["group"], spec["versions"][0]["name"], spec["names"]["plural"])
    assert before == DEFINITIONS


def written() -> str:
    """The definitions as YAML."""
    return yaml.dump_all(DEFINITIONS, Dumper=_Plain, sort_keys=False, width=120)


class _Plain(yaml.SafeDumper):
    """Repeats what occurs twice instead of referring to it."""

    def ignore_aliases(self, data: object) -> bool:
        return True


if __name__ == "__main__":
    (DEPLOY / "crds.yaml").write_text(written(), "utf-8")
