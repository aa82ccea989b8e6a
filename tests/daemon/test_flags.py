"""kube-scheduler's flags: every one of them, in Go's syntax, with Go's values."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from kubesched.config.duration import Duration
from kubesched.config.load import load
from kubesched.daemon.flags import Options, parse, usage
from kubesched.daemon.flags.declarations import HistoryFlags, PluginFlags
from kubesched.daemon.flags.gates import FeatureGates, known_gates
from kubesched.daemon.flags.value_types import NamedCertKey

GOLDEN = Path(__file__).with_name("flagz.txt")

VALUES = {
    "config": "/etc/scheduler.yaml",
    "master": "https://10.0.0.1:6443",
    "write-config-to": "/tmp/out.yaml",
    "bind-address": "127.0.0.1",
    "secure-port": "10260",
    "cert-dir": "/certs",
    "tls-cert-file": "/a.crt",
    "tls-private-key-file": "/a.key",
    "tls-cipher-suites": "TLS_AES_128_GCM_SHA256",
    "tls-curve-preferences": "29",
    "tls-min-version": "VersionTLS13",
    "tls-sni-cert-key": "a.crt,a.key:example.com",
    "disable-http2-serving": "true",
    "http2-max-streams-per-connection": "100",
    "permit-address-sharing": "true",
    "permit-port-sharing": "true",
    "authentication-kubeconfig": "/etc/scheduler.conf",
    "authentication-skip-lookup": "true",
    "authentication-token-webhook-cache-ttl": "20s",
    "authentication-tolerate-lookup-failure": "false",
    "client-ca-file": "/ca.crt",
    "requestheader-allowed-names": "front-proxy-client",
    "requestheader-client-ca-file": "/proxy.crt",
    "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    "requestheader-group-headers": "X-Remote-Group",
    "requestheader-uid-headers": "X-Remote-Uid",
    "requestheader-username-headers": "X-Remote-User",
    "authorization-kubeconfig": "/etc/scheduler.conf",
    "authorization-always-allow-paths": "/healthz,/metrics",
    "authorization-webhook-cache-authorized-ttl": "1m",
    "authorization-webhook-cache-unauthorized-ttl": "30s",
    "profiling": "false",
    "contention-profiling": "false",
    "kubeconfig": "/etc/scheduler.conf",
    "kube-api-content-type": "application/json",
    "kube-api-qps": "100",
    "kube-api-burst": "200",
    "pod-max-in-unschedulable-pods-duration": "1m",
    "leader-elect": "false",
    "leader-elect-lease-duration": "30s",
    "leader-elect-renew-deadline": "20s",
    "leader-elect-retry-period": "4s",
    "leader-elect-resource-lock": "leases",
    "leader-elect-resource-name": "second",
    "leader-elect-resource-namespace": "default",
    "feature-gates": "SchedulerAsyncPreemption=false",
    "emulated-version": "1.35",
    "min-compatibility-version": "1.34",
    "allow-metric-labels": "metric,label=a,b",
    "allow-metric-labels-manifest": "/labels.yaml",
    "disabled-metrics": "scheduler_goroutines",
    "show-hidden-metrics-for-version": "1.35",
    "logging-format": "json",
    "v": "5",
    "vmodule": "schedule_one=5",
    "log-flush-frequency": "1s",
    "log-text-split-stream": "false",
    "log-json-split-stream": "false",
    "log-text-info-buffer-size": "0",
    "log-json-info-buffer-size": "0",
    "help": "true",
    "version": "raw",
}
"""Every flag of the reference, with a value for it."""

BARE = {
    "disable-http2-serving",
    "permit-address-sharing",
    "permit-port-sharing",
    "authentication-skip-lookup",
    "authentication-tolerate-lookup-failure",
    "profiling",
    "contention-profiling",
    "leader-elect",
    "log-text-split-stream",
    "log-json-split-stream",
    "help",
    "version",
}
"""Flags that may stand alone, and therefore take no value from the next word."""


OURS = {each.name for section in (PluginFlags, HistoryFlags) for each in section.flags()}


def test_the_table_has_every_flag_of_the_reference_and_some_of_ours() -> None:
    """No flag of kube-scheduler is missing, and only those about plugins and history have been added."""
    known = {flag.name for section in Options().sections() for flag in type(section).flags()}
    assert known == {*VALUES, *OURS}
    assert not OURS & VALUES.keys()


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("separator", ["=", " "])
def test_every_flag_parses_in_both_forms(name: str, separator: str) -> None:
    """--flag=value and --flag value mean the same; a boolean takes a value only after an equals sign."""
    words = [f"--{name}={VALUES[name]}"] if separator == "=" else [f"--{name}", VALUES[name]]
    if name in BARE and separator == " ":
        words = words[:1]
    parsed = parse(words)
    about_others = ("given together", "LoggingAlphaOptions")
    complaints = [each for each in parsed.problems if not any(words in each for words in about_others)]
    assert complaints == []
    assert parsed.options.changed == {name}


def test_values_are_shown_as_pflag_shows_them() -> None:
    """The values of a long command line, defaults included, are letter for letter what kube-scheduler 1.36 logs."""
    words = shlex.split(
        "--master=http://127.0.0.1:1 --secure-port=20259 --bind-address=127.0.0.1 "
        "--authorization-always-allow-paths='/*' --requestheader-allowed-names='\"a,b\",d' "
        "--requestheader-allowed-names c --disabled-metrics=x,y --kube-api-qps=0.5 --allow-metric-labels=m,l=a,b "
        "--feature-gates=ComponentFlagz=true,ComponentStatusz=true --feature-gates=OpportunisticBatching=false "
        "--leader-elect-lease-duration=90m --log-flush-frequency=1500ms --log-text-info-buffer-size=512 "
        "--feature-gates=LoggingAlphaOptions=true --http2-max-streams-per-connection=0x10 "
        "--tls-curve-preferences=23,29 --tls-sni-cert-key=a.crt,a.key:x.com,y.com --tls-sni-cert-key b.crt,b.key "
        "--permit_port_sharing -v=2 --vmodule='a=1,b*=2'"
    )
    parsed = parse(words)
    assert parsed.problems == []
    shown = parsed.options.shown()
    for added in OURS:
        del shown[added]
    assert shown == dict(line.split("=", 1) for line in GOLDEN.read_text().splitlines())


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["--leader-elect"], True),
        (["--leader-elect=false"], False),
        (["--leader-elect=F"], False),
        (["--leader-elect=1"], True),
        (["--leader_elect=0"], False),
        (["--leader-elect=true", "--leader-elect=false"], False),
    ],
)
def test_booleans_are_gos(words: list[str], value: bool) -> None:
    """A boolean stands alone or has one of Go's words for true and false; the last one counts."""
    parsed = parse(words)
    assert parsed.problems == []
    assert parsed.options.leader_election.leader_elect is value


