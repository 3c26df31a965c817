"""Configuration over the code: TOML and the environment change options of a tree before it runs.

Floor: above settings. The rule: everything that is wrong is found in one go and reported with file, line, key and what
would do; then the changed specs pass the same checks as those in code.

In TOML, under the bare name where only one has it, or under the whole path::

    [worker.workers.outbox]
    replicas = 2
    [worker.workers.outbox.restart]
    max_restarts = 3
    [worker.supervisors."shop/billing"]
    strategy = "one_for_all"

In the environment, which wins over TOML: `TREEWARDEN_WORKER_` + `WORKERS` or `SUPERVISORS` + the name + the option, joined by
double underscores, in capitals. What is neither letter nor digit in a name becomes `_`, the `/` of a path `__`::

    TREEWARDEN_WORKER_WORKERS__OUTBOX__RESTART__MAX_RESTARTS = 3
    TREEWARDEN_WORKER_SUPERVISORS__SHOP__BILLING__STRATEGY = one_for_all

`"none"` stands for None and `"inf"` for infinity where an option may be that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

import attrs

from actors.options import OptionError, nearest
from supervision.errors import ConfigError, SpecError
from supervision.schema import GROUPS, Option, fields, options
from supervision.settings import (
    Document,
    Setting,
    from_document,
    from_environment,
    load,
    read,
    slug,
)
from supervision.specs import Spec, Supervisor, Worker

__all__ = ["Option", "configure", "load", "options"]


def configure(
    tree: Supervisor,
    *,
    file: str | FilePath | None = None,
    text: str | None = None,
    mapping: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Supervisor:
    """A new tree: `tree` with its options changed as configuration says.

    Synopsis::

        trio.run(supervisor.serve, configure(tree, file="app.toml"))

    Args:
        tree: as declared in code; it stays as it is.
        file: path of a TOML file.
        text: TOML itself, instead.
        mapping: what a TOML file would contain, instead.
        environ: variables that win over all these; by default those of the process. `{}` for none.

    Tables of the file other than `worker` are the application's own and are ignored.

    Raises:
        ConfigError: anything is wrong: `problems` has all of it.
    """
    if sum(source is not None for source in (file, text, mapping)) > 1:
        raise TypeError("configure() takes one of file, text and mapping")
    problems: list[str] = []
    settings: list[Setting] = []
    try:
        document = _document(file, text, mapping)
    except ConfigError as error:
        problems.extend(error.problems)
    else:
        settings += from_document(document, problems)
    settings += from_environment(os.environ if environ is None else environ, problems)
    change = _Change(tree, problems)
    for setting in settings:
        change.add(setting)
    changed = change.applied(tree, tree.name)
    if problems:
        raise ConfigError(problems)
    assert isinstance(changed, Supervisor)
    return changed


def _document(
    file: str | FilePath | None, text: str | None, mapping: Mapping[str, Any] | None
) -> Document:
    if file is not None:
        return load(file)
    if text is not None:
        return read(text, "<text>")
    return Document(data={} if mapping is None else mapping, name="<mapping>", lines={})


class _Change:
    """What is to be changed in one tree, gathered setting by setting."""

    def __init__(self, tree: Supervisor, problems: list[str]) -> None:
        self._problems = problems
        self._paths: dict[str, list[str]] = {group: [] for group in GROUPS}
        for path, spec in tree.walk():
            self._paths["workers" if isinstance(spec, Worker) else "supervisors"].append(path)
        self._wanted: dict[str, dict[tuple[str, ...], tuple[object, Setting]]] = {}

    # -- one setting -----------------------------------------------------------------------------

    def add(self, setting: Setting) -> None:
        """Find whom it is for, check it, keep it; or report what is wrong with it."""
        path = self._target(setting)
        if not setting.path:
            return
        option = fields(setting.group).get(setting.path)
        if option is None:
            self._report(setting, self._not_an_option(setting))
            return
        try:
            value = (
                option.parse(str(setting.value)) if setting.is_text else option.check(setting.value)
            )
        except OptionError as error:
            # The text begins with the option's name; the whole key says more.
            detail = error.text.removeprefix(error.option).lstrip()
            self._problems.append(f"{setting.place}: {setting.key} {detail}")
            return
        if path is None:
            return
        wanted = self._wanted.setdefault(path, {})
        before = wanted.get(setting.path)
        if before is not None and before[1].is_text == setting.is_text:
            self._report(setting, f"{path} has it already from {before[1].place}; keep one of them")
        wanted[setting.path] = (value, setting)

    def _target(self, setting: Setting) -> str | None:
        """The path that its name means; None, and a report once for each name, if that is not one."""
        form = slug if setting.is_text else str
        own = self._paths[setting.group]
        fits = [p for p in own if setting.name in (form(p), form(p.rpartition("/")[2]))]
        exact = [p for p in fits if p == setting.name]
        if len(fits) == 1 or exact:
            return (exact or fits)[0]
        where = setting.key.removesuffix("".join(f".{part}" for part in setting.path))
        said = f"{setting.place}: {where}"
        if fits:
            how = "write the path" if not setting.is_text else "write the path, or use TOML"
            text = f"the name {setting.name!r} is ambiguous; {how}: {', '.join(fits)}"
        else:
            text = self._nobody(setting, form)
        if not any(f"{where}: {text}" in problem for problem in self._problems):
            self._problems.append(f"{said}: {text}")
        return None

    def _nobody(self, setting: Setting, form: Any) -> str:
        noun = setting.group.removesuffix("s")
        for group, paths in self._paths.items():
            if any(setting.name in (form(p), form(p.rpartition("/")[2])) for p in paths):
                return f"{setting.name!r} is not a {noun}; it belongs below worker.{group}"
        known = [*(form(p.rpartition("/")[2]) for p in self._paths[setting.group])]
        if "/" in setting.name or "__" in setting.name:
            known += [form(p) for p in self._paths[setting.group]]
        hint = nearest(setting.name, known) or f" There are: {', '.join(known) or 'none'}."
        return f"the tree has no {noun} {setting.name!r}.{hint}"

    def _not_an_option(self, setting: Setting) -> str:
        section, last = setting.path[:-1], setting.path[-1]
        known = fields(setting.group)
        inside = [path for path in known if path[: len(setting.path)] == setting.path]
        if inside:
            names = ", ".join(path[-1] for path in inside)
            return f"must be a table with any of {names}, not {setting.value!r}"
        elsewhere = [path for path in known if path[-1] == last]
        if elsewhere:
            return f"is not an option here; it is {'.'.join(elsewhere[0])!r}"
        other = next(group for group in GROUPS if group != setting.group)
        if setting.path in fields(other):
            return f"is not an option here; it belongs to {other}"
        here = [path[len(section)] for path in known if path[: len(section)] == section]
        listed = list(dict.fromkeys(here))
        return "is not an option." + (
            nearest(last, listed) or f" Options are: {', '.join(listed)}."
        )

    def _report(self, setting: Setting, text: str) -> None:
        self._problems.append(f"{setting.place}: {setting.key} {text}")

    # -- the tree --------------------------------------------------------------------------------

    def applied(self, spec: Spec, path: str) -> Spec:
        """`spec` and everything below it with its changes; unchanged parts stay the same objects."""
        fresh: dict[str, Any] = {}
        if isinstance(spec, Supervisor):
            children = tuple(self.applied(child, f"{path}/{child.name}") for child in spec.children)
            if any(new is not old for new, old in zip(children, spec.children, strict=True)):
                fresh["children"] = children
        wanted = self._wanted.get(path, {})
        for keys, (value, _) in wanted.items():
            if len(keys) == 1:
                fresh[keys[0]] = value
        for section in dict.fromkeys(keys[0] for keys in wanted if len(keys) > 1):
            inner = {keys[1]: value for keys, (value, _) in wanted.items() if keys[0] == section}
            fresh[section] = attrs.evolve(getattr(spec, section), **inner)
        if not fresh:
            return spec
        try:
            return attrs.evolve(spec, **fresh)
        except SpecError as error:
            self._problems.append(f"{self._culprit(path, error.option)}: {error}")
            return spec

    def _culprit(self, path: str, option: str) -> str:
        """The place of the setting that most likely broke the rule: of that option, there or below; else any."""
        below = [
            (keys[-1], setting)
            for target in (path, *sorted(p for p in self._wanted if p.startswith(f"{path}/")))
            for keys, (_, setting) in self._wanted.get(target, {}).items()
        ]
        named = [setting for key, setting in below if key == option]
        chosen = named or [setting for _, setting in below]
        return f"{chosen[0].place}: {chosen[0].key}"
