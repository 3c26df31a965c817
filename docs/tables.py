"""Tables and the state diagram of the reference, made from the code itself when the docs are built.

Each function returns Markdown (or SVG) and knows nothing of Sphinx; `setup` makes them a directive:

    ```{generated} events
    ```

So a new event, option, error or transition is documented the moment it exists, and cannot be described wrongly.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from html import escape
from importlib import import_module
from math import hypot, inf
from pathlib import Path
from typing import Any

import attrs

# Beside this file, which Sphinx and the tests import under different names.
sys.path.insert(0, str(Path(__file__).parent))

import command_line
from command_line import first_line, table

import actors
import supervision
from actors import jobs, resilience
from actors.events import Event
from actors.resilience import breaker_policy
from supervision import observer, schema
from supervision.metrics import FAMILIES, HISTOGRAMS
from supervision.observer import verbs
from supervision.observer.messages import ERRORS
from supervision.states import TRANSITIONS, Phase, State

PACKAGES = (actors, supervision)
# Where public names are imported from. Of two doors that lead to one thing, the first is where it is documented.
DOORS = (resilience, jobs, actors, observer, supervision)


def public_names() -> dict[str, list[str]]:
    """Every public name by door; one that is re-exported belongs to the package that made it."""
    found: dict[str, list[str]] = {}
    seen: set[int] = set()
    for door in DOORS:
        package = door.__name__.partition(".")[0]
        names = found[door.__name__] = []
        for name in door.__all__:
            made = getattr(door, name)
            home = package if _is_alias(made) else getattr(made, "__module__", package)
            if home.partition(".")[0] == package and id(made) not in seen:
                names.append(name)
        seen |= {id(getattr(door, name)) for name in names}
    return found


def _is_alias(made: object) -> bool:
    """True of a name for a combination of types, which knows no home."""
    return not inspect.isclass(made) and getattr(made, "__module__", "") in ("types", "typing")


def aliases() -> dict[str, str]:
    """From where a public object was made (`actors.mailbox.Mailbox`) to its door (`actors.Mailbox`)."""
    out = {}
    for package, names in public_names().items():
        for name in names:
            made = getattr(import_module(package), name)
            if inspect.isclass(made) or inspect.isfunction(made):
                out[f"{made.__module__}.{made.__qualname__}"] = f"{package}.{name}"
    return out


def field_docs(cls: type) -> dict[str, str]:
    """The string below each attribute of a class, as its source has it."""
    (body,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(body, ast.ClassDef)
    out = {}
    for node, after in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                out[node.target.id] = " ".join(text.value.split())
    return out


def event_classes() -> list[type[Event]]:
    """Every event class of the two packages, in the order of the source."""
    for package in PACKAGES:
        root = Path(package.__file__).parent
        for path in sorted(root.rglob("*.py")):
            if "(Event):" in path.read_text("utf-8"):
                import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))
    found: list[type[Event]] = []
    todo = [Event]
    while todo:
        cls = todo.pop(0)
        for sub in cls.__subclasses__():
            # attrs makes slotted classes twice; only the second is in the module.
            at_home = getattr(import_module(sub.__module__), sub.__name__, None) is sub
            if at_home and sub not in found and sub.__module__.partition(".")[0] in public_names():
                found.append(sub)
                todo.append(sub)
    return sorted(found, key=lambda cls: (cls.__module__ != "supervision.events", cls.__module__))


def events() -> str:
    common = {field.name for field in attrs.fields(Event)}
    rows = []
    for cls in event_classes():
        docs = field_docs(cls)
        fields = [
            f"`{f.name}`: {docs[f.name].rstrip('.')}" if f.name in docs else f"`{f.name}`"
            for f in attrs.fields(cls)
            if f.name not in common
        ]
        rows.append(
            [
                f"`{cls.__name__}`",
                cls.level,
                "yes" if cls.decision else "",
                _sentence(first_line(cls).removeprefix("Decision: ")),
                "<br>".join(fields),
            ]
        )
    return table(["event", "level", "decision", "meaning", "fields of its own"], rows)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def event_fields() -> str:
    docs = field_docs(Event)
    return table(["field", "meaning"], [[f"`{f.name}`", docs[f.name]] for f in attrs.fields(Event)])


def options(cls: type) -> str:
    """The options of a spec: name, default, what its field says, in its metadata or below it."""
    below = field_docs(cls)
    rows = [
        [
            f"`{f.name}`",
            "" if f.default is attrs.NOTHING else f"`{_default(f)}`",
            f.metadata.get("doc") or below[f.name].rstrip("."),
        ]
        for f in attrs.fields(cls)
        if "doc" in f.metadata or f.name in below
    ]
    return table(["option", "default", "meaning"], rows)


def _default(field: attrs.Attribute) -> str:
    default = field.default
    if isinstance(default, attrs.Factory):
        return f"{default.factory.__name__}()"
    if isinstance(default, tuple):
        names = "".join(f"{getattr(item, '__name__', item)}, " for item in default)
        return f"({names.rstrip() if len(default) == 1 else names.rstrip(', ')})"
    if isinstance(default, str):
        return f'"{default}"'
    return "inf" if default == inf else str(default)


def choices(cls: type) -> str:
    """The values of an enum and what the string below each says."""
    docs = _below(cls)
    return table(
        ["value", "meaning"], [[f'`"{item.value}"`', docs.get(item.name, "")] for item in cls]
    )


def _below(cls: type) -> dict[str, str]:
    """The string below each member of an enum, as its source has it."""
    (body,) = ast.parse(inspect.getsource(cls)).body
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for node, after in zip(body.body, [*body.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            text = after.value if isinstance(after, ast.Expr) else None
            docs[node.targets[0].id] = text.value if isinstance(text, ast.Constant) else ""
    return docs


ERROR_FILES = ("actors.errors", "actors.jobs.errors", "supervision.errors")


def errors() -> str:
    rows = []
    for door, names in public_names().items():
        for name in names:
            cls = getattr(import_module(door), name)
            if inspect.isclass(cls) and issubclass(cls, BaseException):
                bases = ", ".join(f"`{base.__name__}`" for base in cls.__bases__)
                rows.append([f"{{py:exc}}`{door}.{name}`", bases, first_line(cls)])
    # As the sources have them: a base before what is derived from it.
    order = [n for home in ERROR_FILES for n in vars(import_module(home))]
    rows.sort(key=lambda row: order.index(row[0].rpartition(".")[2].rstrip("`")))
    return table(["error", "is a", "what happened, and what to do"], rows)


def transitions() -> str:
    return _transitions(TRANSITIONS)


def breaker_transitions() -> str:
    return _transitions(BREAKER)


Ways = Mapping[Any, Mapping[Any, str]]
BREAKER: Ways = {
    old.name.lower(): {new.name.lower(): why for new, why in ways.items()}
    for old, ways in breaker_policy.TRANSITIONS.items()
}


def _transitions(table_of: Ways) -> str:
    rows = [
        [str(n), f"`{old}`", f"`{new}`", why]
        for n, (old, new, why) in enumerate(arrows(table_of), start=1)
    ]
    return table(["", "from", "to", "when"], rows)


def arrows(table_of: Ways) -> list[tuple[Any, Any, str]]:
    return [(old, new, why) for old, ways in table_of.items() for new, why in ways.items()]


def breaker_states() -> str:
    """The states of a breaker with their numbers in the gauge."""
    state = breaker_policy.BreakerState
    docs = _below(state)
    rows = [[f"`{item.name}`", str(item.value), docs[item.name]] for item in state]
    return table(["state", "gauge", "meaning"], rows)


# Where each state stands in the picture. A new state has to be given a place, or the build fails.
PLACES = {
    State.PENDING: (90, 60),
    State.RUNNING: (360, 60),
    State.RESTARTING: (630, 60),
    State.DISABLED: (90, 240),
    State.STOPPED: (360, 350),
    State.FAILED: (630, 240),
}
BREAKER_PLACES = {"closed": (90, 50), "open": (550, 50), "half_open": (320, 200)}
WIDE, HIGH = 156, 46
Point = tuple[float, float]


def state_diagram() -> str:
    # Phases are what a running one shows besides its state.
    below = {State.RUNNING: ", ".join(Phase)}
    title = "The states and the transitions between them"
    return _diagram(TRANSITIONS, PLACES, (720, 390), title, below, at=(0.3, 0.2))


def breaker_diagram() -> str:
    below = {
        "closed": "calls are made",
        "half_open": "trials are made",
        "open": "calls are refused",
    }
    title = "The states of a breaker and the transitions between them"
    return _diagram(BREAKER, BREAKER_PLACES, (640, 240), title, below, at=(0.27, 0.27))


def _diagram(
    table_of: Ways,
    places: Mapping[Any, Point],
    size: tuple[int, int],
    title: str,
    below: Mapping[Any, str],
    at: Point,
) -> str:
    """A transition table as a picture: an SVG without script, style sheet or font of its own.

    The number of an arrow stands beside it `at` these parts of its way: not in the middle, where crossing arrows meet.
    """
    wide, high = size
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img"'
            f' fill="currentColor" aria-label="{title}" style="max-width:{wide}px">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>'
        ),
    ]
    for n, (old, new, _) in enumerate(arrows(table_of), start=1):
        side = 9 if old in table_of[new] else 0
        parts.append(_arrow(n, f"{old}-{new}", places[old], places[new], side, at))
    parts += [_box(str(state), *places[state], below.get(state, "")) for state in table_of]
    return "\n".join([*parts, "</svg>"])


def _box(state: str, x: float, y: float, below: str) -> str:
    lines = f'<text x="{x}" y="{y + (0 if below else 5)}" text-anchor="middle" font-size="15">{state}</text>'
    if below:
        lines += f'<text x="{x}" y="{y + 16}" text-anchor="middle" font-size="8.5">{escape(below)}</text>'
    return (
        f'<rect x="{x - WIDE / 2}" y="{y - HIGH / 2}" width="{WIDE}" height="{HIGH}" rx="9"'
        f' fill="none" stroke="currentColor" stroke-width="1.5"/>{lines}'
    )


def _arrow(n: int, name: str, start: Point, end: Point, side: float, at: Point) -> str:
    """One numbered arrow; those of a pair, one each way, run side by side."""
    (x1, y1), (x2, y2) = start, end
    dx, dy = x2 - x1, y2 - y1
    length = hypot(dx, dy)
    ux, uy = dx / length, dy / length
    x1, y1, x2, y2 = x1 - uy * side, y1 + ux * side, x2 - uy * side, y2 + ux * side
    lead = min((WIDE / 2 + 4) / abs(ux) if ux else inf, (HIGH / 2 + 6) / abs(uy) if uy else inf)
    ax, ay, bx, by = x1 + ux * lead, y1 + uy * lead, x2 - ux * lead, y2 - uy * lead
    tx, ty = ax + (bx - ax) * at[0], ay + (by - ay) * at[1]
    return (
        f'<line x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}" stroke="currentColor"'
        f' stroke-width="1" marker-end="url(#tip)" data-arrow="{name}"/>'
        f'<text x="{tx - uy * 9:.1f}" y="{ty + ux * 9 + 4:.1f}" text-anchor="middle"'
        f' font-size="11">{n}</text>'
    )


def configuration() -> str:
    """Every option that configuration can set, with its key and its variable."""
    rows = [
        [f"`{o.key}`", f"`{o.variable}`", o.values.replace("'", "`"), o.doc]
        for o in schema.options()
    ]
    return table(["key", "variable", "value", "meaning"], rows)


def metrics() -> str:
    """Every metric that a tree exports."""
    rows = [
        [f"`{f.name}`", ", ".join(f"`{x}`" for x in f.labels), "" if f.counter else "level", f.doc]
        for f in FAMILIES
    ]
    rows += [
        [f"`{f.name}`", ", ".join(f"`{x}`" for x in f.labels), "histogram", f.doc]
        for f in HISTOGRAMS
    ]
    return table(["metric", "labels", "", "meaning"], rows)


def observer_verbs() -> str:
    """What can be asked of a tree from outside, of whom, and in which states it is offered."""
    offers = {
        verb: ", ".join(f"`{state}`" for state, offered in verbs.ACTIONS.items() if verb in offered)
        for verb in verbs.VERBS
    }
    rows = [[f"`{verb}`", str(about), offers[verb]] for verb, about in verbs.VERBS.items()]
    return table(["verb", "of", "offered for a child that is"], rows)


def observer_errors() -> str:
    """The codes of the observer's errors."""
    return table(
        ["code", "status"], [[f"`{code}`", str(status)] for code, status in ERRORS.items()]
    )


