"""Training with PyTorch: losses to the bit, metrics of all ranks, and torch's own workers. Skipped
where it is not installed."""
import os
import socket
import subprocess
import sys
import unittest

import data
import millrace as mr

data.needs("torch")

import torch  # noqa: E402
from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402


@mr.op(reads="image", writes=mr.field("image", "float32", (24, 24, 1)))
def add_noise(rows):
    rows.out["image"][...] = rows["image"] + 0.1 * rows.normal(24, 24, 1)


def fashion_mnist():
    """Returns a plan of the test images, shuffled and changed at random."""
    return (mr.tfrecord(data.test_images()).global_shuffle()
            .parse_example(mr.feature("image/encoded", bytes),
                           mr.feature("image/class/label", int, name="label"))
            .decode_image(channels=1).random_resized_crop(24, 24).flip()
            .normalize(mean=72.94, stddev=90.02).op(add_noise)
            .batch(512).options(seed=4))


def losses_of(plan, threads):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(4 * 22 * 22, 10))
    optimizer = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    losses = []
    loader = plan.torch(("image", "label"), layout="channels_last",
                        context=mr.Context(threads=threads))
    for _ in range(2):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    loader.close()
    return losses


class Losses(unittest.TestCase):
    def test_they_are_the_same_to_the_bit_with_1_2_and_8_threads_of_the_pipeline(self):
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        plan = fashion_mnist()
        first = losses_of(plan, 1)
        self.assertEqual(len(first), 2 * 20)
        self.assertLess(first[-1], 0.8 * first[0])
        for threads in (2, 8):
            self.assertEqual(losses_of(plan, threads), first, threads)


class InWorker(IterableDataset):
    """Opens a loader in each of torch's workers: a worker is a rank."""

    def __init__(self, plan):
        super().__init__()
        self.plan = plan

    def __iter__(self):
        worker = get_worker_info()
        return iter(self.plan.torch("value", rank=worker.id, world=worker.num_workers))


class Workers(unittest.TestCase):
    def read(self, start):
        plan = mr.range(24).global_shuffle().batch(8).options(seed=3)
        whole = [batch.tolist() for batch in plan.torch("value")]
        with plan.numpy("value") as open_loader:  # the child has its own
            first = next(iter(open_loader)).tolist()
            loader = DataLoader(InWorker(plan), batch_size=None, num_workers=2,
                                multiprocessing_context=start, timeout=100)
            # The workers take turns: the halves of a batch follow each other.
            halves = [batch.tolist() for batch in loader]
            self.assertEqual([a + b for a, b in zip(halves[::2], halves[1::2])], whole)
            self.assertEqual(len(halves), 6)
            self.assertEqual(first, whole[0])
            self.assertEqual(open_loader.next()["value"].tolist(), whole[1])

    def test_they_are_forked(self):
        self.read("fork")

    def test_they_are_spawned(self):
        self.read("spawn")


# Gathers the samples of two epochs for each number of rows; argv: rank, port, the numbers.
GATHER = """
import os, sys
os.environ.update(RANK=sys.argv[1], LOCAL_RANK=sys.argv[1], WORLD_SIZE="2", LOCAL_WORLD_SIZE="2",
                  MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2], ACCELERATE_USE_CPU="1")
import torch
from accelerate import Accelerator
import millrace as mr
accelerator = Accelerator(cpu=True)
assert accelerator.num_processes == 2
for rows in map(int, sys.argv[3:]):
    plan = mr.range(rows).global_shuffle().batch(8).options(seed=3)
    loader = accelerator.prepare(plan.torch("value", last="pad"))
    for _ in range(2):
        seen = []
        for values in loader:
            seen += accelerator.gather_for_metrics(values).tolist()
        print(seen, flush=True)
        assert values.shape == (4,)
# Behind the loop nothing is cut off any more.
print(accelerator.gather_for_metrics(torch.ones(3)).tolist(), flush=True)
accelerator.end_training()
"""


class Metrics(unittest.TestCase):
    def gathered(self, *numbers):
        """Returns what each rank has printed."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        processes = [subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", GATHER, str(rank), str(port), *map(str, numbers)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        said = [process.communicate(timeout=150) for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], said)
        return [out for out, _ in said]

    def test_gather_for_metrics_gives_each_sample_once(self):
        data.needs("accelerate")
        numbers = (20, 24, 17)  # 17: the last batch has no sample of rank 1
        expected = []
        for rows in numbers:
            plan = mr.range(rows).global_shuffle().batch(8).options(seed=3)
            with plan.numpy("value", last="trim", rank=0, world=1) as loader:
                expected += [[value for batch in loader for value in batch.tolist()]
                             for _ in range(2)]
        said = "".join(f"{each}\n" for each in [*expected, [1.0] * 6])
        self.assertEqual(self.gathered(*numbers), [said, said])


if __name__ == "__main__":
    unittest.main()
