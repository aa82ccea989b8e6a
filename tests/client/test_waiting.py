"""The rate limit, backoff after failures, and the choice of the proxy."""

import asyncio
import random

import pytest

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.informer_backoff import Backoff
from kubesched.client.proxy import proxy_for
from kubesched.client.ratelimit import TokenBucket


@virtual_time
async def test_a_burst_passes_and_then_the_rate_holds(clock: VirtualClock) -> None:
    """The burst is free; every further request waits for its token, in order."""
    bucket = TokenBucket(qps=10, burst=5, clock=clock)
    passed: list[tuple[int, float]] = []

    async def request(number: int) -> None:
        await bucket.acquire()
        passed.append((number, round(clock.monotonic(), 6)))

    await asyncio.gather(*map(request, range(10)))
    assert [number for number, _ in passed] == list(range(10))
    assert [moment for _, moment in passed] == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4, 0.5]
    await clock.sleep(3600)
    began = clock.monotonic()
    await asyncio.gather(*map(request, range(6)))
    assert clock.monotonic() - began == pytest.approx(0.1)


@virtual_time
async def test_a_cancelled_wait_gives_its_token_back(clock: VirtualClock) -> None:
    """A request that is cancelled does not delay those behind it."""
    bucket = TokenBucket(qps=1, burst=1, clock=clock)
    await bucket.acquire()
    gives_up = asyncio.create_task(bucket.acquire())
    await clock.settle()
    gives_up.cancel()
    await clock.settle()
    await bucket.acquire()
    assert clock.monotonic() == pytest.approx(1.0)


@virtual_time
async def test_rates_of_zero_and_below(clock: VirtualClock) -> None:
    """As upstream, 0 means the default of 5 with a burst of 10, and a negative rate means no limit."""
    bucket = TokenBucket(qps=0, burst=0, clock=clock)
    assert (bucket.qps, bucket.burst) == (5.0, 10)
    unlimited = TokenBucket(qps=-1, burst=1, clock=clock)
    for _ in range(1000):
        await unlimited.acquire()
    assert clock.monotonic() == 0.0


@virtual_time
async def test_backoff_doubles_up_to_its_limit(clock: VirtualClock) -> None:
    """Each delay lies between its base and twice that; two minutes without a failure reset it."""
    backoff = Backoff(clock, random.Random(1))
    bases = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    for base in bases:
        began = clock.monotonic()
        await backoff.wait()
        assert base <= clock.monotonic() - began <= 2 * base
    await clock.sleep(119)
    assert backoff.delay() >= 30.0
    await clock.sleep(60 + 121)
    assert backoff.delay() <= 1.6


PROXIES = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "plain:80"}


@pytest.mark.parametrize(
    ("url", "exempt", "expected"),
    [
        ("https://api.example.com:6443", "", "http://proxy:3128"),
        ("http://api.example.com", "", "http://plain:80"),
        ("https://127.0.0.1:6443", "", None),
        ("https://[::1]:6443", "", None),
        ("https://localhost", "", None),
        ("https://api.example.com", "example.com", None),
        ("https://example.com", "example.com", None),
        ("https://notexample.com", "example.com", "http://proxy:3128"),
        ("https://api.example.com", ".example.com", None),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://api.example.com", "*.example.com", None),
        ("https://10.96.0.1", "10.96.0.0/12", None),
        ("https://10.200.0.1", "10.96.0.0/12", "http://proxy:3128"),
        ("https://10.96.0.1:443", "10.96.0.1:443", None),
        ("https://10.96.0.1:6443", "10.96.0.1:443", "http://proxy:3128"),
        ("https://[fd00::1]", "[fd00::1]:443", None),
        ("https://[fd00::1]", "fd00::/8", None),
        ("https://10.96.0.1", "10.96.0.0/nonsense, 10.96.0.1", None),
        ("https://anything", "*", None),
    ],
)
def test_the_proxy_by_the_environment(url: str, exempt: str, expected: str | None) -> None:
    """NO_PROXY exempts names, subdomains, addresses and networks; loopback never goes through a proxy."""
    assert proxy_for(url, {**PROXIES, "NO_PROXY": exempt}) == expected


def test_no_proxy_unless_one_is_set() -> None:
    """An empty environment means a direct connection."""
    assert proxy_for("https://api", {}) is None


def test_a_proxy_that_cannot_be_used() -> None:
    """A scheme that proxies do not have is refused at the start, and the error hides the password."""
    with pytest.raises(ValueError, match=r"^HTTPS_PROXY: unsupported scheme 'gopher', must be http, https, or socks5$"):
        proxy_for("https://api.example.com", {"https_proxy": "gopher://me:secret@proxy"})
