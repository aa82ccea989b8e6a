"""The image: the Dockerfile builds, and what is in the image is what deployments expect. See tests/deploy/image.py."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator

import pytest
import yaml
from tests.deploy import image
from tests.deploy.image import Container
from tests.interpreters import interpreters
from tests.pages import Script

from kubesched.base.types import JSON

OURS = tomllib.loads((image.ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
VERSION = max(interpreters(), key=lambda version: int(version.partition(".")[2]))
LARGEST = 200e6
"""Bytes that kubesched and its dependencies may add to the base image."""


def _why_not() -> str:
    if not shutil.which("buildah"):
        return "buildah is not installed (on Debian: apt install buildah)"
    if not os.environ.get("KUBESCHED_IMAGE"):
        return "building the image takes a minute or two; make image-check does, or KUBESCHED_IMAGE=1"
    return ""


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


@pytest.fixture(scope="module")
def built() -> str:
    """The image, built from the working tree."""
    return image.build(VERSION)


@pytest.fixture(scope="module")
def container(built: str) -> Iterator[Container]:
    """A container of the image."""
    running = Container(built)
    yield running
    running.remove()


@pytest.fixture(scope="module")
def config(built: str) -> JSON:
    """What the image says about how to run it."""
    found: JSON = image.inspect(built)["config"]
    return found


def test_the_guide_builds_it(script: Callable[[str], Script], built: str) -> None:
    """The words after `docker` are those that buildah was given."""
    ((*_, name, place),) = script("docs/guides/deploy.md").words("docker")
    assert (name, place) == (built, ".")


def test_it_says_what_it_is_and_how_it_runs(config: JSON) -> None:
    """User, entrypoint, port and labels are those that the manifests and registries rely on."""
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["kubesched", "run"]
    assert list(config["ExposedPorts"]) == ["10259/tcp"]
    labels = {name: text for name, text in config["Labels"].items() if name.startswith("org.opencontainers.image.")}
    assert labels["org.opencontainers.image.title"] == "kubesched"
    assert labels["org.opencontainers.image.licenses"] == "Apache-2.0"


def test_the_deployment_agrees_with_the_image(config: JSON) -> None:
    """The user of the image may run under the security context of deploy/base, and the ports are the same."""
    deployment = yaml.safe_load((image.ROOT / "deploy/base/deployment.yaml").read_text("utf-8"))
    spec = deployment["spec"]["template"]["spec"]
    context = spec["securityContext"]
    assert context["runAsNonRoot"] is True
    assert config["User"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    (port,) = (port["containerPort"] for port in spec["containers"][0]["ports"])
    assert list(config["ExposedPorts"]) == [f"{port}/tcp"]


def test_it_runs_as_its_user(container: Container) -> None:
    """The commands that manifests start work without rights, under kube-scheduler's name too."""
    assert "uid=65532" in container.run("id")
    assert OURS in container.run("kubesched", "--version")
    assert "--leader-elect" in container.run("kubesched", "run", "--help")
    assert "--authentication-kubeconfig" in container.run("kube-scheduler", "--help")


def test_it_decides(container: Container) -> None:
    """Every compiled dependency loads: the demo schedules its pods."""
    assert "urgent-1 goes to ssd-b1" in container.run("kubesched", "demo")


def test_it_holds_what_the_lock_says_and_no_more(container: Container) -> None:
    """Versions are the locked ones; pip and the build backend are not in the image."""
    program = "from importlib.metadata import distributions as d; print(*(f'{x.name}=={x.version}' for x in d()))"
    installed = {each.lower().replace("_", "-") for each in container.run("python", "-c", program).split()}
    locked = re.findall(
        r"^([\w.-]+==[\w.]+)", (image.ROOT / "deploy/requirements.txt").read_text("utf-8"), re.MULTILINE
    )
    assert installed - {f"kubesched=={OURS}"} <= set(locked)
    assert not {each for each in installed if each.startswith(("pip==", "hatchling=="))}


def test_its_files_are_not_its_users(container: Container) -> None:
    """The program cannot change itself, and was compiled when it was built."""
    found = container.run(
        "python", "-c", "import os, kubesched; p = kubesched.__file__; print(os.access(p, os.W_OK), p)"
    )
    assert found.startswith("False /opt/kubesched/")
    assert "True" in container.run("python", "-c", "import os, kubesched; print(os.path.exists(kubesched.__cached__))")


def test_its_size(built: str) -> None:
    """What is added to the base stays small enough to pull on every node."""
    assert image.size(built) - image.size(image.base_name(VERSION)) < LARGEST