GENERATED = {
    "observer-options": lambda: options(observer.Observer),
    "observer-verbs": observer_verbs,
    "observer-errors": observer_errors,
    "metrics": metrics,
    **command_line.GENERATED,
    "configuration": configuration,
    "events": events,
    "event-fields": event_fields,
    "errors": errors,
    "transitions": transitions,
    "worker-options": lambda: options(supervision.Worker),
    "supervisor-options": lambda: options(supervision.Supervisor),
    "restart-options": lambda: options(supervision.RestartPolicy),
    "mailbox-options": lambda: options(actors.MailboxSpec),
    "dependency-options": lambda: options(resilience.Dependency),
    "retry-options": lambda: options(resilience.RetryPolicy),
    "backoff-options": lambda: options(resilience.Backoff),
    "budget-options": lambda: options(resilience.BudgetPolicy),
    "breaker-options": lambda: options(resilience.BreakerPolicy),
    "vegas-options": lambda: options(resilience.VegasLimit),
    "job-options": lambda: options(jobs.NewJob),
    "job-worker-options": lambda: options(jobs.JobWorker),
    "idempotency-options": lambda: options(jobs.IdempotencyPolicy),
    "job-states": lambda: choices(jobs.State),
    "breaker-states": breaker_states,
    "breaker-transitions": breaker_transitions,
    "states": lambda: choices(State),
    "strategies": lambda: choices(supervision.Strategy),
    "auto-shutdown": lambda: choices(supervision.AutoShutdown),
    "on-failed": lambda: choices(supervision.OnFailed),
    "ready": lambda: choices(supervision.Ready),
    "start": lambda: choices(supervision.Start),
    "restart-types": lambda: choices(supervision.RestartType),
    "overflow": lambda: choices(actors.Overflow),
    "routing": lambda: choices(actors.Routing),
}


