"""Kubeconfigs: every field reaches the connection, files merge as kubectl merges them, and mistakes are named."""

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubesched.client.connection import Connection, Tls, daemon_connection, in_cluster, resolve
from kubesched.client.kubeconfig import KubeconfigError, load_file, load_files, merge, parse

Tree = dict[str, Any]

SECRETS = ("s3cr3t-token", "s3cr3t-password", "s3cr3t-key", "s3cr3t-variable")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def tree(cluster: Tree | None = None, user: Tree | None = None, context: Tree | None = None) -> Tree:
    """A kubeconfig with one of each."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://api.example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "current-context": "x",
    }


def connect(content: Tree, **options: str) -> Connection:
    return resolve(parse(json.dumps(content).encode(), "/etc/kube/config"), **options)


def refusal(call: Callable[[], object]) -> KubeconfigError:
    with pytest.raises(KubeconfigError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("part", "fields", "expected"),
    [
        ("cluster", {}, {"server": "https://api.example.com:6443", "namespace": "default"}),
        ("cluster", {"server": "https://api/k8s/clusters/c-1/"}, {"server": "https://api/k8s/clusters/c-1"}),
        ("cluster", {"server": "https://[::1]:6443"}, {"server": "https://[::1]:6443"}),
        ("cluster", {"server": "10.0.0.1:8080"}, {"server": "http://10.0.0.1:8080"}),
        ("cluster", {"tls-server-name": "kubernetes"}, {"tls": Tls(server_name="kubernetes")}),
        ("cluster", {"insecure-skip-tls-verify": True}, {"tls": Tls(insecure=True)}),
        ("cluster", {"certificate-authority-data": b64("PEM")}, {"tls": Tls(ca_data=b"PEM")}),
        ("cluster", {"proxy-url": "http://proxy:3128"}, {"proxy_url": "http://proxy:3128"}),
        ("cluster", {"proxy-url": "socks5://me:pass@proxy"}, {"proxy_url": "socks5://me:pass@proxy"}),
        ("context", {"namespace": "team"}, {"namespace": "team"}),
        ("user", {"token": "s3cr3t-token"}, {"token": "s3cr3t-token"}),
        ("user", {"username": "me", "password": "s3cr3t-password"}, {"username": "me", "password": "s3cr3t-password"}),
        (
            "user",
            {"client-certificate-data": b64("CERT"), "client-key-data": b64("s3cr3t-key")},
            {"tls": Tls(certificate_data=b"CERT", key_data=b"s3cr3t-key")},
        ),
    ],
)
def test_every_field_reaches_the_connection(part: str, fields: Tree, expected: Tree) -> None:
    """A field of a cluster, user or context becomes the matching setting."""
    connection = connect(tree(**{part: fields}))
    assert {name: getattr(connection, name) for name in expected} == expected


def test_impersonation() -> None:
    """User, UID, groups and extra fields of an impersonation are all read."""
    user = {"as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"], "as-user-extra": {"scope": ["a", "b"]}}
    found = connect(tree(user=user)).impersonate
    assert (found.user, found.uid, found.groups, found.extra) == ("jane", "7", ("dev", "ops"), {"scope": ("a", "b")})


def test_exec_plugin() -> None:
    """An exec plugin is read with its arguments and its description of the cluster."""
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "bin/login",
        "args": ["--for", "c"],
        "env": [{"name": "A", "value": "s3cr3t-variable"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "get it from example.com",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "06e3fbd18de8"}}
    cluster = {"certificate-authority-data": b64("PEM"), "extensions": [extension]}
    connection = connect(tree(cluster=cluster, user={"exec": command}))
    assert connection.exec is not None
    assert connection.exec.command == "/etc/kube/bin/login"
    assert connection.exec.args == ("--for", "c")
    assert connection.exec_cluster == {
        "server": "https://api.example.com:6443",
        "certificate-authority-data": b64("PEM"),
        "config": {"audience": "06e3fbd18de8"},
    }


def test_an_older_exec_plugin_may_leave_out_the_interactive_mode() -> None:
    """v1beta1 defaults to IfAvailable; a command without a slash is searched in PATH."""
    command = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "login", "args": None, "env": None}
    connection = connect(tree(user={"exec": command}))
    assert connection.exec is not None
    assert (connection.exec.command, connection.exec.interactive_mode) == ("login", "IfAvailable")
    assert connection.exec_cluster is None


def test_other_credentials_come_before_an_exec_plugin() -> None:
    """As upstream, a plugin is not run where a token is given."""
    command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}
    assert connect(tree(user={"token": "s3cr3t-token", "exec": command})).exec is None


def test_credentials_do_not_travel_in_the_clear() -> None:
    """Over plain HTTP neither token nor certificate is used, as upstream."""
    connection = connect(tree(cluster={"server": "http://api"}, user={"token": "s3cr3t-token"}))
    assert (connection.token, connection.tls) == ("", Tls())


def test_master_replaces_the_server() -> None:
    """--master keeps the credentials but not the server name that the other server's certificate has."""
    content = tree(cluster={"tls-server-name": "kubernetes"}, user={"token": "s3cr3t-token"})
    connection = connect(content, master="https://10.1.1.1")
    assert (connection.server, connection.token) == ("https://10.1.1.1", "s3cr3t-token")
    assert connection.tls.server_name == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            tree(user={"exec": {"command": "x", "apiVersion": "v2", "interactiveMode": "Never"}}),
            "/etc/kube/config: users[\"u\"].user.exec.apiVersion: 'v2' is not known; "
            "use one of: client.authentication.k8s.io/v1, client.authentication.k8s.io/v1beta1",
        ),
        (
            tree(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
            "users[\"u\"].user.exec.interactiveMode: '' is not known; use one of: Never, IfAvailable, Always",
        ),
        (
            tree(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}),
            'users["u"].user.exec.command: is not set; name the program',
        ),
        (
            tree(cluster={"server": ""}),
            'clusters["c"].cluster.server: is not set; give the API server\'s address',
        ),
        (
            tree(cluster={"server": "ftp://x"}),
            "clusters[\"c\"].cluster.server: 'ftp://x' is not an address of an API server; give an address such as",
        ),
        (
            tree(cluster={"server": "http://user:password@[::1"}),  # the password is not shown
            "clusters[\"c\"].cluster.server: '[::1' is not an address of an API server; give an address such as",
        ),
        (
            tree(cluster={"certificate-authority-data": "%%%"}),
            'clusters["c"].cluster.certificate-authority-data: is not valid base64 (3 characters); put the PEM text',
        ),
        (
            tree(cluster={"certificate-authority": "no.crt"}),
            "clusters[\"c\"].cluster.certificate-authority: '/etc/kube/no.crt' cannot be read: No such file",
        ),
        (
            tree(cluster={"insecure-skip-tls-verify": True, "certificate-authority-data": b64("PEM")}),
            "insecure-skip-tls-verify: is set together with a certificate authority",
        ),
        (
            tree(cluster={"certificate-authority": "a", "certificate-authority-data": b64("PEM")}),
            "certificate-authority: and certificate-authority-data are both set; keep one of the two",
        ),
        (
            tree(user={"client-certificate-data": b64("CERT")}),
            "client-key: is not set, but a client certificate is; give its client-key or client-key-data",
        ),
        (
            tree(user={"token": "s3cr3t-token", "username": "me", "password": "s3cr3t-password"}),
            "token: and username are both set; keep one way to authenticate",
        ),
        (tree(user={"as-groups": ["dev"]}), "as: is not set, but a UID, groups or extra fields"),
        (tree(user={"auth-provider": {"name": "gcp"}}), "auth-provider: 'gcp' is not supported; use an exec plugin"),
        (
            tree(cluster={"proxy-url": "ftp://me:s3cr3t-password@proxy:1080"}),
            "proxy-url: unsupported scheme 'ftp', must be http, https, or socks5; give an address such as",
        ),
        (
            tree(cluster={"proxy-url": "http://me:s3cr3t-password@:1080"}),
            "proxy-url: it names no host; give an address such as",
        ),
        (
            tree(cluster={"proxy-url": "http://me:s3cr3t-password@proxy:x"}),
            "proxy-url: it is not an address; give an address such as",
        ),
        (
            tree(context={"cluster": "d"}),
            "contexts[\"x\"].context.cluster: there is no cluster 'd'; define it; existing clusters: c",
        ),
        (
            tree(context={"user": "v"}),
            "contexts[\"x\"].context.user: there is no user 'v'; define it; existing users: u",
        ),
        (
            {**tree(), "current-context": "z"},
            "current-context: there is no context 'z'; set it to one of the existing contexts: x",
        ),
        ({**tree(), "current-context": ""}, "current-context: is not set; set it to one of the existing contexts: x"),
        ({**tree(), "kind": "Pod"}, "kind: expected apiVersion v1 and kind Config, got 'v1' and 'Pod'; name a"),
        ({**tree(), "users": [{"name": "u", "user": {"token": 5}}]}, "users[0].user.token: expected str, got int"),
        ({**tree(), "users": [{"name": "u"}, {"name": "u"}]}, "users: two entries have the name 'u'"),
    ],
)
def test_mistakes_are_named(content: Tree, message: str) -> None:
    """An error names the file, the field and the value, ends with what to do, and shows no secret."""
    error = refusal(lambda: connect(content))
    assert message in str(error)
    assert str(error).startswith("/etc/kube/config")
    assert error.hint
    assert not any(secret in str(error) for secret in SECRETS)


