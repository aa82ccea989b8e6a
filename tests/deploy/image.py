"""Builds deploy/Dockerfile with buildah. No registry of images is needed: the base is made of a Python of this machine.

`make image-check` builds and checks it. An ordinary user may run it: storage is a folder and isolation is chroot.
Packages come from where pip gets them, with the hashes of the lock file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tests.interpreters import interpreters
from tests.pages import typed

from kubesched.base.types import JSON

ROOT = Path(__file__).parents[2]
STORAGE = ROOT / ".cache" / "image"
GUIDE = ROOT / "docs/guides/deploy.md"
PROGRAMS = ("sh", "id")
BESIDE_LIBC = (
    "libpthread.so.0",
    "librt.so.1",
    "libdl.so.2",
    "libutil.so.1",
    "libresolv.so.2",
    "libgcc_s.so.1",
    "libstdc++.so.6",
)
"""Libraries that wheels for Linux may expect of every distribution."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")


def buildah(*words: str) -> str:
    """Run buildah with storage in the repository's cache. Return its standard output."""
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "vfs"}
    command = ["buildah", f"--root={STORAGE / 'root'}", f"--runroot={STORAGE / 'run'}", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def base_name(version: str) -> str:
    """The image that the Dockerfile starts from, for a version of Python."""
    (name,) = set(re.findall(r"^FROM (\S+)", (ROOT / "deploy/Dockerfile").read_text("utf-8"), re.MULTILINE))
    return str(name).replace("${PYTHON}", version)


def has(image: str) -> bool:
    """Is there an image of this name?"""
    return bool(STORAGE.exists() and buildah("images", "--quiet", "--filter", f"reference={image}").strip())


def make_base(version: str) -> None:
    """Make the base image: a Python in /usr/local, a shell, and the libraries that both need."""
    question = "import sys; print(sys.base_prefix)"
    python = subprocess.run([interpreters()[version], "-c", question], capture_output=True, text=True, check=True)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        unneeded = shutil.ignore_patterns("__pycache__", "test", "tests", "*.a", "site-packages", "share")
        shutil.copytree(python.stdout.strip(), root / "usr/local", symlinks=True, ignore=unneeded)
        programs = [Path(shutil.which(name, path="/usr/bin:/bin") or name) for name in PROGRAMS]
        for program in programs:
            _copy(program, root / "usr/bin" / program.name)
        for library in _libraries([*programs, root / "usr/local/bin/python3", *root.rglob("*.so*")]):
            _copy(library, root / "usr/lib" / library.name)
        (root / "usr/lib64").symlink_to("lib")
        for name in ("bin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        if CERTIFICATES.exists():
            _copy(CERTIFICATES, root / CERTIFICATES.relative_to("/"))
            (root / "etc/pip.conf").write_text(f"[global]\ncert = {CERTIFICATES}\n", "utf-8")
        _commit(root, base_name(version))


def _commit(root: Path, image: str) -> None:
    container = buildah("from", "scratch").strip()
    buildah("copy", "--quiet", container, str(root), "/")
    buildah("config", "--env=PATH=/usr/local/bin:/usr/bin", "--env=LD_LIBRARY_PATH=/usr/local/lib:/usr/lib", container)
    buildah("run", container, "/usr/local/bin/python3", "-m", "ensurepip")
    buildah("commit", "--quiet", "--rm", container, image)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that programs and libraries need, the loader included."""
    found = set()
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= {Path(each) for each in re.findall(r"(?:=> |^\t)(/\S+)", listed, re.MULTILINE)}
    (libc,) = (each for each in found if each.name == "libc.so.6")
    return found | {libc.with_name(name) for name in BESIDE_LIBC if libc.with_name(name).exists()}


def build(version: str) -> str:
    """Build the image as the guide says, with buildah for docker. Return its name."""
    if not has(base_name(version)):
        make_base(version)
    ((build, *words),) = typed(GUIDE, "docker")
    buildah(build, "--pull=never", "--layers", f"--build-arg=PYTHON={version}", *words)
    return words[words.index("-t") + 1]


def inspect(image: str) -> JSON:
    """What an image says about itself, by the names of the OCI specification."""
    found: JSON = json.loads(buildah("inspect", "--type=image", image))["OCIv1"]
    return found


class Container:
    """A container of an image, to run programs in."""

    def __init__(self, image: str) -> None:
        self.name = buildah("from", "--pull=never", image).strip()

    def run(self, *words: str) -> str:
        """Run a program as the user of the image. Return its standard output."""
        return buildah("run", self.name, "--", *words)

    def remove(self) -> None:
        """Delete the container; the image stays."""
        buildah("rm", self.name)


def size(image: str) -> int:
    """The size of an image in bytes."""
    (found,) = json.loads(buildah("images", "--json", image))
    number, unit = re.fullmatch(r"([\d.]+) ?(\w+)", found["size"]).groups()  # type: ignore[union-attr]
    return int(float(number) * {"KB": 1e3, "MB": 1e6, "GB": 1e9}[unit])
