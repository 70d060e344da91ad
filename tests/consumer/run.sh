#!/bin/bash
# Proves that an installed Millrace can be used: installs the release build to a temporary prefix,
# builds examples/embed_cpp against it, and reads the test images of Fashion-MNIST with it; and
# examples/embed, which has an op and a source of its own.
set -euo pipefail
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=build/release
cmake --preset release >"$work/configure.log" 2>&1 || {
  cat "$work/configure.log"
  exit 1
}
cmake --build "$build"
cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
cmake -S examples/embed_cpp -B "$work/embed" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix"
cmake --build "$work/embed"

# From here on nothing of the source tree is used but the example's pipeline file.
images=/usr/share/datasets/fashion-mnist/t10k
mkdir "$work/data"
"$work/prefix/bin/millrace" records convert --from idx --images "$images-images-idx3-ubyte.gz" \
  --labels "$images-labels-idx1-ubyte.gz" --out "$work/data" --prefix test --shards 2
cp examples/fashion_mnist/eval.pbtxt "$work"
(cd "$work" && embed/embed eval.pbtxt DATA=data BATCH=64 >batches.txt)
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
echo "an installed Millrace was found, linked and read $batches batches"
