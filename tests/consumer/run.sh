#!/bin/bash
# Proves that an installed Millrace can be used: installs a build to a temporary prefix, builds
# examples/embed_cpp against it, and reads the test images of Fashion-MNIST with it; and
# examples/embed, which has an op and a source of its own. Both have no language but C++.
# examples/embed_c, which has none but C, must print what the first one does. Then that a project
# which builds Millrace as a part of itself includes its headers by the same names.
#
#   tests/consumer/run.sh [BUILD]     BUILD is build/release unless named, and is configured
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${1:-build/release}
[ -e "$build/build.ninja" ] || cmake --preset release >"$work/configure.log" 2>&1 || {
  cat "$work/configure.log"
  exit 1
}
cmake --build "$build" --target millrace millrace_c millrace_public_headers
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -S examples/embed_cpp -B "$work/embed" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/embed"

# From here on nothing of the source tree is used but the example's pipeline file.
images=/usr/share/datasets/fashion-mnist/t10k
mkdir "$work/data"
"$work/prefix/bin/millrace" records convert --from idx --images "$images-images-idx3-ubyte.gz" \
  --labels "$images-labels-idx1-ubyte.gz" --out "$work/data" --prefix test --shards 2
cp examples/fashion_mnist/eval.pbtxt "$work"
(cd "$work" && embed/embed eval.pbtxt DATA=data BATCH=64 >batches.txt 2>sentence.txt)
# 10,000 images in batches of 64: 156 full ones and 16 rows.
batches=$(wc -l <"$work/batches.txt")
tail -n 1 "$work/batches.txt"
if [ "$batches" != 157 ] || ! tail -n 1 "$work/batches.txt" | grep -q '^batch 156: 16 rows'; then
  echo "expected 157 batches, the last of 16 rows; got $batches" >&2
  exit 1
fi
cmake -S examples/embed -B "$work/embed_own" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/embed_own"
"$work/embed_own/embed_own" >"$work/words.txt"
# 13 words in batches of 4; the last one is "still".
if [ "$(tail -n 1 "$work/words.txt")" != "batch 3: 1 words of 5 letters" ]; then
  echo "expected 4 batches of words; got:" >&2
  cat "$work/words.txt" >&2
  exit 1
fi

# In C, by pkg-config.
export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig"
read -ra flags <<<"$(pkg-config --cflags --libs millrace)"
cc -std=c11 -Wall -pedantic -Werror examples/embed_c/main.c "${flags[@]}" -o "$work/embed_c"
(cd "$work" && LD_LIBRARY_PATH=prefix/lib ./embed_c eval.pbtxt DATA data BATCH 64 \
  >batches_c.txt 2>sentence_c.txt)
cmp "$work/batches.txt" "$work/batches_c.txt"
# What each has waited for differs from run to run.
for sentence in "$work/sentence.txt" "$work/sentence_c.txt"; do
  cat "$sentence"
  grep -q '^[A-Z]* input-bound (waits .* %): ' "$sentence"
done

# As a part of another project: its file that includes Millrace compiles.
cat >"$work/CMakeLists.txt" <<PROJECT
cmake_minimum_required(VERSION 3.24)
project(Part LANGUAGES C CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(MILLRACE_TRAINER OFF CACHE BOOL "")
add_subdirectory($PWD millrace)
add_executable(part $PWD/examples/embed_cpp/main.cc)
target_link_libraries(part PRIVATE millrace::pipeline)
PROJECT
cmake -S "$work" -B "$work/part" -G Ninja >"$work/part.log" 2>&1 || {
  cat "$work/part.log"
  exit 1
}
cmake --build "$work/part" --target millrace_public_headers
compile=$(python3 - "$work/part/compile_commands.json" <<'PYTHON'
import json
import sys
print(next(entry["command"] for entry in json.load(open(sys.argv[1]))
           if entry["file"].endswith("embed_cpp/main.cc")))
PYTHON
)
(cd "$work/part" && mkdir -p CMakeFiles/part.dir && eval "$compile -fsyntax-only")
echo "an installed Millrace was found, linked and read $batches batches"