def test_broken_yaml_shows_no_secret() -> None:
    """A syntax error is located by line and column only: the text there may be a token."""
    error = refusal(lambda: parse(b"users:\n- name: u\n  user: {token: *s3cr3t-token\n", "config"))
    assert "config: line 3, column" in str(error)
    assert "s3cr3t" not in str(error)


def test_secrets_are_in_no_repr() -> None:
    """Neither the file nor the connection shows a secret when printed."""
    user = {
        "token": "s3cr3t-token",
        "client-certificate-data": b64("CERT"),
        "client-key-data": b64("s3cr3t-key"),
        "exec": {"command": "x", "env": [{"name": "A", "value": "s3cr3t-variable"}]},
    }
    config = parse(json.dumps(tree(user=user)).encode(), "config")
    shown = repr(config) + repr(config.users["u"].value.exec) + repr(resolve(config))
    basic = connect(tree(user={"username": "me", "password": "s3cr3t-password"}))
    assert not any(secret in shown + repr(basic) or b64(secret) in shown for secret in SECRETS)


def write(path: Path, content: Tree) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return str(path)


def test_the_first_file_wins(tmp_path: Path) -> None:
    """If two files define a name, the first definition is used as a whole; so is the first current context."""
    one, two = tree(user={"token": "s3cr3t-token"}), tree(cluster={"server": "https://two", "tls-server-name": "two"})
    two["contexts"].append({"name": "y", "context": {"cluster": "c", "user": "u"}})
    two["current-context"] = "y"
    config = load_files([write(tmp_path / "one", one), "", str(tmp_path / "none"), write(tmp_path / "two", two)])
    connection = resolve(config)
    assert connection.server == "https://api.example.com:6443"
    assert connection.tls.server_name == ""
    assert set(config.contexts) == {"x", "y"}
    assert config.current_context == "x"
    assert merge([]).files == ()


