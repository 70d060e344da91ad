"""Reads the stages of Millrace from the two files that describe them.

pipeline/pipeline.proto has the messages: names, types, order and comments of all fields. The tables
of docs/pipeline.md, which are generated from the program's own table of stages, have a sentence on
each stage, the meaning of its options and their defaults.
"""
import dataclasses
import re

SOURCE_FAMILIES = ("files", "sources")
BATCH_FAMILY = "batches"


@dataclasses.dataclass
class Field:
    """A field of a message."""
    name: str
    type: str          # "uint32", "string", "DataType", "Boxes", ...
    repeated: bool
    path: bool         # true if the field names files
    oneof: str         # the group of which one field can be given; ""
    comment: str       # as pipeline.proto has it


@dataclasses.dataclass
class Message:
    name: str
    comment: str = ""
    fields: list[Field] = dataclasses.field(default_factory=list)

    def __getitem__(self, name):
        return next(field for field in self.fields if field.name == name)


@dataclasses.dataclass
class Stage:
    """A stage as the documentation has it; `message` has its options."""
    name: str
    family: str
    doc: str
    message: Message
    options: dict[str, tuple[str, str]]  # meaning and default, by the option's name


@dataclasses.dataclass
class Schema:
    messages: dict[str, Message]     # those of options, by name
    enums: dict[str, list[str]]      # words, without that of no value
    stages: list[Stage]              # in the order of the documentation
    pipeline: Message                # what can be set for a whole plan


FIELD = re.compile(r"(?P<label>repeated |optional )?(?P<type>\w+) (?P<name>\w+) = \d+"
                   r"(?: \[(?P<options>.*)\])?;$")
ENUM_WORD = re.compile(r"(\w+) = (\d+);$")


class ProtoReader:
    """Reads the messages and enums of a .proto file, of which each statement has its own line."""

    def __init__(self, text):
        self.messages, self.enums = {}, {}
        self._message = self._enum = None
        self._oneof, self._oneof_comment = "", []
        self._comment = []
        for line in text.splitlines():
            self._read(line.strip())

    def _read(self, line):
        if line.startswith("//"):
            self._comment.append(line[2:].strip())
            return
        if opening := re.match(r"(message|enum|oneof|extend) ([\w.]+) \{(\})?$", line):
            self._open(*opening.groups())
        elif line == "}":
            self._close()
        elif self._enum is not None and (word := ENUM_WORD.match(line)):
            if word[2] != "0":
                self._enum.append(word[1])
        elif self._message is not None and (field := FIELD.match(line)):
            self._add(field)
        elif line and not re.match(r"(syntax|package|import) .*;$|bool \w+ = 5000\d;$", line):
            raise ValueError(f"a line of the .proto file that is not understood: {line}")
        self._comment = []

    def _open(self, kind, name, closed):
        if kind == "message":
            self._message = self.messages[name] = Message(name, " ".join(self._comment))
        elif kind == "enum":
            self._enum = self.enums[name] = []
        elif kind == "oneof":
            self._oneof, self._oneof_comment = name, self._comment
        if closed:
            self._close()

    def _close(self):
        if self._oneof:
            self._oneof, self._oneof_comment = "", []
        else:
            self._message = self._enum = None

    def _add(self, match):
        self._message.fields.append(Field(
            name=match["name"], type=match["type"], repeated=match["label"] == "repeated ",
            path="path) = true" in (match["options"] or ""), oneof=self._oneof,
            comment=" ".join(self._oneof_comment + self._comment)))


def _sentence(markdown):
    """Returns the text in plain words, with a capital unless it begins with a name."""
    return _plain(markdown if markdown[:1] in "`" else markdown[0].upper() + markdown[1:])


def _plain(markdown):
    """Returns Markdown as a terminal shows it: without links and marks of code."""
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", markdown)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


STAGE_ROW = re.compile(r"\| `(\w+)` \| (.*) \| \|$")
OPTION_ROW = re.compile(r"\| \| `(\w+)`(?:: (.*))? \| (.*) \|$")


def read_tables(page):
    """Yields (family, stage's name, sentence, {option: (meaning, default)}) of each stage."""
    family, row = "", None
    for line in page.splitlines():
        if begin := re.match(r"<!-- stages: (\w+) -->$", line):
            family = begin[1]
        elif line == "<!-- end of stages -->":
            if row:
                yield row
            family, row = "", None
        elif family and (stage := STAGE_ROW.match(line)):
            if row:
                yield row
            row = (family, stage[1], _plain(stage[2]), {})
        elif row and (option := OPTION_ROW.match(line)):
            row[3][option[1]] = (_sentence(option[2] or ""), _plain(option[3]))


def read(proto_text, page):
    """Returns the schema of the two files' texts.

    ValueError: a stage of one of them is missing in the other, or an option is.
    """
    proto = ProtoReader(proto_text)
    ops = {field.name: field.type for field in proto.messages["Stage"].fields if field.oneof}
    stages = []
    for family, name, doc, options in read_tables(page):
        message = proto.messages[ops[name]]
        if {field.name for field in message.fields} != set(options):
            raise ValueError(f"the table of {name} does not have the options of the message")
        stages.append(Stage(name, family, doc, message, options))
    if {stage.name for stage in stages} != set(ops):
        raise ValueError("the tables do not have the stages of the message Stage")
    messages = {name: message for name, message in proto.messages.items()
                if name not in ("Pipeline", "Stage")}
    return Schema(messages, proto.enums, stages, proto.messages["Pipeline"])
