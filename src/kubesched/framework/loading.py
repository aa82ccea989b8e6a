"""Loading plugins by name: from a module, a file, a folder, or an installed package.

An error in a plugin's code becomes a line in a list of problems that names the code, so that all of them are reported
at once and none ends the program with a traceback.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points, packages_distributions
from pathlib import Path
from types import ModuleType
from typing import Final, TypeGuard

from kubesched.framework.errors import PluginStartError
from kubesched.framework.functions import PluginFunction, plugin_class
from kubesched.framework.places import short_path
from kubesched.framework.plugin import Plugin, points_of
from kubesched.framework.registry import FILE, PACKAGE, PROGRAM, Origin, PluginSource, Registry

GROUP: Final = "kubesched.plugins"
SUFFIX: Final = ".py"
HOW: Final = "derive a class from kubesched.Plugin, or put @kubesched.filter or @kubesched.score on a function"


class NoPluginError(LookupError):
    """Something that was given as a plugin, or as a source of plugins, and is not."""


def add_all(
    registry: Registry,
    problems: list[str],
    *,
    named: Iterable[str] = (),
    folders: Iterable[str] = (),
    given: Iterable[PluginSource] = (),
    installed: bool = True,
) -> list[str]:
    """Add plugins from all sources to a registry. Returns the names of those that were asked for, without those that
    just happen to be installed. What cannot be loaded is added to `problems`."""
    asked: list[str] = []
    for each in given:
        asked += _add(registry, each, None, "", problems)
    for point in entry_points(group=GROUP) if installed else ():
        for found in _attempt(point.value, f"entry point {point.name} of {GROUP}", problems):
            _add(registry, found, _package(point), point.value, problems)
    for place in named:
        for found in _attempt(place, "--plugin", problems):
            asked += _add(registry, found, _origin(place, found), place, problems)
    for folder in folders:
        for file in _files(folder, problems):
            for found in _attempt(str(file), "--plugin-dir", problems):
                asked += _add(registry, found, Origin(FILE, short_path(str(file))), str(file), problems)
    return asked


def load_place(place: str) -> list[PluginSource]:
    """The plugins that ``module:Name``, ``module``, ``file.py:Name`` or ``file.py`` stands for.

    Raises what the code raises when it is imported, and TypeError or LookupError if the name is not a plugin.
    """
    target, name = _split(place)
    module = _module(target)
    if not name:
        found = list(plugins_in(module))
        if not found:
            raise NoPluginError(HOW)
        return found
    source: object = module
    for part in name.split("."):
        if not hasattr(source, part):
            known = ", ".join(_name_in(each) for each in plugins_in(module))
            raise LookupError(f"there is no {part} in {target}" + (f"; its plugins are {known}" if known else ""))
        source = getattr(source, part)
    if isinstance(source, PluginFunction) or (isinstance(source, type) and issubclass(source, Plugin)):
        return [source]
    raise NoPluginError(HOW)


def plugins_in(module: ModuleType) -> Iterator[PluginSource]:
    """The plugins that a module defines, without those that it imports."""
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, PluginFunction):
            if value.function.__module__ == module.__name__:
                yield value
        elif _is_plugin(value) and value.__module__ == module.__name__:
            yield value


def load_all(places: Iterable[str], folders: Iterable[str] = ()) -> list[PluginSource]:
    """The plugins of all places and folders. Raises PluginStartError with every problem, named as for `add_all`."""
    problems: list[str] = []
    found = [source for place in places for source in _attempt(place, "--plugin", problems)]
    for folder in folders:
        for file in _files(folder, problems):
            found += _attempt(str(file), "--plugin-dir", problems)
    if problems:
        raise PluginStartError("\n".join(problems))
    return found


def _is_plugin(value: object) -> TypeGuard[type[Plugin]]:
    """Whether this is the class of a plugin. A base class need not be one itself."""
    return (
        isinstance(value, type) and issubclass(value, Plugin) and bool(getattr(value, "name", "") or points_of(value))
    )


def forget_modules(folder: str) -> None:
    """Forget what was imported from a folder, so that it is imported again when next needed."""
    root = str(Path(folder).resolve()) + os.sep
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(root):
            del sys.modules[name]
    importlib.invalidate_caches()


def plugin_files(folder: str) -> list[Path]:
    """The files of a folder that may have plugins: not tests, and not those that begin with an underscore."""
    return [
        file
        for file in sorted(Path(folder).glob(f"*{SUFFIX}"))
        if not file.name.startswith(("_", "test_", ".")) and file.name != "conftest.py"
    ]


# --- inside -----------------------------------------------------------------------------------------------------------


def _files(folder: str, problems: list[str]) -> list[Path]:
    if not os.path.isdir(folder):
        problems.append(f"--plugin-dir: {folder} is not a folder")
        return []
    return plugin_files(folder)


def _attempt(place: str, source: str, problems: list[str]) -> list[PluginSource]:
    try:
        return load_place(place)
    except NoPluginError as error:
        if source != "--plugin-dir":  # a folder may also hold helpers
            problems.append(f"{source}: {place} is not a plugin; {error}")
        return []
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Whatever a module raises, the message must name the module.
        said = str(error) if type(error) in (LookupError, TypeError) else f"{type(error).__name__}: {error}"
        problems.append(f"{source}: {place}: {said}{_where(error)}")
        return []


def _where(error: BaseException) -> str:
    """The line of the plugin's own code that failed, if the message does not have it already."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or "kubesched" in last.tb_frame.f_globals.get("__name__", "").split(".")[:1]:
        return ""
    file = last.tb_frame.f_code.co_filename
    return f" ({short_path(file)}:{last.tb_lineno})" if not file.startswith("<") else ""


