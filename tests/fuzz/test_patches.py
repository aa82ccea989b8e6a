"""Damaged patches of all four kinds: refused with words or applied, never an internal error, never much memory."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.damage import CORPUS, documents, quickly

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
MOST = 64 << 20
"""Bytes that one patch may take. The largest that is read has 3 MiB."""


@pytest.fixture(scope="module")
def client() -> LocalClient:
    """A client of a server with one Deployment."""
    made = LocalClient(ApiServer())
    body = msgspec.json.decode((CORPUS / "patches" / "apply.json").read_bytes())
    asyncio.run(made.create(DEPLOYMENTS, body))
    return made


@pytest.fixture(scope="module", autouse=True)
def traced() -> Iterator[None]:
    """Memory is measured."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


def apply(client: LocalClient, kind: str, text: bytes) -> None:
    """Try a patch without keeping its result. Only an internal error or much memory is a failure."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    path = f"{DEPLOYMENTS}/web?dryRun=All&fieldManager=fuzz&force=true"
    response = asyncio.run(client.send("PATCH", path, text, content_type=kind))
    assert response.status < 500, response.body
    assert response.status < 400 or b'"message":"' in response.body
    assert tracemalloc.get_traced_memory()[1] - before < MOST


@pytest.mark.parametrize("kind", TYPES)
def test_kept_patches(client: LocalClient, kind: str) -> None:
    """Each kept patch, as each kind of patch."""
    for file in sorted(Path(CORPUS / "patches").iterdir()):
        apply(client, kind, file.read_bytes())


@quickly
@given(documents("patches"), st.sampled_from(TYPES))
def test_damaged_patches(client: LocalClient, text: bytes, kind: str) -> None:
    """Junk anywhere in a patch is refused with words, or does no harm."""
    apply(client, kind, text)


@quickly
@given(documents("patches"), st.integers(1, 50))
def test_patches_that_repeat_themselves(client: LocalClient, text: bytes, times: int) -> None:
    """Operations, also those that copy, many times over."""
    inner = text.strip().removeprefix(b"[").removesuffix(b"]")
    apply(client, TYPES[0], b"[" + b",".join([inner] * times) + b"]")
