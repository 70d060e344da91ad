#!/usr/bin/env python3
"""The binary interface of libmillrace.so.1, as its headers say it.

Usage: abi.py [HEADER ...]    writes tests/capi/abi.xml, the description that is kept

abidw of Debian's package abigail-tools describes a library by its debug information, which that of
a release lacks. So it describes one that is made here: each function that the headers declare, with
an empty body. exports_test.py checks that the real one shows these functions, and the compiler that
they are as the headers say.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parent.parent / "capi"
KEPT = HERE / "abi.xml"
# abidiff is not to look at the fields of structs, of which it cannot say that only those behind the
# others are new.
STRUCTS = """\
[suppress_type]
type_kind = struct
name_regexp = ^mr_
has_data_member_inserted_at = end
"""


def headers():
    return sorted(FOLDER.glob("millrace*.h"))


def stubs(texts):
    """Returns a program in C that defines the functions that headers declare."""
    every = re.sub(r"//[^\n]*", "", "\n".join(texts.values()))
    functions = re.findall(r"^MR_API\b([^;]*);", every, re.MULTILINE)
    return ("".join(f'#include "{name}"\n' for name in texts)
            + "".join(f"{function} {{ __builtin_trap(); }}\n" for function in functions))


def describe(texts, out):
    """Writes the description of the interface of headers, of which there are the texts by name."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in texts.items():
            (root / name).write_text(text, encoding="utf-8")
        (root / "stubs.c").write_text(stubs(texts), encoding="utf-8")
        library = root / "libmillrace.so.1"
        subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-g", "-O0", "-w", "-fPIC",
                        "-shared", "-Wl,-soname,libmillrace.so.1", "-o", library,
                        root / "stubs.c"], check=True, cwd=root)
        subprocess.run(["abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs",
                        "--drop-undefined-syms", "--type-id-style", "hash", "--out-file", out,
                        library], check=True)


def fields_of_structs(description):
    """Returns the (offset, name, type) of each field of each struct, by the structs' names."""
    return {struct.get("name"): [
        (int(member.get("layout-offset-in-bits")), field.get("name"), field.get("type-id"))
        for member in struct.iter("data-member") for field in member.iter("var-decl")]
        for struct in xml.etree.ElementTree.parse(description).iter("class-decl")
        if struct.get("name").startswith("mr_")}


def changed_structs(before, after):
    """Returns what has changed of structs but must not: fields may be added at the end of a struct
    that begins with its size."""
    now = fields_of_structs(after)
    for name, fields in fields_of_structs(before).items():
        kept = now.get(name, [])
        if fields and fields[0][1] == "struct_size":
            kept = kept[:len(fields)]
        if kept != fields:
            wrong = next((field for field, other in zip(fields, kept) if field != other), None)
            yield f"struct {name}: {'a field is new' if wrong is None else wrong[1]}\n"


def changes(before, after):
    """Returns what has changed between two descriptions but must not; "" for nothing. Functions may
    be added."""
    with tempfile.NamedTemporaryFile("w", suffix=".suppr") as structs:
        structs.write(STRUCTS)
        structs.flush()
        done = subprocess.run(["abidiff", "--no-show-locs", "--no-added-syms", "--suppressions",
                               structs.name, before, after], capture_output=True, text=True,
                              check=False)
    found = "".join(changed_structs(before, after))
    if done.returncode != 0:
        found += done.stdout + done.stderr or f"abidiff returned {done.returncode}"
    return found


def read(paths):
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


if __name__ == "__main__":
    describe(read(map(pathlib.Path, sys.argv[1:]) if sys.argv[1:] else headers()), KEPT)
