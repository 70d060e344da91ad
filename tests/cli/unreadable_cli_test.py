"""Files that the system does not let anybody read: every command says why, with the path. Nothing is
said to be empty, missing or damaged."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from cli_testutil import BIN, TIMEOUT, write_tfrecord

NOBODY = 65534
WRONG = ("empty", "nearest names", "no file matches", "did you mean", "no .jpg", " damaged:")


class UnreadableTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.folder.chmod(0o777)
        write_tfrecord(self.folder / "a.tfrecord", [b"12345678"])
        (self.folder / "good").mkdir()
        (self.folder / "good/1.jpg").write_bytes(b"12345678")

    def plan(self, name, source, maps="stage { decode_raw { shape: 8 } }"):
        path = self.folder / f"{name}.pbtxt"
        path.write_text(f"stage {{ {source} }}\n{maps}\nstage {{ padded_batch {{ size: 1 }} }}\n")
        return path

    def of_files(self, path):
        """All commands that read a file, of this path."""
        tfrecord = f'tfrecord {{ files: "{self.folder}/a.tfrecord" }}'
        vocabulary = f'stage {{ vocabulary {{ field: "record" file: "{path}" }} }}'
        good = f'image_folder {{ path: "{self.folder}/good" classes_file: "{path}" }}'
        samples = 'stage { parse_tar { feature { key: "x" dtype: BYTES } } }'
        for plan in (path, self.plan("records", f'tfrecord {{ files: "{path}" }}'),
                     self.plan("listed", f'tfrecord {{ files: "list:{path}" }}'),
                     self.plan("words", tfrecord, vocabulary), self.plan("classes", good),
                     self.plan("tar", f'tar {{ files: "{path}" }}', samples)):
            yield "run", plan
        yield "explain", path
        yield "show", path, "--out", self.folder / "page.html"
        yield "tune", path
        yield "train", path
        for command in ("verify", "inspect", "cat", "index"):
            yield "records", command, path
            yield "records", command, f"list:{path}"
        yield "records", "convert", "--from", "tfrecord", path, "--out", self.folder / "out"
        yield ("records", "convert", "--from", "images", "--images", self.folder / "good",
               "--classes", path, "--out", self.folder / "out")

    def of_folders(self, path):
        """All commands that read a folder of images, of this path."""
        yield "run", self.plan("images", f'image_folder {{ path: "{path}" }}')
        yield ("records", "convert", "--from", "images", "--images", path, "--out",
               self.folder / "out")
        for command in ("verify", "inspect", "cat"):
            yield "records", command, path

    def run_as(self, user, *args):
        options = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        return subprocess.run([BIN, *map(str, args)], capture_output=True, text=True, check=False,
                              timeout=TIMEOUT, cwd="/", **options,
                              env={**os.environ, "XDG_CACHE_HOME": str(self.folder / "cache")})

    def check(self, path, reason, *kinds, user=None):
        for command in (command for kind in kinds for command in kind(path)):
            done = self.run_as(user, *command)
            text = done.stdout + done.stderr
            self.assertIn(done.returncode, (1, 2, 66), (command, text))
            self.assertIn(reason, done.stderr, command)
            self.assertIn(str(path), done.stderr, command)
            for wrong in WRONG:
                self.assertNotIn(wrong, text, command)
        self.assertFalse((self.folder / "out").exists())

    # S-SOURCE-12.
    def test_a_loop_of_links(self):
        (self.folder / "loop").symlink_to("loop")
        self.check(self.folder / "loop", "Too many levels of symbolic links",
                   self.of_files, self.of_folders)

    # S-SOURCE-12.
    def test_a_name_that_is_too_long(self):
        self.check(self.folder / ("n" * 300), "File name too long", self.of_files,
                   self.of_folders)

    # S-SOURCE-12.
    def test_a_file_that_is_closed_to_the_reader(self):
        user = NOBODY if os.geteuid() == 0 else None
        try:
            self.assertEqual(self.run_as(user, "--version").returncode, 0)
        except PermissionError:
            self.skipTest("the program lies in a folder that is closed to nobody")
        closed = self.folder / "closed"
        closed.mkdir()
        write_tfrecord(closed / "b.tfrecord", [b"12345678"])
        (closed / "b.tfrecord").chmod(0)
        self.check(closed / "b.tfrecord", "Permission denied", self.of_files, user=user)
        closed.chmod(0)
        self.addCleanup(closed.chmod, 0o755)
        self.check(closed / "b.tfrecord", "Permission denied", self.of_files, user=user)
        self.check(closed / "images", "Permission denied", self.of_folders, user=user)
        self.check(closed, "Permission denied", self.of_folders, user=user)

    # A file whose first byte cannot be read.
    def test_a_file_that_the_disk_does_not_give(self):
        broken = self.folder / "broken"
        broken.symlink_to("/proc/self/mem")
        self.check(broken, "Input/output error", self.of_files)


if __name__ == "__main__":
    unittest.main()
