#!/usr/bin/env python3
"""One turn of one peer over the train path; prints JSON. bench/peers/train_path.py starts it.

Every peer does the same work: JPEG files of the same images, whole in the page cache; a crop of 8
to 100 % of the area with an aspect of 3/4 to 4/3, resized to 224 x 224 by plain bilinear
interpolation (no antialias; Pillow always has it), flipped half of the time, normalised, in batches
of float32; all images again and again, shuffled as the peer is usually told to. Each stands at the
setting that was the fastest of those tried on two cores:

  dali         threads as cores, bound to them (set_affinity); decodes the crop only
               (image_random_crop); HWC (CHW, more batches ahead: no faster)
  tf.data      decodes the crop only (decode_and_crop_jpeg); maps of twice the cores, any order
               (deterministic = False), pool of as many threads as cores; normalises whole batches
               (5 % faster than image by image)
  torchvision  files in folders; workers as cores (one more: no faster), 4 batches each ahead;
               torchvision.io and v2 transforms on uint8 tensors, float at the end
  pillow       the same with Pillow: open, crop and resize on PIL images (pil_loader)
"""

import argparse
import json
import os
import pathlib
import sys
import time

from machine import THREADS

SIDE = 224
AREA, ASPECT = [0.08, 1.0], [3 / 4, 4 / 3]
MEAN, STDDEV = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
WARM_UP_SECONDS = 1


# A loader is a function of (folder, batch size) that returns an iterator of batches without an end,
# how many images a batch has, and the version of the package.


def dali(folder, batch_size):
    from nvidia import dali as package
    from nvidia.dali import fn, pipeline_def, tfrecord, types

    shards = sorted((folder / "shards").glob("*.tfrecord"))

    @pipeline_def(batch_size=batch_size, num_threads=THREADS, device_id=None, seed=1,
                  set_affinity=True)
    def pipeline():
        record = fn.readers.tfrecord(
            path=[str(shard) for shard in shards],
            index_path=[str(folder / "idx" / f"{shard.name}.idx") for shard in shards],
            features={"image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
                      "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1)},
            random_shuffle=True, initial_fill=1024)
        image = fn.decoders.image_random_crop(
            record["image/encoded"], device="cpu", output_type=types.RGB, random_area=AREA,
            random_aspect_ratio=ASPECT)
        image = fn.resize(image, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR,
                          antialias=False)
        image = fn.crop_mirror_normalize(
            image, dtype=types.FLOAT, output_layout="HWC", mean=MEAN, std=STDDEV,
            mirror=fn.random.coin_flip(probability=0.5))
        return image, record["image/class/label"]

    built = pipeline()
    built.build()
    return iter(built.run, None), lambda batch: len(batch[0]), package.__version__


def tf_data(folder, batch_size):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    features = {"image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/class/label": tf.io.FixedLenFeature([], tf.int64)}
    whole_image = tf.constant([[[0.0, 0.0, 1.0, 1.0]]])
    scale, offset = 1 / tf.constant(STDDEV), -tf.constant(MEAN) / tf.constant(STDDEV)

    def image_of(record):
        example = tf.io.parse_single_example(record, features)
        jpeg = example["image/encoded"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(jpeg), whole_image, min_object_covered=0.0,
            aspect_ratio_range=ASPECT, area_range=AREA, max_attempts=10)
        crop = tf.concat([begin[:2], size[:2]], 0)
        image = tf.image.decode_and_crop_jpeg(jpeg, crop, channels=3)
        image = tf.image.random_flip_left_right(tf.image.resize(image, [SIDE, SIDE]))
        return tf.ensure_shape(image, [SIDE, SIDE, 3]), example["image/class/label"]

    shards = sorted(str(shard) for shard in (folder / "shards").glob("*.tfrecord"))
    dataset = tf.data.TFRecordDataset(shards, num_parallel_reads=THREADS).repeat().shuffle(1024)
    dataset = dataset.map(image_of, num_parallel_calls=2 * THREADS).batch(batch_size)
    dataset = dataset.map(lambda images, labels: (images * scale + offset, labels),
                          num_parallel_calls=2 * THREADS).prefetch(2)
    options = tf.data.Options()
    options.deterministic = False
    options.threading.private_threadpool_size = THREADS
    return (iter(dataset.with_options(options)), lambda batch: int(batch[0].shape[0]),
            tf.__version__)


def torch_loader(folder, batch_size, load, to_tensor, antialias):
    sys.setdlopenflags(os.RTLD_LAZY)  # install.py says why
    import torch
    import torchvision
    from torchvision.transforms import v2

    images = torchvision.datasets.ImageFolder(
        str(folder / "files"), loader=load(torchvision),
        transform=v2.Compose([
            v2.RandomResizedCrop(SIDE, scale=AREA, ratio=ASPECT, antialias=antialias),
            v2.RandomHorizontalFlip(), *to_tensor(v2), v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([mean / 255 for mean in MEAN], [dev / 255 for dev in STDDEV])]))
    endless = torch.utils.data.RandomSampler(images, num_samples=1 << 40)
    batches = torch.utils.data.DataLoader(images, batch_size, sampler=endless, num_workers=THREADS,
                                          prefetch_factor=4)
    return (iter(batches), lambda batch: len(batch[0]),
            torch.__version__.partition("+")[0])


def torchvision_io(folder, batch_size):
    def load(torchvision):
        io = torchvision.io
        return lambda path: io.decode_image(io.read_file(path), mode=io.ImageReadMode.RGB)

    return torch_loader(folder, batch_size, load, lambda v2: [], antialias=False)


def pillow(folder, batch_size):
    return torch_loader(folder, batch_size,
                        lambda torchvision: torchvision.datasets.folder.pil_loader,
                        lambda v2: [v2.PILToTensor()], antialias=True)


LOADERS = {"dali": dali, "tf.data": tf_data, "torchvision": torchvision_io, "pillow": pillow}


def count(batches, images_of, seconds):
    """Images per second of `batches`, once what was made ahead is used up."""
    begin = time.perf_counter()
    while time.perf_counter() - begin < WARM_UP_SECONDS:
        next(batches)
    images, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        images += images_of(next(batches))
    return images / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=LOADERS)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args()
    batches, images_of, version = LOADERS[options.name](options.folder, options.batch)
    next(batches)
    print(json.dumps({"images_per_second": count(batches, images_of, options.seconds),
                      "version": version}))


if __name__ == "__main__":
    main()
