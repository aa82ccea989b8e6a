"""Reading one configuration document, YAML or JSON, and reporting keys that are given twice.

YAML libraries keep the last of two equal keys without a word, so one of the two settings would silently have no effect.
"""

from collections.abc import Iterator

import yaml

from kubesched.base.documents import DocumentError, Text, compose_yaml_documents, construct_yaml
from kubesched.config.errors import Problem, join


def read(text: Text, problems: list[Problem], warnings: list[str] | None = None) -> object:
    """The document in ``text``; None, and a problem, if it cannot be read. With ``warnings``, further documents are
    ignored, which kube-scheduler does without a warning."""
    try:
        nodes = compose_yaml_documents(text)
        if not nodes:
            return None
        if len(nodes) > 1:
            if warnings is None:
                raise DocumentError(f"expected one document, found {len(nodes)}")
            warnings.append(f"only the first of {len(nodes)} documents is used, as by kube-scheduler")
        problems += _repeated(nodes[0], "", set())
        document: object = construct_yaml(nodes[0])
    except DocumentError as error:
        problems.append(Problem("", f"not valid YAML: {error}"))
        return None
    return document


def _repeated(node: yaml.Node, path: str, visited: set[int]) -> Iterator[Problem]:
    # An alias leads to a node that was seen before.
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated(item, f"{path}[{index}]", visited)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                message = f"given twice, on lines {lines[name]} and {line}"
                yield Problem(join(path, name), message, hint="keep one of them")
            lines.setdefault(name, line)
            yield from _repeated(value, join(path, name), visited)
