"""Label and node selectors: matching against a plain model, equality by value, and upstream's treatment of bad ones."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import objects
from kubesched.api.objects import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelectorRequirement,
    Pod,
    PodSpec,
)
from kubesched.api.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    NOTHING,
    CompiledNodeTerm,
    Requirement,
    Selector,
    SelectorError,
    equals,
    label_selector,
    node_selector,
    preferred_terms,
    required_node_affinity,
    selector_from_map,
    strict_node_selector,
    with_requirements,
)

KEYS = ["app", "tier", "example.com/zone"]
VALUES = ["", "a", "b", "7"]

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
some_values = st.lists(st.sampled_from(VALUES), min_size=1, max_size=3).map(tuple)
expressions = st.one_of(
    st.builds(LabelSelectorRequirement, st.sampled_from(KEYS), st.sampled_from([IN, NOT_IN]), some_values),
    st.builds(LabelSelectorRequirement, st.sampled_from(KEYS), st.sampled_from([EXISTS, DOES_NOT_EXIST])),
)
label_selectors = st.builds(
    LabelSelector, match_labels=labels, match_expressions=st.lists(expressions, max_size=3).map(tuple)
)


def naive(selector: LabelSelector, candidate: Mapping[str, str]) -> bool:
    """A label selector's meaning, spelled out."""
    if any(candidate.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for expression in selector.match_expressions:
        present = expression.key in candidate
        listed = present and candidate[expression.key] in expression.values
        held = {IN: listed, NOT_IN: not listed, EXISTS: present, DOES_NOT_EXIST: not present}[expression.operator]
        if not held:
            return False
    return True


# --- label selectors --------------------------------------------------------------------------------------------------


@given(label_selectors, labels)
def test_a_compiled_selector_means_what_was_written(selector: LabelSelector, candidate: dict[str, str]) -> None:
    """Compiling changes the form of a selector and never what it selects."""
    assert label_selector(selector).matches(candidate) is naive(selector, candidate)


@given(label_selectors)
def test_order_and_repetition_do_not_matter(selector: LabelSelector) -> None:
    """Two spellings of one selector are equal and have one hash, so that they can share what is computed for them."""
    again = LabelSelector(
        match_labels=dict(reversed(selector.match_labels.items())),
        match_expressions=tuple(
            LabelSelectorRequirement(e.key, e.operator, e.values[::-1] + e.values)
            for e in reversed(selector.match_expressions + selector.match_expressions)
        ),
    )
    one, other = label_selector(selector), label_selector(again)
    assert one == other
    assert hash(one) == hash(other)


def test_a_label_equals_a_set_of_one() -> None:
    """``app: a`` and ``app in (a)`` are the same selector."""
    by_expression = LabelSelector(match_expressions=(LabelSelectorRequirement("app", IN, ("a",)),))
    assert label_selector(LabelSelector(match_labels={"app": "a"})) == label_selector(by_expression)


def test_an_absent_selector_selects_nothing() -> None:
    """No selector at all matches no object, not even one without labels."""
    selector = label_selector(None)
    assert selector == NOTHING
    assert not selector.matches({})
    assert not selector.is_empty


def test_an_empty_selector_selects_everything() -> None:
    """A selector without requirements matches any object and is empty."""
    selector = label_selector(LabelSelector())
    assert selector == EVERYTHING
    assert selector.matches({})
    assert selector.matches({"a": "b"})
    assert selector.is_empty


def test_everything_and_nothing_are_different_keys() -> None:
    """The two selectors without requirements are distinct values."""
    assert len({EVERYTHING, NOTHING}) == 2


BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("key", "operator", "values", "message"),
    [
        ("app", "Foo", ("a",), '"Foo" is not a valid label selector operator'),
        ("app", "", (), '"" is not a valid label selector operator'),
        ("app", "Gt", ("1",), '"Gt" is not a valid label selector operator'),
        ("app", "In", (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        ("app", "NotIn", (), "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"),
        (
            "app",
            "Exists",
            ("a",),
            'values: Invalid value: ["a"]: values set must be empty for exists and does not exist',
        ),
        ("app", "In", ("a", "b c"), f'values[1][app]: Invalid value: "b c": {BAD_VALUE}'),
        ("/app", "Exists", (), 'key: Invalid value: "/app": prefix part must be non-empty'),
        (
            "/app",
            "In",
            ("b c",),
            '[key: Invalid value: "/app": prefix part must be non-empty, '
            f'values[0][/app]: Invalid value: "b c": {BAD_VALUE}]',
        ),
    ],
)
def test_an_invalid_expression_is_refused(key: str, operator: str, values: tuple[str, ...], message: str) -> None:
    """A bad expression spoils the selector, with upstream's text."""
    selector = LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),))
    with pytest.raises(SelectorError) as caught:
        label_selector(selector)
    assert str(caught.value) == message


