#!/usr/bin/env python3
"""Checks what each kernel takes of a GPU: registers, stack, shared memory.

Compiles the kernels again as the build does, and compares what ptxas says of them with the file
kernel_resources.txt beside this one. A kernel that spills registers to memory is an error in any
case; other numbers depend on the compiler's version, so with another than the file's they are not
compared, and the check ends with code 77 (skipped).

Usage: kernel_resources.py BUILD_FOLDER [--update]
"""
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

EXPECTED = pathlib.Path(__file__).with_name("kernel_resources.txt")
KERNELS = "trainer/backend/cuda/kernels/"
HEADER = "# registers, bytes of stack, bytes of shared memory, kernel; sm_90, "
ENTRY = re.compile(r"Function properties for (\w+)\n\s*(\d+) bytes stack frame, "
                   r"(\d+) bytes spill stores, (\d+) bytes spill loads\n"
                   r"ptxas info\s*: Used (\d+) registers(?:[^\n]*?, (\d+) bytes smem)?")
ARCHITECTURES = re.compile(r"--generate-code=\S+")


def compile_commands(build):
    """Returns the build's commands for the sources of kernels, by file."""
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return {entry["file"]: entry for entry in commands
            if KERNELS in entry["file"] and entry["file"].endswith(".cu")}


def report_of(entry, scratch):
    """Returns ptxas's words on the kernels of one source."""
    output = pathlib.Path(scratch) / (pathlib.Path(entry["file"]).stem + ".cubin")
    command = ARCHITECTURES.sub("", entry["command"])
    words = shlex.split(command)
    end = words.index("-c")
    words = words[:end] + ["-cubin", "-arch=sm_90", "-Xptxas=-v", entry["file"], "-o", str(output)]
    done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{entry['file']} does not compile:\n{done.stderr}")
    return done.stderr


def short_name(demangled):
    """"SumColumns<PlainSums<float, 4>>" of a kernel's full name."""
    name = re.sub(r"\(anonymous namespace\)::", "", demangled)
    name = re.sub(r"\b(?:\w+::)+", "", name)
    name = re.sub(r"\(([a-z ]+)\)(\d+|true|false)", r"\2", name)  # (int)4
    depth = 0
    for place, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:place]
            break
    return name.removeprefix("void ").strip()


def measured(build):
    """Returns {kernel: (registers, stack, shared)}, and the kernels that spill."""
    with tempfile.TemporaryDirectory() as scratch, \
            concurrent.futures.ThreadPoolExecutor(2) as threads:
        reports = list(threads.map(lambda entry: report_of(entry, scratch),
                                   compile_commands(build).values()))
    found = [match for text in reports for match in ENTRY.findall(text)]
    names = subprocess.run(["c++filt"], input="\n".join(match[0] for match in found), text=True,
                           capture_output=True, check=True).stdout.split("\n")
    kernels, spilling = {}, []
    for name, (_, stack, stores, loads, registers, shared) in zip(names, found):
        kernels[short_name(name)] = (int(registers), int(stack), int(shared or 0))
        if int(stores) + int(loads) > 0:
            spilling.append(short_name(name))
    return kernels, spilling


def compiler_of(build):
    command = next(iter(compile_commands(build).values()))["command"].split()[0]
    text = subprocess.run([command, "--version"], capture_output=True, text=True,
                          check=True).stdout
    return "nvcc " + re.search(r"V([\d.]+)", text)[1]


def text_of(kernels, compiler):
    lines = [HEADER + compiler]
    lines += [f"{numbers[0]:3} {numbers[1]:4} {numbers[2]:6} {name}"
              for name, numbers in sorted(kernels.items())]
    return "\n".join(lines) + "\n"


def main():
    build = pathlib.Path(sys.argv[1])
    compiler = compiler_of(build)
    kernels, spilling = measured(build)
    if not kernels:
        sys.exit("ptxas told nothing of any kernel")
    if spilling:
        sys.exit("these kernels spill registers: " + ", ".join(spilling))
    text = text_of(kernels, compiler)
    if "--update" in sys.argv:
        EXPECTED.write_text(text, encoding="utf-8")
    expected = EXPECTED.read_text(encoding="utf-8")
    if expected.split("\n")[0] != HEADER + compiler:
        print(f"{len(kernels)} kernels spill nothing; {EXPECTED.name} is of another compiler than "
              f"{compiler}")
        sys.exit(77)
    differing = sorted(set(text.split("\n")) ^ set(expected.split("\n")))
    for line in differing:
        print(("now: " if line in text.split("\n") else "was: ") + line)
    if differing:
        sys.exit(f"{EXPECTED.name} is not what the kernels take (--update writes it)")
    print(f"{len(kernels)} kernels take what {EXPECTED.name} says, and spill nothing")


if __name__ == "__main__":
    main()
