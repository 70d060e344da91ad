"""A step of JAX on images in TFRecord shards, over all devices of all processes.

    python imagenet_jax.py "/data/imagenet/train-*.tfrecord"
"""
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import millrace as mr

BATCH = int(os.environ.get("BATCH", "64"))


def loss_of(weights: Array, images: Array, labels: Array, valid: Array) -> Array:
    features = images.mean(axis=(1, 2))
    scores = jax.nn.log_softmax(features @ weights)
    losses = -jnp.take_along_axis(scores, labels[:, None], axis=1)[:, 0]
    return jnp.where(valid, losses, 0).sum() / valid.sum()


@jax.jit
def train_step(weights: Array, images: Array, labels: Array, valid: Array) -> tuple[Array, Array]:
    loss, gradient = jax.value_and_grad(loss_of)(weights, images, labels, valid)
    return weights - 0.1 * gradient, loss


def main(files: str) -> None:
    mesh = Mesh(np.array(jax.devices()), ("data",))
    sharding = NamedSharding(mesh, PartitionSpec("data"))
    weights = jnp.zeros((3, 1000))
    # Shapes never change: the last batch is padded, and `valid` says where.
    loader = mr.recipes.imagenet_train(files, BATCH, seed=1).jax(sharding)
    for step, batch in enumerate(loader):
        weights, loss = train_step(weights, batch["image"], batch["label"].astype(jnp.int32),
                                   batch["valid"])
    print(f"{step + 1} steps, loss {float(loss):.4f}, state {loader.state_dict()}")


if __name__ == "__main__":
    main(sys.argv[1])
