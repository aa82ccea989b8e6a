"""A cluster of `kubesched up` with pods in it, and a real browser that looks at it."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from tests.kubectl.local import free_port
from tests.web import sample
from tests.web.browser.install import found

from kubesched.client.connection import resolve
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import parse

T = TypeVar("T")
BEING_DRAWN = (StaleElementReferenceException, ElementNotInteractableException, ElementClickInterceptedException)
PICTURES = Path(os.environ.get("KUBESCHED_UI_PICTURES", ".cache/ui"))
KUBESCHED = (sys.executable, "-c", "from kubesched.cli.main import main; main()")
SECONDS = 120
PLURALS = {"Node": "nodes", "Pod": "pods", "Namespace": "namespaces"}

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
podInitialBackoffSeconds: 10
"""
"""Pods back off long enough to be seen."""


class LocalCluster:
    """`kubesched up` in a process of its own."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._config = folder / "kubeconfig"
        arguments = ("--port=0", "--ui-port=0", f"--write-kubeconfig={self._config}", *flags)
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [*KUBESCHED, "up", *arguments], stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        text = ""
        while "Ctrl-C" not in text:
            line = self.process.stdout.readline()
            if not line:
                self.stop()
                pytest.fail(f"the cluster did not start: {(folder / 'log').read_text()}")
            text += line
        self.link = re.findall(r"http://\S+", text)[0]

    async def create(self, objects: list[dict[str, Any]]) -> None:
        """Create objects, as kubectl would."""
        connection = resolve(parse(yaml.safe_dump(yaml.safe_load(self._config.read_text())).encode(), "test"))
        async with HttpClient(connection, qps=-1) as client:

            async def create(each: dict[str, Any]) -> None:
                namespace = each["metadata"].get("namespace")
                scope = f"/namespaces/{namespace}" if namespace else ""
                await client.post(f"/api/v1{scope}/{PLURALS[each['kind']]}", each)

            for kind in ("Namespace", "Node", "Pod"):
                await asyncio.gather(*(create(each) for each in objects if each["kind"] == kind))

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def ui_of(*arguments: str) -> Iterator[str]:
    """`kubesched ui` in a process of its own; gives the link."""
    process = subprocess.Popen([*KUBESCHED, "ui", "--port=0", *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        link = process.stdout.readline().strip()
        assert link.startswith("http://127.0.0.1:"), "the page did not start"
        yield link
    finally:
        process.terminate()
        process.wait(SECONDS)
        process.stdout.close()


class Browser:
    """Chromium without a window."""

    def __init__(self, width: int = 1440, height: int = 1000) -> None:
        paths = found()
        if paths is None:
            pytest.skip("no Chromium with a driver here; make ui-test installs them where it may")
        options = webdriver.ChromeOptions()
        options.binary_location = paths[0]
        for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(paths[1]))
        self.driver.set_script_timeout(SECONDS)
        self.size(width, height)

    def size(self, width: int, height: int) -> None:
        """Set the size of the page itself."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 700}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def open(self, link: str) -> None:
        """Open a page, and forget what the browser had to say about the one before."""
        self.driver.get("about:blank")
        self.problems()
        self.driver.get(link)

    def go(self, path: str) -> None:
        """Show a page."""
        self.driver.execute_script("location.hash = arguments[0]", f"#/{path}")

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def text(self, selector: str = "main") -> str:
        """The text of all elements that a selector finds."""
        return "\n".join(each.text for each in self.driver.find_elements(By.CSS_SELECTOR, selector))

    def click(self, selector: str, containing: str = "") -> None:
        """Click the first such element with this text, as soon as it is there."""

        def clicked() -> bool:
            for each in self.driver.find_elements(By.CSS_SELECTOR, selector):
                if containing in each.text:
                    each.click()
                    return True
            return False

        self.until(clicked, f"{selector} with {containing!r}")

    def type(self, selector: str, text: str) -> None:
        element = self.driver.find_element(By.CSS_SELECTOR, selector)
        element.clear()
        element.send_keys(text)

    def until(self, check: Callable[[], T], what: str = "") -> T:
        """Wait until something is true."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                result = check()
            except BEING_DRAWN:
                continue
            if result:
                return result
            time.sleep(0.05)
        raise AssertionError(f"not shown in {SECONDS} s: {what or check}; the page has: {self.text('body')[:6000]}")

    def shows(self, *texts: str, within: str = "main") -> None:
        """Wait until an element has these texts."""
        for each in texts:
            self.until(lambda each=each: each in self.text(within), repr(each))  # type: ignore[misc]

    def picture(self, name: str) -> Path:
        """Keep a picture of what is shown."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        self.driver.save_screenshot(str(path))
        return path

    def downloads(self, folder: Path) -> None:
        """Save what the page offers for download in a folder."""
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})

    def problems(self) -> list[str]:
        """Errors in the browser's console, violations of the policy included."""
        lines: Any = self.driver.get_log("browser")  # type: ignore[no-untyped-call]  # selenium leaves it untyped
        return [json.dumps(each) for each in lines if each["level"] == "SEVERE"]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    made = Browser()
    yield made
    made.driver.quit()


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The sample cluster."""
    if found() is None:
        pytest.skip("no Chromium with a driver here; make ui-test installs them where it may")
    folder = tmp_path_factory.mktemp("up")
    (folder / "config.yaml").write_text(CONFIG)
    plugin = f"--plugin={Path(__file__).parent / 'hold.py'}", "--enable=Hold"
    port = f"--secure-port={free_port()}"
    made = LocalCluster(folder, "--nodes=0", port, f"--config={folder}/config.yaml", *plugin)
    try:
        first, *others = [*sample.workload(), *sample.pending()]
        asyncio.run(made.create([*sample.namespaces(), *sample.nodes(60), first]))
        # Objects have times in whole seconds. The timeline begins with the first pod, in a second before the others.
        time.sleep(2)
        asyncio.run(made.create(others))
        yield made
    finally:
        made.stop()


@pytest.fixture
def page(browser: Browser, local: LocalCluster) -> Iterator[Browser]:
    """The sample cluster in the browser, without a complaint of the browser afterwards."""
    browser.size(1440, 1000)
    browser.open(local.link)
    yield browser
    assert browser.problems() == []