PICTURES = {"state-diagram": state_diagram, "breaker-diagram": breaker_diagram}


def signature(_app, what, _name, obj, _options, text, _returns):
    """Write out the defaults of attrs classes, which live in their fields and not in their source."""
    if what != "class" or text in ("", "()", None) or not attrs.has(obj):
        return None
    words = []
    for f in attrs.fields(obj):
        if not f.init:
            continue
        if f.kw_only and "*" not in words:
            words.append("*")
        words.append(f.name if f.default is attrs.NOTHING else f"{f.name}={_default(f)}")
    return f"({', '.join(words)})", None


# Napoleon reads the text before a colon in the docstring of an attribute or property as its type. Here it never is.


def hide_colons(_app, what, _name, _obj, _options, lines):
    if what in ("attribute", "property"):
        lines[:] = [line.replace(":", "\0") for line in lines]


def show_colons(_app, what, _name, _obj, _options, lines):
    if what in ("attribute", "property"):
        lines[:] = [line.replace("\0", ":") for line in lines]


def setup(app):
    """Sphinx's entry: the directive, and references by an object's first home led to its door."""
    from docutils import nodes
    from docutils.statemachine import StringList
    from sphinx.util.docutils import SphinxDirective

    class Generated(SphinxDirective):
        required_arguments = 1

        def run(self):
            (what,) = self.arguments
            if what in PICTURES:
                return [nodes.raw("", PICTURES[what](), format="html")]
            node = nodes.container()
            lines = GENERATED[what]().splitlines()
            self.state.nested_parse(StringList(lines, what), self.content_offset, node)
            return node.children

    doors = aliases()

    def through_the_door(app, env, node, contnode):
        target = doors.get(node.get("reftarget", ""))
        if node.get("refdomain") != "py" or target is None:
            return None
        domain = env.domains["py"]
        return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)

    app.connect("autodoc-process-docstring", hide_colons, priority=100)
    app.connect("autodoc-process-docstring", show_colons, priority=900)
    app.add_directive("generated", Generated)
    app.connect("autodoc-process-signature", signature)
    app.connect("missing-reference", through_the_door)
    return {"parallel_read_safe": True}
