"""Two epochs of real images through plan.torch: their digest is that of `millrace run`, as
digest_test.py has it of plan.numpy. Skipped where PyTorch is not installed."""
import unittest

import data
import digest_test

data.needs("torch")


def tensors_of(plan, **options):
    """Yields (batch, its tensors as arrays by name) of two epochs; a loader of NumPy's, in step,
    has the numbers of the batches."""
    loader = plan.torch(last="pad", **options)
    tensors = (named for _ in range(2) for named in loader)
    for (batch, _), named in zip(digest_test.arrays_of(plan, **options), tensors, strict=True):
        yield batch, {name: tensor.numpy() for name, tensor in named.items()}
    loader.close()


class TorchDigests(digest_test.Checks, unittest.TestCase):
    stream = staticmethod(tensors_of)

    def test_of_fashion_mnist(self):
        self.check(digest_test.images(data.test_images(), 3000, 1, 24, 256), 3000,
                   [(threads, world) for threads in (1, 2, 8) for world in (1, 2)])


if __name__ == "__main__":
    unittest.main()