@pytest.mark.parametrize("words", [["-v", "5"], ["-v=5"], ["-v5"], ["--v", "5"], ["--v=5"]])
def test_verbosity_in_all_its_forms(words: list[str]) -> None:
    """-v takes its number in every way that pflag allows for a shorthand."""
    assert parse(words).options.logs.v == 5


def test_shorthands_combine() -> None:
    """-hv5 is -h and -v 5."""
    options = parse(["-hv5"]).options
    assert (options.globals.help, options.logs.v) == (True, 5)


def test_repeated_lists_add_up_and_replace_the_default() -> None:
    """The first --authorization-always-allow-paths replaces the default; the next ones add to it."""
    words = ["--authorization-always-allow-paths=/a,/b", "--authorization-always-allow-paths", "/c"]
    assert parse(words).options.authorization.authorization_always_allow_paths == ("/a", "/b", "/c")


def test_plugins_and_certificates_repeat() -> None:
    """--plugin and --tls-sni-cert-key may be given many times."""
    options = parse(["--plugin=a:B", "--plugin", "c:D", "--tls-sni-cert-key", "a.crt, a.key : *.x.com, x.com"]).options
    assert options.plugins.plugin == ("a:B", "c:D")
    assert options.serving.tls_sni_cert_key == (NamedCertKey("a.crt", "a.key", ("*.x.com", "x.com")),)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("--secure-prot=1", "unknown flag: --secure-prot; did you mean --secure-port?"),
        ("--xyzzy", "unknown flag: --xyzzy; see --help"),
        ("--config", "flag needs an argument: --config"),
        ("-v", "flag needs an argument: -v"),
        ("-x", "unknown shorthand flag: 'x' in -x"),
        ("-config=a", "unknown shorthand flag: 'c' in -config=a; did you mean --config=a?"),
        ("---v", "bad flag syntax: ---v"),
        ("--secure-port=many", 'invalid argument "many" for "--secure-port" flag: "many" is not an integer'),
        (
            "--leader-elect=maybe",
            'invalid argument "maybe" for "--leader-elect" flag: "maybe" is neither true nor false',
        ),
        ("--secure-port=70000", "--secure-port 70000 must be between 0 and 65535, inclusive. 0 for turning off secure"),
        ("--tls-cert-file=a", "--tls-cert-file and --tls-private-key-file must be given together"),
        ("--bind-address=here", 'invalid argument "here" for "--bind-address" flag: failed to parse IP: "here"'),
        ("--kube-api-burst=3000000000", "3000000000 does not fit into 32 bits"),
        ("--tls-sni-cert-key=a", "expected comma separated certificate and key file paths"),
        ("--tls-sni-cert-key=a,b:", "empty names list is not allowed"),
        ("--allow-metric-labels=x", "x must be formatted as key=value"),
        ("--allow-metric-labels=x=y", '--allow-metric-labels: "x" must be <metric name>,<label name>'),
        ("--disabled-metrics=a b", '--disabled-metrics: "a b" is not a fully qualified metric name'),
        (
            "--show-hidden-metrics-for-version=1.20",
            "--show-hidden-metrics-for-version: 1.20: must be omitted or have the value '1.35'",
        ),
        ("--emulated-version=1.20", "--emulated-version: 1.20 is not in the range 1.33 to 1.36"),
        ("--emulated-version=wardle=1.35", "--emulated-version: component not registered: wardle"),
        ("--requestheader-group-headers=a,,b", 'empty value in "requestheader-group-headers"'),
        ("--requestheader-uid-headers=X-Uid", "--requestheader-uid-headers is set without specifying the standard"),
        ("--authorization-always-allow-paths=/a*b", 'only trailing * allowed in "/a*b"'),
        ("--logging-format=xml", 'format: Invalid value: "xml": Unsupported log format'),
        ("--log-text-split-stream", "Feature LoggingAlphaOptions is disabled"),
        ("--decision-history=-1", "--decision-history -1 must be at least 0"),
        ("--decision-history-bytes=1k", "--decision-history-bytes 1000 must be at least 1048576"),
        ("extra", "it does not take any arguments, got extra"),
    ],
)
def test_mistakes_are_named(word: str, problem: str) -> None:
    """Whatever is wrong with a flag is said, with what to do where that is clear."""
    (found,) = parse([word]).problems
    assert problem in found


