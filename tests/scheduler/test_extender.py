"""Extenders on a real HTTP server: requests, responses and failures."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme
from tests.builders import node, pod
from tests.scheduler.extender_server import ExtenderServer, serving

from kubesched.api import objects as api
from kubesched.client.tls import TlsError
from kubesched.cluster.pods import PodClasses, PodInfo
from kubesched.config import types as config
from kubesched.config.args import NodeResourcesFitArgs
from kubesched.config.duration import Duration
from kubesched.framework.extender import Extender, ExtenderError, ExtenderVictims
from kubesched.scheduler import extender_wire as wire
from kubesched.scheduler.extender import HTTPExtender
from kubesched.scheduler.extender_settings import make_extenders, with_ignored_resources

NODES = [node("n1"), node("n2"), node("n3")]
POD = pod("web", uid="u-web", cpu="500m")


@asynccontextmanager
async def asking(server: ExtenderServer, **settings: Any) -> AsyncIterator[HTTPExtender]:
    """An extender that uses the server for all verbs unless configured otherwise."""
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize", "preempt_verb": "preempt", "bind_verb": "bind"}
    more = {key: settings.pop(key) for key in ("pods_on", "raw", "may_write") if key in settings}
    extender = HTTPExtender(config.Extender(url_prefix=server.url, **(verbs | settings)), **more)
    try:
        yield extender
    finally:
        await extender.close()


def placed(name: str) -> PodInfo:
    return PodClasses().info(pod(name, uid=f"u-{name}", node="n1"))


# --- filter -----------------------------------------------------------------------------------------------------------


async def test_filter_with_whole_nodes() -> None:
    """An extender without a node cache gets a NodeList and returns one."""
    async with serving() as server, asking(server) as extender:
        server.answers["/filter"] = {
            "Nodes": {"items": [{"metadata": {"name": "n2"}}]},
            "FailedNodes": {"n1": "too slow"},
            "FailedAndUnresolvableNodes": {"n3": "no GPU"},
        }
        result = await extender.filter(POD, NODES)
    assert result.nodes == ["n2"]
    assert result.failed == {"n1": "too slow"}
    assert result.unresolvable == {"n3": "no GPU"}
    path, sent = server.asked[0]
    assert path == "/filter"
    assert list(sent) == ["Pod", "Nodes", "NodeNames"]
    assert sent["NodeNames"] is None
    assert sent["Pod"]["metadata"] == {"name": "web", "namespace": "default", "uid": "u-web"}
    assert sent["Pod"]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert [each["metadata"]["name"] for each in sent["Nodes"]["items"]] == ["n1", "n2", "n3"]
    assert msgspec.convert(sent["Nodes"]["items"][0], api.Node) == NODES[0]
    assert server.headers["Content-Type"] == "application/json"


async def test_only_the_leader_binds_through_an_extender() -> None:
    """A scheduler that lost its lease does not let an extender bind a pod."""
    async with serving() as server, asking(server, may_write=lambda: False) as extender:
        with pytest.raises(ExtenderError, match="not sent: this process is no longer the leader"):
            await extender.bind(POD, "n1")
    assert not server.asked


async def test_filter_with_names() -> None:
    """An extender with a node cache gets names and returns names."""
    async with serving() as server, asking(server, node_cache_capable=True) as extender:
        server.answers["/filter"] = {"NodeNames": ["n3", "n1", "n3"]}
        result = await extender.filter(POD, NODES)
    assert result.nodes == ["n3", "n1"]
    assert server.asked[0][1]["Nodes"] is None
    assert server.asked[0][1]["NodeNames"] == ["n1", "n2", "n3"]


async def test_names_are_ignored_without_a_cache() -> None:
    """As upstream, NodeNames counts only for an extender with a cache; without a NodeList no node is left."""
    async with serving() as server, asking(server) as extender:
        server.answers["/filter"] = {"NodeNames": ["n1"]}
        assert (await extender.filter(POD, NODES)).nodes == []


async def test_an_extender_with_a_cache_may_return_nodes() -> None:
    """An extender with a cache may still return a NodeList."""
    async with serving() as server, asking(server, node_cache_capable=True) as extender:
        server.answers["/filter"] = {"nodes": {"ITEMS": [{"metadata": {"name": "n1"}}]}}
        assert (await extender.filter(POD, NODES)).nodes == ["n1"]


async def test_a_whole_object_is_sent_if_available() -> None:
    """If the whole object from the API server was kept, it is sent with all its fields."""
    whole = b'{"metadata":{"name":"web"},"spec":{"containers":[{"name":"c","env":[{"name":"A"}]}]}}'
    raw = lambda obj: whole if isinstance(obj, api.Pod) else None  # noqa: E731 - shorter than a def, and clear
    async with serving() as server, asking(server, node_cache_capable=True, raw=raw) as extender:
        await extender.filter(POD, NODES)
    assert server.asked[0][1]["Pod"] == json.loads(whole)


async def test_a_changed_node_is_encoded_again() -> None:
    """The JSON of a node is cached until the node changes."""
    async with serving() as server, asking(server) as extender:
        await extender.filter(POD, [NODES[0]])
        await extender.filter(POD, [node("n1", labels={"disk": "ssd"})])
    assert server.asked[1][1]["Nodes"]["items"][0]["metadata"]["labels"]["disk"] == "ssd"


async def test_without_a_verb_no_request_is_made() -> None:
    """A verb that is not configured makes no request and changes nothing."""
    async with serving() as server, asking(server, filter_verb="", prioritize_verb="", bind_verb="") as extender:
        assert (await extender.filter(POD, NODES)).nodes == ["n1", "n2", "n3"]
        assert await extender.prioritize(POD, NODES) == {}
        with pytest.raises(ExtenderError, match=r"^unexpected empty bindVerb in extender$"):
            await extender.bind(POD, "n1")
        assert not any((extender.is_filter, extender.is_prioritizer, extender.is_binder))
        assert extender.supports_preemption
    assert not server.asked


@pytest.mark.parametrize("capable", [True, False])
async def test_an_unknown_node_is_an_error(capable: bool) -> None:
    """Returning an unknown node fails the attempt."""
    async with serving() as server, asking(server, node_cache_capable=capable) as extender:
        server.answers["/filter"] = {"NodeNames": ["n9"], "Nodes": {"items": [{"metadata": {"name": "n9"}}]}}
        with pytest.raises(ExtenderError) as failed:
            await extender.filter(POD, NODES)
    url = f"http://127.0.0.1:{server.port}"
    text = f'extender "{url}" claims a filtered node "n9" which is not found in the input node list'
    assert str(failed.value) == text


# --- failures ---------------------------------------------------------------------------------------------------------


async def test_an_error_in_the_answer() -> None:
    """The extender's own error text becomes the error."""
    async with serving() as server, asking(server) as extender:
        server.answers["/filter"] = {"Error": "database is down"}
        with pytest.raises(ExtenderError, match=r"^database is down$"):
            await extender.filter(POD, NODES)