def test_a_later_file_may_set_the_current_context(tmp_path: Path) -> None:
    """If a file has no current context, that of the next file is used."""
    first = {**tree(), "current-context": ""}
    config = load_files([write(tmp_path / "one", first), write(tmp_path / "two", {"current-context": "x"})])
    assert resolve(config).namespace == "default"


def test_paths_are_relative_to_their_own_file(tmp_path: Path) -> None:
    """Relative paths start at the folder of their file, whatever the working directory and the other files."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b" / "pki").mkdir(parents=True)
    (tmp_path / "a" / "ca.crt").write_text("A")
    for name in ("me.crt", "me.key"):
        (tmp_path / "b" / "pki" / name).write_text(name)
    (tmp_path / "b" / "token").write_text("s3cr3t-token")
    user = {"client-certificate": "pki/me.crt", "client-key": "./pki/me.key", "tokenFile": "token"}
    clusters = {**tree(cluster={"certificate-authority": "ca.crt"}), "users": []}
    users = {"users": [{"name": "u", "user": user}]}
    files = [write(tmp_path / "a" / "config", clusters), write(tmp_path / "b" / "config", users)]
    connection = resolve(load_files(files))
    assert connection.tls.ca_file == str(tmp_path / "a" / "ca.crt")
    assert connection.tls.certificate_file == str(tmp_path / "b" / "pki" / "me.crt")
    assert connection.tls.key_file == str(tmp_path / "b" / "pki" / "me.key")
    assert connection.token_file == str(tmp_path / "b" / "token")


def test_yaml_as_kubectl_writes_it(tmp_path: Path) -> None:
    """Nulls, preferences and unknown fields are ignored."""
    path = tmp_path / "config"
    path.write_text(
        "apiVersion: v1\nkind: Config\npreferences: {}\nclusters:\n- cluster:\n    server: https://a\n"
        "    extensions: null\n  name: c\ncontexts:\n- context: {cluster: c, user: ''}\n  name: x\n"
        "current-context: x\nusers: null\n"
    )
    assert resolve(load_file(str(path))).server == "https://a"
    path.write_text("")
    assert load_file(str(path)).contexts == {}


def test_the_daemon_uses_the_given_file(tmp_path: Path) -> None:
    """If --kubeconfig or --master is given, KUBECONFIG is not read; a missing file is an error that names the flag."""
    path = write(tmp_path / "config", tree())
    env = {"KUBECONFIG": str(tmp_path / "other")}
    assert daemon_connection(path, env=env).server == "https://api.example.com:6443"
    assert "no such file; check the path given with --kubeconfig" in str(
        refusal(lambda: daemon_connection(str(tmp_path / "none"), env=env))
    )
    assert daemon_connection(master="127.0.0.1:8080", env=env).server == "http://127.0.0.1:8080"
    assert "--master: 'http://' is not an address" in str(refusal(lambda: daemon_connection(master="http://", env=env)))


def test_the_daemon_outside_a_pod_reads_what_kubeconfig_lists(tmp_path: Path) -> None:
    """Without flags it merges the files of KUBECONFIG; in a pod it uses the service account."""
    listed = write(tmp_path / "listed", tree(cluster={"server": "https://listed"}))
    other = write(tmp_path / "other", tree(cluster={"server": "https://other"}))
    env = {"KUBECONFIG": os.pathsep.join((str(tmp_path / "none"), listed, other))}
    assert daemon_connection(env=env).server == "https://listed"
    in_pod = {**env, "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert "serviceaccount/token: cannot be read" in str(refusal(lambda: daemon_connection(env=in_pod)))
    none = {"KUBECONFIG": str(tmp_path / "none")}
    assert "KUBECONFIG: none of " in str(refusal(lambda: daemon_connection(env=none)))
    assert "so this does not run in a pod; give --kubeconfig" in str(refusal(lambda: daemon_connection(env={})))


def test_a_service_account(tmp_path: Path) -> None:
    """In a pod the address is in the environment, and token, authority and namespace are in files."""
    env = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert "token: cannot be read" in str(refusal(lambda: in_cluster(env, str(tmp_path))))
    (tmp_path / "token").write_text("s3cr3t-token")
    bare = in_cluster(env, str(tmp_path))
    assert (bare.tls.ca_file, bare.namespace) == ("", "default")
    (tmp_path / "ca.crt").write_text("PEM")
    (tmp_path / "namespace").write_text("kube-system\n")
    connection = in_cluster(env, str(tmp_path))
    assert connection.server == "https://[fd00::1]:443"
    assert connection.tls.ca_file == str(tmp_path / "ca.crt")
    assert connection.token_file == str(tmp_path / "token")
    assert connection.namespace == "kube-system"
    assert in_cluster({**env, "POD_NAMESPACE": "mine"}, str(tmp_path)).namespace == "mine"


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    """A folder or a file without permission is an error with the reason."""
    assert "cannot be read" in str(refusal(lambda: load_file(str(tmp_path))))
