"""The public names of the Python package: their signatures and docstrings, from its sources and the
stub of the extension. The docstrings of the extension come from the extension, which is imported."""
import ast
import dataclasses
import inspect
import re

HEADER_END = re.compile(r":\s*(#.*)?$")


@dataclasses.dataclass
class Member:
    name: str
    code: str         # the signature, or the fields of a class
    doc: str
    members: list     # of a class: its methods and properties
    aliases: list     # other names of the same


class Package:
    """The modules of the package below a folder."""

    def __init__(self, folder, core):
        self._folder = folder
        self._core = core  # the extension
        self._sources = {}
        self._trees = {}

    def members_of(self, module, names):
        """Returns the members of a module in the order of `names`; None: of its __all__."""
        tree = self._tree(module)
        defined = {node.name: node for node in tree.body
                   if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        aliases = {node.targets[0].id: node.value.id for node in tree.body
                   if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
                   and isinstance(node.targets[0], ast.Name)}
        if names is None:
            names = [name for name in self._all(tree) if name in defined]
        members = []
        for name in names:
            member = self._member(module, defined[name])
            member.aliases = [alias for alias, of in aliases.items() if of == name]
            members.append(member)
        return members

    def methods_of(self, module, name):
        """Returns the methods of a class."""
        (found,) = self.members_of(module, [name])
        return found.members

    def _tree(self, module):
        if module not in self._trees:
            suffix = ".pyi" if module == "_core" else ".py"
            self._sources[module] = (self._folder / (module + suffix)).read_text(encoding="utf-8")
            self._trees[module] = ast.parse(self._sources[module])
        return self._trees[module]

    @staticmethod
    def _all(tree):
        for node in tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                return ast.literal_eval(node.value)
        return []

    def _member(self, module, node):
        doc = ast.get_docstring(node) or ""
        if isinstance(node, ast.FunctionDef):
            return Member(node.name, self._signature(module, node), doc, [], [])
        members = {}
        for owner, base in [*self._hidden_bases(module, node), (module, node)]:
            members.update(self._methods(owner, base))
        return Member(node.name, self._class_code(module, node), doc, list(members.values()), [])

    def _hidden_bases(self, module, node):
        """Yields the bases of a class that are no public names themselves."""
        public = self._all(self._tree(module))
        for base in node.bases:
            owner, _, name = ast.unparse(base).rpartition(".")
            owner = owner or module
            if owner not in (module, "_core") or (owner == module and name in public):
                continue
            for other in self._tree(owner).body:
                if isinstance(other, ast.ClassDef) and other.name == name:
                    yield owner, other

    def _methods(self, module, node):
        methods = {}
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                doc = ast.get_docstring(item) or self._doc_in_extension(module, node, item)
                methods[item.name] = Member(item.name, self._signature(module, item), doc, [], [])
        return methods

    def _doc_in_extension(self, module, node, item):
        if module != "_core":
            return ""
        return inspect.getdoc(getattr(getattr(self._core, node.name), item.name)) or ""

    def _class_code(self, module, node):
        fields = [item for item in node.body if isinstance(item, ast.AnnAssign)
                  and not item.target.id.startswith("_")]
        if fields:
            lines = self._sources[module].split("\n")
            base = f"({ast.unparse(node.bases[0])})" if node.bases else ""
            shown = [lines[number - 1].replace("#:", "#") for field in fields
                     for number in range(field.lineno, field.end_lineno + 1)]
            return "\n".join([f"class {node.name}{base}:", *shown])
        for item in node.body:
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                return self._signature(module, item, node.name)
        base = ", ".join(ast.unparse(base) for base in node.bases
                         if not ast.unparse(base).startswith(("_", "Field", "Stage")))
        return f"class {node.name}" + (f"({base})" if base else "")

    def _signature(self, module, node, class_name=""):
        """Returns the header of a function as its source has it; of a class, the call of it."""
        lines = self._sources[module].split("\n")
        first, body = node.lineno - 1, node.body[0]
        header = lines[first:body.lineno - 1] or [lines[first][:body.col_offset]]
        header = HEADER_END.sub("", "\n".join(header).rstrip())
        begin, _, rest = header.strip().partition("(")
        if class_name:
            begin = class_name
            rest = re.sub(r"^self(,\s*|(?=\)))", "", rest)
            rest = rest.removesuffix(" -> None")
        rest = re.sub(r"\n\s*", "\n" + " " * (len(begin) + 1), rest)
        decorators = [f"@{ast.unparse(each)}\n" for each in node.decorator_list]
        return "".join(decorators) + begin + "(" + rest
