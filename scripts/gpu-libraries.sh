# shellcheck shell=bash
# Sourced by the programs of scripts/gpu-bundle.sh: sets MILLRACE_NCCL_LIBRARY and
# MILLRACE_CUDNN_LIBRARY, unless they are set, to the libraries that the dynamic linker, CUDA's
# folder or Python's packages have.

# Prints where a library may be, the best guess first.
library_places() { # file, folder of its Python package
  ldconfig -p 2>/dev/null | sed -nE "s/.*${1//./\\.} .*=> (.*)/\1/p"
  ls /usr/local/cuda/lib*/"$1" 2>/dev/null
  python3 - "$@" 2>/dev/null <<'PYTHON'
import pathlib
import sys
for entry in sys.path[1:]:
    for place in (sys.argv[2], "torch/lib"):
        print(pathlib.Path(entry, place, sys.argv[1]))
PYTHON
}

# Sets a variable, unless it is set, to the first library that is there.
choose_library() { # variable, file, folder of its Python package
  local place
  [ -z "${!1:-}" ] || return 0
  while read -r place; do
    if [ -r "$place" ]; then
      export "$1=$place"
      return 0
    fi
  done < <(library_places "$2" "$3")
}

choose_library MILLRACE_NCCL_LIBRARY libnccl.so.2 nvidia/nccl/lib
choose_library MILLRACE_CUDNN_LIBRARY libcudnn.so.9 nvidia/cudnn/lib
