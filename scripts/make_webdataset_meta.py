#!/usr/bin/env python3
"""Writes tests/readers/testdata/webdataset_meta.tar, an archive with WebDataset's own members between
the samples; webdataset_meta.txt: the samples that webdataset finds in it; and webdataset_cut.txt:
those that it finds in the first bytes of the archive, if it goes on behind errors.

Usage: make_webdataset_meta.py      needs webdataset
"""
import io
import pathlib
import tarfile
import tempfile

import webdataset
from webdataset.tariterators import tarfile_samples

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/readers/testdata"
NAMES = ["__meta__.json", "__index__", "__init__.x__", "a.txt", "a.cls", "__meta__/schema.json",
         "b.txt", "__meta__/deep/a.cls", "b.cls", "____/c.txt", "__half/d.txt", "half__/e.txt",
         "in/__meta__/f.txt", "__g__h.txt", "__i__"]
CUT_EVERY = 256


def cut_lines(archive):
    """For each length: the samples that are found in so many bytes, with their extensions."""
    whole = archive.read_bytes()
    for size in range(CUT_EVERY, len(NAMES) * 1024 + 512, CUT_EVERY):
        with tempfile.NamedTemporaryFile(suffix=".tar") as cut:
            cut.write(whole[:size])
            cut.flush()
            try:
                samples = list(tarfile_samples([{"url": cut.name}], handler=lambda error: True))
            except tarfile.ReadError:  # not a header long
                samples = []
        found = [sample["__key__"] + ":" + ",".join(sorted(set(sample) - {
            "__key__", "__url__", "__local_path__"})) for sample in samples]
        yield " ".join([str(size)] + found) + "\n"


def main():
    path = FOLDER / "webdataset_meta.tar"
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for number, name in enumerate(NAMES):
            info = tarfile.TarInfo(name)
            info.size = len(str(number))
            archive.addfile(info, io.BytesIO(str(number).encode()))
    lines = [f"# By scripts/make_webdataset_meta.py, webdataset {webdataset.__version__}:\n",
             "# KEY, and EXTENSION=BYTES of each member\n"]
    for sample in tarfile_samples([{"url": str(path)}]):
        members = [f"{name}={sample[name].decode()}" for name in sorted(sample)
                   if not name.startswith("__")]
        lines.append(" ".join([sample["__key__"]] + members) + "\n")
    (FOLDER / "webdataset_meta.txt").write_text("".join(lines), encoding="utf-8")
    title = [lines[0], "# BYTES of the archive, and KEY:EXTENSION,... of each sample\n"]
    (FOLDER / "webdataset_cut.txt").write_text("".join(title + list(cut_lines(path))),
                                               encoding="utf-8")


if __name__ == "__main__":
    main()
