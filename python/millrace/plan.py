"""Plans: chains of stages that read like tf.data's, and are plan files."""
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, cast

from . import _core, _paths, _places, _text, _values
from ._attached import Attached
from ._places import Place
from ._sinks import SinkMethods
from ._stages import BATCHES, STAGES, StageMethods
from .errors import PlanError

if TYPE_CHECKING:
    from .ops import BatchOp, RunOp
    from .sources import Memory, PushSource

__all__ = ["Plan", "load"]

_LINE = re.compile(re.escape(_text.ORIGIN) + r":(\d+):\d+")


class Stage(NamedTuple):
    """A stage of a plan, with the options that were given."""
    op: str
    name: str  # "" if it is not given
    fields: _values.Fields
    place: Place

    def tree(self) -> _text.Tree:
        tree: _text.Tree = [("name", _text.quoted(self.name))] if self.name else []
        return [*tree, (self.op, _values.tree_of(STAGES[self.op], self.fields))]


class Plan(StageMethods, SinkMethods):
    """A plan: a source and the stages that follow it. Immutable: each method of a stage returns a
    longer plan. A function of the package begins one: millrace.tfrecord("train-*.tfrecord").

    Options are those of plan files, with the same names and defaults. Texts are taken as they
    stand: there are no variables in them. A mistake is a PlanError at the line of the program that
    adds the stage. Two plans are equal if they are the same with all defaults filled in.
    """
    __slots__ = ("_stages", "_settings", "_settings_place", "_attached", "_checked")
    _stages: tuple[Stage, ...]
    _settings: _values.Fields    # those of the whole plan
    _settings_place: Place       # where they were set
    _attached: Attached          # what its stages need of the program
    _checked: _core.Plan | None  # the library's plan, when it is known

    def __init__(self) -> None:
        for name, value in (("_stages", ()), ("_settings", {}), ("_settings_place", Place("", 0)),
                            ("_attached", Attached()), ("_checked", None)):
            object.__setattr__(self, name, value)

    def _with(self, **changes: object) -> Plan:
        """Returns a plan with other values of some attributes."""
        plan = Plan()
        for name in Plan.__slots__:
            if name != "_checked":
                object.__setattr__(plan, name, changes.get(name, getattr(self, name)))
        return plan

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a plan cannot be changed; its methods return a new one")

    # Chains.

    def _then(self, op: str, stage: str | None, given: Mapping[str, object]) -> Plan:
        if not isinstance(stage, (str, type(None))):
            raise TypeError(f"{op}: stage must be a str, not {type(stage).__name__}")
        fields = _values.checked(STAGES[op], f"stage '{stage or op}'", given)
        added = Stage(op, stage or "", fields, _places.caller())
        attached = self._attached.joined(
            plan._attached for plan in fields.get("input", ()) if isinstance(plan, Plan))
        plan = self._with(_stages=(*self._stages, added), _attached=attached)
        plan._check_so_far()
        return plan

    def op(self, function: RunOp | BatchOp, *, options: str | None = None,
           stage: str | None = None) -> Plan:
        """Adds a Python function that op or batch_op has made an op.

        Args:
          function: It works on runs of samples in front of the batch stage, on batches behind it.
          options: A text that the function gets.
          stage: The stage's name, which its random draws depend on. Default: the op's.
        """
        if not hasattr(function, "add_to"):
            raise TypeError(f"op: {function!r} is no op: decorate it by millrace.op or batch_op")
        plan = self._then("custom", stage or function.name, {
            "op": function.name, "version": function.version, "options": options})
        return plan._attach(ops=(function,))

    def attach(self, *ops: RunOp | BatchOp, memory: Mapping[str, Memory] | None = None,
               push: PushSource | None = None) -> Plan:
        """Returns the plan with what its stages need of the program: a plan that was loaded from a
        file names ops and sources, but does not have them.

        Args:
          ops: Those of its `custom` stages.
          memory: Those of its `memory` stages, by the stages' names.
          push: That of its `push` stage.
        """
        return self._attach(ops=ops, memory=memory or {}, push=push and push._core)

    def _attach(self, **objects: Any) -> Plan:
        return self._with(_attached=self._attached.joined([Attached(**objects)]))

    @property
    def ops_of_stages(self) -> frozenset[str]:
        """The ops of its stages, without those of its inputs."""
        return frozenset(stage.op for stage in self._stages)

    def count_of_epochs(self) -> int | None:
        """Returns the number of epochs that a `repeat` stage counts; None without a limit."""
        counts = [stage.fields.get("epochs", 0) for stage in self._stages if stage.op == "repeat"]
        return counts[0] or None if len(counts) == 1 else None

    def has_equal_epochs(self) -> bool:
        """True unless a stage behind `repeat` leaves batches out, so that epochs differ."""
        ops = [stage.op for stage in self._stages]
        behind = ops[ops.index("repeat"):] if "repeat" in ops else []
        return not {"take", "skip"} & set(behind)

    def _repeated(self) -> Plan:
        """Returns the plan with a `repeat` stage in front of those that prefetch."""
        stages = list(self._stages)
        at = len(stages)
        while at > 0 and stages[at - 1].op == "prefetch":
            at -= 1
        stages.insert(at, Stage("repeat", "", {}, _places.caller()))
        plan = self._with(_stages=tuple(stages))
        plan.check()
        return plan

    def _without_remainder(self) -> Plan:
        """Returns the plan that leaves a last batch out that is not full."""
        stages = tuple(stage._replace(fields={**stage.fields, "drop_remainder": True})
                       if stage.op in BATCHES else stage for stage in self._stages)
        return self._with(_stages=stages)

    def _set(self, given: Mapping[str, object]) -> Plan:
        settings = {**self._settings, **_values.checked("Pipeline", "options", given)}
        plan = self._with(_settings=settings, _settings_place=_places.caller())
        if self._stages:
            plan._check_so_far()
        return plan

    # The text.

    @property
    def text(self) -> str:
        """The plan as text of a plan file, one stage per line, with what was given."""
        return "".join(_text.write([entry]) + "\n" for entry in self._tree())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan to a file, which `load` and the program `millrace` read.

        Names of files in it that are relative to the current folder stay as they are if the file
        is there too; otherwise they become absolute.
        """
        here = os.path.dirname(os.path.abspath(path)) == os.getcwd()
        text = (self if here else self._with_absolute_names()).text
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def from_text(cls, text: str, origin: str = "plan", /, **variables: object) -> Plan:
        """Returns the plan of a plan file's text, with all defaults filled in.

        Args:
          text: The text. ${NAME} stands for the value of the variable NAME.
          origin: Stands for the file's name in messages.
          variables: The values.
        """
        return cls._of_library(_core.plan_from_text(text, origin, _words(variables)))

    def to_python(self) -> str:
        """Returns the chain as Python code, which begins with `mr`, the package. Evaluated, it is a
        plan that equals this one. What the defaults say is left out, but for the digests of files.
        """
        from . import _python
        return _python.code_of_plan(self._minimal())

    def _tree(self) -> _text.Tree:
        return [*_values.tree_of("Pipeline", self._settings),
                *(("stage", stage.tree()) for stage in self._stages)]

    @classmethod
    def _of_tree(cls, tree: _text.Tree) -> Plan:
        place = _places.caller()
        stages = []
        settings: _text.Tree = []
        for entry, value in tree:
            if entry != "stage":
                settings.append((entry, value))
                continue
            inside: dict[str, Any] = dict(cast(_text.Tree, value))
            name = _text.unquoted(inside.pop("name", '""')).decode()
            (op, options), = inside.items()
            stages.append(Stage(op, name, _values.fields_of(STAGES[op], options), place))
        return cls()._with(_stages=tuple(stages), _settings_place=place,
                           _settings=_values.fields_of("Pipeline", settings))

    @classmethod
    def _of_own_text(cls, text: str) -> Plan:
        return cls._of_tree(_text.parse(text))

    @classmethod
    def _of_library(cls, checked: _core.Plan) -> Plan:
        plan = cls._of_own_text(checked.text())
        object.__setattr__(plan, "_checked", checked)
        return plan

    def _minimal(self) -> Plan:
        """Returns the plan without what the library fills in again."""
        wanted = self._canonical()
        tree = self._tree()

        def is_same() -> bool:
            text = "".join(_text.write([entry]) + "\n" for entry in tree)
            try:
                return _core.plan_from_text(text, _text.ORIGIN, {}).text() == wanted
            except PlanError:
                return False

        _drop_defaults(tree, is_same)
        return Plan._of_tree(tree)

    def _with_absolute_names(self) -> Plan:
        stages = (stage._replace(fields=_absolute_names(STAGES[stage.op], stage.fields))
                  for stage in self._stages)
        return self._with(_stages=tuple(stages))

    # The library's answers.

    def check(self) -> None:
        """Checks the whole plan, without looking at its data.

        PlanError: a mistake, with the line of the program that added the stage.
        """
        self.core()

    @property
    def fingerprint(self) -> int:
        """A hash of what the plan delivers, without paths and options that only change its speed.

        PlanError: as `check`.
        """
        return self.core().fingerprint

    def core(self) -> _core.Plan:
        """Returns the library's plan."""
        if self._checked is None:
            try:
                checked = _core.plan_from_text(self.text, _text.ORIGIN, {})
            except PlanError as error:
                raise self._placed(error) from None
            object.__setattr__(self, "_checked", checked)
        return cast(_core.Plan, self._checked)

    def _check_so_far(self) -> None:
        """Checks the stages that there are, of a plan that may lack its last ones."""
        if any(stage.op in BATCHES for stage in self._stages):
            self.core()
            return
        # Any batch is as good: the plan's own one is checked when it is there.
        batch = f"stage {{ batch {{ size: {self._settings.get('lanes') or 1} }} }}"
        try:
            _core.plan_from_text(self.text + batch, _text.ORIGIN, {})
        except PlanError as error:
            line = _LINE.match(str(error))
            if line is None or int(line[1]) <= len(self._lines()):
                raise self._placed(error) from None

    def _lines(self) -> list[tuple[Place, str]]:
        """Returns the place in the program of each line of the text, and what stands there."""
        settings = len(_values.tree_of("Pipeline", self._settings))
        return [(self._settings_place, "options")] * settings + [
            (stage.place, f"stage '{stage.name or stage.op}'") for stage in self._stages]

    def _placed(self, error: PlanError) -> PlanError:
        """Returns the library's error with places of the program instead of lines of the text."""
        lines = self._lines()

        def place(match: re.Match[str]) -> str:
            return str(lines[min(int(match[1]), len(lines)) - 1][0])

        def mistake(line: str) -> str:
            if begin := _LINE.match(line):
                where, what = lines[min(int(begin[1]), len(lines)) - 1]
                line = f"{where}: {what}{line[begin.end():]}"
            return _LINE.sub(place, line)

        mistakes = "\n".join(mistake(line) for line in str(error).split("\n"))
        return PlanError(mistakes.replace(_text.ORIGIN, "plan"))

    # As an object.

    def _canonical(self) -> str:
        """Returns the text with all defaults; of an incomplete plan, what was given."""
        try:
            return self.core().text()
        except PlanError:
            return self.text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self._canonical() == other._canonical()

    def __hash__(self) -> int:
        return hash(self._canonical())

    def __reduce__(self) -> tuple[Callable[[str, Attached], Plan], tuple[str, Attached]]:
        return _unpickled, (self.text, self._attached)

    def __repr__(self) -> str:
        ops = [stage.op for stage in self._stages]
        shown = ops if len(ops) <= 6 else [*ops[:3], "...", *ops[-2:]]
        return f"<millrace.Plan of {len(ops)} stages: {', '.join(shown)}>"

    def _repr_html_(self) -> str:
        """Returns a table of the stages, for a notebook."""
        rows = [("", "options", _text.write([entry]))
                for entry in _values.tree_of("Pipeline", self._settings)]
        rows += [(stage.name, stage.op,
                  _text.write(_values.tree_of(STAGES[stage.op], stage.fields)))
                 for stage in self._stages]
        return _table(("name", "stage", "options"), rows)


