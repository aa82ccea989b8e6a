"""Writing a configuration back."""

from pathlib import Path

import pytest
import yaml
from tests.config.support import load_plugins, load_profile, load_v1, names

from kubesched.config.dump import to_builtins, to_yaml
from kubesched.config.load import default, load

REFERENCE = Path(__file__).parent / "default-configuration.yaml"


def test_the_default_is_kube_schedulers_letter_for_letter() -> None:
    """What a scheduler without a file writes equals what kube-scheduler 1.36 writes."""
    assert to_yaml(default()) == REFERENCE.read_text()


def test_what_is_written_loads_and_is_written_alike() -> None:
    """A written configuration is a configuration file with the same meaning."""
    assert to_yaml(load(to_yaml(default())).config) == REFERENCE.read_text()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("true", '"true"'),
        ("y", '"y"'),
        ("12", '"12"'),
        ("1e3", '"1e3"'),
        ("1:30", '"1:30"'),
        ("2020-01-01", '"2020-01-01"'),
        ("*", "'*'"),
        ("a: b", "'a: b'"),
        ("ü", "ü"),
        ("a\nb", "|-\n    a\n    b"),
        ("word " * 40 + "end", "word " * 40 + "end"),
    ],
)
def test_strings_are_quoted_as_go_quotes_them(text: str, written: str) -> None:
    """Double quotes around what would be read as something else, single ones where YAML needs them."""
    text_written = to_yaml(load_v1(clientConnection={"kubeconfig": text}).config)
    assert f"  kubeconfig: {written}\n" in text_written
    assert yaml.safe_load(text_written)["clientConnection"]["kubeconfig"] == text


def test_extenders_leave_out_what_is_empty() -> None:
    """An extender shows only what is set, its bytes in base64 and its timeout as a duration."""
    extender = {
        "urlPrefix": "http://x",
        "filterVerb": "f",
        "weight": 0,
        "tlsConfig": {"insecure": False, "certData": "YWJj"},
        "managedResources": [{"name": "a.com/b", "ignoredByScheduler": False}],
    }
    assert to_builtins(load_v1(extenders=[extender], delayCacheUntilActive=True).config) | {"profiles": ()} == {
        **to_builtins(default()),
        "profiles": (),
        "delayCacheUntilActive": True,
        "extenders": [
            {
                "urlPrefix": "http://x",
                "filterVerb": "f",
                "tlsConfig": {"certData": "YWJj"},
                "httpTimeout": "5s",
                "managedResources": [{"name": "a.com/b"}],
            }
        ],
    }


def test_written_arguments_are_those_of_enabled_plugins_by_name() -> None:
    """The file that is written leaves out the arguments of what does not run; configz shows them all."""
    config = load_profile(
        plugins={"multiPoint": {"disabled": names("VolumeBinding")}},
        pluginConfig=[{"name": "VolumeBinding"}, {"name": "PodTopologySpread"}, {"name": "Own", "args": {"b": [1]}}],
    ).config
    written = [each["name"] for each in yaml.safe_load(to_yaml(config))["profiles"][0]["pluginConfig"]]
    assert written == sorted(written)
    assert not {"VolumeBinding", "Own"} & set(written)
    shown = to_builtins(config)["profiles"]
    assert isinstance(shown, list)
    assert [each["name"] for each in shown[0]["pluginConfig"][:3]] == ["VolumeBinding", "PodTopologySpread", "Own"]
    assert shown[0]["pluginConfig"][2]["args"] == {"b": [1]}


def test_fractions_stay_and_whole_numbers_lose_their_point() -> None:
    """Go writes 50 for the float 50.0."""
    assert "qps: 0.5\n" in to_yaml(load_v1(clientConnection={"qps": 0.5}).config)
    assert "qps: 7\n" in to_yaml(load_v1(clientConnection={"qps": 7.0}).config)


def test_disabled_plugins_are_written() -> None:
    """What a file disables is still there, with the weight that has no meaning, as kube-scheduler writes it."""
    assert "    score:\n      disabled:\n      - name: '*'\n        weight: 0\n" in to_yaml(
        load_plugins(score={"disabled": [{"name": "*", "weight": 5}]}).config
    )