def _add(registry: Registry, source: PluginSource, origin: Origin | None, place: str, problems: list[str]) -> list[str]:
    try:
        plugin = plugin_class(source)
        known = registry.get(getattr(plugin, "name", ""))
        if known is not None and known is not plugin and _written_at(known) == _written_at(plugin):
            registry.replace(source, origin)  # for example an installed package that its author works on
        elif known is not plugin:
            registry.add(source, origin)
        return [plugin.name]
    except (TypeError, ValueError) as error:
        problems.extend(f"{place}: {line}" if place else line for line in str(error).splitlines())
        return []


def _written_at(plugin: type[Plugin]) -> tuple[str, str]:
    """A key that stays the same when a file is loaded twice."""
    module = sys.modules.get(plugin.__module__)
    return os.path.realpath(getattr(module, "__file__", None) or plugin.__module__), plugin.__qualname__


def _split(place: str) -> tuple[str, str]:
    """What to import, and which name of it; an empty name for all."""
    if place.endswith(SUFFIX) or os.sep in place.rpartition(":")[2]:
        return place, ""
    target, colon, name = place.rpartition(":")
    if not colon:
        target, name = place, ""
    if not target or (colon and not name):
        raise TypeError("not of the form module:Name, or file.py:Name")
    return target, name


def _module(target: str) -> ModuleType:
    if target.endswith(SUFFIX):
        return _module_of_file(Path(target).resolve())
    if os.sep in target or target.startswith("."):
        raise LookupError(
            _as_folder(target) if os.path.isdir(target) else f"no module, and no file that ends in {SUFFIX}"
        )
    if (here := os.getcwd()) not in sys.path:
        # The path has only the program's own folder, but people try plugins from the folder where they write them.
        sys.path.append(here)
    module = importlib.import_module(target)
    if (
        hasattr(module, "__path__") and getattr(module, "__file__", None) is None
    ):  # Python accepts any folder as a package
        raise LookupError(_as_folder(target))
    return module


def _as_folder(target: str) -> str:
    return f"this is a folder; give it as --plugin-dir={target}"


def _module_of_file(file: Path) -> ModuleType:
    if not file.is_file():
        raise LookupError("there is no such file")
    if (folder := str(file.parent)) not in sys.path:
        sys.path.append(folder)  # for imports of files beside it
    # Two folders may have files of the same name, and neither may hide a real module.
    name = f"kubesched_plugin_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs, since what it defines looks itself up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _name_in(source: PluginSource) -> str:
    return source.function.__name__ if isinstance(source, PluginFunction) else source.__name__


def _package(point: EntryPoint) -> Origin:
    if point.dist is None:
        return Origin(PACKAGE, point.module)
    return Origin(PACKAGE, point.dist.name, point.dist.version)


def _origin(place: str, source: PluginSource) -> Origin:
    target, _ = _split(place)
    if target.endswith(SUFFIX):
        return Origin(FILE, short_path(str(Path(target).resolve())))
    for name in packages_distributions().get(target.partition(".")[0], ()):
        try:
            return Origin(PACKAGE, name, distribution(name).version)
        except PackageNotFoundError:
            continue
    return Origin(PROGRAM, target)
