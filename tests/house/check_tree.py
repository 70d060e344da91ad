#!/usr/bin/env python3
"""Checks the rules of the house that no compiler checks.

  - include arrows: which folder may include which (ARCHITECTURE.md);
  - faces and rooms: the headers at a folder's root are its face, which other folders include; a
    subfolder is a private room, which they do not; a face includes no room, and the rooms of one
    folder do not include each other in a circle;
  - installed headers include no protobuf, MPI or oneDNN header;
  - header guards are MILLRACE_PATH_H_;
  - no library prints or ends the process;
  - no class has the name of a message of its namespace: the linker would take either for both;
  - no source file is longer than 800 lines;
  - no sentence of a comment of cli, or of a library other than the trainer, begins with What,
    Whatever, Who or Whoever;
  - no line of a source, CMake or shell file is longer than 100 columns, comments included, which
    clang-format leaves as they are.

Usage: check_tree.py ROOT        prints each violation as "file:line: text", exits 1 if there is one
"""
import pathlib
import re

import report

FOLDERS = {
    # folder: what it may include beside itself, closed over transitively below
    "base": set(),
    "readers": {"base"},
    "augment": {"readers"},
    "pipeline": {"readers", "augment"},
    "collectives": {"base"},
    "capi": {"pipeline", "collectives", "cli"},
    "python": {"capi"},
    "trainer": {"pipeline", "collectives"},
    "cli": {"trainer"},
}
# Folders that do not include what those include which they include.
STRICT = {"python"}
# Tests and benches may include every folder, and every room.
UNBOUND = {"tests", "bench", "examples"}
# Folders whose comments name their subjects.
PLAIN = set(FOLDERS) - {"trainer"}
FORBIDDEN_IN_FACES = re.compile(
    r'[<"](google/protobuf/|mpi\.h|mpi/|dnnl|.*\.pb\.h)')
# Elements that are not there: nothing that as<T>() could return would not be taken for some.
MAY_END = {"pipeline/batch/found_tensor.cc"}
PRINTS_OR_ENDS = re.compile(
    r"(?<![\w.>])(v?f?printf|f?puts|f?putc|putchar|perror|abort|exit|_exit|_Exit|quick_exit)\s*\("
    r"|std::(cout|cerr|clog|terminate)\b")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
MESSAGE = re.compile(r"^(?:message|enum) (\w+) \{", re.M)
NAMESPACE = re.compile(r"^namespace ([\w:]+) \{")
CLASS = re.compile(r"^(?:class|struct|enum class|enum) (\w+)(?: final)? ?[:{]")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUBJECT = re.compile(r"//(?:| .*[.:]) (What|Whatever|Who|Whoever) [^?]*$")
MAX_LINES = 800
MAX_COLUMNS = 100
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
# Files, beside those, of which only the width is looked at.
WIDTH_SUFFIXES = {".c", ".proto", ".cmake", ".sh"}
WIDTH_NAMES = {"CMakeLists.txt"}
WIDTH_FOLDERS = {"cmake", "scripts"}


def allowed_folders(folder):
    """Returns every folder that `folder` may include, itself among them."""
    if folder in STRICT:
        return {folder} | FOLDERS[folder]
    reached, todo = {folder}, [folder]
    while todo:
        for target in FOLDERS[todo.pop()]:
            if target not in reached:
                reached.add(target)
                todo.append(target)
    return reached | {"base"}


def check_include(folder, header):
    """Returns what is wrong with `folder` including `header`, or None."""
    if header.startswith("."):
        return f"includes start at the root of the tree ({header})"
    target = header.split("/")[0]
    if "/" not in header or target not in FOLDERS:
        return None
    if target not in allowed_folders(folder):
        return f"{folder}/ must not include {target}/ ({header})"
    if target != folder and room_of(header):
        return f"{header} is in a room of {target}/"
    return None


def room_of(path):
    """Returns the room that `path` ("folder/room/file") lies in, or "" for a file of the root."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else ""


def find_circle(arrows):
    """Returns rooms that include each other in a circle, first and last the same, or None.

    `arrows` maps a room to the rooms that it includes.
    """
    done = set()

    def visit(room, path):
        if room in path:
            return path[path.index(room):] + [room]
        if room in done:
            return None
        for target in sorted(arrows.get(room, ())):
            if circle := visit(target, path + [room]):
                return circle
        done.add(room)
        return None

    for room in sorted(arrows):
        if circle := visit(room, []):
            return circle
    return None


def check_rooms(folder, includes):
    """Returns what is wrong with the rooms of `folder` as (file, line, text).

    `includes` are the includes among the files of the folder as (file, line, header).
    """
    found, arrows, example = [], {}, {}
    for file, number, header in includes:
        source, target = room_of(file), room_of(header)
        if not source and target and file.endswith(".h"):
            found.append((file, number, f"the face of {folder}/ must not include a room ({header})"))
        if source and target and source != target:
            arrows.setdefault(source, set()).add(target)
            example.setdefault((source, target), (file, number, header))
    circle = find_circle(arrows)
    if circle:
        file, number, header = example[tuple(circle[:2])]
        text = " -> ".join(circle)
        found.append((file, number, f"rooms include each other in a circle: {text} ({header})"))
    return found


def check_guard(relative, lines):
    """Returns what is wrong with a header's guard, or None."""
    guard = "MILLRACE_" + re.sub(r"[^A-Z0-9]", "_", str(relative).upper()) + "_"
    # The first two directives of the file, comments aside.
    directives = [line.strip() for line in lines if line.startswith("#")][:2]
    # A file that Highway includes once for each set of instructions.
    if relative.name.endswith("-inl.h"):
        toggled = [f"#if defined({guard}) == defined(HWY_TARGET_TOGGLE)", f"#ifdef {guard}"]
        # Or one that is included several times with other macros, which it demands.
        demands = len(directives) == 2 and directives[1].startswith("#error")
        return None if directives == toggled or demands else (
            f"the header guard is not Highway's of {guard}")
    if directives != [f"#ifndef {guard}", f"#define {guard}"]:
        return f"the header guard is not {guard}"
    return None