async def test_a_server_error() -> None:
    """Any code other than 200 is an error that names the verb, URL and code."""
    async with serving() as server, asking(server) as extender:
        server.status = 500
        with pytest.raises(ExtenderError) as failed:
            await extender.prioritize(POD, NODES)
    assert str(failed.value) == f"failed prioritize with extender at URL {server.url}/prioritize, code 500"


async def test_no_answer_in_time() -> None:
    """httpTimeout limits the whole call."""
    async with serving() as server, asking(server, http_timeout=Duration(50_000_000)) as extender:
        server.delay = 5
        with pytest.raises(ExtenderError) as failed:
            await extender.filter(POD, NODES)
    assert str(failed.value) == (
        f'Post "{server.url}/filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
    )


async def test_a_refused_connection() -> None:
    """The error text of a refused connection is Go's."""
    async with serving() as server:
        pass
    async with asking(server) as extender:
        with pytest.raises(ExtenderError) as failed:
            await extender.filter(POD, NODES)
    assert str(failed.value) == (
        f'Post "{server.url}/filter": dial tcp 127.0.0.1:{server.port}: connect: connection refused'
    )


async def test_a_host_that_does_not_exist() -> None:
    """The error text of an unresolvable host name is Go's."""
    extender = HTTPExtender(config.Extender(url_prefix="http://extender.invalid/x", filter_verb="filter"))
    try:
        with pytest.raises(ExtenderError) as failed:
            await extender.filter(POD, NODES)
    finally:
        await extender.close()
    assert str(failed.value) == (
        'Post "http://extender.invalid/x/filter": dial tcp: lookup extender.invalid: no such host'
    )


async def test_a_malformed_url() -> None:
    """A malformed URL is an extender error and does not crash the scheduler."""
    extender = HTTPExtender(config.Extender(url_prefix="http://[x", filter_verb="filter"))
    with pytest.raises(ExtenderError, match=r'^Post "http://\[x/filter": '):
        await extender.filter(POD, NODES)
    await extender.close()


