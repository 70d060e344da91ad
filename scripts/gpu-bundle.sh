#!/bin/bash
# Packs what checks and measures Millrace on a GPU, prebuilt, for a machine that has one but not the
# packages that Millrace is built from.
#
#   scripts/gpu-bundle.sh [FOLDER]     FOLDER is build/gpu-bundle unless named, and is made anew
#
# Builds what ctest labels `gpu` in the `cuda` preset, `millrace`, the bench of the hand-off and the
# Python package, copies them and the libraries that they are linked with (all but the C library and
# the driver's) into FOLDER, writes FOLDER/run.sh and packs it all into FOLDER.tar.xz, of at most
# 64 MiB. There:
#
#   tar xf gpu-bundle.tar.xz && gpu-bundle/gpu-check.sh [options]
#   gpu-bundle/run.sh [arguments of GoogleTest]     # the tests alone
#
# The libraries of NCCL (218 MB) and cuDNN (1 GB) are not among them: run.sh takes those that
# MILLRACE_NCCL_LIBRARY and MILLRACE_CUDNN_LIBRARY name, or those that the dynamic linker, CUDA's
# folder or Python's packages (nvidia-nccl, nvidia-cudnn, torch) have. Without one, its tests are
# skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

max_bytes=$((64 << 20))
folder=${1:-build/gpu-bundle}

step() { echo "gpu-bundle: $*"; }
die() {
  echo "gpu-bundle: error: $*" >&2
  exit 1
}

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || die "no nvcc here"
step "configuring and building build/cuda"
cmake --preset cuda "-DCMAKE_CUDA_COMPILER=$nvcc" -DMILLRACE_BENCH=ON \
  >build/cuda-configure.log 2>&1 || {
  cat build/cuda-configure.log >&2
  die "the cuda preset cannot be configured"
}
# The name of a test is that of its target.
mapfile -t programs < <(ctest --test-dir build/cuda -L '^gpu$' -N |
  sed -nE 's/^ *Test +#[0-9]+: ([^ ]+)$/\1/p')
[ "${#programs[@]}" -gt 0 ] || die "no test is labelled gpu"
tests=("${programs[@]}")
programs+=(millrace bench_feed_rate bench_train_steps)
cmake --build build/cuda --target "${programs[@]}" millrace_python

# What comes with the C library must be the machine's own, and so must the driver's part of CUDA.
copy_libraries_of() {
  ldd "$1" | sed -nE 's/^\s*(\S+) => (\/\S+) .*/\1 \2/p' |
    grep -vE '^(libc|libm|libdl|libpthread|librt|libcuda)\.so\.' |
    while read -r name library; do cp -L "$library" "$folder/lib/$name"; done
}

rm -rf "$folder" "$folder.tar.xz"
mkdir -p "$folder/bin" "$folder/lib" "$folder/plans" "$folder/peers" "$folder/python/tests"
for program in "${programs[@]}"; do
  path=$(find build/cuda/bin build/cuda/tests -type f -name "$program")
  strip -o "$folder/bin/$program" "$path"
  copy_libraries_of "$path"
done
cp -rL build/cuda/python/millrace "$folder/python"
rm -rf "$folder/python/millrace/__pycache__"
strip "$folder"/python/millrace/*.so*
copy_libraries_of build/cuda/python/millrace/libmillrace.so.1
cp tests/python/{data,device_gpu_test}.py "$folder/python/tests"
getconf GNU_LIBC_VERSION | sed 's/.* //' >"$folder/glibc-version"
printf '%s\n' "${tests[@]}" >"$folder/tests"
cp scripts/gpu-{check,libraries}.sh "$folder"
cp examples/imagenet/train.pbtxt "$folder/plans"
# Jobs name models and plans relative to themselves.
mkdir -p "$folder/bench/jobs" "$folder"/examples/{fashion_mnist,imagenet}
cp bench/jobs/resnet50_gpu.pbtxt "$folder/bench/jobs"
cp examples/fashion_mnist/{train,eval}.pbtxt "$folder/examples/fashion_mnist"
cp examples/imagenet/{model_uint8,train_uint8}.pbtxt "$folder/examples/imagenet"
cp bench/peers/{loaders,machine,torch_feed,torch_step}.py "$folder/peers"

cat >"$folder/run.sh" <<'RUN'
#!/bin/bash
# Runs the tests of this bundle one after the other, or the one program that MILLRACE_ONLY names;
# all arguments go to GoogleTest. Exits 0 when none failed. Logs are in the folder that
# MILLRACE_LOGS names, else in logs/ beside this file.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
logs=${MILLRACE_LOGS:-$here/logs}
mkdir -p "$logs" || exit 1

needed=$(cat "$here/glibc-version")
found=$(getconf GNU_LIBC_VERSION | sed 's/.* //')
if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
  echo "run: error: the programs need the C library $needed or newer, here is $found" >&2
  exit 1
fi

. "$here/gpu-libraries.sh"
echo "run: NCCL: ${MILLRACE_NCCL_LIBRARY:-none found; its tests are skipped}"
echo "run: cuDNN: ${MILLRACE_CUDNN_LIBRARY:-none found; its tests are skipped}"

failed=0
for name in ${MILLRACE_ONLY:-$(cat "$here/tests")}; do
  echo "run: $name"
  LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
    timeout "${MILLRACE_TIMEOUT:-900}" "$here/bin/$name" "$@" >"$logs/$name.log" 2>&1
  code=$?
  grep -E '^\[ +(PASSED|FAILED|SKIPPED) +\] [0-9]+ tests?' "$logs/$name.log"
  if [ "$code" != 0 ]; then
    failed=$((failed + 1))
    tail -n 30 "$logs/$name.log"
    echo "run: $name: exit code $code (124: out of time)"
  fi
done
[ "$failed" = 0 ] || {
  echo "run: $failed programs failed" >&2
  exit 1
}
RUN
chmod +x "$folder/run.sh"

tar -C "$(dirname "$folder")" -cJf "$folder.tar.xz" "$(basename "$folder")"
bytes=$(stat -c %s "$folder.tar.xz")
[ "$bytes" -le "$max_bytes" ] || die "$folder.tar.xz has $bytes bytes, more than $max_bytes"
step "$folder.tar.xz: ${#programs[@]} programs, $((bytes / 1024)) KiB"
