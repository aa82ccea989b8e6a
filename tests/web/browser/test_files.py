"""Clusters from files in a real browser: hostile names, thousands of nodes, and a simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from selenium.webdriver.common.by import By
from tests.web import sample
from tests.web.browser.conftest import Browser, ui_of
from tests.web.browser.test_pages import COLOURS, SET

from kubesched.simulator.loading import load
from kubesched.simulator.machine import as_json
from kubesched.simulator.run import run

SMOOTH_MILLISECONDS = 250
"""For one painting of 5,000 nodes, on a machine that may be busy. It is about 4 on one that is not."""
FRAMES = """
const done = arguments[arguments.length - 1];
Promise.all([import("/static/js/map.js"), import("/static/js/data.js")]).then(async ([map, data]) => {
  const { frames } = map, { live, changed } = data;
  const times = [];
  for (let turn = 0; turn < 20; turn++) {
    live.nodes.tick += 1;
    for (let row = turn; row < live.nodes.size; row += 20) live.nodes.columns.cpu[row] = (row * 7 + turn * 50) % 1000;
    const before = frames.count;
    changed("nodes");
    while (frames.count === before) await new Promise(requestAnimationFrame);
    times.push(frames.last);
  }
  done(times.sort((a, b) => a - b));
});
"""
OUTSIDE = """
const isOutside = (each) => each.getBoundingClientRect().right > innerWidth || each.scrollWidth > each.clientWidth + 1;
return [...document.querySelectorAll("header *:not(.hidden-label), .field, select, .matrix tbody th")].filter(isOutside)
  .map((each) => each.outerHTML.slice(0, 80));
