#!/usr/bin/env python3
"""Installs the peers into the virtual environment of this Python, each by itself.

A peer that cannot be installed stops nothing: why is kept in the environment, and the tables show
it. requirements/PEER.txt has the pinned versions.

PyTorch's wheels on PyPI are made for CUDA and want 2.5 GB of its libraries, of which a data loader
on the CPU calls nothing. Where only those wheels can be had they are installed without the
libraries, and empty ones of the same names stand in. Functions are bound when they are first called
(RTLD_LAZY, loaders.py), so what an empty library lacks is never looked for. Two symbols whose
addresses libtorch_nvshmem takes are there, and the CUDA runtime, which is called as torch is
loaded, is the real one (0.8 MB).
"""

import pathlib
import re
import subprocess
import sys
import sysconfig

REQUIREMENTS = pathlib.Path(__file__).resolve().parent / "requirements"
STATE = pathlib.Path(sys.prefix) / "peers"
# Not pip's defaults: an index that cannot be reached is given up within seconds.
PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--retries", "1",
       "--timeout", "30", "--disable-pip-version-check"]
NVSHMEM = ("char nvshmem_selected_device_transport[64], nvshmem_init[64];",
           "NVSHMEM { global: *; };")


class InstallError(Exception):
    """The text says why."""


def reason(text):
    """The line of a program's complaint that says most: its last error, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|\w*Error)\b", line)]
    return (errors or lines or ["it said nothing"])[-1]


def run(command, **options):
    try:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", **options)
    except OSError as error:
        raise InstallError(str(error)) from error
    if done.returncode != 0:
        away = " (an index was not reached)" if "WARNING: Retrying" in done.stdout else ""
        raise InstallError(reason(done.stdout) + away)
    return done.stdout


def missing_libraries(folder, others):
    """The CUDA libraries, but the driver's, that those in `folder` want and that are nowhere."""
    wanted = set()
    for library in folder.glob("*.so*"):
        wanted |= set(re.findall(r"\(NEEDED\).*\[(libcu.*|libn.*)\]",
                                 run(["readelf", "--dynamic", library])))
    wanted.discard("libcuda.so.1")
    return sorted(name for name in wanted
                  if not (folder / name).exists() and not any(others.rglob(name)))


def make_stand_in(path):
    symbols, versions = NVSHMEM if path.name.startswith("libnvshmem") else ("", "")
    script = path.with_suffix(".map")
    script.write_text(versions, encoding="utf-8")
    run(["cc", "-shared", "-nostdlib", f"-Wl,-soname,{path.name}", "-o", path, "-x", "c", "-",
         *([f"-Wl,--version-script={script}"] if versions else [])], input=symbols)
    script.unlink()


def stand_in_for_cuda():
    packages = pathlib.Path(sysconfig.get_path("purelib"))
    folder = packages / "torch" / "lib"
    for name in missing_libraries(folder, packages / "nvidia"):
        make_stand_in(folder / name)


def install(peer):
    """Installs `peer` unless it is there; returns why not, or None."""
    requirements = REQUIREMENTS / f"{peer}.txt"
    done, failed = STATE / f"{peer}.txt", STATE / f"{peer}.failed"
    text = requirements.read_text(encoding="utf-8")
    if done.exists() and done.read_text(encoding="utf-8") == text:
        return None
    print(f"installing {peer}", file=sys.stderr)
    try:
        if peer == "pytorch":
            run([*PIP, "--no-deps", "-r", requirements])
            stand_in_for_cuda()
        else:
            run([*PIP, "-r", requirements])
    except InstallError as error:
        done.unlink(missing_ok=True)
        failed.write_text(str(error), encoding="utf-8")
        return str(error)
    failed.unlink(missing_ok=True)
    done.write_text(text, encoding="utf-8")
    return None


def main():
    STATE.mkdir(exist_ok=True)
    for peer in sys.argv[1:]:
        if why := install(peer):
            print(f"{peer} is not installed: {why}", file=sys.stderr)


if __name__ == "__main__":
    main()