def test_uid_headers_need_their_gate() -> None:
    """With RemoteRequestHeaderUID off, the flag for UID headers is refused."""
    words = ["--requestheader-uid-headers=X-Remote-Uid"]
    assert not parse(words).problems
    (problem,) = parse([*words, "--feature-gates=RemoteRequestHeaderUID=false"]).problems
    assert problem == '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled'


def test_all_mistakes_are_reported_together() -> None:
    """A command line with several mistakes is not refused one mistake at a time."""
    problems = parse(["--bogus", "value", "--secure-port=x", "--v=-1", "word"]).problems
    assert [each.split(";")[0].split(" for ")[0] for each in problems] == [
        "unknown flag: --bogus",
        'invalid argument "x"',
        'invalid argument "-1"',
        "it does not take any arguments, got word",
    ]


def test_two_dashes_end_the_flags() -> None:
    """After -- everything is an argument, of which there must be none."""
    assert parse(["--", "--v=5"]).problems == ["it does not take any arguments, got --v=5"]


@pytest.mark.parametrize(
    ("words", "warning"),
    [
        (["--http2-max-streams-per-connection=5"], "HTTP/2 is not served"),
        (["--kube-api-content-type=application/json"], "requests are always JSON"),
        (["--contention-profiling"], "one thread schedules, so there is no contention"),
        (["--show-hidden-metrics-for-version=1.35"], "no metric is hidden"),
        (["--emulated-version=kube=1.35"], "kubesched behaves as Kubernetes 1.36"),
        (["--min-compatibility-version=1.35"], "nothing here depends on it"),
        (
            ["--config=a.yaml", "--kubeconfig=b"],
            "--kubeconfig has no effect: the configuration file a.yaml takes",
        ),
        (["--feature-gates=DRAPrioritizedList=true"], "setting GA feature gate DRAPrioritizedList"),
    ],
)
def test_flags_without_effect_say_so(words: list[str], warning: str) -> None:
    """A flag that is accepted and does nothing is answered with the reason."""
    parsed = parse(words)
    assert parsed.problems == []
    (found,) = parsed.options.warnings()
    assert warning in found