def load(path: str | os.PathLike[str], /, **variables: object) -> Plan:
    """Returns the plan of a plan file, with all defaults filled in.

    Relative names of files in it are relative to its folder, values of variables to the current
    folder.

    Args:
      path: The file.
      variables: The values of the variables, ${NAME} in the text.

    PlanError: "FILE:LINE:COLUMN: ..." for each mistake in the file.
    """
    return Plan._of_library(_core.plan_from_file(os.fsdecode(path), _words(variables)))


def _unpickled(text: str, attached: Attached) -> Plan:
    return Plan._of_own_text(text)._with(_attached=attached)


def _absolute_names(message: str, fields: _values.Fields) -> _values.Fields:
    moved = dict(fields)
    for option in _values.SCHEMA[message]:
        if option.name not in fields:
            continue
        value = fields[option.name]
        if option.type == "Pipeline":
            moved[option.name] = tuple(plan._with_absolute_names() for plan in value)
        elif option.type == "path" and option.repeated:
            moved[option.name] = tuple(_paths.absolute(name, is_pattern=True) for name in value)
        elif option.type == "path":
            moved[option.name] = _paths.absolute(value, is_pattern=False)
    return moved


def _words(variables: Mapping[str, object]) -> dict[str, str]:
    """Returns values of variables as the text of a plan has them."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in variables.items()}


def _drop_defaults(tree: _text.Tree, is_same: Callable[[], bool]) -> None:
    """Takes out of a tree, and of those in it, what `is_same` does not miss."""
    for name in dict.fromkeys(name for name, _ in tree):
        kept = list(tree)
        tree[:] = [entry for entry in tree if entry[0] != name]
        if name == "digest" or not is_same():
            tree[:] = kept
    for _, value in tree:
        if isinstance(value, list):
            _drop_defaults(value, is_same)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    import html  # not needed by a program that trains

    def row(cell: str, values: Iterable[str]) -> str:
        cells = "".join(f"<{cell}>{html.escape(value)}</{cell}>" for value in values)
        return f"<tr>{cells}</tr>"

    body = "".join(row("td", values) for values in rows)
    return f"<table><thead>{row('th', head)}</thead><tbody>{body}</tbody></table>"


_values.CLASSES["Pipeline"] = Plan
