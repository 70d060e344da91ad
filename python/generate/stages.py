#!/usr/bin/env python3
"""Writes the Python names of Millrace's stages, from pipeline/pipeline.proto and docs/pipeline.md.

Usage: stages.py ROOT      writes ROOT/python/millrace/_stages.py and _sources.py

An option is a keyword of the same name; alternatives are one keyword, named as their group. Those
without a default come first, in the order of the message, then the others. Some of the others can
only be given by name: all of a source, those that are true or false, and the tables' below.
"""
import dataclasses
import pathlib
import re
import sys
import textwrap

if __package__:
    from . import schema
else:
    import schema

# Repeated options of which each value is an argument of its own.
EACH_AN_ARGUMENT = {"feature": ("parse_example", "parse_sequence_example", "parse_csv",
                                "parse_json", "parse_tar"),
                    "input": ("concatenate", "mix", "zip")}
# Names of fields, and what else reads badly without its name.
BY_NAME = {"field", "output", "label", "mask", "lengths", "boxes", "name", "key"}
BY_PLACE = {("unbatch", "field")}
# Options that the documentation calls required, but that another one can take the place of.
REPLACEABLE = {("resize", "height"), ("resize", "width")}
# What a message cannot do without.
REQUIRED = {"Feature": ("key", "dtype"), "FeatureList": ("key", "dtype"),
            "Padding": ("field", "value")}
PYTHON_TYPES = {"bool": "bool", "string": "str", "float": "float", "double": "float",
                "int64": "int", "uint32": "int", "uint64": "int", "bytes": "bytes",
                "DataType": "DType", "Pipeline": "Plan"}
# Alternatives as the documentation has them, and the keyword that stands for them.
KEYWORDS_OF = {"default_int, default_float or default_bytes": "default",
               "int_value or float_value": "value"}
PATH = "str | os.PathLike[str]"
WIDTH = 100


@dataclasses.dataclass
class Parameter:
    name: str
    type: str
    text: str        # its meaning
    default: str     # in words; "": none is told
    required: bool
    by_name: bool
    is_each: bool    # true if it is each of the arguments


def parameters_of(message, owner, options, required, all_by_name=False):
    """Returns the parameters of the call that makes a message, in its order; `options` has the
    meanings and defaults of the options, `owner` is the stage's name or the message's."""
    found = {}
    for field in message.fields:
        name = field.oneof or field.name
        if name in found:
            found[name].type += f" | {PYTHON_TYPES[field.type]}"
            continue
        text, default = options.get(field.name, (field.comment, ""))
        is_required = name in required
        found[name] = Parameter(
            name, type_of(field), text, default, is_required,
            by_name=not is_required and (
                all_by_name or field.type == "bool" or name in BY_NAME)
            and (owner, name) not in BY_PLACE,
            is_each=owner in EACH_AN_ARGUMENT.get(name, ()))
    parameters = list(found.values())
    each = [parameter for parameter in parameters if parameter.is_each]
    others = [parameter for parameter in parameters if not parameter.is_each]
    return each + sorted(others, key=lambda parameter: (parameter.by_name, not parameter.required))


def type_of(field):
    one = PATH if field.path else PYTHON_TYPES.get(field.type, field.type)
    return f"Iterable[{one}] | {one}" if field.repeated else one


def signature(parameters, first=""):
    """Returns the lines of parameters in parentheses."""
    parts = [first] if first else []
    names_only = False
    for parameter in parameters:
        if parameter.is_each:
            one = parameter.type.rpartition(" | ")[2]
            parts.append(f"*{parameter.name}: {one}")
            names_only = True
            continue
        if parameter.by_name and not names_only:
            parts.append("*")
            names_only = True
        if parameter.required:
            parts.append(f"{parameter.name}: {parameter.type}")
        else:
            parts.append(f"{parameter.name}: {parameter.type} | None = None")
    return parts


def definition(indent, head, parts, result):
    """Returns "def NAME(PARTS) -> RESULT:" in lines of WIDTH columns at most."""
    begin = f"{indent}def {head}("
    text = textwrap.fill(", ".join(part.replace(" ", "\0") for part in parts), WIDTH - len(begin)
                         - len(f") -> {result}:"), break_long_words=False,
                         break_on_hyphens=False)
    lines = text.replace("\0", " ").split("\n")
    return begin + f"\n{' ' * len(begin)}".join(lines) + f") -> {result}:\n"


def sentence(text):
    return text if not text or text[-1] in ".?!" else text + "."