@pytest.mark.parametrize(
    "words",
    [
        ["--kubeconfig=a", "--leader-elect", "--v=5"],
        ["--config=a.yaml", "--pod-max-in-unschedulable-pods-duration=1m"],
        ["--emulated-version=1.36", "--disable-http2-serving", "--feature-gates=KubeletPSI=false"],
    ],
)
def test_flags_with_effect_are_silent(words: list[str]) -> None:
    """There is no warning about what works, nor about gates that mean nothing to any scheduler."""
    assert list(parse(words).options.warnings()) == []


# --- feature gates ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("Foo=true", "unrecognized feature gate: Foo"),
        ("GangScheduler=true", "unrecognized feature gate: GangScheduler; did you mean GangScheduling"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to",
        ),
        ("GangScheduling", "missing bool value for GangScheduling"),
        ("StorageCapacityScoring=perhaps", "invalid value of StorageCapacityScoring=perhaps, err: "),
        ("wardle:Foo=true", "component not registered: wardle"),
        (
            "GangScheduling=true",
            "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
        ),
    ],
)
def test_gates_that_cannot_be_set(given: str, problem: str) -> None:
    """Unknown, locked, malformed and unsupported settings of gates are refused in upstream's words."""
    (found,) = FeatureGates.of([given]).problems
    assert found.startswith(problem)


def test_a_gate_turned_off_takes_with_it_those_that_need_it() -> None:
    """As upstream: turning off what others need, while they are on, is refused for each of them."""
    problems = FeatureGates.of(["NodeDeclaredFeatures=false"]).problems
    assert {each.split()[0] for each in problems} == {
        "RestartAllContainersOnContainerExits",
        "InPlacePodLevelResourcesVerticalScaling",
        "ExtendWebSocketsToKubelet",
        "InPlacePodVerticalScalingInitContainers",
    }


def test_gates_by_group_and_prefix() -> None:
    """AllAlpha moves the alpha gates, a gate's own setting goes before it, and kube: may stand before names."""
    gates = FeatureGates.of(["kube:AllAlpha=true", "kube:VolumeLimitScaling=false"])
    assert gates.problems == []
    assert gates.enabled("StorageCapacityScoring")
    assert not gates.enabled("VolumeLimitScaling")
    assert gates.enabled("SchedulerQueueingHints")
    mixed = FeatureGates.of(["kube:ComponentFlagz=true", "ComponentStatusz=true"])
    assert mixed.problems == [
        "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use"
    ]