"""
"""Headers and names of nodes that do not have all of their width inside of the window and of their box."""


def test_hostile_names_stay_names(browser: Browser, tmp_path: Path) -> None:
    """Markup in names, labels, taints and messages is shown as text on every page, and nothing of it runs."""
    bad = sample.HOSTILE
    nodes = [sample.node(f"{bad}-{number}", bad, bad) for number in range(3)]
    nodes[0]["spec"]["taints"] = [{"key": bad, "value": bad, "effect": "NoSchedule"}]
    for each in nodes:
        each["metadata"]["labels"][bad] = bad
    pods = [
        sample.pod(f"{bad}-on", bad, nodeName=f"{bad}-1"),
        sample.pod(f"{bad}-big", bad, cpu="640"),
        sample.pod(f"{bad}-gated", bad, schedulingGates=[{"name": bad}]),
        sample.pod(f"{bad}-other", bad, schedulerName=bad),
    ]
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}))
    browser.size(1440, 1000)
    with ui_of("--from", str(file)) as link:
        browser.open(link)
        browser.script("localStorage.setItem('kubesched-group', arguments[0])", bad)
        quoted = browser.script("return encodeURIComponent(arguments[0])", bad)
        for path, shown in (
            ("cluster", "3 nodes"),
            (f"cluster/{quoted}-1", f"{bad}-1"),
            ("pending", f"{bad}-big"),
            (f"decision/{quoted}/{quoted}-big", f"{bad}/{bad}-big"),
            (f"decision/{quoted}/{quoted}-on", f"{bad}-1"),
            ("timeline", "Timeline"),
            ("configuration", "in force"),
            ("objects", "from files"),
        ):
            browser.go(path)
            browser.shows(shown)
            assert browser.driver.find_elements(By.CSS_SELECTOR, "img[src='x'], [onerror]") == []
        browser.type("#search", "img")
        browser.until(lambda: bad in browser.text(".results"))
        assert browser.driver.title != "owned"
        browser.script("localStorage.clear()")
        assert browser.problems() == []


def test_five_thousand_nodes_are_smooth(browser: Browser, tmp_path: Path) -> None:
    """All cells are painted within a frame or two, and the page knows every node."""
    file = tmp_path / "large.json"
    objects = [*sample.namespaces(), *sample.nodes(5000), *sample.workload(2.0)]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    browser.size(1440, 1000)
    with ui_of("--from", str(file)) as link:
        browser.open(link)
        browser.shows("5,000 nodes")
        times: list[float] = browser.driver.execute_async_script(FRAMES)
        browser.picture("cluster-5000")
    print(f"5,000 nodes: median {times[10]:.1f} ms, worst {times[-1]:.1f} ms per painting")
    assert times[10] < SMOOTH_MILLISECONDS


def test_a_simulation_can_be_scrubbed_through(browser: Browser, tmp_path: Path) -> None:
    """The report of a simulation fills the timeline, and the slider goes back to an empty cluster."""
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}"}} for number in range(6)]
    steps: list[dict[str, Any]] = [
        {"at": f"{10 * (number + 1)}s", "create": sample.pod(f"job-{number}", "default", cpu="2", memory="1Gi")}
        for number in range(14)
    ]
    scenario = tmp_path / "rush.yaml"
    scenario.write_text(yaml.safe_dump({"objects": nodes, "steps": steps, "duration": "300s"}))
    report = tmp_path / "report.json"
    report.write_text(as_json([run(load(scenario))]))
    browser.size(1440, 1000)
    with ui_of("--from", str(report)) as link:
        browser.open(link)
        browser.go("timeline")
        browser.shows("Bound", "Failed attempts", "default/job-13")
        browser.until(lambda: browser.script(COLOURS) > 1)
        full = browser.script(COLOURS)
        browser.picture("simulation")
        browser.script(SET, ".scrub input", "5")
        browser.shows("The cluster after")
        browser.until(lambda: browser.script(COLOURS) < full)
        browser.go("pending")
        browser.shows("2 pods pending", "cpu short by")
        assert browser.problems() == []


def test_long_names_on_a_phone(browser: Browser, tmp_path: Path) -> None:
    """With long names of nodes, pods and namespaces, no page is wider than a phone."""
    width = 390
    nodes = [sample.node("a-long-name-of-a-node." * 8, "a", "general"), sample.node("short", "b", "general")]
    pods = [sample.pod("a-long-name-of-a-pod-" * 8, "a-long-name-of-a-namespace-" * 2, cpu="64"), sample.pod("small")]
    file = tmp_path / "long.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]}))
    browser.size(width, 844)
    with ui_of("--from", str(file)) as link:
        browser.open(link)
        for path, shown in (
            ("cluster", "2 nodes"),
            ("pending", "2 pods pending"),
            (f"decision/{'a-long-name-of-a-namespace-' * 2}/{'a-long-name-of-a-pod-' * 8}", "Nodes by plugins"),
            ("timeline", "moments since"),
            ("configuration", "in force"),
        ):
            browser.go(path)
            browser.shows(shown)
            assert browser.script("return document.documentElement.scrollWidth") == width, path
            assert browser.script(OUTSIDE) == [], path
        assert browser.problems() == []


def test_pods_that_wait_alike_share_a_row(browser: Browser, tmp_path: Path) -> None:
    """Pods of one kind with the same reason and fix are one row, which names the others when asked."""
    items = [sample.node("n1", "a", "general"), *(sample.pod(f"big-{number}", cpu="64") for number in range(30))]
    file = tmp_path / "alike.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    browser.size(1440, 1000)
    with ui_of("--from", str(file)) as link:
        browser.open(link)
        browser.go("pending")
        browser.shows("30 pods pending", "shop/big-0", "29 pods like it")
        assert "shop/big-29" not in browser.text()
        browser.click(".same")
        browser.shows("shop/big-29")
        assert browser.problems() == []


def test_the_theme_follows_the_system(browser: Browser, tmp_path: Path) -> None:
    """When the system changes its theme, an open page does too, unless the user has chosen one."""
    file = tmp_path / "one.json"
    file.write_text(json.dumps(sample.node("n1", "a", "general")))

    def turn(theme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": theme}]
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def shown() -> str:
        return str(browser.script("return document.documentElement.dataset.theme"))

    turn("light")
    with ui_of("--from", str(file)) as link:
        browser.open(link)
        browser.shows("1 node")
        turn("dark")
        browser.until(lambda: shown() == "dark")
        browser.click("button[title=Theme]")
        browser.until(lambda: shown() == "light")
        turn("light")
        turn("dark")
        browser.shows("1 node")
        assert shown() == "light"
        browser.script("localStorage.removeItem('kubesched-theme')")
    turn("")
