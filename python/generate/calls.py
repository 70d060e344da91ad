"""Calls that make the messages of plans: their parameters, and their text in Python.

An option is a keyword of the same name; alternatives are one keyword, named as their group. Those
without a default come first, in the order of the message, then the others. Some of the others can
only be given by name: all of a source, those that are true or false, and the tables' below.
"""
import dataclasses
import textwrap

# Repeated options of which each value is an argument of its own.
EACH_AN_ARGUMENT = {"feature": ("parse_example", "parse_sequence_example", "parse_csv",
                                "parse_json", "parse_tar"),
                    "input": ("concatenate", "mix", "zip")}
# Names of fields, and what else reads badly without its name.
BY_NAME = {"field", "output", "label", "mask", "lengths", "boxes", "name", "key"}
BY_PLACE = {("unbatch", "field")}
# Options that the documentation calls required, but that another one can take the place of.
REPLACEABLE = {("resize", "height"), ("resize", "width")}
# The fields that a message cannot do without.
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