def test_a_locked_gate_may_be_set_to_what_it_is() -> None:
    """Old manifests that turn on what can no longer be turned off keep working."""
    assert FeatureGates.of(["SidecarContainers=true"]).problems == []


# --- other pages ------------------------------------------------------------------------------------------------------


def test_the_help_has_upstreams_sections_and_every_flag() -> None:
    """--help is grouped as kube-scheduler's, and every flag is in it with its default."""
    text = usage("kubesched run", width=100)
    sections = [line.removesuffix(" flags:") for line in text.splitlines() if line.endswith(" flags:")]
    assert [each for each in sections if each not in ("Plugin", "Decision history")] == [
        "Misc",
        "Secure serving",
        "Authentication",
        "Authorization",
        "Deprecated",
        "Leader election",
        "Feature gate",
        "Metrics",
        "Logs",
        "Global",
    ]
    assert all(f"--{name}" in text for name in VALUES)
    assert "-v, --v Level" in text
    assert "(default 10259)" in text
    assert all(
        len(line) <= 100 for line in text.partition("Misc flags:")[2].splitlines() if "feature-gates" not in line
    )


def test_the_introduction_fits_the_terminal() -> None:
    """Its paragraphs are as wide as the terminal; commands and files in it stay in one piece."""
    text = usage("kubesched run", width=60).partition("Usage:")[0]
    assert max(len(line) for line in text.splitlines() if not line.startswith(" ")) <= 60
    assert "  profiles: [{schedulerName: kubesched}]\n\nTo replace kube-scheduler" in text


def test_the_configuration_in_the_help_works() -> None:
    """What the help tells to try is a scheduler under its own name, with a lease of its own."""
    text = usage().split("second.yaml:\n\n")[1].split("\n\n")[0]
    config = load(yaml.safe_load(text), "the help").config
    assert [profile.scheduler_name for profile in config.profiles] == ["kubesched"]
    assert config.leader_election.resource_name == "kubesched"


def test_logging_flags_of_the_chosen_format_count() -> None:
    """Text and JSON have their own stream options; those of the format in use are taken."""
    words = ["--logging-format=json", "--log-json-split-stream", "--log-json-info-buffer-size=1Ki", "-v=3"]
    options = parse([*words, "--feature-gates=LoggingAlphaOptions=true"]).options
    logging = options.logging()
    assert (logging.format, logging.split_stream, logging.info_buffer_size) == ("json", True, 1024)
    assert logging.problems() == []
    assert options.logs.log_flush_frequency == Duration.of(5)


def test_the_manifest_of_labels_gives_way_to_the_flag(tmp_path: Path) -> None:
    """What both say about a label is taken from the flag; a manifest without the list is refused."""
    manifest = tmp_path / "labels.yaml"
    manifest.write_text('allowListMapping:\n  "m,l": "a"\n  "m,k": "b"\n')
    words = [f"--allow-metric-labels-manifest={manifest}", "--allow-metric-labels=m,l=c,d"]
    assert parse(words).options.allowed_labels() == {"m,l": "c,d", "m,k": "b"}
    manifest.write_text("nothing: here\n")
    with pytest.raises(ValueError, match="has no object allowListMapping"):
        parse(words).options.allowed_labels()


def test_the_page_of_gates() -> None:
    """The page has upstream's defaults, and a test that exists for each gate."""
    root = Path(__file__).parents[2]
    lines = (root / "docs/reference/feature-gates.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    gates = {row[0]: (row[1], row[3]) for row in rows if row[0] in known_gates()}
    for name, (default, tested) in gates.items():
        assert (default == "on") == known_gates()[name].default, name
        assert all((root / each.strip()).exists() for each in tested.split(",")), name
