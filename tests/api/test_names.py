"""Label keys and values: what is valid, and upstream's exact messages for the rest."""

import pytest

from kubesched.api.names import label_key_errors, label_value_errors


@pytest.mark.parametrize(
    "key", ["a", "A1", "app", "my.name", "a-b_c.d", "example.com/app", "a.b-c/x", "x" * 63, "d" * 253 + "/x"]
)
def test_valid_keys(key: str) -> None:
    """A name of up to 63 characters, with an optional subdomain in front, is a key."""
    assert label_key_errors(key) == ()


@pytest.mark.parametrize("value", ["", "a", "1", "a.b_c-d", "x" * 63])
def test_valid_values(value: str) -> None:
    """A value is empty or a name."""
    assert label_value_errors(value) == ()


NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', "
    "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
PREFIX_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', "
    r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
OPTIONAL_PREFIX = "an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


@pytest.mark.parametrize(
    ("key", "errors"),
    [
        ("", ("name part must be non-empty", f"name part {NAME_RULE}")),
        ("-a", (f"name part {NAME_RULE}",)),
        ("a\n", (f"name part {NAME_RULE}",)),
        ("x" * 64, ("name part must be no more than 63 bytes",)),
        ("é" * 32, ("name part must be no more than 63 bytes", f"name part {NAME_RULE}")),
        ("/a", ("prefix part must be non-empty",)),
        ("Up.com/a", (f"prefix part {PREFIX_RULE}",)),
        ("d" * 254 + "/a", ("prefix part must be no more than 253 bytes",)),
        ("a/", ("name part must be non-empty", f"name part {NAME_RULE}")),
        ("a/b/c", (f"a valid label key {NAME_RULE} with {OPTIONAL_PREFIX}",)),
    ],
)
def test_invalid_keys(key: str, errors: tuple[str, ...]) -> None:
    """Each fault of a key is reported, in upstream's order and with its messages."""
    assert label_key_errors(key) == errors


@pytest.mark.parametrize("value", ["-a", "a-", "a b", "é", "a\n"])
def test_invalid_values(value: str) -> None:
    """A value that is no name is refused with the rule it breaks."""
    assert label_value_errors(value) == (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
        "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    )


def test_a_value_that_is_too_long() -> None:
    """A value has at most 63 bytes."""
    assert label_value_errors("x" * 64) == ("must be no more than 63 bytes",)