async def test_a_connection_that_breaks() -> None:
    """A request is repeated once over a new connection; if that breaks too, it fails."""
    async with serving() as server, asking(server, node_cache_capable=True) as extender:
        server.answers["/filter"] = {"NodeNames": ["n1"]}
        server.hang_up = 1
        assert (await extender.filter(POD, NODES)).nodes == ["n1"]
        server.hang_up = 2
        with pytest.raises(ExtenderError, match=r": EOF$"):
            await extender.filter(POD, NODES)
        assert len(server.asked) == 4


async def test_a_bind_is_never_repeated() -> None:
    """A bind is never repeated, because it may have taken effect although its response was lost."""
    async with serving() as server, asking(server) as extender:
        server.hang_up = 1
        with pytest.raises(ExtenderError, match=r": EOF$"):
            await extender.bind(POD, "n1")
        assert len(server.asked) == 1


async def test_garbage() -> None:
    """Invalid JSON is rejected with Go's message."""
    async with serving() as server, asking(server) as extender:
        server.body = b"garbage"
        with pytest.raises(ExtenderError, match=r"^invalid character 'g' looking for beginning of value$"):
            await extender.filter(POD, NODES)


def test_responses_are_parsed_as_by_go() -> None:
    """251 responses, valid and broken, are accepted or rejected exactly as by Go's decoder."""
    for line in Path(__file__).with_name("extender_answers.jsonl").read_text("utf-8").splitlines():
        recorded = json.loads(line)
        try:
            answer = wire.ExtenderAnswer(wire.decode(recorded["body"].encode()), "ExtenderFilterResult")
            found = (answer.texts("NodeNames"), answer.text_map("FailedNodes"), answer.text("Error"))
            wire.node_names(answer)
            problem = ""
        except ExtenderError as error:
            problem = str(error)
        assert problem == recorded["error"], recorded["body"]
        if not problem:
            assert found == (recorded["names"], recorded["failed"], recorded["message"]), recorded["body"]


# --- prioritize -------------------------------------------------------------------------------------------------------


async def test_scores() -> None:
    """Scores are read by host, with field names in any case; the scores of a repeated host are added up."""
    async with serving() as server, asking(server, weight=7) as extender:
        server.answers["/prioritize"] = [{"Host": "n1", "Score": 3}, {"host": "n2"}, {"HOST": "n1", "score": 4}]
        assert await extender.prioritize(POD, NODES) == {"n1": 7, "n2": 0}
        assert extender.weight == 7


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({}, "json: cannot unmarshal object into Go value of type v1.HostPriorityList"),
        (
            [{"Score": 1.5}],
            "json: cannot unmarshal number 1.5 into Go struct field HostPriority.Score of type int64",
        ),
        ([{"Score": "1"}], "json: cannot unmarshal string into Go struct field HostPriority.Score of type int64"),
        ([{"Host": True}], "json: cannot unmarshal bool into Go struct field HostPriority.Host of type string"),
        ([1], "json: cannot unmarshal number into Go value of type v1.HostPriority"),
    ],
)
async def test_scores_of_the_wrong_type(answer: object, problem: str) -> None:
    """A list of the wrong type fails as in Go."""
    async with serving() as server, asking(server) as extender:
        server.answers["/prioritize"] = answer
        with pytest.raises(ExtenderError) as failed:
            await extender.prioritize(POD, NODES)
    assert str(failed.value) == problem


async def test_null_is_an_empty_list() -> None:
    """A null list scores nothing."""
    async with serving() as server, asking(server) as extender:
        assert await extender.prioritize(POD, NODES) == {}


# --- preemption -------------------------------------------------------------------------------------------------------


async def test_preemption_with_whole_pods() -> None:
    """Victims are sent as whole pods; the response names them by UID and may choose other pods on the node."""
    first, second, other = placed("a"), placed("b"), placed("c")
    on_nodes = {"n1": [first, second, other]}
    async with serving() as server, asking(server, pods_on=on_nodes.get) as extender:
        server.answers["/preempt"] = {
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u-c"}, {"UID": "u-a"}], "NumPDBViolations": 2}}
        }
        result = await extender.process_preemption(POD, {"n1": ExtenderVictims([first, second], 1)})
    assert list(result["n1"].pods) == [other, first]
    assert result["n1"].violations == 2
    sent = server.asked[0][1]
    assert sent["NodeNameToMetaVictims"] is None
    assert [each["metadata"]["uid"] for each in sent["NodeNameToVictims"]["n1"]["Pods"]] == ["u-a", "u-b"]
    assert sent["NodeNameToVictims"]["n1"]["NumPDBViolations"] == 1


