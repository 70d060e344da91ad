#!/usr/bin/env python3
"""Checks that files include what they use of the headers that are precompiled.

A build with precompiled headers does not notice a missing include; one without them, or another
compiler's library, does. A file may have it of the headers of ours that it includes.

Usage: check_includes.py ROOT    prints each violation as "file:line: text", exits 1 if there is one
"""
import pathlib
import re

import report

TARGETS = "cmake/MillraceTargets.cmake"
FOLDERS = ["base", "readers", "augment", "pipeline", "collectives", "capi", "trainer", "cli",
           "tests", "bench"]
# What tells that a header is used: the names that are used of it here.
USES = {
    "absl/status/status.h": r"absl::(?:Status\b|OkStatus\b|\w+Error\()",
    "absl/status/statusor.h": r"absl::StatusOr\b",
    "absl/strings/str_cat.h": r"absl::Str(?:Cat|Append)\b",
    "algorithm": r"std::(?:ranges::)?(?:all_of|any_of|binary_search|clamp|copy_n|count|count_if|"
                 r"equal|fill|fill_n|find|find_if|generate|is_sorted|lower_bound|max|max_element|"
                 r"min|min_element|mismatch|none_of|nth_element|reverse|rotate|shuffle|sort|"
                 r"stable_sort|transform|unique|upper_bound)\b(?!::)",
    "atomic": r"std::(?:atomic|memory_order)\w*",
    "chrono": r"std::chrono\b",
    "condition_variable": r"std::condition_variable\w*",
    "cstdint": r"(?<![\w:])(?:std::)?u?int(?:8|16|32|64|ptr)_t\b",
    "cstring": r"std::(?:mem(?:chr|cmp|cpy|move|set)|str(?:cmp|error|len))\b",
    "deque": r"std::deque\b",
    "functional": r"std::(?:function|greater|hash|invoke|less|reference_wrapper|ref)\b",
    "gmock/gmock.h": r"\b(?:ASSERT|EXPECT)_THAT\b",
    "map": r"std::(?:multi)?map\b",
    "memory": r"std::(?:enable_shared_from_this|make_(?:shared|unique)|"
              r"(?:shared|unique|weak)_ptr)\b",
    "mutex": r"std::(?:call_once|lock_guard|mutex|once_flag|scoped_lock|unique_lock)\b",
    "optional": r"std::(?:nullopt|optional)\b",
    "random": r"std::(?:mt19937|uniform_)\w*",
    "span": r"std::(?:as_bytes|as_writable_bytes|span)\b",
    "string": r"std::(?:string|to_string)\b",
    "string_view": r"std::string_view\b",
    "thread": r"std::(?:jthread|this_thread|thread)\b",
    "unordered_map": r"std::unordered_map\b",
    "utility": r"std::(?:exchange|forward|make_pair|move|pair|swap)\b",
    "vector": r"std::vector\b",
}
# The names of C for headers of C++.
OF_C = {"cstdint": "stdint.h"}
# Comments, and strings that end in their line.
PROSE = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+[<"]([^>"]+)[>"]', re.MULTILINE)
PRECOMPILED = re.compile(r"<([\w/.]+)>")


def precompiled(root):
    """Returns the headers that the build precompiles, of the lines of CMake that are no comments."""
    text = re.sub(r"#[^\n]*", "", (root / TARGETS).read_text(encoding="utf-8"))
    return set(PRECOMPILED.findall(text))


class Sources:
    """The files of a tree, and what each has by its includes."""

    def __init__(self, root):
        self.text = {}
        for folder in FOLDERS:
            for path in sorted((root / folder).rglob("*")):
                if path.suffix in {".h", ".cc"}:
                    self.text[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
        self.included = {file: set(INCLUDE.findall(text)) for file, text in self.text.items()}

    def reached(self, file):
        """The headers that `file` includes, itself or by others of ours."""
        seen, open_files = set(), [file]
        while open_files:
            new = self.included.get(open_files.pop(), set()) - seen
            seen |= new
            open_files += new
        return seen


def check_includes(root):
    """Returns all violations below `root` as "file:line: text", and the number of files."""
    root = pathlib.Path(root)
    found = [f"{TARGETS}:1: <{header}> is precompiled, and check_includes.py does not know its names"
             for header in sorted(precompiled(root) - USES.keys())]
    sources = Sources(root)
    for file, text in sources.text.items():
        code = PROSE.sub("", text)
        reached = sources.reached(file)
        for header, pattern in USES.items():
            has = header in reached or OF_C.get(header) in reached
            used = not has and re.search(pattern, code)
            if used:
                line = code.count("\n", 0, used.start()) + 1
                found.append(f"{file}:{line}: {used.group()} without <{header}>")
    return found, len(sources.text)


if __name__ == "__main__":
    report.main(check_includes, __doc__, "files")
