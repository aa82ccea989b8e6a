"""Installs Debian's Chromium and its driver where that is possible, and says so where it is not."""

from __future__ import annotations

import os
import shutil
import subprocess

PACKAGES = ("chromium", "chromium-driver")
SECONDS = 300


def found() -> tuple[str, str] | None:
    """The browser and its driver, if both are there."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def install() -> str:
    """Install them; returns why that was not possible, or an empty string."""
    if found() is not None:
        return ""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return f"install {' and '.join(PACKAGES)} to run the tests of the web page: this needs apt and root"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
        try:
            done = subprocess.run(
                ["apt-get", *command], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"apt-get {command[0]} took longer than {SECONDS} s; the tests of the web page are skipped"
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            return f"apt-get {command[0]} failed, so the tests of the web page are skipped: {last}"
    return ""


if __name__ == "__main__":
    problem = install()
    print(problem or f"browser: {' and '.join(found() or ('none',))}")