async def test_preemption_with_names() -> None:
    """An extender with a cache gets only UIDs."""
    async with serving() as server, asking(server, node_cache_capable=True) as extender:
        server.answers["/preempt"] = lambda sent: {"NodeNameToMetaVictims": sent["NodeNameToMetaVictims"]}
        victims = {"n1": ExtenderVictims([placed("a")], 3)}
        result = await extender.process_preemption(POD, victims)
    assert server.asked[0][1]["NodeNameToVictims"] is None
    assert server.asked[0][1]["NodeNameToMetaVictims"] == {"n1": {"Pods": [{"UID": "u-a"}], "NumPDBViolations": 3}}
    assert result == victims


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"n9": {"Pods": []}}, 'nodeinfo not found for node name "n9"'),
        (
            {"n1": {"Pods": [{"UID": "u-x"}]}},
            "extender: {url} claims to preempt pod (UID: &{{u-x}}) on node: n1, but the pod is not found on that node",
        ),
    ],
)
async def test_victims_that_are_not_there(answer: object, problem: str) -> None:
    """An extender that names victims that do not exist fails."""
    async with serving() as server, asking(server) as extender:
        server.answers["/preempt"] = {"NodeNameToMetaVictims": answer}
        with pytest.raises(ExtenderError) as failed:
            await extender.process_preemption(POD, {"n1": ExtenderVictims([placed("a")])})
    assert str(failed.value) == problem.format(url=server.url)


async def test_no_preempt_verb() -> None:
    """An extender without the preempt verb is not called."""
    async with serving() as server, asking(server, preempt_verb="") as extender:
        assert not extender.supports_preemption
        with pytest.raises(ExtenderError, match=r"^preempt verb is not defined for extender http://.* but run into"):
            await extender.process_preemption(POD, {})


# --- bind -------------------------------------------------------------------------------------------------------------


async def test_bind() -> None:
    """A binder gets the name, namespace, UID and node; its error fails the bind."""
    async with serving() as server, asking(server) as extender:
        await extender.bind(POD, "n2")
        server.answers["/bind"] = {"error": "occupied"}
        with pytest.raises(ExtenderError, match=r"^occupied$"):
            await extender.bind(POD, "n2")
    sent = {"PodName": "web", "PodNamespace": "default", "PodUID": "u-web", "Node": "n2"}
    assert server.asked[0] == ("/bind", sent)


# --- interest and order -----------------------------------------------------------------------------------------------


def of_resource(name: str) -> api.Pod:
    container = api.Container(name="c", resources=api.ResourceRequirements(limits={name: "1"}))
    return api.Pod(spec=api.PodSpec(init_containers=(container,)))


def test_interest() -> None:
    """An extender with managed resources is called only for pods that request one of them in any container."""
    managed = (config.ExtenderManagedResource(name="example.com/gpu"),)
    picky = HTTPExtender(config.Extender(url_prefix="http://x", managed_resources=managed))
    assert picky.is_interested(of_resource("example.com/gpu"))
    assert not picky.is_interested(POD)
    assert HTTPExtender(config.Extender(url_prefix="http://x")).is_interested(POD)


def test_order() -> None:
    """Ignorable extenders come last; otherwise the configured order is kept."""
    settings = [config.Extender(url_prefix=f"http://{n}", ignorable=n in "ac") for n in "abcd"]
    assert [extender.name for extender in make_extenders(settings)] == ["http://b", "http://d", "http://a", "http://c"]


def test_the_protocol() -> None:
    """HTTPExtender implements the protocol that the loop uses."""
    extender: Extender = HTTPExtender(config.Extender(url_prefix="http://x/", weight=2, ignorable=True))
    assert (extender.name, extender.weight, extender.ignorable, str(extender)) == ("http://x/", 2, True, "http://x/")


def test_ignored_resources() -> None:
    """NodeResourcesFit ignores the resources that extenders manage, in every profile and in place of its own list."""
    args = NodeResourcesFitArgs(ignored_resources=("example.com/old",))
    fit = config.PluginConfig(name="NodeResourcesFit", args=args)
    profile = config.KubeSchedulerProfile(scheduler_name="a", plugin_config=(config.PluginConfig(name="X"), fit))
    gpu = config.ExtenderManagedResource(name="example.com/gpu", ignored_by_scheduler=True)
    counted = config.ExtenderManagedResource(name="example.com/nic")
    (changed,) = with_ignored_resources([profile], [config.Extender(managed_resources=(gpu, counted))])
    assert changed.args_of("NodeResourcesFit") == NodeResourcesFitArgs(ignored_resources=("example.com/gpu",))
    assert with_ignored_resources([profile], [config.Extender(managed_resources=(counted,))]) == (profile,)
    with pytest.raises(ValueError, match="can't find NodeResourcesFitArgs in plugin config"):
        with_ignored_resources([config.KubeSchedulerProfile()], [config.Extender(managed_resources=(gpu,))])


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


