"""Every page in a real browser: what it shows, and a picture of it."""

from __future__ import annotations

from tests.web.browser.conftest import Browser

COLOURS = """
const canvas = document.querySelector(".map canvas");
const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const found = new Set();
for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) found.add(data.slice(at, at + 3).join());
return found.size;
"""


def test_cluster(page: Browser) -> None:
    """All nodes are on the canvas, in groups; the queue is beside them; a node opens with its pods."""
    page.shows("60 nodes", "requested", "Queue", "Unschedulable", "Throughput")
    assert "token" not in page.script("return location.href")
    painted = page.script(COLOURS)
    assert painted > 5
    page.shows("shop/huge", within=".queue-rows")
    page.picture("cluster")
    page.go("cluster/gpu-007")
    page.shows("gpu-007", "nvidia.com/gpu", "ml/train-", within=".node-card")
    page.click(".node-card button", "Where would they go")
    page.shows("here again", within=".node-card")


def test_cluster_in_the_dark_on_a_phone(page: Browser) -> None:
    """A phone-sized window has everything in one column, and nothing is wider than it."""
    page.size(390, 844)
    page.script("localStorage.setItem('kubesched-theme', 'dark')")
    page.driver.refresh()
    page.shows("60 nodes", "Queue")
    assert page.script("return document.documentElement.dataset.theme") == "dark"
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    page.picture("cluster-phone-dark")
    page.script("localStorage.removeItem('kubesched-theme')")
