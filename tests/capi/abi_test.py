"""Programs that were linked with an earlier libmillrace.so.1 run with this one: the description in
abi.xml, which abi.py writes, fits the headers as they are."""
import pathlib
import shutil
import tempfile
import unittest

import abi


@unittest.skipUnless(shutil.which("abidiff"), "abidiff of abigail-tools is not installed")
class AbiTest(unittest.TestCase):
    def changes(self, *replaced):
        """Returns the changes of the headers, in which texts were replaced, that must not be."""
        texts = abi.read(abi.headers())
        for text, by in replaced:
            self.assertIn(text, texts["millrace.h"])
            texts["millrace.h"] = texts["millrace.h"].replace(text, by, 1)
        with tempfile.TemporaryDirectory() as folder:
            described = pathlib.Path(folder) / "abi.xml"
            abi.describe(texts, described)
            return abi.changes(abi.KEPT, described)

    def test_no_change_is_incompatible(self):
        self.assertEqual(self.changes(), "")

    def test_functions_and_fields_at_the_end_of_structs_may_be_added(self):
        free = "MR_API void mr_plan_free"
        self.assertEqual(self.changes((free, "MR_API void mr_new(int x);\n" + free),
                                      ("} mr_stage;", "int64_t more; } mr_stage;"),
                                      ("} mr_open_options;", "int32_t more; } mr_open_options;")),
                         "")

    def test_other_changes_are_told(self):
        name, op = "  const char* name;\n", "  const char* op;\n"
        for told, *replaced in (
                ("mr_stage: name", (name + op, op + name)),
                ("mr_stage: options", (op, op + "  int64_t more;\n")),
                ("read_deadline_ms", ("int64_t read_deadline_ms", "uint64_t read_deadline_ms")),
                ("mr_sample_id", ("} mr_sample_id;", "uint64_t more; } mr_sample_id;")),
                ("mr_loader_seek", ("mr_loader_seek(mr_loader* loader, uint64_t batch)",
                                    "mr_loader_seek(mr_loader* loader, uint32_t batch)")),
                ("mr_plan_free", ("MR_API void mr_plan_free(mr_plan* plan);", ""))):
            with self.subTest(told=told):
                self.assertIn(told, self.changes(*replaced))


if __name__ == "__main__":
    unittest.main()