def server_context(authority: trustme.CA, *names: str, client_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    if client_certificate:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def ask_over_tls(context: ssl.SSLContext, tls: config.ExtenderTLSConfig | None, *, enable: bool) -> list[str]:
    async with (
        serving(context) as server,
        asking(server, tls_config=tls, enable_https=enable, node_cache_capable=True) as extender,
    ):
        server.answers["/filter"] = {"NodeNames": ["n1"]}
        return list((await extender.filter(POD, NODES)).nodes)


async def test_https_with_an_authority_as_data(authority: trustme.CA) -> None:
    """caData sets the trusted authority."""
    tls = config.ExtenderTLSConfig(ca_data=authority.cert_pem.bytes())
    assert await ask_over_tls(server_context(authority, "127.0.0.1"), tls, enable=True) == ["n1"]


async def test_https_with_files_and_a_client_certificate(authority: trustme.CA, tmp_path: Path) -> None:
    """caFile, certFile and keyFile give mutual authentication."""
    mine = authority.issue_cert("scheduler@example.com")
    authority.cert_pem.write_to_path(tmp_path / "ca")
    mine.private_key_pem.write_to_path(tmp_path / "key")
    (tmp_path / "cert").write_bytes(b"".join(each.bytes() for each in mine.cert_chain_pems))
    tls = config.ExtenderTLSConfig(
        ca_file=str(tmp_path / "ca"), cert_file=str(tmp_path / "cert"), key_file=str(tmp_path / "key")
    )
    context = server_context(authority, "127.0.0.1", client_certificate=True)
    assert await ask_over_tls(context, tls, enable=True) == ["n1"]


async def test_https_with_a_client_certificate_as_data(authority: trustme.CA) -> None:
    """certData and keyData give mutual authentication too."""
    mine = authority.issue_cert("scheduler@example.com")
    tls = config.ExtenderTLSConfig(
        ca_data=authority.cert_pem.bytes(),
        cert_data=mine.cert_chain_pems[0].bytes(),
        key_data=mine.private_key_pem.bytes(),
    )
    context = server_context(authority, "127.0.0.1", client_certificate=True)
    assert await ask_over_tls(context, tls, enable=True) == ["n1"]


async def test_https_with_another_name(authority: trustme.CA) -> None:
    """serverName is the name that the certificate must have."""
    context = server_context(authority, "extender.example.com")
    ca = authority.cert_pem.bytes()
    named = config.ExtenderTLSConfig(ca_data=ca, server_name="extender.example.com")
    assert await ask_over_tls(context, named, enable=True) == ["n1"]
    with pytest.raises(ExtenderError, match=r"tls: failed to verify certificate: x509: .*127\.0\.0\.1"):
        await ask_over_tls(context, config.ExtenderTLSConfig(ca_data=ca), enable=True)


async def test_https_without_verification(authority: trustme.CA) -> None:
    """`insecure` disables verification, and so does enableHTTPS without a CA."""
    context = server_context(authority, "extender.example.com")
    assert await ask_over_tls(context, config.ExtenderTLSConfig(insecure=True), enable=False) == ["n1"]
    assert await ask_over_tls(context, None, enable=True) == ["n1"]


async def test_https_with_an_untrusted_certificate(authority: trustme.CA) -> None:
    """An https URL alone trusts the system's authorities."""
    with pytest.raises(ExtenderError, match="tls: failed to verify certificate: x509: "):
        await ask_over_tls(server_context(authority, "127.0.0.1"), None, enable=False)


def test_invalid_tls_settings() -> None:
    """A CA together with `insecure`, or an invalid CA, is rejected at startup."""
    both = config.ExtenderTLSConfig(ca_data=b"x", insecure=True)
    with pytest.raises(ValueError, match="specifying a root certificates file with the insecure flag is not allowed"):
        HTTPExtender(config.Extender(url_prefix="https://x", tls_config=both))
    with pytest.raises(TlsError, match="holds no certificate"):
        HTTPExtender(config.Extender(url_prefix="https://x", tls_config=config.ExtenderTLSConfig(ca_data=b"x")))


@pytest.mark.parametrize("body", [b"[" * 99999 + b"]" * 99999, b"[" * 99999 + b"]" * 99999 + b" x"])
def test_a_deep_answer_is_an_error(body: bytes) -> None:
    """A response nested beyond Python's limit is rejected with Go's message."""
    with pytest.raises(ExtenderError, match="exceeded max depth"):
        wire.decode(body)