def is_face(relative):
    return (relative.suffix == ".h" and len(relative.parts) == 2
            and relative.parts[0] not in {"cli", "trainer"} | UNBOUND)


def includes_within(folder, relative, lines):
    """Returns the includes of a source that name its own folder as (file, line, header)."""
    found = []
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match and match[2].startswith(folder + "/") and not match[2].endswith(".pb.h"):
            found.append((relative.as_posix(), number, match[2]))
    return found


def is_library(folder):
    return folder in FOLDERS and folder != "cli"


def check_width(lines):
    """Returns the lines that are too long as (line number, text)."""
    return [(number, f"{len(line)} columns; at most {MAX_COLUMNS}")
            for number, line in enumerate(lines, 1) if len(line) > MAX_COLUMNS]


def check_source(relative, lines):
    """Returns the violations of one source as (line number, text), but for its width."""
    folder, found = relative.parts[0], []
    if len(lines) - 1 > MAX_LINES:
        found.append((MAX_LINES, f"{len(lines) - 1} lines; at most {MAX_LINES}"))
    if relative.suffix in {".h", ".cuh"} and (wrong := check_guard(relative, lines)):
        found.append((1, wrong))
    for number, line in enumerate(lines, 1):
        may_end = relative.as_posix() in MAY_END
        code = STRING.sub('""', line).split("//")[0]
        if is_library(folder) and not may_end and (told := PRINTS_OR_ENDS.search(code)):
            found.append((number, f"a library must not print or end the process ({told[0]})"))
        if folder in PLAIN and (begins := SUBJECT.search(line)):
            found.append((number, f"a sentence begins with {begins[1]}: name the subject"))
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, header = match.groups()
        if folder in FOLDERS and (wrong := check_include(folder, header)):
            found.append((number, wrong))
        if is_face(relative) and FORBIDDEN_IN_FACES.match(quote + header):
            found.append((number, f"a header of a face must not include {header}"))
    return found


def messages_of(folder):
    """Returns {namespace: names of messages} of the protobuf files below `folder`."""
    found = {}
    for path in sorted(folder.rglob("*.proto")):
        text = path.read_text(encoding="utf-8")
        if package := PACKAGE.search(text):
            names = found.setdefault(package[1].replace(".", "::"), set())
            names.update(MESSAGE.findall(text))
    return found


def check_messages(messages, lines):
    """Returns the classes that have the name of a message as (line number, text)."""
    namespace, found = "", []
    for number, line in enumerate(lines, 1):
        if match := NAMESPACE.match(line):
            namespace = match[1]
        match = CLASS.match(line)
        if match and match[1] in messages.get(namespace, ()):
            found.append((number, f"{namespace}::{match[1]} is a protobuf message too"))
    return found


def is_checked(path):
    return path.suffix in SUFFIXES | WIDTH_SUFFIXES or path.name in WIDTH_NAMES


def check_tree(root):
    """Returns all violations below `root` as "file:line: text", and how many files were read."""
    root, found, num_files = pathlib.Path(root), [], 0
    for top in sorted(set(FOLDERS) | UNBOUND | WIDTH_FOLDERS):
        includes, messages = [], messages_of(root / top)
        for path in sorted((root / top).rglob("*")):
            if not path.is_file() or not is_checked(path):
                continue
            num_files += 1
            relative = path.relative_to(root)
            lines = path.read_text(encoding="utf-8").split("\n")
            wrong = check_width(lines)
            if path.suffix in SUFFIXES:
                wrong += check_source(relative, lines) + check_messages(messages, lines)
                includes += includes_within(top, relative, lines)
            found += [f"{relative}:{number}: {text}" for number, text in wrong]
        if top in FOLDERS:
            found += [f"{file}:{number}: {text}"
                      for file, number, text in check_rooms(top, includes)]
    return found, num_files


if __name__ == "__main__":
    report.main(check_tree, __doc__, "files")
