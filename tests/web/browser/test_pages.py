"""Every page in a real browser: what it shows, and a picture of it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.web import sample
from tests.web.browser.conftest import Browser, LocalCluster

COLOURS = """
const canvas = document.querySelector(".map canvas");
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const found = new Set();
for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) found.add(data.slice(at, at + 3).join());
return found.size;
"""
SET = """
const element = document.querySelector(arguments[0]);
const setter = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(element), "value").set;
setter.call(element, arguments[1]);
element.dispatchEvent(new Event("input", { bubbles: true }));
"""
COLOUR_BY = """
const choice = document.querySelectorAll("header select")[1];
choice.value = arguments[0];
choice.dispatchEvent(new Event("change", { bubbles: true }));
"""
"""In one script: what the page draws in between would undo the choice."""
TEXT = "return document.querySelector('textarea')?.value || ''"
UNNAMED = """
const isUnnamed = (each) => !each.innerText?.trim() && !each.title && !each.ariaLabel && !each.labels?.length;
const controls = [...document.querySelectorAll("button, a, input, select, textarea")];
return controls.filter(isUnnamed).map((each) => each.outerHTML);
"""
"""Controls without a text, a title or a label."""
GO_AT_ONCE = """
new MutationObserver((_, observer) => {
  if (!document.querySelector("#app .spinner, #app .shell")) return;
  observer.disconnect();
  location.hash = "#/timeline";
}).observe(document, { childList: true, subtree: true });
"""
"""Goes to another page as soon as the first one is drawn, before the browser has shown it."""


def test_cluster(page: Browser) -> None:
    """All nodes are on the canvas, in groups; the queue is beside them; a node opens with its pods."""
    page.go("cluster")
    page.shows("60 nodes", "requested", "Queue", "Unschedulable", "Throughput")
    assert "token" not in page.script("return location.href")
    page.shows("shop/huge", "1 try", within=".queue-rows")
    assert page.text(".notice") == ""
    page.until(lambda: page.script(COLOURS) > 5, "nodes of several colours")
    page.picture("cluster")
    page.go("cluster/gpu-007")
    page.shows("gpu-007", "nvidia.com/gpu", "ml/train-", within=".node-card")
    page.click(".node-card button", "Where would they go")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".node-card li .badge"))


def test_cluster_by_keyboard_and_by_other_columns(page: Browser) -> None:
    """Arrow keys walk over the nodes and are read out; taints and a plugin's score colour them."""
    page.go("cluster")
    page.shows("60 nodes")
    canvas = page.driver.find_element(By.CSS_SELECTOR, ".map .over")
    canvas.send_keys(Keys.ARROW_RIGHT)
    page.until(lambda: "CPU" in page.script("return document.querySelector('.map [aria-live]').textContent"))
    page.script(COLOUR_BY, "taints")
    page.shows("nvidia.com/gpu=true:NoSchedule", within=".legend")
    page.script(COLOUR_BY, "score:")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "input[list]"))
    page.type("input[list]", "shop/web-1" + Keys.ENTER)
    page.shows("grey nodes do not fit", within=".legend")
    page.script("localStorage.removeItem('kubesched-colour')")
    page.driver.find_element(By.TAG_NAME, "body").send_keys("2")
    page.shows("pending")


def test_pending(page: Browser) -> None:
    """Pods are grouped by cause, with numbers, the closest node and a change that has been tried."""
    page.go("pending")
    page.shows("pods pending", "NodeResourcesFit", "cpu short by 4", "InterPodAffinity", "gated")
    page.shows("tolerate nvidia.com/gpu=true:NoSchedule", "remove the scheduling gate", "for another scheduler")
    page.picture("pending")
    page.click(".pod-row .more", "More")
    page.shows("kubectl patch pod", within=".pod-more")


def test_decision_about_a_pending_pod(page: Browser) -> None:
    """Every plugin that rejects each node is there, and a slider finds the size at which the pod fits."""
    page.go("decision/shop/huge")
    page.shows("fits on none of 60 nodes", "Insufficient cpu", "What would help", "Nodes by plugins")
    page.shows("NodeResourcesFit", within=".matrix")
    assert len(page.driver.find_elements(By.CSS_SELECTOR, ".matrix i.first")) == 60
    assert page.driver.find_elements(By.CSS_SELECTOR, ".matrix i.further")
    page.shows("Try 1", "unschedulable", within=".attempts")
    page.picture("decision-pending")
    for place, value in (("1", "1000"), ("2", str(2**30))):
        page.script(SET, f".slider:nth-of-type({place}) input", value)
    page.shows("It would fit on", "and go to")
    page.click("button", "Back to what it asks for")
    page.click(".stepper button", "earlier")
    page.shows("The scheduler's own record of try 1")