def test_an_invalid_label_is_refused() -> None:
    """matchLabels are checked like expressions."""
    with pytest.raises(SelectorError, match=r'^values\[0\]\[app\]: Invalid value: "b c": '):
        label_selector(LabelSelector(match_labels={"app": "b c"}))


@given(labels, labels)
def test_a_map_selects_what_has_all_of_it(wanted: dict[str, str], candidate: dict[str, str]) -> None:
    """A selector made of labels matches every superset of them."""
    assert selector_from_map(wanted).matches(candidate) is (wanted.items() <= candidate.items())


def test_a_map_is_taken_as_it_comes() -> None:
    """A pod's nodeSelector is not validated by upstream; a bad one just matches literally."""
    assert selector_from_map({"no key": "no value!"}).matches({"no key": "no value!"})


@given(label_selectors, labels, labels)
def test_further_requirements_narrow(selector: LabelSelector, extra: dict[str, str], candidate: dict[str, str]) -> None:
    """A selector with more requirements matches what both match."""
    compiled = label_selector(selector)
    narrowed = with_requirements(compiled, [equals(key, value) for key, value in extra.items()])
    assert narrowed.matches(candidate) is (compiled.matches(candidate) and extra.items() <= candidate.items())


def test_nothing_cannot_be_narrowed() -> None:
    """More requirements on the selector of nothing still select nothing."""
    assert with_requirements(NOTHING, [equals("a", "b")]) == NOTHING


def test_without_further_requirements_a_selector_stays_equal() -> None:
    """Adding nothing makes no new selector."""
    selector = Selector((equals("a", "b"),))
    assert with_requirements(selector, []) == selector


# --- requirements -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        (GT, "5", "6", True),
        (GT, "5", "5", False),
        (LT, "5", "4", True),
        (LT, "5", "5", False),
        (GT, "5", "007", True),
        (GT, "5", "+6", True),
        (LT, "5", "-6", True),
        (GT, "5", None, False),
        (LT, "5", None, False),
        (GT, "5", "", False),
        (GT, "5", "6.5", False),
        (GT, "5", "1_0", False),
        (GT, "5", "six", False),
        (GT, "5", "9223372036854775807", True),
        (GT, "5", "9223372036854775808", False),
    ],
)
def test_numbers_are_compared_as_64_bit_integers(operator: str, bound: str, value: str | None, expected: bool) -> None:
    """A label that is no such number satisfies no comparison."""
    assert Requirement("cores", operator, frozenset((bound,))).matches_value(value) is expected


@pytest.mark.parametrize(
    ("operator", "expected"),
    [(IN, False), (NOT_IN, True), (EXISTS, False), (DOES_NOT_EXIST, True)],
)
def test_an_absent_label(operator: str, expected: bool) -> None:
    """NotIn and DoesNotExist accept an object without the label."""
    values = frozenset(("a",)) if operator in (IN, NOT_IN) else frozenset[str]()
    assert Requirement("app", operator, values).matches_value(None) is expected


def test_an_empty_value_is_a_value() -> None:
    """A label with an empty value is there."""
    assert Requirement("app", EXISTS).matches_value("")
    assert Requirement("app", IN, frozenset(("",))).matches_value("")
    assert not Requirement("app", DOES_NOT_EXIST).matches_value("")


# --- node selectors ---------------------------------------------------------------------------------------------------


def expression(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key, operator, values)


