#!/usr/bin/env python3
"""Plants violations in a made-up tree and expects check_tree to find each."""
import pathlib
import tempfile
import unittest

import check_tree


def header(path, body=""):
    guard = "MILLRACE_" + path.upper().replace("/", "_").replace(".", "_") + "_"
    return f"#ifndef {guard}\n#define {guard}\n{body}\n#endif  // {guard}\n"


class CheckTreeTest(unittest.TestCase):
    def found(self, **files):
        """Writes {path: text} and returns the violations."""
        with tempfile.TemporaryDirectory() as root:
            for path, text in files["files"].items():
                target = pathlib.Path(root, path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            return check_tree.check_tree(root)[0]

    def expect_one(self, path, text, fragment):
        found = self.found(files={path: text})
        self.assertEqual(len(found), 1, found)
        self.assertIn(fragment, found[0])
        self.assertTrue(found[0].startswith(path + ":"), found[0])

    def test_allowed_arrows_pass(self):
        self.assertEqual([], self.found(files={
            "readers/a.cc": '#include "base/run.h"\n',
            "augment/a.cc": '#include "readers/record.h"\n',
            "pipeline/a.cc": '#include "augment/image_ops.h"\n#include "pipeline/plan/x.h"\n',
            "collectives/a.cc": '#include "base/tensor.h"\n',
            "trainer/a.cc": '#include "collectives/factory.h"\n#include "readers/record.h"\n'
                            '#include "pipeline/text_proto.h"\n',
            "cli/a.cc": '#include "trainer/train.h"\n#include "pipeline/plan.h"\n',
            "python/a.cc": '#include "capi/millrace.h"\n#include "python/call/error.h"\n',
            "tests/pipeline/a.cc": '#include "trainer/train.h"\n',
        }))

    def test_every_forbidden_arrow_is_found(self):
        order = list(check_tree.FOLDERS)
        for folder in order:
            for target in set(order) - check_tree.allowed_folders(folder):
                for name in (f'"{target}/b.h"', f"<{target}/b.h>"):
                    self.expect_one(f"{folder}/a.cc", f"#include {name}\n",
                                    f"{folder}/ must not include {target}/")

    def test_comments_that_name_no_subject_are_found(self):
        for comment in ("// What a path holds.", "// Waits. Whoever comes next is served.",
                        "int a;  // Who asked."):
            for folder in ("readers", "python"):
                self.expect_one(f"{folder}/a.cc", comment + "\n", "name the subject")
        self.assertEqual([], self.found(files={
            "readers/a.cc": "// Who has which rank?\n// A path and what it holds.\n",
            "tests/a.cc": "// What a path holds.\n",
        }))

    def test_libraries_that_print_or_end_the_process_are_found(self):
        for call in ('std::printf("a");', 'fprintf(stderr, "a");', "std::cerr << 1;", "::_exit(1);",
                     "abort();", "if (a) std::exit(1);", 'perror("a");'):
            self.expect_one("collectives/a.cc", f"void F() {{ {call} }}\n", "must not print or end")
        self.assertEqual([], self.found(files={
            "cli/a.cc": "std::exit(1);\n",
            "tests/a.cc": "std::cerr << 1;\n",
            "trainer/a.cc": "std::snprintf(text, 8, format); group.abort(); Abort(); // exit(1)\n",
            "capi/a.cc": 'Add("abort(message) exit(1)");\n',
        }))

    def test_paths_that_start_elsewhere_than_at_the_root_are_found(self):
        for name in ('"../pipeline/b.h"', '"./b.h"', "<../pipeline/b.h>"):
            self.expect_one("collectives/a.cc", f"#include {name}\n", "start at the root")

    def test_no_two_folders_may_include_each_other(self):
        for folder in check_tree.FOLDERS:
            for target in check_tree.allowed_folders(folder) - {folder}:
                self.assertNotIn(folder, check_tree.allowed_folders(target))

    def test_collectives_know_nothing_of_data(self):
        for target in ("readers", "augment", "pipeline"):
            self.expect_one("collectives/a.cu", f'  # include "{target}/b.h"\n', "must not include")

    def test_rooms_of_other_folders_are_private(self):
        self.expect_one("pipeline/a.cc", '#include "readers/file/crc.h"\n', "in a room of readers/")
        self.expect_one("pipeline/run/a.cc", '#include "base/work/a.h"\n', "in a room of base/")
        self.expect_one("cli/a.cc", '#include "pipeline/plan/physical.h"\n', "in a room of")

    def test_a_face_includes_no_room(self):
        self.expect_one("base/a.h", header("base/a.h", '#include "base/work/b.h"\n'),
                        "the face of base/ must not include a room")

    def test_rooms_that_include_each_other_in_a_circle_are_found(self):
        found = self.found(files={
            "base/a/a.cc": '#include "base/b/b.h"\n#include "base/c/c.h"\n',
            "base/b/b.cc": '#include "base/c/c.h"\n#include "base/face.h"\n',
            "base/c/c.cc": '\n#include "base/a/a.h"\n',
        })
        self.assertEqual(1, len(found), found)
        self.assertIn("a -> b -> c -> a", found[0])
        self.assertEqual([], self.found(files={
            "base/a/a.cc": '#include "base/b/b.h"\n#include "base/c/c.h"\n',
            "base/b/b.cc": '#include "base/c/c.h"\n',
            "base/c/c.cc": '#include "base/c/d.h"\n',
        }))

    def test_installed_headers_name_no_heavy_library(self):
        for include in ("<google/protobuf/message.h>",
                        "<mpi.h>", "<dnnl.hpp>", '"pipeline/pipeline.pb.h"'):
            self.expect_one("pipeline/a.h", header("pipeline/a.h", f"#include {include}\n"),
                            "a header of a face must not include")
        self.assertEqual([], self.found(files={"pipeline/plan/a.h": header(
            "pipeline/plan/a.h", '#include "pipeline/pipeline.pb.h"\n')}))

    def test_wrong_guards_are_found(self):
        self.expect_one("base/a.h", "#pragma once\n", "MILLRACE_BASE_A_H_")
        self.expect_one("tests/readers/a.h", header("readers/a.h"), "MILLRACE_TESTS_READERS_A_H_")

    def test_headers_of_highway_have_its_guard(self):
        path, guard = "augment/rows/a-inl.h", "MILLRACE_AUGMENT_ROWS_A_INL_H_"
        toggled = (f"#if defined({guard}) == defined(HWY_TARGET_TOGGLE)\n#ifdef {guard}\n"
                   f"#undef {guard}\n#else\n#define {guard}\n#endif\n#endif\n")
        self.assertEqual([], self.found(files={path: toggled}))
        self.expect_one(path, f"#ifndef {guard}\n#define {guard}\n#endif\n", "Highway's")
        demand = "#ifndef MILLRACE_VECTOR\n#error\n#endif\n"
        self.assertEqual([], self.found(files={"augment/jpeg/b-inl.h": demand}))
        self.expect_one("augment/jpeg/b.h", demand, "MILLRACE_AUGMENT_JPEG_B_H_")

    def test_classes_with_the_name_of_a_message_are_found(self):
        proto = "package millrace.trainer;\nmessage Norm {\n}\nenum Kind {\n}\n"
        for text, wrong in (("namespace millrace::trainer {\nclass Norm {\n};\n}\n", 1),
                            ("namespace millrace::trainer {\nclass Norm;\n}\n", 0),
                            ("namespace millrace::trainer {\nclass Norms : A {\n};\n}\n", 0),
                            ("namespace millrace::other {\nstruct Norm {\n};\n}\n", 0),
                            ("namespace millrace::trainer {\nenum class Kind { kA };\n}\n", 1)):
            found = self.found(files={"trainer/m/m.proto": proto, "trainer/m/a.cc": text})
            self.assertEqual(len(found), wrong, (text, found))
        self.assertIn("millrace::trainer::Kind is a protobuf message too", found[0])

    def test_long_files_are_found(self):
        self.expect_one("base/a.cc", "\n" * 801, "801 lines")
        self.assertEqual([], self.found(files={"base/a.cc": "\n" * 800}))

    def test_long_lines_are_found_in_code_and_comments(self):
        comment = "// " + "x" * 98  # 101 columns
        found = self.found(files={"base/a.cc": f"int a;\n{comment}\n"})
        self.assertEqual(["base/a.cc:2: 101 columns; at most 100"], found)
        for path in ("pipeline/a.proto", "tests/cli/a.c", "base/CMakeLists.txt", "cmake/a.cmake",
                     "scripts/a.sh"):
            self.expect_one(path, comment + "\n", "101 columns")

    def test_columns_are_characters(self):
        self.assertEqual([], self.found(files={"base/a.cc": "// " + "\u00e9" * 97 + "\n",
                                               "bench/README.md": "x" * 200 + "\n"}))


if __name__ == "__main__":
    unittest.main()