def test_decision_about_a_bound_pod(page: Browser) -> None:
    """Scores are stacked by plugin, with winner and runner-up, and the recorded attempt can be stepped to."""
    page.go("decision/shop/web-1")
    page.shows("shop/web-1 is on", "winner", "runner-up", "TaintToleration", "What each Score plugin changes")
    page.click(".segmented button", "Differences")
    page.picture("decision")
    page.click(".attempts button", "Try 1")
    page.shows("The scheduler's own record of try 1", "shop/web-1 went to")


def test_timeline(page: Browser) -> None:
    """What happened is in lanes, and the slider shows the cluster as it was before."""
    page.go("timeline")
    page.shows("Timeline", "moments since", "Bound", "Failed attempts", "Created", "CPU requested")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, ".moments li"))
    page.until(lambda: page.script(COLOURS) > 5)
    full = page.script(COLOURS)
    low = page.script("return document.querySelector('.scrub input').min")
    page.picture("timeline")
    page.script(SET, ".scrub input", low)
    page.shows("Back to now")
    page.until(lambda: page.script(COLOURS) < full)
    page.click("button", "Back to now")


def test_another_page_as_soon_as_the_first_is_drawn(browser: Browser, local: LocalCluster) -> None:
    """Who follows a link before the page has settled gets there."""
    before = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": GO_AT_ONCE})
    try:
        browser.open(local.link)
        browser.shows("moments since")
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", before)


def test_configuration(page: Browser) -> None:
    """A mistake is named as one types; an edited weight moves pods, and they are listed."""
    page.go("configuration")
    page.shows("default-scheduler", "in force", "NodeResourcesFit")
    text = page.script("return document.querySelector('textarea').value")
    page.script(SET, "textarea", text.replace("parallelism: 16", "parallelism: -1"))
    page.shows("1 problem", "parallelism", within="section")
    wanted = "type: LeastAllocated"
    assert wanted in text
    page.script(SET, "textarea", text.replace(wanted, "type: MostAllocated"))
    page.shows("valid")
    page.click("button", "What would change?")
    page.shows("would be decided otherwise", within=".compared")
    page.shows("shop/", within=".moved")
    page.picture("configuration")


def reopened(page: Browser, name: str) -> str:
    """The text of an object, read anew."""
    page.click(".list .attempt", name)
    text: str = page.until(lambda: page.script(TEXT))
    return text


def test_objects(page: Browser) -> None:
    """An object is created from YAML, edited while its status changes, and deleted; refusals are shown."""
    page.go("objects")
    page.shows("Export", "Import", "Reset", "train-0")
    page.click("header .primary", "Create")
    page.click("button", "Create it")
    page.shows("Created Pod example")
    page.type(".list input", "example")
    page.click(".list .attempt", "example")
    text = page.until(lambda: page.script(TEXT))
    page.script(SET, "textarea", text.replace("  name: example", "  name: example\n  annotations: {tier: gold}", 1))
    page.click("button", "Save")
    page.shows("Saved Pod example")
    page.until(lambda: "phase: Running" in reopened(page, "example"))
    page.picture("objects")
    text = reopened(page, "example")
    assert "tier: gold" in text
    page.script(SET, "textarea", text.replace("image: nginx", "image: ''", 1))
    page.click("button", "Save")
    page.shows("image", within=".notice.bad")
    page.script(SET, "textarea", text + "kind: Pod\n")
    page.click("button", "Save")
    page.shows('key "kind" already set in map', within=".notice.bad")
    page.problems()  # the browser logs the refused requests
    page.click("button", "Discard")
    page.until(lambda: page.script(TEXT) == text)
    page.click("button", "Delete")
    page.click("dialog button", "Delete")
    page.shows("Deleted example")


def test_every_control_has_a_name(page: Browser) -> None:
    """Buttons, links, sliders and fields of all pages say to screen readers what they are."""
    for path, text in (
        ("cluster", "60 nodes"),
        ("pending", "pods pending"),
        ("decision/shop/web-1", "What if it asked for"),
        ("timeline", "moments since"),
        ("configuration", "in force"),
        ("objects", "train-0"),
    ):
        page.go(path)
        page.shows(text)
        assert page.script(UNNAMED) == [], path