def term(
    *wanted: NodeSelectorRequirement, fields: tuple[NodeSelectorRequirement, ...] = ()
) -> objects.NodeSelectorTerm:
    return objects.NodeSelectorTerm(match_expressions=wanted, match_fields=fields)


def on_name(operator: str, *values: str) -> NodeSelectorRequirement:
    return expression("metadata.name", operator, *values)


def selector_of(*terms: objects.NodeSelectorTerm) -> objects.NodeSelector:
    return objects.NodeSelector(terms)


def test_terms_are_alternatives_and_their_parts_are_not() -> None:
    """One matching term is enough, but all of its requirements must hold."""
    selector = node_selector(
        selector_of(
            term(expression("zone", IN, "a"), expression("disk", IN, "ssd")),
            term(expression("zone", IN, "b")),
        )
    )
    assert selector.matches({"zone": "a", "disk": "ssd"}, "n")
    assert selector.matches({"zone": "b"}, "n")
    assert not selector.matches({"zone": "a"}, "n")


def test_an_empty_term_matches_nothing() -> None:
    """Neither a selector without terms nor a term without content matches a node."""
    assert not node_selector(selector_of()).matches({}, "n")
    assert not node_selector(selector_of(term())).matches({}, "n")
    assert node_selector(selector_of(term())).error == ""


def test_fields_and_labels_must_both_hold() -> None:
    """A term may name the node and ask for labels, and then wants both."""
    selector = node_selector(selector_of(term(expression("zone", IN, "a"), fields=(on_name(IN, "n1"),))))
    assert selector.matches({"zone": "a"}, "n1")
    assert not selector.matches({"zone": "a"}, "n2")
    assert not selector.matches({"zone": "b"}, "n1")


@pytest.mark.parametrize(
    ("requirement", "matching"),
    [
        (on_name(IN, "n1"), {"n1", ""}),
        (on_name(NOT_IN, "n1"), {"n2", ""}),
        (expression("metadata.uid", IN, "n1"), {""}),
        (expression("metadata.uid", NOT_IN, "n1"), {"n1", "n2", ""}),
        (expression("metadata.uid", IN, ""), {"n1", "n2", ""}),
    ],
)
def test_the_name_is_the_only_field(requirement: NodeSelectorRequirement, matching: set[str]) -> None:
    """Any other field is empty, and fields of a node without a name are not checked."""
    selector = node_selector(selector_of(term(fields=(requirement,))))
    assert {name for name in ("n1", "n2", "") if selector.matches({}, name)} == matching


def test_a_term_that_does_not_parse_leaves_the_others() -> None:
    """An invalid term matches no node, the valid ones match as usual, and the error is available to the caller."""
    selector = node_selector(selector_of(term(expression("zone", "Foo", "a")), term(expression("zone", IN, "b"))))
    assert selector.matches({"zone": "b"}, "n")
    assert not selector.matches({"zone": "a"}, "n")
    assert selector.error == (
        'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Foo": '
        'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            term(expression("a", GT, "x")),
            'nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            term(expression("a", LT)),
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: "
            "for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            term(expression("a", LT, "1", "2")),
            'nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: ["1","2"]: '
            "for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            term(expression("/a", IN)),
            '[nodeSelectorTerms[0].matchExpressions[0].key: Invalid value: "/a": prefix part must be non-empty, '
            "nodeSelectorTerms[0].matchExpressions[0].values: Invalid value: null: "
            "for 'in', 'notin' operators, values set can't be empty]",
        ),
        (
            term(fields=(on_name(IN, "n1", "n2"),)),
            'nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["n1","n2"]: must have one element',
        ),
        (
            term(fields=(on_name(EXISTS),)),
            'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": '
            'supported values: "In", "NotIn"',
        ),
    ],
)
def test_invalid_node_selectors(bad: objects.NodeSelectorTerm, message: str) -> None:
    """Errors have upstream's text and match nothing; a configuration with one is rejected."""
    selector = node_selector(selector_of(bad))
    assert selector.error == message
    assert selector.terms == ()
    with pytest.raises(SelectorError) as caught:
        strict_node_selector(selector_of(bad))
    assert str(caught.value) == message


