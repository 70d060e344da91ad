#!/bin/bash
# Checks and measures Millrace on a machine with a GPU, with the programs of scripts/gpu-bundle.sh.
#
#   gpu-bundle/gpu-check.sh [--images TAR] [--fashion FOLDER] [--results FOLDER] [--only STEP]...
#
# Each step has a time limit and a log, FOLDER/STEP.log (results/ beside this file unless named). A
# step that ran to its end is not run again, so a run that was cut short goes on where it was. TAR
# has JPEG files; without one the steps that feed the GPU are skipped. FOLDER of --fashion has the
# four files of Fashion-MNIST. Python with torch and torchvision, where there is one, gives the
# peers' figures. Ends with a line per step; exits 0 when none failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
images='' fashion='' results=$here/results only=()
while [ $# -gt 0 ]; do
  case $1 in
    --images) images=$(realpath "$2") ;;
    --fashion) fashion=$(realpath "$2") ;;
    --results) results=$2 ;;
    --only) only+=("$2") ;;
    *)
      echo "gpu-check: error: $1 is no option" >&2
      exit 2
      ;;
  esac
  shift 2
done
mkdir -p "$results" || exit 1
results=$(cd "$results" && pwd)
scratch=${TMPDIR:-/tmp}/millrace-gpu-check
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
. "$here/gpu-libraries.sh"
table=() failed=0

selected() {
  [ "${#only[@]}" = 0 ] && return 0
  local name
  for name in "${only[@]}"; do [ "$name" = "$1" ] && return 0; done
  return 1
}

say() { table+=("$(printf '%-12s %-28s %5s s' "$1" "$2" "$3")"); }

# step NAME SECONDS FUNCTION: runs FUNCTION in a process group of its own, for that long at most. It
# returns 77 for a skip.
step() {
  local name=$1 limit=$2 code fault='' start=$SECONDS
  selected "$name" || return 0
  if [ -e "$results/$name.done" ]; then
    say "$name" "$(cat "$results/$name.done"), in a run before" 0
    return 0
  fi
  echo "gpu-check: $name"
  timeout --kill-after=5 "$limit" bash -o pipefail -c "$3" >"$results/$name.log" 2>&1
  code=$?
  case $code in
    0) echo passed >"$results/$name.done" ;;
    77) echo "skipped: $(tail -n 1 "$results/$name.log")" >"$results/$name.done" ;;
    124 | 137) fault="out of time" ;;
    *) fault="exit code $code" ;;
  esac
  [ -z "$fault" ] || failed=$((failed + 1))
  [ -n "$fault" ] && fault="FAILED: $fault" || fault=$(cat "$results/$name.done")
  say "$name" "$fault" $((SECONDS - start))
}

facts() {
  local pcie=pcie.link.gen.max,pcie.link.width.max
  nvidia-smi --query-gpu=name,driver_version,memory.total,$pcie,clocks.max.sm --format=csv ||
    return 1
  lscpu | grep -E '^(Model name|CPU\(s\)|NUMA node\(s\))'
  free -g | sed -n 2p
  ulimit -l
  df -h /dev/shm | tail -n 1
}

doctor() {
  "$here/bin/millrace" doctor
}

# The tests of a program of the bundle; skipped tests alone are a skip.
tests() {
  MILLRACE_LOGS=$results MILLRACE_ONLY=$1 "$here/run.sh" || return 1
  grep -q '^\[  PASSED  \] 0 tests' "$results/$1.log" || return 0
  echo "no test of $1 ran"
  return 77
}
feed_tests() { tests pipeline_device_gpu_test; }
trainer_tests() {
  local name code=0
  for name in cuda_device cudnn_products kernels; do
    tests "trainer_${name}_gpu_test"
    case $? in
      0) ;;
      77) [ "$code" != 0 ] || code=77 ;;
      *) code=1 ;;
    esac
  done
  return "$code"
}
queue_tests() { tests collectives_device_queue_gpu_test; }
nccl_tests() { tests collectives_nccl_gpu_test; }

# Some tests ask the driver for the impossible, so errors of its calls are not reported.
sanitizer() {
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer" && return 77; }
  local program
  for program in pipeline_device_gpu_test collectives_device_queue_gpu_test \
    trainer_kernels_gpu_test; do
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 \
      "$here/bin/$program" --gtest_brief=1 || return 1
  done
  compute-sanitizer --tool racecheck --error-exitcode 9 \
    "$here/bin/collectives_device_queue_gpu_test" --gtest_brief=1
}

shards() {
  [ -n "$images" ] || { echo "no --images" && return 77; }
  rm -rf "$scratch" && mkdir -p "$scratch/files/all" || return 1
  # Unpacked by tar: Millrace reads tars of images with libarchive, which may not be there.
  tar -C "$scratch/files/all" --strip-components=1 --no-same-owner -xf "$images" &&
    "$here/bin/millrace" records convert --from images --images "$scratch/files" \
      --out "$scratch/shards" --shards 8 --prefix images
}

