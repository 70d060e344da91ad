"""A wheel holds what it should, and runs where its name says.

MILLRACE_WHEEL names the wheel. auditwheel judges versions of symbols too; it does not look at
symbols that the dynamic linker shares with other copies in the process.
"""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import zipfile

WHEEL = pathlib.Path(os.environ["MILLRACE_WHEEL"])
SOURCES = pathlib.Path(__file__).parent.parent.parent
MOST_BYTES = 5_000_000
# Of manylinux_2_34, which has glibc 2.34 and the libstdc++ of GCC 11.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
# What every system has; the rest lies in the wheel.
OF_THE_SYSTEM = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libz|ld-linux-x86-64)\.so\.\d+")


def output_of(*command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name)
        with zipfile.ZipFile(WHEEL) as wheel:
            wheel.extractall(cls.root)
        cls.libraries = sorted(path for path in cls.root.rglob("*.so*") if path.is_file())

    def test_its_name_says_each_cpython_from_3_10_on_and_glibc_2_34(self):
        self.assertRegex(WHEEL.name,
                         r"^millrace-\d+\.\d+\.\d+-cp310-abi3-manylinux_2_34_x86_64\.whl$")

    def test_it_is_small(self):
        self.assertLessEqual(WHEEL.stat().st_size, MOST_BYTES)

    def test_it_has_the_files_of_the_package_the_library_and_its_header(self):
        def bytes_in(folder):
            return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

        package = self.root / "millrace"
        there, ours = bytes_in(package), bytes_in(SOURCES / "python/millrace")
        different = {name for name in there.keys() | ours.keys()
                     if there.get(name) != ours.get(name)}
        self.assertEqual(different, {"_core.abi3.so", "libmillrace.so.1"},
                         "the wheel is of other sources than these: run scripts/wheel.sh")
        for header in ("millrace.h", "millrace_collectives.h", "millrace_device.h",
                       "millrace_diagnosis.h", "millrace_ops.h", "millrace_options.h",
                       "millrace_push.h"):
            self.assertEqual((package / "include" / header).read_bytes(),
                             (SOURCES / "capi" / header).read_bytes())

    def test_no_symbol_is_newer_than_the_platform(self):
        self.assertGreater(len(self.libraries), 2)
        newer = [(library.name, f"{name}_{version}") for library in self.libraries
                 for name, version in re.findall(r"\b(GLIBC|GLIBCXX|CXXABI)_([\d.]+)",
                                                 output_of("objdump", "-T", library))
                 if tuple(map(int, version.split("."))) > NEWEST[name]]
        self.assertEqual(newer, [])

    def test_ours_show_their_functions_alone(self):
        for name, shown in (("_core.abi3.so", r"T PyInit__core"),
                            ("libmillrace.so.1", r"T mr_\w+@@MILLRACE_1|A MILLRACE_1")):
            output = output_of("nm", "-D", "--defined-only", self.root / "millrace" / name)
            symbols = [" ".join(line.split()[-2:]) for line in output.splitlines()]
            self.assertTrue(symbols)
            self.assertEqual([one for one in symbols if not re.fullmatch(shown, one)], [], name)

    def test_all_libraries_are_there_or_the_systems(self):
        there = {library.name for library in self.libraries}
        missing = [(library.name, needed) for library in self.libraries
                   for needed in re.findall(r"NEEDED.*\[(.*)\]",
                                            output_of("readelf", "-d", library))
                   if needed not in there and not OF_THE_SYSTEM.fullmatch(needed)]
        self.assertEqual(missing, [])

    def test_it_has_the_licence_of_all_that_is_inside(self):
        licences = {path.name for path in self.root.glob("millrace-*.dist-info/licenses/**/*")}
        self.assertLessEqual({"LICENSE", "libabsl-dev", "libcli11-dev", "libhwy-dev",
                              "libprotobuf-dev"}, licences)
        beside = [library.name for library in (self.root / "millrace.libs").iterdir()]
        self.assertTrue(beside)
        self.assertEqual([name for name in beside if name.startswith("libhwy")], [])  # is inside
        stems = [re.match(r"[a-z]+", name)[0] for name in beside]
        self.assertEqual([stem for stem in stems
                          if not any(name.startswith(stem) for name in licences)], [])


if __name__ == "__main__":
    unittest.main()
