#!/bin/bash
# Runs the Python package's tests with the frameworks that it feeds: PyTorch, JAX, Keras,
# TensorFlow, Lightning and Accelerate, and with DALI, pandas, pyarrow and tqdm, from PyPI, in a
# virtual environment that is kept; and checks types by mypy --strict and pyright. What the program
# build/dev/bin/millrace exports, if it is there, is read back by Prometheus' parser and by
# TensorBoard. The last line is "N passed, N failed, N skipped"; where the index cannot be reached,
# what is missing is skipped.
#
#   scripts/test-frameworks.sh [PACKAGE]
#     PACKAGE  the folder that has millrace/; default: build/dev/python. TensorFlow's tests need one
#              whose library is self-contained (scripts/wheel.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
package=$(realpath "${1:-build/dev/python}")
venv=${MILLRACE_FRAMEWORKS:-$HOME/.cache/millrace/frameworks}

# PyTorch's wheels want CUDA's libraries, for which empty ones stand in (bench/peers/install.py):
# they are bound lazily, which TensorFlow does not stand.
bind_torch_lazily() {
  local packages
  packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  cat >"$packages/sitecustomize.py" <<'PYTHON'
import os
import sys


class TorchIsLazy:
    @staticmethod
    def find_spec(name, path=None, target=None):
        is_torch = name.partition(".")[0].startswith("torch")
        sys.setdlopenflags(os.RTLD_LAZY if is_torch else os.RTLD_NOW)


sys.meta_path.insert(0, TorchIsLazy)
PYTHON
}

pip() { "$venv/bin/pip" install -q --no-input --retries 1 --timeout 30 "$@" || true; }
install() {
  python3 -m venv "$venv"
  "$venv/bin/python" bench/peers/install.py pytorch tensorflow
  pip jax keras ml_dtypes
  pip --no-deps pytorch-lightning lightning-utilities torchmetrics accelerate safetensors psutil \
    pyyaml tqdm packaging huggingface_hub
  bind_torch_lazily
}
# pyright fetches the program node unless it is there. Of DALI only operators on CPUs are called.
install_tools() {
  pip pandas pyarrow mypy==1.13.0 'pyright[nodejs]==1.1.414' dm-tree
  pip --no-deps nvidia-dali-cuda120==2.4.0
}
# The readers of what the program `millrace` exports.
install_exporters() { pip prometheus-client tensorboard; }
[ -x "$venv/bin/python" ] && [ -e "$venv/complete" ] || { install && touch "$venv/complete"; }
[ -e "$venv/tools" ] || { install_tools && touch "$venv/tools"; }
[ -e "$venv/exporters" ] || { install_exporters && touch "$venv/exporters"; }

# A driver of CUDA without a GPU, for the test of page-locked tensors.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
results=$scratch/results
driver=$scratch/libcuda.so
c++ -std=c++20 -fPIC -shared -I. tests/pipeline/cuda/fake_driver.cc -o "$driver"

status=0
cd tests/python
for test in arrow_test copies_test docs_test gradients_test imports_test jax_gradients_test \
  jax_test keras_test loader_test progress_test sharing_test tf_test torch_digest_test \
  torch_gradients_test torch_test torch_training_test torch_weights_test types_test; do
  [ "$test" = copies_test ] && library=$driver || library=
  MILLRACE_CUDA_LIBRARY=$library MILLRACE_SOURCE_DIR=$(realpath ../..) \
    PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 \
    TF_CPP_MIN_LOG_LEVEL=3 "$venv/bin/python" -W ignore -m unittest discover -v -p "$test.py" 2>&1 |
    tee -a "$results" || status=1
done
# A package of another build comes without the program.
program=$(realpath ../..)/build/dev/bin/millrace
if [ -x "$program" ]; then
  (cd ../cli && MILLRACE_BIN=$program MILLRACE_SOURCE_DIR=$(realpath ../..) \
    PYTHONDONTWRITEBYTECODE=1 TF_CPP_MIN_LOG_LEVEL=3 \
    "$venv/bin/python" -W ignore -m unittest -v exporter_peers_test 2>&1) |
    tee -a "$results" || status=1
fi
python3 ../../scripts/count_tests.py "$results" || status=1
exit "$status"