def test_negative_bounds_are_no_label_values() -> None:
    """Upstream checks the bound of a comparison as a label value too, so it cannot have a sign."""
    error = node_selector(selector_of(term(expression("a", GT, "-1")))).error
    assert error == f'nodeSelectorTerms[0].matchExpressions[0].values[0][a]: Invalid value: "-1": {BAD_VALUE}'


def test_a_strict_selector_that_parses() -> None:
    """Configuration that parses gives the same selector as a pod's."""
    written = selector_of(term(expression("zone", IN, "a")))
    assert strict_node_selector(written) == node_selector(written)


def test_equal_terms_in_any_order_of_requirements() -> None:
    """Requirements are sorted within a term, so equal terms are equal values."""
    one = node_selector(selector_of(term(expression("a", EXISTS), expression("b", IN, "x", "y"))))
    other = node_selector(selector_of(term(expression("b", IN, "y", "x"), expression("a", EXISTS))))
    assert one == other
    assert hash(one) == hash(other)
    assert one.terms == (CompiledNodeTerm((Requirement("a", EXISTS), Requirement("b", IN, frozenset(("x", "y"))))),)


# --- preferred terms --------------------------------------------------------------------------------------------------


def preferred(weight: int, preference: objects.NodeSelectorTerm) -> objects.PreferredSchedulingTerm:
    return objects.PreferredSchedulingTerm(weight, preference)


def test_a_score_is_the_sum_of_matching_weights() -> None:
    """Each matching term adds its weight, and an empty term matches nothing."""
    terms = preferred_terms(
        [
            preferred(5, term(expression("zone", IN, "a"))),
            preferred(3, term(expression("disk", EXISTS))),
            preferred(1, term(fields=(on_name(IN, "n1"),))),
            preferred(100, term()),
        ]
    )
    assert terms.score({"zone": "a", "disk": "ssd"}, "n1") == 9
    assert terms.score({"zone": "a"}, "n2") == 5
    assert terms.score({}, "n2") == 0


def test_a_term_without_weight_is_not_read() -> None:
    """A weight of zero hides even a term that does not parse."""
    assert preferred_terms([preferred(0, term(expression("a", "Foo")))]).terms == ()


def test_one_bad_preferred_term_spoils_all() -> None:
    """Unlike required terms, preferred ones are refused together, each error with its place."""
    with pytest.raises(SelectorError) as caught:
        preferred_terms(
            [
                preferred(1, term(expression("zone", IN, "a"))),
                preferred(1, term(expression("a", IN))),
                preferred(1, term(fields=(on_name(NOT_IN),))),
            ]
        )
    assert str(caught.value) == (
        "[[1].matchExpressions[0].values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty, "
        "[2].matchFields[0].values: Invalid value: null: must have one element]"
    )


# --- what a pod requires ----------------------------------------------------------------------------------------------


def test_node_selector_and_affinity_must_both_hold() -> None:
    """A pod's nodeSelector and required affinity apply together."""
    required = selector_of(term(expression("disk", IN, "ssd")))
    pod = Pod(
        spec=PodSpec(
            node_selector={"zone": "a"},
            affinity=Affinity(node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=required)),
        )
    )
    needs = required_node_affinity(pod)
    assert needs.matches({"zone": "a", "disk": "ssd"}, "n")
    assert not needs.matches({"zone": "a"}, "n")
    assert not needs.matches({"disk": "ssd"}, "n")


@pytest.mark.parametrize("affinity", [None, Affinity(), Affinity(node_affinity=NodeAffinity())])
def test_a_pod_without_requirements_fits_every_node(affinity: Affinity | None) -> None:
    """No selector and no required affinity leave no node out."""
    needs = required_node_affinity(Pod(spec=PodSpec(affinity=affinity)))
    assert needs.matches({}, "n")
    assert needs.affinity is None


def test_required_affinity_without_terms_fits_no_node() -> None:
    """An affinity that is there but has no terms matches nothing, unlike one that is absent."""
    affinity = Affinity(
        node_affinity=NodeAffinity(required_during_scheduling_ignored_during_execution=objects.NodeSelector())
    )
    assert not required_node_affinity(Pod(spec=PodSpec(affinity=affinity))).matches({}, "n")