def described(parameter):
    """Returns what the documentation says of a parameter."""
    default = parameter.default
    says_default = default and default not in ("required", "none", '""')
    text = parameter.text
    for alternatives, keyword in KEYWORDS_OF.items():
        text = text.replace(alternatives, keyword)
    return " ".join(filter(None, [
        sentence(text), f"Default: {default}." if says_default else ""]))


def docstring(indent, text, parameters):
    """Returns the lines of a docstring."""
    lines = textwrap.wrap(f'"""{sentence(text)}', WIDTH - len(indent))
    arguments = [(p, described(p)) for p in parameters if described(p)]
    if arguments:
        lines += ["", "Args:"]
        for parameter, says in arguments:
            lines += textwrap.wrap(f"{parameter.name}: {says}", WIDTH - len(indent),
                                   initial_indent="  ", subsequent_indent="      ")
        lines.append('"""')
    elif len(indent + lines[-1]) + 3 <= WIDTH:
        lines[-1] += '"""'
    else:
        lines.append('"""')
    return "".join(f"{indent}{line}".rstrip() + "\n" for line in lines).replace("\\", "\\\\")


def call_with(indent, begin, parameters):
    """Returns the call BEGIN{"NAME": NAME, ...})."""
    entries = [f'"{parameter.name}":\0{parameter.name}' for parameter in parameters]
    line = f"{indent}{begin}{{{', '.join(entries)}}})".replace("\0", " ")
    if len(line) <= WIDTH:
        return line + "\n"
    inner = indent + "    "
    text = textwrap.fill(", ".join(entries), WIDTH - 2, initial_indent=inner,
                         subsequent_indent=inner, break_long_words=False, break_on_hyphens=False)
    return f"{indent}{begin}{{\n" + text.replace("\0", " ") + "})\n"


STAGE_PARAMETER = Parameter("stage", "str", "The stage's name.", "the op's", False, True, False)


def call_of_stage(stage, indent, head, receiver, first=""):
    """Returns the method or function that appends a stage."""
    required = {name for name, (_, default) in stage.options.items()
                if default == "required" and (stage.name, name) not in REPLACEABLE}
    parameters = parameters_of(stage.message, stage.name, stage.options, required,
                               all_by_name=stage.family in schema.SOURCE_FAMILIES)
    inner = indent + "    "
    every = [*parameters, STAGE_PARAMETER]
    return (definition(indent, head, signature(every, first), "Plan")
            + docstring(inner, stage.doc, every)
            + call_with(inner, f'return {receiver}("{stage.name}", stage, ', parameters))


def schema_text(message):
    """Returns a message's fields as _values.schema_of reads them."""
    words = []
    for field in message.fields:
        kind = "path" if field.path else field.type
        star = "*" if field.repeated else ""
        words.append(f"{field.name}:{kind}{star}" + (f"/{field.oneof}" if field.oneof else ""))
    return words


def table(name, entries):
    """Returns a dict of strings; `entries` has (key, words)."""
    lines = [f"{name} = {{\n"]
    for key, words in entries:
        rows = textwrap.wrap(" ".join(words), WIDTH - 12) or [""]
        rows = [f'"{row} "' for row in rows[:-1]] + [f'"{rows[-1]}"']
        if len(rows) == 1 and len(f"    {key!r}: {rows[0]},") <= WIDTH:
            lines.append(f'    "{key}": {rows[0]},\n')
        else:
            lines.append(f'    "{key}":\n' + "\n".join(f"        {row}" for row in rows) + ",\n")
    return "".join(lines) + "}\n"


def function_of(message):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", message).lower()


def message_class(message):
    parameters = parameters_of(message, message.name, {}, REQUIRED.get(message.name, ()))
    init = definition("    ", "__init__", signature(parameters, "self"), "None")
    return (f"class {message.name}(Message):\n"
            + docstring("    ", message.comment or DOCS[message.name], parameters)
            + "    __slots__ = ()\n\n" + init
            + call_with("        ", "super().__init__(", parameters)
            + f"\n\n{function_of(message.name)} = {message.name}\n")


# Of messages without a comment.
DOCS = {"Feature": "A value of a record, which becomes a field."}

HEADER = '''\
# Generated by python/generate/stages.py, from pipeline/pipeline.proto and docs/pipeline.md.
"""{doc}"""
from __future__ import annotations

'''


def enum_class(name, words):
    lines = [f"class {name}(enum.Enum):\n", f'    """The type of a field\'s values."""\n']
    lines += [f'    {word} = "{word}"\n' for word in words]
    return "".join(lines) + "\n\n" + "".join(f"{word} = {name}.{word}\n" for word in words)


