"""Stops in the middle of an epoch, and goes on there: the same batches as a run in one piece.

    python resume.py "/data/train-*.tfrecord"
"""
import json
import sys

import numpy as np

import millrace as mr


def make_loader(files: str) -> mr.Loader:
    plan = (mr.tfrecord(files).global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image().random_resized_crop(96, 96).flip().batch(32).options(seed=1))
    return plan.numpy(("image", "label"))


def main(files: str) -> None:
    with make_loader(files) as loader:
        whole = [(images.copy(), labels.copy()) for images, labels in loader]

    with make_loader(files) as loader:
        for step, _ in enumerate(loader, 1):
            if step == len(loader) // 2:
                break
        saved = json.dumps(loader.state_dict())  # a few bytes, the same on every rank
    print("stopped behind batch", step, "with", saved)

    with make_loader(files) as loader:
        loader.load_state_dict(json.loads(saved))
        for (images, labels), (other_images, other_labels) in zip(loader, whole[step:], strict=True):
            assert np.array_equal(images, other_images) and np.array_equal(labels, other_labels)
    print("the other", len(whole) - step, "batches are those of the run in one piece")


if __name__ == "__main__":
    main(sys.argv[1])
