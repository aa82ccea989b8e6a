"""The paths and operations of resources in OpenAPI, v2 and v3, named as upstream names them.

Client generators make one method of each operation. Subresources that need a running container are left out: this
server only refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.kinds.registry import ApiResource, Subresource
from kubesched.apiserver.openapi.definitions import Definitions
from kubesched.apiserver.wire.request import JSON_TYPE
from kubesched.base.types import JSON

_LIST = [
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
]
_DELETE = ["dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"]
_WRITE = ["dryRun", "fieldManager", "fieldValidation"]
_LOG = ["container", "follow", "limitBytes", "previous", "sinceSeconds", "tailLines", "timestamps"]
_TYPES = {
    **dict.fromkeys(["limit", "timeoutSeconds", "gracePeriodSeconds"], "integer"),
    **dict.fromkeys(["limitBytes", "sinceSeconds", "tailLines"], "integer"),
    **dict.fromkeys(["allowWatchBookmarks", "sendInitialEvents", "watch", "force", "orphanDependents"], "boolean"),
    **dict.fromkeys(["follow", "previous", "timestamps"], "boolean"),
}
"""The types of parameters that are no strings."""
_PATCHES = [f"application/{form}" for form in ("json-patch+json", "merge-patch+json", "strategic-merge-patch+json")]
_PATCH_TYPES = [*_PATCHES, "application/apply-patch+yaml"]
_UNAUTHORIZED = {"401": {"description": "Unauthorized"}}
_CONNECTED = ("attach", "exec", "portforward", "proxy")
_WORDS = {"200": "OK", "201": "Created", "202": "Accepted"}


def group_word(group: str) -> str:
    """A group in the names of operations: ``rbac.authorization.k8s.io`` is ``RbacAuthorization``."""
    name = group.removesuffix(".k8s.io") or "core"
    return "".join(part[:1].upper() + part[1:] for part in name.replace("-", ".").split("."))


class Paths:
    """Makes the paths of resources."""

    def __init__(self, definitions: Definitions, *, v3: bool) -> None:
        self._definitions = definitions
        self._v3 = v3

    def root(self, group: str, version: str) -> tuple[str, JSON]:
        """The path of a version of a group."""
        word = group_word(group)
        body = self._responses("APIResourceList", ["200"])
        operation = {
            "tags": [_tag(group, version)],
            "description": "get available resources",
            "operationId": f"get{word}{version[:1].upper()}{version[1:]}APIResources",
            **({} if self._v3 else {"consumes": [JSON_TYPE], "produces": [JSON_TYPE], "schemes": ["https"]}),
            **body,
        }
        return (f"/apis/{group}/{version}/" if group else f"/api/{version}/"), {"get": operation}

    def of(self, resource: ApiResource, name: str) -> Iterator[tuple[str, JSON]]:
        """The paths of a resource whose type has this name."""
        base = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        make = _Operations(self, resource, name)
        collection = f"{base}{scope}/{resource.plural}"
        yield collection, make.collection()
        if not resource.is_stored:
            return
        yield f"{collection}/{{name}}", make.object()
        for subresource in resource.subresources:
            if subresource.name not in _CONNECTED:
                yield f"{collection}/{{name}}/{subresource.name}", make.subresource(subresource)
        if resource.namespaced:
            yield f"{base}/{resource.plural}", make.everywhere()
        if "watch" not in resource.verbs:
            return
        yield f"{base}/watch{scope}/{resource.plural}", make.old_watch("List")
        yield f"{base}/watch{scope}/{resource.plural}/{{name}}", make.old_watch()
        if resource.namespaced:
            yield f"{base}/watch/{resource.plural}", make.old_watch("ListForAllNamespaces")

    # --- parts of operations ------------------------------------------------------------------------------------------

    def schema(self, name: str) -> JSON:
        """The schema of a body: a type by its name, one of metadata, or text."""
        if not name:
            return {"schema": {"type": "string"}}
        return {"schema": self._definitions.reference(name) if "." in name else self._definitions.meta(name)}

    def _responses(self, name: str, codes: list[str], form: str = JSON_TYPE) -> JSON:
        content = {"content": {form: self.schema(name)}} if self._v3 else self.schema(name)
        return {"responses": {**{code: {"description": _WORDS[code], **content} for code in codes}, **_UNAUTHORIZED}}

    def parameter(self, name: str, kind: str = "") -> JSON:
        """A parameter of the query; with a kind, one of the path."""
        where: JSON = {"name": name, "in": "path", "required": True} if kind else {"name": name, "in": "query"}
        if name == "name":
            where["description"] = f"name of the {kind}"
        type_ = {"type": _TYPES.get(name, "string"), "uniqueItems": True}
        return {**where, "schema": type_} if self._v3 else {**where, **type_}

    def operation(
        self,
        resource: ApiResource,
        identity: tuple[str, str, str],
        returns: tuple[str, list[str]],
        *,
        names: list[str] | None = None,
        body: str = "",
        kind: JSON | None = None,
        form: str = JSON_TYPE,
    ) -> JSON:
        """An operation. `identity` is its id, action and description; `returns` a type and the codes with it."""
        id_, action, description = identity
        parameters = [self.parameter(name) for name in names or ()]
        consumes = _PATCH_TYPES if action == "patch" and not resource.custom else ["*/*"]
        if action == "patch" and resource.custom:
            consumes = [form for form in _PATCH_TYPES if "strategic" not in form]
        required = {} if action.startswith("delete") else {"required": True}
        found: JSON = {
            "tags": [_tag(resource.group, resource.version)],
            "description": description,
            "operationId": id_,
        }
        if not self._v3:
            found |= {"consumes": consumes, "produces": [form], "schemes": ["https"]}
        if body and self._v3:
            found["requestBody"] = {"content": {each: self.schema(body) for each in consumes}, **required}
        elif body:
            parameters = [{"in": "body", "name": "body", **required, **self.schema(body)}, *parameters]
        if parameters:
            found["parameters"] = parameters
        return {
            **found,
            **self._responses(*returns, form),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind or resource.group_version_kind,
        }

    def subresource_type(self, subresource: Subresource) -> str:
        return self._definitions.add_subresource(subresource)


def _tag(group: str, version: str) -> str:
    word = group_word(group)
    return f"{word[:1].lower()}{word[1:]}_{version}"


class _Operations:
    """The operations of one resource."""

    def __init__(self, paths: Paths, resource: ApiResource, name: str) -> None:
        self._paths = paths
        self._resource = resource
        self._type = name
        version = resource.version
        self._group = f"{group_word(resource.group)}{version[:1].upper()}{version[1:]}"
        self._scope = "Namespaced" if resource.namespaced else ""

    def _id(self, verb: str, end: str = "", middle: str = "") -> str:
        return f"{verb}{self._group}{middle}{self._scope}{self._resource.kind}{end}"

    def _parameters(self, *, name: bool = False, queries: list[str] | None = None) -> JSON:
        """The parameters of all operations of a path, in the order of their names."""
        kind = self._resource.kind
        found = [self._paths.parameter(query) for query in [*(queries or ()), "pretty"]]
        if name:
            found.append(self._paths.parameter("name", kind))
        if self._resource.namespaced and self._scope:
            found.append(self._paths.parameter("namespace", kind))
        return {"parameters": sorted(found, key=lambda each: str(each["name"]))}

    def collection(self) -> JSON:
        resource, kind, operation = self._resource, self._resource.kind, self._paths.operation
        item: JSON = {}
        if resource.is_stored:
            listed = (self._id("list"), "list", f"list or watch objects of kind {kind}")
            item["get"] = operation(resource, listed, (f"{self._type}List", ["200"]), names=[*_LIST, "watch"])
        if "create" in resource.verbs:
            made, codes = (self._id("create"), "post", f"create {_noun(kind)}"), ["200", "201", "202"]
            item["post"] = operation(resource, made, (self._type, codes), names=_WRITE, body=self._type)
        if "deletecollection" in resource.verbs:
            gone = (self._id("delete", middle="Collection"), "deletecollection", f"delete collection of {kind}")
            names = sorted([*_DELETE, *(name for name in _LIST if name != "allowWatchBookmarks")])
            item["delete"] = operation(resource, gone, ("Status", ["200"]), names=names, body="DeleteOptions")
        return {**item, **self._parameters()}

    def object(self) -> JSON:
        resource, kind = self._resource, self._resource.kind
        item = self._parts("", f"the specified {kind}", self._type, resource.verbs)
        if "delete" in resource.verbs:
            identity = (self._id("delete"), "delete", f"delete {_noun(kind)}")
            shown = self._type if resource.returns_deleted else "Status"
            item["delete"] = self._paths.operation(
                resource, identity, (shown, ["200", "202"]), names=_DELETE, body="DeleteOptions"
            )
        return {**item, **self._parameters(name=True)}

    def _parts(self, end: str, what: str, type_: str, verbs: tuple[str, ...], kind: JSON | None = None) -> JSON:
        """Reading, replacing and patching an object or a part of it."""
        resource, operation, item = self._resource, self._paths.operation, {}
        if "get" in verbs:
            item["get"] = operation(
                resource, (self._id("read", end), "get", f"read {what}"), (type_, ["200"]), kind=kind
            )
        if "update" in verbs:
            identity = (self._id("replace", end), "put", f"replace {what}")
            item["put"] = operation(resource, identity, (type_, ["200", "201"]), names=_WRITE, body=type_, kind=kind)
        if "patch" in verbs:
            identity = (self._id("patch", end), "patch", f"partially update {what}")
            names = [*_WRITE, "force"]
            item["patch"] = operation(resource, identity, (type_, ["200", "201"]), names=names, body="Patch", kind=kind)
        return item

    def subresource(self, subresource: Subresource) -> JSON:
        resource = self._resource
        end = subresource.name[:1].upper() + subresource.name[1:]
        what = f"{subresource.name} of the specified {resource.kind}"
        if subresource.name == "log":
            identity = (self._id("read", end), "get", f"read {what}")
            read = self._paths.operation(resource, identity, ("", ["200"]), form="text/plain")
            return {"get": read, **self._parameters(name=True, queries=_LOG)}
        type_, kind = self._type, None
        if subresource.kind:
            type_ = self._paths.subresource_type(subresource)
            kind = {"group": subresource.group, "version": subresource.version, "kind": subresource.kind}
        item = self._parts(end, what, type_, subresource.verbs, kind)
        if "create" not in subresource.verbs:
            return {**item, **self._parameters(name=True)}
        made = (self._id("create", end), "post", f"create {subresource.name} of {_noun(resource.kind)}")
        codes = ["200", "201", "202"]
        item["post"] = self._paths.operation(resource, made, (type_, codes), body=type_, kind=kind)
        return {**item, **self._parameters(name=True, queries=_WRITE)}

    def everywhere(self) -> JSON:
        """The list of all namespaces."""
        resource = self._resource
        self._scope = ""
        identity = (self._id("list", "ForAllNamespaces"), "list", f"list or watch objects of kind {resource.kind}")
        found = self._paths.operation(resource, identity, (f"{self._type}List", ["200"]))
        item = {"get": found, **self._parameters(queries=[*_LIST, "watch"])}
        self._scope = "Namespaced"
        return item

    def old_watch(self, end: str = "") -> JSON:
        """A watch by its path."""
        resource, scope = self._resource, self._scope
        self._scope = "" if end == "ListForAllNamespaces" else scope
        what = f"a list of {resource.kind}" if end else f"an object of kind {resource.kind}"
        changes = "individual changes" if end else "changes"
        instead = "use the 'watch' parameter with a list operation instead"
        filtered = "." if end else ", filtered to a single item with the 'fieldSelector' parameter."
        description = f"watch {changes} to {what}. deprecated: {instead}{filtered}"
        identity = (self._id("watch", end), "watchlist" if end else "watch", description)
        found = self._paths.operation(resource, identity, ("WatchEvent", ["200"]))
        item = {"get": found, **self._parameters(name=not end, queries=[*_LIST, "watch"])}
        self._scope = scope
        return item


def _noun(kind: str) -> str:
    """A kind with its article. A plural has none."""
    if kind.endswith("s") and not kind.endswith("ss"):
        return kind
    return f"an {kind}" if kind[:1] in "AEIOU" else f"a {kind}"