def options_method(pipeline):
    parameters = parameters_of(pipeline, "options", {}, (), all_by_name=True)
    return (definition("    ", "options", signature(parameters, "self"), "Plan")
            + docstring("        ", "Sets what belongs to the whole plan", parameters)
            + call_with("        ", "return self._set(", parameters))


def nested_messages(all_messages, stages):
    """Returns the messages inside those of stages, in the order of pipeline.proto."""
    of_stages = {stage.message.name for stage in stages}
    return [message for name, message in all_messages.items() if name not in of_stages]


def stages_module(read):
    pipeline = schema.Message("Pipeline", fields=[
        field for field in read.pipeline.fields if field.type != "Stage"])
    nested = nested_messages(read.messages, read.stages)
    schemas = [*read.messages.values(), pipeline]
    names = [function_of(message.name) for message in nested]
    classes = [message.name for message in nested]
    words = [word for enum in read.enums.values() for word in enum]
    methods = [call_of_stage(stage, "    ", stage.name, "self._then", "self")
               for stage in read.stages if stage.family not in schema.SOURCE_FAMILIES]
    batches = [stage.name for stage in read.stages
               if stage.family == schema.BATCH_FAMILY and stage.name != "prefetch"]
    known = [*classes, *read.enums]
    return "".join([
        HEADER.format(doc="The stages that can follow a plan's source, and the options that belong "
                          "together."),
        "import enum\nimport os\nfrom typing import TYPE_CHECKING, Iterable, Mapping\n\n"
        "from ._values import CLASSES, SCHEMA, Message, schema_of\n\n"
        "if TYPE_CHECKING:\n    from .plan import Plan\n\n",
        "__all__ = " + name_list([*known, *names, *words]) + "\n\n",
        "# A DataType, its name in any case, or a dtype of NumPy, torch or JAX; for a feature also "
        "bytes,\n# int (INT64) or float (FLOAT32).\nDType = object\n\n\n",
        "\n\n".join([enum_class(name, words) for name, words in read.enums.items()]),
        "\n\n", "\n\n".join(map(message_class, nested)), "\n\n",
        "class StageMethods:\n"
        '    """The stages, as methods of a plan.\n\n'
        "    A stage's random draws depend on its name. The default is the name of its op, with _2, "
        '_3, ...\n    when it occurs again.\n    """\n    __slots__ = ()\n\n',
        "\n".join([*methods, options_method(pipeline)]),
        ABSTRACT, "\n\n",
        "# The message of a stage's options.\n",
        table("STAGES", [(stage.name, [stage.message.name]) for stage in read.stages]), "\n",
        "# Stages that make batches.\n", "BATCHES = " + name_tuple(batches) + "\n\n",
        table("_SCHEMA", [(message.name, schema_text(message)) for message in schemas]),
        "SCHEMA.update((name, schema_of(text)) for name, text in _SCHEMA.items())\n",
        "CLASSES.update({\n" + "".join(f'    "{name}": {name},\n' for name in known) + "})\n",
    ])


ABSTRACT = '''
    def _then(self, op: str, stage: str | None, given: Mapping[str, object]) -> Plan:
        raise NotImplementedError

    def _set(self, given: Mapping[str, object]) -> Plan:
        raise NotImplementedError
'''


def name_list(names):
    text = textwrap.fill(", ".join(f'"{name}"' for name in names), WIDTH - 4,
                         initial_indent="    ", subsequent_indent="    ")
    return f"[\n{text},\n]"


def name_tuple(names):
    return "(" + ", ".join(f'"{name}"' for name in names) + ")"


def sources_module(read):
    sources = [stage for stage in read.stages if stage.family in schema.SOURCE_FAMILIES]
    functions = [call_of_stage(stage, "", stage.name, "Plan()._then") for stage in sources]
    return "".join([
        HEADER.format(doc="The sources, each of which begins a plan."),
        "import os\nfrom typing import Iterable\n\nfrom .plan import Plan\n\n",
        "__all__ = " + name_list([stage.name for stage in sources]) + "\n\n\n",
        "\n\n".join(functions),
    ])


def modules(root):
    """Returns the texts of the generated files by their paths."""
    root = pathlib.Path(root)
    read = schema.read((root / "pipeline/pipeline.proto").read_text(),
                       (root / "docs/pipeline.md").read_text())
    package = root / "python/millrace"
    return {package / "_stages.py": stages_module(read),
            package / "_sources.py": sources_module(read)}


if __name__ == "__main__":
    for path, text in modules(sys.argv[1]).items():
        path.write_text(text)