have_shards() { [ -d "$scratch/shards" ] || { echo "no shards" && return 77; }; }
have_torch() { python3 -c 'import torch, torchvision' || { echo "no torch" && return 77; }; }

# rate THREADS STEP_US: batches of 128 images, which must not be more than there are.
rate() {
  "$here/bin/bench_feed_rate" "$here/plans/train.pbtxt" "$scratch/shards" 128 "$1" 4 "$2"
}

# Only the copies: what the pipeline and the bus give, by threads of the pipeline.
feed_rates() {
  have_shards || return
  local threads
  for threads in 1 2 4 8 "$(nproc)"; do rate "$threads" 0 || return 1; done
}

# train_steps BATCH PRECISION PIPELINE_THREADS STEPS [GRAPHS [PLANS]]: ResNet-50 on photographs.
train_steps() {
  "$here/bin/bench_train_steps" "$here/bench/jobs/resnet50_gpu.pbtxt" 1 0 "$4" \
    "TRAIN=../../examples/imagenet/train_uint8.pbtxt" "DATA=$scratch/shards" "BATCH=$1" \
    "PRECISION=$2" "PIPELINE_THREADS=$3" "GRAPHS=${5:-true}" "PLANS=${6:-heuristic}"
}

# The trainer's step by batch and precision, fed by all cores.
train_rates() {
  have_shards || return
  local precision batch
  for precision in bfloat16 float16 tf32; do
    for batch in 64 128 256; do
      echo "$precision, batch $batch"
      train_steps "$batch" "$precision" "$(nproc)" 100 true || return 1
    done
  done
  echo "bfloat16, batch 256, tuned plans"
  train_steps 256 bfloat16 "$(nproc)" 100 true tuned
}

# The same with and without CUDA graphs, for batches whose kernels are short, and for a usual one.
train_graphs() {
  have_shards || return
  local batch graphs
  for batch in 8 32 128; do
    for graphs in false true; do
      echo "batch $batch, graphs: $graphs"
      train_steps "$batch" bfloat16 "$(nproc)" 30 "$graphs" || return 1
    done
  done
}

# The same by threads of the pipeline: data_wait is the part of a step without a batch.
train_fed() {
  have_shards || return
  local threads
  for threads in 2 4 6 8 12; do
    echo "$threads pipeline threads"
    train_steps 256 bfloat16 "$threads" 100 true tuned || return 1
  done
}

# train_rank RANK PORT: one of two ranks of a training whose weights are compared after every step;
# replaces this shell. NCCL takes ranks of one GPU for those of several hosts.
train_rank() {
  NCCL_HOSTID=host$1 exec "$here/bin/millrace" train "$scratch/ranks.pbtxt" --device cuda:0 \
    --rank "$1" --world-size 2 --rendezvous "127.0.0.1:$2" \
    --var "DATA=$scratch/shards" --var BATCH=64
}

# ranks_job EPOCHS [GRAPHS]
ranks_job() {
  cat >"$scratch/ranks.pbtxt" <<JOB
model: "$here/examples/imagenet/model_uint8.pbtxt"
train: "$here/examples/imagenet/train_uint8.pbtxt"
device: "cuda" precision: "bfloat16" epochs: $1 log_every_steps: 1 cuda_graphs: ${2:-true}
reduction { digest_every: 1 }
optimizer { base_lr: 0.01 momentum: 0.9 }
JOB
}

# Two ranks on one GPU have the same weights after every step, also with CUDA graphs.
train_ranks() {
  have_shards || return
  local graphs port=29531
  for graphs in false true; do
    ranks_job 3 "$graphs"
    train_rank 1 "$port" &
    local other=$!
    (train_rank 0 "$port") && wait "$other" || return 1
    port=29533
  done
}

fashion_shards() { # files' prefix, name of the split
  "$here/bin/millrace" records convert --from idx --images "$fashion/$1-images-idx3-ubyte.gz" \
    --labels "$fashion/$1-labels-idx1-ubyte.gz" --out "$scratch/fashion" --prefix "$2" --shards 8
}

# fashion_job PRECISION
fashion_job() {
  cat >"$scratch/fashion.pbtxt" <<JOB
model: "$scratch/resnet18.pbtxt"
train: "$here/examples/fashion_mnist/train.pbtxt"
eval: "$here/examples/fashion_mnist/eval.pbtxt"
device: "cuda" precision: "$1" cuda_graphs: true epochs: 12 log_every_steps: 1000
optimizer {
  base_lr: 0.05 base_batch: 128 momentum: 0.9 nesterov: true weight_decay: 0.0005
  warmup_epochs: 1 cosine {}
}
JOB
  [ "$1" != float16 ] || echo 'loss_scaling { dynamic {} }' >>"$scratch/fashion.pbtxt"
}

