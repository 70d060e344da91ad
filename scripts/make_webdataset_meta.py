#!/usr/bin/env python3
"""Writes tests/readers/testdata/webdataset_meta.tar, an archive with WebDataset's own members between
the samples, and webdataset_meta.txt: the samples that webdataset finds in it.

Usage: make_webdataset_meta.py      needs webdataset
"""
import io
import pathlib
import tarfile

import webdataset
from webdataset.tariterators import tarfile_samples

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/readers/testdata"
NAMES = ["__meta__.json", "__index__", "__init__.x__", "a.txt", "a.cls", "__meta__/schema.json",
         "b.txt", "__meta__/deep/a.cls", "b.cls", "____/c.txt", "__half/d.txt", "half__/e.txt",
         "in/__meta__/f.txt", "__g__h.txt", "__i__"]


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


if __name__ == "__main__":
    main()