def test_in_the_dark_on_a_phone(page: Browser) -> None:
    """A phone-sized window has everything in one column, and nothing is wider than it."""
    page.size(390, 844)
    page.script("localStorage.setItem('kubesched-theme', 'dark')")
    page.driver.refresh()
    for path, text in (
        ("cluster", "60 nodes"),
        ("pending", "pods pending"),
        ("decision/shop/web-1", "weighted"),
        ("timeline", "moments since"),
        ("configuration", "in force"),
        ("objects", "train-0"),
    ):
        page.go(path)
        page.shows(text)
        page.until(lambda: page.script("return document.documentElement.scrollWidth <= 390"), "all of its width")
        page.picture(f"phone-{path.partition('/')[0]}")
    assert page.script("return document.documentElement.dataset.theme") == "dark"
    page.script("localStorage.removeItem('kubesched-theme')")


def test_wake_ups_preemption_and_reset(page: Browser, local: LocalCluster, tmp_path: Path) -> None:
    """A new node wakes a pod; an important pod names its victims; export, reset and import bring the cluster back."""
    asyncio.run(local.create([sample.node("giant", "eu-west-1a", "giant", cpu="64", memory="512Gi")]))
    page.go("timeline")
    page.shows("Wake-ups", "NodeAdd")
    page.until(lambda: re.search(r"bound shop/\S+ on giant", page.text()), "a pod on the new node")
    asyncio.run(local.create([sample.pod("vital", cpu="60", memory="300Gi", priorityClassName="system-node-critical")]))
    page.go("timeline")
    page.shows("preempted", "makes room for shop/vital")
    page.go("decision/shop/vital")
    page.click(".attempts button", "Try 1")
    page.shows("Preemption makes room on giant", "must go")
    page.go("objects")
    page.downloads(tmp_path)
    page.click("button", "Export")
    page.shows("Exported to cluster.json")
    file = tmp_path / "cluster.json"
    page.until(file.exists)
    assert len(json.loads(file.read_text())["nodes"]) == 61
    page.click("button", "Reset")
    page.click("dialog button", "Reset")
    page.shows("The cluster is as it was at the start")
    page.go("cluster")
    page.shows("0 nodes")
    page.go("objects")
    page.shows("Import")
    page.driver.find_element(By.ID, "import-file").send_keys(str(file))
    page.click("dialog button", "Import")
    page.shows("Imported cluster.json")
    page.go("cluster")
    page.shows("61 nodes")


def test_apply(page: Browser) -> None:
    """An edited profile is applied and in force afterwards; what cannot change while the cluster runs is refused."""
    page.go("configuration")
    page.shows("in force", within="section .badge")
    text = page.script(TEXT)
    page.script(SET, "textarea", text.replace("parallelism: 16", "parallelism: 8"))
    page.shows("valid", within="section .badge")
    page.click("button", "Apply")
    page.shows("only profiles and extenders can change", "parallelism", within=".notice.bad")
    page.problems()  # the browser logs the refused request
    page.script(SET, "textarea", text.replace("type: LeastAllocated", "type: MostAllocated"))
    page.shows("valid", within="section .badge")
    page.click("button", "Apply")
    page.shows("in force", within="section .badge")
    page.driver.refresh()
    page.shows("in force", within="section .badge")
    assert "type: MostAllocated" in page.script(TEXT)


def test_backoff_and_permit(page: Browser, local: LocalCluster) -> None:
    """The queue shows how long a pod backs off, and which plugin another one waits for."""
    page.go("cluster")
    before = page.until(lambda: page.text("h1"))
    pods = [sample.pod(name, labels={"hold": name}) for name in ("held", "broken")]
    asyncio.run(local.create([*pods, sample.node("one-more", "eu-west-1a", "general")]))
    page.shows("shop/held\nHold\nat Permit", within=".queue-rows")
    page.until(lambda: re.search(r"shop/broken\n\d (try|tries).*\n(10|\d) s", page.text(".queue-rows")), "a timer")
    page.picture("queue")
    page.until(lambda: page.text("h1") != before, "one node more")
    page.go("timeline")
    page.shows("failed shop/broken")