# A ResNet-18 on Fashion-MNIST has a test accuracy of 0.92 or more in every precision.
train_fashion() {
  [ -n "$fashion" ] || { echo "no --fashion" && return 77; }
  rm -rf "$scratch/fashion" && mkdir -p "$scratch/fashion" || return 1
  fashion_shards train train && fashion_shards t10k test || return 1
  "$here/bin/millrace" model resnet18 --classes 10 --image 28x28x1 >"$scratch/resnet18.pbtxt" ||
    return 1
  local precision accuracy
  for precision in bfloat16 float16 float32; do
    fashion_job "$precision"
    "$here/bin/millrace" train "$scratch/fashion.pbtxt" --var "DATA=$scratch/fashion" |
      tee "$scratch/fashion.log" || return 1
    accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\) .*/\1/p' "$scratch/fashion.log" | tail -n 1)
    echo "$precision: test accuracy $accuracy"
    awk -v accuracy="$accuracy" 'BEGIN { exit !(accuracy + 0 >= 0.92) }' || return 1
  done
}

# One of two ranks is killed in the midst of a training: the other names it, and ends.
train_loss() {
  have_shards || return
  ranks_job 100000
  train_rank 1 29532 &
  local lost=$!
  train_rank 0 29532 >"$scratch/loss.log" 2>&1 &
  local left=$!
  until grep -q '^step 5/' "$scratch/loss.log"; do
    kill -0 "$left" || { cat "$scratch/loss.log" && return 1; }
    sleep 1
  done
  local start=$SECONDS
  kill -9 "$lost"
  wait "$left"
  echo "the other rank ended with $? after $((SECONDS - start)) s"
  tail -n 3 "$scratch/loss.log"
  grep -q 'rank 1 is lost' "$scratch/loss.log" && [ $((SECONDS - start)) -le 10 ]
}

# Batches on the GPU by the Python package.
python_tests() {
  have_torch || return
  cd "$here/python/tests" && PYTHONPATH=$here/python python3 -m unittest -v device_gpu_test
}

torch_step() {
  have_torch || return
  local batch mode
  for batch in 128 256; do
    python3 "$here/peers/torch_step.py" --batch $batch || return 1
    for mode in default reduce-overhead; do
      python3 "$here/peers/torch_step.py" --batch $batch --compile $mode ||
        echo "torch.compile failed"
    done
  done
}

# A step as long as PyTorch's best one for that batch: how busy does the pipeline keep the GPU?
utilisation() {
  have_shards || return
  local threads
  for threads in 1 2 3 4 8; do rate "$threads" "$(best_step_us)" || return 1; done
}

# The shortest step of PyTorch for 128 images that was measured, in microseconds.
best_step_us() {
  local best step='s/.*"batch": 128,.*"step_us": ([0-9]+).*/\1/p'
  best=$(sed -nE "$step" "$results/torch_step.log" 2>/dev/null | sort -n | head -n 1)
  echo "${best:-19000}"
}

# The same by the Python package, beside PyTorch's DataLoader, in batches of one size: all images, a
# half of them, and so on.
torch_feed() {
  have_shards && have_torch || return
  local loader threads count batch
  count=$(find "$scratch/files/all" -type f | wc -l)
  batch=$((count / ((count + 255) / 256)))
  for threads in 4 8 "$(nproc)"; do
    for loader in millrace data_loader; do
      PYTHONPATH=$here/python python3 "$here/peers/torch_feed.py" "$loader" "$scratch" \
        --plan "$here/plans/train.pbtxt" --threads "$threads" --batch "$batch" \
        --step-us $(($(best_step_us) * batch / 128)) || return 1
    done
  done
}

loaders() {
  have_shards && have_torch || return
  local loader
  for loader in torchvision pillow; do
    echo "$loader, $(nproc) workers"
    python3 "$here/peers/loaders.py" "$loader" "$scratch" --batch 256 --seconds 6 || return 1
  done
}

export -f fashion_shards fashion_job train_fashion
export -f doctor train_steps train_rates train_graphs train_fed train_rank ranks_job train_ranks
export -f train_loss trainer_tests tests facts feed_tests queue_tests
export -f nccl_tests sanitizer shards have_shards have_torch rate
export -f feed_rates python_tests torch_step best_step_us utilisation torch_feed loaders
export here results images fashion scratch

step facts 20 facts
step doctor 30 doctor
step trainer_tests 120 trainer_tests
step feed_tests 90 feed_tests
step queue_tests 60 queue_tests
step nccl_tests 200 nccl_tests
step python_tests 120 python_tests
step shards 30 shards
step feed_rates 60 feed_rates
step train_rates 120 train_rates
step torch_step 240 torch_step
step train_fed 90 train_fed
step train_ranks 90 train_ranks
step train_graphs 90 train_graphs
step train_loss 90 train_loss
step train_fashion 240 train_fashion
step utilisation 90 utilisation
step torch_feed 120 torch_feed
step loaders 90 loaders
step sanitizer 180 sanitizer

printf '%s\n' "${table[@]}"
[ "$failed" = 0 ] || {
  echo "gpu-check: $failed steps failed" >&2
  exit 1
}
