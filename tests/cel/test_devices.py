"""Selectors of devices: what they see, what they return, and how they fail."""

from collections.abc import Mapping

import pytest

from kubesched.cel import CELError, CostLimitError, EvaluationError, Program
from kubesched.cel.devices import DeviceSelectorError, DeviceShape, Version, compile_device_selector

GPU = DeviceShape(
    "gpu.example.com",
    {
        "model": "a100",
        "index": 3,
        "ecc": True,
        "driverVersion": Version("1.2.0"),
        "example.org/rack": "r0",
    },
    {"memory": "40Gi", "example.org/slots": "7"},
    allow_multiple_allocations=True,
)

RESULTS = [
    ('device.driver == "gpu.example.com"', True),
    ('device.driver == "nic.example.com"', False),
    ('device.attributes["gpu.example.com"].model == "a100"', True),
    ('device.attributes["gpu.example.com"].ecc', True),
    ('!device.attributes["gpu.example.com"].ecc', False),
    ('device.attributes["example.org"].rack == "r0"', True),
    ('device.attributes["gpu.example.com"].model in ["a100", "h100"]', True),
    ('device.attributes["gpu.example.com"].model.matches("^[ah]1")', True),
    ('device.attributes["gpu.example.com"].model.lowerAscii() != "l4"', True),
    ('device.attributes["gpu.example.com"].driverVersion.compareTo(semver("2.0.0")) < 0', True),
    ('device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("1.2.0"))', False),
    ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
    ('device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))', False),
    ('device.capacity["example.org"].slots.asInteger() == 7', True),
    ("device.allowMultipleAllocations", True),
    (
        'has(device.attributes["gpu.example.com"].pcie) ? device.attributes["gpu.example.com"].pcie == "x" : false',
        False,
    ),
    ('"pcie" in device.attributes["gpu.example.com"]', False),
    # A domain without attributes reads as an empty map, but the map of domains does not contain it.
    ('"nothing.example.com" in device.attributes', False),
    ('size(device.attributes["nothing.example.com"]) == 0', True),
    ('has(device.attributes["nothing.example.com"].model)', False),
    ('cel.bind(gpu, device.attributes["gpu.example.com"], gpu.ecc && gpu.index == 3)', True),
    ('device.attributes["gpu.example.com"].?pcie.orValue("none") == "none"', True),
    ('device.attributes["gpu.example.com"].pcie == "x" || device.driver == "gpu.example.com"', True),
]


@pytest.mark.parametrize(("expression", "expected"), RESULTS)
def test_results(expression: str, expected: bool) -> None:
    """A selector returns what kube-scheduler 1.36 returns for this device."""
    assert compile_device_selector(expression).matches(GPU) is expected


EVALUATION_ERRORS = [
    ('device.attributes["gpu.example.com"].pcie == "x"', "no such key: pcie"),
    ('device.attributes["nothing.example.com"].model == "x"', "no such key: model"),
    ('device.attributes["gpu.example.com"].model + 1 == 1', "no such overload"),
    ('device.attributes["gpu.example.com"].index / 0 == 1', "division by zero"),
    (
        'device.attributes["gpu.example.com"].index',
        "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
    ),
]


@pytest.mark.parametrize(("expression", "message"), EVALUATION_ERRORS)
def test_evaluation_errors(expression: str, message: str) -> None:
    """A selector fails with cel-go's words, and fails the same way when it is asked again."""
    selector = compile_device_selector(expression)
    for _ in range(2):
        with pytest.raises(EvaluationError) as caught:
            selector.matches(GPU)
        assert str(caught.value) == message


COMPILE_ERRORS = [
    ('int("a") == 1', "program instantiation failed: type conversion error from 'string' to 'int'"),
    (
        "device.foo",
        "compilation failed: ERROR: <input>:1:7: undefined field 'foo'\n | device.foo\n | ......^",
    ),
    (
        "device.driver",
        "must evaluate to bool or the unknown type, not string",
    ),
    (
        "size(1) == 1",
        "compilation failed: ERROR: <input>:1:5: found no matching overload for 'size' applied to '(int)'\n"
        " | size(1) == 1\n | ....^",
    ),
]


@pytest.mark.parametrize(("expression", "message"), COMPILE_ERRORS)
def test_compile_errors(expression: str, message: str) -> None:
    """A bad selector is rejected with the API server's message."""
    with pytest.raises(DeviceSelectorError) as caught:
        compile_device_selector(expression)
    assert str(caught.value) == message


def test_a_bool_and_an_int_are_different_shapes() -> None:
    """Results are cached by shape, and 1 must not be taken for true."""
    selector = compile_device_selector('device.attributes["d"].value')
    assert selector.matches(DeviceShape("d", {"value": True}, {}))
    with pytest.raises(EvaluationError):
        selector.matches(DeviceShape("d", {"value": 1}, {}))


def test_equal_shapes_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second device of a shape costs a lookup, not an evaluation."""
    selector = compile_device_selector('device.driver == "once.example.com"')
    calls: list[object] = []
    run = Program.__call__

    def counted(self: Program, variables: Mapping[str, object]) -> object:
        calls.append(variables)
        return run(self, variables)

    monkeypatch.setattr(Program, "__call__", counted)
    for _ in range(3):
        assert selector.matches(DeviceShape("once.example.com", {"a": 1}, {"memory": "1Gi"}))
    assert len(calls) == 1


def test_the_cost_limit_ends_an_evaluation() -> None:
    """An expression that runs up more than a million units of cost is cancelled."""
    numbers = "[" + ",".join("1" for _ in range(100)) + "]"
    loops = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c > 0)))"
    selector = compile_device_selector(f"{loops} && device.allowMultipleAllocations")
    with pytest.raises(CostLimitError, match="actual cost limit exceeded"):
        selector.matches(GPU)


def test_a_malformed_version_is_named() -> None:
    """A version that is no semantic version is an error that names the attribute."""
    with pytest.raises(CELError, match=r"attribute v: parse semantic version: No Major\.Minor\.Patch elements found"):
        compile_device_selector("device.allowMultipleAllocations").matches(DeviceShape("d", {"v": Version("1")}, {}))


def test_lists_are_behind_a_gate() -> None:
    """List attributes and, in new selectors, includes() exist only with DRAListTypeAttributes."""
    shape = DeviceShape("d", {"names": ("a", "b"), "one": "a"}, {})
    with pytest.raises(EvaluationError, match="attribute names: unsupported attribute value"):
        compile_device_selector("true").matches(shape)
    with pytest.raises(DeviceSelectorError, match="undeclared reference to 'includes'"):
        compile_device_selector('device.attributes["d"].names.includes("a")', stored=False)
    assert compile_device_selector('device.attributes["d"].one.includes("a")').matches(
        DeviceShape("d", {"one": "a"}, {})
    )
    for expression, expected in (
        ('device.attributes["d"].names.includes("b")', True),
        ('device.attributes["d"].names.includes("c")', False),
        ('device.attributes["d"].one.includes("a")', True),
        ('device.attributes["d"].names.exists(name, name == "b")', True),
    ):
        assert compile_device_selector(expression, list_attributes=True).matches(shape) is expected


def test_multiple_allocations_are_behind_a_gate() -> None:
    """Without DRAConsumableCapacity a new selector cannot use the field; a stored one still can."""
    assert compile_device_selector("device.allowMultipleAllocations", consumable_capacity=False).matches(GPU)
    with pytest.raises(DeviceSelectorError, match="undefined field 'allowMultipleAllocations'"):
        compile_device_selector("device.allowMultipleAllocations", consumable_capacity=False, stored=False)
