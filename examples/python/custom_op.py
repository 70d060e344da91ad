"""A NumPy function inside the pipeline: on runs of samples, with each sample's own random numbers.

    python custom_op.py "/data/train-*.tfrecord"
"""
import sys

import numpy as np

import millrace as mr

SIZE = 224


@mr.op(reads="image", writes=mr.field("image", "uint8", (SIZE, SIZE, 3)), version=1)
def solarise(rows: mr.Rows) -> None:
    """Inverts what is brighter than a threshold, which is drawn for each image."""
    for image, out, threshold in zip(rows["image"], rows.out["image"], 256 * rows.uniform()):
        out[...] = np.where(image >= threshold, 255 - image, image)


def main(files: str) -> None:
    plan = (mr.tfrecord(files).global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image().resize(SIZE, SIZE).op(solarise).batch(32).options(seed=1))
    mr.testing.check_op(plan, batches=2)  # the same bits however many threads and ranks there are
    with plan.numpy(("image", "label")) as loader:
        for images, labels in loader:
            print(images.shape, images.dtype, float(images.mean()), labels[:4])
            break


if __name__ == "__main__":
    main(sys.argv[1])
