# shellcheck shell=bash
# Sourced by quickstart.sh and nightly.sh, which set `millrace` (the program): the shards of
# Fashion-MNIST in build/fashion_mnist, and a check of the accuracy that a training has reached.

images=/usr/share/datasets/fashion-mnist
data=build/fashion_mnist

run() {
  echo
  echo "\$ $*"
  "$@"
}

# Writes the shards of one split, unless they are all there: a shard is renamed into place when it
# is whole, so a name that exists is a whole file.
convert_split() { # split, files' prefix, number of shards
  local found
  found=$(find "$data" -maxdepth 1 -name "$1-*.tfrecord" 2>/dev/null | wc -l)
  if [ "$found" = "$3" ]; then
    echo
    echo "# $data holds the $3 shards of '$1' already"
    return
  fi
  rm -f "$data/$1"-*.tfrecord
  run "$millrace" records convert --from idx --images "$images/$2-images-idx3-ubyte.gz" \
    --labels "$images/$2-labels-idx1-ubyte.gz" --out "$data" --prefix "$1" --shards "$3"
}

convert_fashion_mnist() {
  mkdir -p "$data"
  convert_split train train 8
  convert_split test t10k 2
}

# Prints the accuracy of the last epoch in the output of a training; fails if it is below the bound.
# Seeds and data are fixed, so a lower figure means that something is broken.
check_accuracy() { # who asks, file of the output, bound
  local accuracy
  accuracy=$(sed -n 's/.*test accuracy \([0-9.]*\) .*/\1/p' "$2" | tail -n 1)
  if ! awk -v accuracy="$accuracy" -v bound="$3" \
    'BEGIN { exit !(accuracy != "" && accuracy + 0 >= bound + 0) }'; then
    echo "$1: FAILED: test accuracy is ${accuracy:-not printed}, expected $3 or more" >&2
    return 1
  fi
  echo
  echo "$1: test accuracy $accuracy, $3 or more as expected"
}
