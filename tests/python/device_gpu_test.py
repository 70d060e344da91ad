"""Batches on a GPU, by PyTorch. Skipped where there is none.

It needs the package, torch and a GPU, and no data:

    PYTHONPATH=build/release/python python3 -m unittest -v device_gpu_test
"""
import copy
import gc
import importlib
import os
import threading
import unittest
import warnings

import data
import millrace as mr

data.needs("torch")

import torch  # noqa: E402

if not torch.cuda.is_available():
    raise unittest.SkipTest("torch finds no GPU")

ROWS = 1 << 18  # 2 MiB of int64
THREE = 9 << 20  # room for three such batches, with what sizes of slabs are rounded up by
DTYPES = (torch.uint8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
          torch.float64)


def images(count=40):
    return data.images(count).decode_image().resize(8, 6).batch(16).options(seed=2)


def numbers(batches=24, rows=ROWS):
    return mr.range(batches * rows).batch(rows)


def keep_busy():
    """Gives the current stream work of a few milliseconds."""
    matrix = torch.ones(4096, 4096, device="cuda")
    for _ in range(4):
        matrix = matrix @ matrix


class Tensors(unittest.TestCase):
    def check_same(self, plan, keys=None, **options):
        host = plan.torch(keys, repeat=False, **options)
        device = plan.torch(keys, repeat=False, device="cuda", **options)
        pairs = list(zip(host, device, strict=True))
        self.assertTrue(pairs)
        for wanted, got in pairs:
            self.assertEqual(wanted.keys(), got.keys())
            for name, tensor in got.items():
                self.assertEqual(tensor.device, torch.device("cuda", torch.cuda.current_device()))
                self.assertEqual(tensor.dtype, wanted[name].dtype)
                self.assertEqual(tensor.stride(), wanted[name].stride())
                self.assertTrue(torch.equal(tensor.cpu(), wanted[name]), name)

    def test_they_are_those_of_the_host(self):
        self.check_same(images())
        self.check_same(images(), last="pad")

    def test_all_types_are_those_of_the_plan(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                name = str(dtype).removeprefix("torch.")
                self.check_same(mr.range(20).cast("value", name).batch(8))

    def test_rows_without_a_sample_between_others_are_left_out(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.check_gaps()

    def check_gaps(self):
        records = [b'{"x": [1, 2]}', b"damage", b'{"x": []}', b'{"x": [4]}']
        plan = (mr.memory(records).parse_json(mr.feature("x", int, shape=[-1])).ragged_batch(4)
                .options(on_damage=mr.on_damage("mask", max_count=9)))
        self.check_same(plan)

    def test_images_are_channels_last(self):
        plain = next(iter(images().torch("image", device="cuda")))
        turned = next(iter(images().torch("image", device="cuda", layout="channels_last")))
        self.assertEqual(turned.shape, (16, 3, 8, 6))
        self.assertTrue(turned.is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(torch.equal(turned, plain.permute(0, 3, 1, 2)))

    def test_a_device_has_many_names(self):
        last = torch.cuda.device_count() - 1
        for device in ("cuda", "cuda:0", torch.device("cuda", last), last):
            tensor = next(iter(mr.range(8).batch(8).torch("value", device=device)))
            index = 0 if isinstance(device, str) else last
            self.assertEqual(tensor.device.index, index)
            self.assertEqual(tensor.tolist(), list(range(8)))
        self.assertEqual(next(iter(mr.range(8).batch(8).torch("value", device="cpu"))).device.type,
                         "cpu")
        with self.assertRaisesRegex(ValueError, "meta"):
            mr.range(8).batch(8).torch(device="meta")

    def test_a_field_of_a_device_batch_is_taken_by_both_interfaces(self):
        batch = mr.range(8).batch(8).cuda().next()
        for tensor in (torch.from_dlpack(batch["value"]), batch.torch("value"),
                       torch.as_tensor(batch["value"], device="cuda")):
            self.assertEqual(tensor.data_ptr(), batch["value"].address)
            self.assertEqual(tensor.tolist(), list(range(8)))


class OtherPackages(unittest.TestCase):
    """Where they are installed."""

    def field(self):
        return mr.range(8).batch(8).cuda().next()["value"]

    def imported(self, name):
        try:
            return importlib.import_module(name)
        except ImportError:
            self.skipTest(f"{name} is not installed")

    def test_cupy_takes_both_interfaces(self):
        cupy = self.imported("cupy")
        for array in (cupy.asarray(self.field()), cupy.from_dlpack(self.field())):
            self.assertEqual((array * 2).tolist(), list(range(0, 16, 2)))

    def test_numba_takes_the_array_interface(self):
        cuda = self.imported("numba.cuda")
        array = cuda.as_cuda_array(self.field())
        self.assertEqual(array.copy_to_host().tolist(), list(range(8)))

    def test_jax_takes_dlpack(self):
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        jax = self.imported("jax")
        if jax.default_backend() != "gpu":
            self.skipTest("jax finds no GPU")
        field = mr.range(8).cast("value", "int32").batch(8).cuda().next()["value"]
        array = jax.dlpack.from_dlpack(field)
        self.assertEqual((array * 2).tolist(), list(range(0, 16, 2)))


class Order(unittest.TestCase):
    """Work that the GPU comes to late reads the bytes of its batch."""

    def check_late_reads(self, loader):
        right = []
        for number, values in enumerate(loader):
            keep_busy()
            wanted = torch.arange(number * ROWS, (number + 1) * ROWS, device="cuda")
            right.append((values == wanted).all())
            del values, wanted
        self.assertEqual(len(right), 24)
        self.assertTrue(torch.stack(right).all().item())

    def make(self):
        return numbers().torch("value", device="cuda", ring=1, max_device_bytes=THREE,
                               repeat=False)

    def test_on_the_default_stream(self):
        self.check_late_reads(self.make())

    def test_on_a_side_stream(self):
        with torch.cuda.stream(torch.cuda.Stream()):
            self.check_late_reads(self.make())

    def check_early_reads(self):
        # A copy of such a batch takes milliseconds, and the work that reads its end comes at once.
        rows = 1 << 24
        last = [values[-1:].clone() for values in numbers(6, rows).torch(
            "value", device="cuda", ring=1, repeat=False)]
        self.assertEqual(torch.cat(last).tolist(), [rows * (i + 1) - 1 for i in range(6)])

    def test_reads_on_the_default_stream_wait_for_the_bytes(self):
        self.check_early_reads()

    def test_reads_on_a_side_stream_wait_for_the_bytes(self):
        with torch.cuda.stream(torch.cuda.Stream()):
            self.check_early_reads()

    def test_a_stream_that_is_recorded_counts_too(self):
        side = torch.cuda.Stream()
        right = []
        loader = numbers().cuda(ring=1, max_device_bytes=THREE, repeat=False)
        for number, batch in enumerate(loader):
            batch.wait_on(side.cuda_stream)
            values = torch.from_dlpack(batch["value"])
            with torch.cuda.stream(side):
                keep_busy()
                wanted = torch.arange(number * ROWS, (number + 1) * ROWS, device="cuda")
                right.append((values == wanted).all())
            batch.record_use(side.cuda_stream)
            del values, wanted, batch
        torch.cuda.synchronize()
        self.assertTrue(torch.stack(right).all().item())

    def test_batches_that_are_held_keep_their_bytes(self):
        held = list(numbers(8).torch("value", device="cuda", ring=1, repeat=False))
        gc.collect()
        for number, values in enumerate(held):
            self.assertEqual(values[[0, -1]].tolist(), [number * ROWS, (number + 1) * ROWS - 1])

    def test_a_batch_outlives_its_loader(self):
        loader = numbers(4).torch("value", device="cuda")
        values = next(iter(loader))
        loader.close()
        del loader
        gc.collect()
        self.assertEqual(values[-1].item(), ROWS - 1)


class Loaders(unittest.TestCase):
    def shuffled(self, **options):
        return mr.range(40).global_shuffle().batch(8).options(seed=1).torch(
            "value", device="cuda", **options)

    def test_epochs_are_those_of_the_host(self):
        host = mr.range(40).global_shuffle().batch(8).options(seed=1).torch("value")
        device = self.shuffled()
        self.assertIsInstance(device, torch.utils.data.DataLoader)
        self.assertEqual(len(device), 5)
        for _ in range(2):
            self.assertEqual([batch.tolist() for batch in device],
                             [batch.tolist() for batch in host])
        device.set_epoch(0)
        host.set_epoch(0)
        self.assertEqual([batch.tolist() for batch in device], [batch.tolist() for batch in host])

    def test_a_state_goes_on_inside_of_an_epoch(self):
        whole = [batch.tolist() for batch in self.shuffled()]
        loader = self.shuffled(ring=3)
        for step, _ in enumerate(loader, 1):
            if step == 2:
                break
        state = copy.deepcopy(loader.state_dict())
        for resumed in (self.shuffled(), loader):
            resumed.load_state_dict(state)
            self.assertEqual([batch.tolist() for batch in resumed], whole[2:])

    def test_held_batches_are_out_of_budget(self):
        loader = numbers().torch("value", device="cuda", max_device_bytes="8MiB")
        held = []
        with self.assertRaises(mr.OutOfBudget):
            for batch in loader:
                held.append(batch)
                del batch
        count = len(held)
        held.clear()
        self.assertEqual(next(iter(loader))[0].item(), count * ROWS)


class Steps(unittest.TestCase):
    def train(self, batches):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 6, 10)).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for pictures, labels in batches:
            logits = net(pictures.cuda().float() / 255)
            loss = torch.nn.functional.cross_entropy(logits, labels.cuda())
            optimizer.zero_grad()
            del pictures, labels  # autograd holds what it needs
            loss.backward()
            optimizer.step()
        return torch.cat([parameter.detach().flatten() for parameter in net.parameters()])

    def test_steps_of_autograd_are_those_on_host_batches(self):
        plan, keys = images(), ("image", "label")
        host = self.train(plan.torch(keys, layout="channels_last"))
        device = self.train(plan.torch(keys, layout="channels_last", device="cuda", ring=1,
                                       max_device_bytes=30000))
        torch.testing.assert_close(device, host)


class Graphs(unittest.TestCase):
    """Loaders that run while a graph is captured in the mode that forbids calls to all threads."""

    def setUp(self):
        self.inside = torch.zeros(1 << 10, device="cuda")
        self.outside = torch.zeros_like(self.inside)
        torch.cuda.synchronize()

    def capture(self, meanwhile):
        """Captures a graph, and returns it."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="global"):
            self.outside.copy_(self.inside * 2)
            meanwhile()
            self.outside.add_(1)
        return graph

    def check_graph(self, graph):
        for value in range(3):
            self.inside.fill_(value)
            graph.replay()
            self.assertEqual(self.outside.unique().tolist(), [2 * value + 1])

    def test_a_loader_runs_in_another_thread(self):
        side = torch.cuda.Stream().cuda_stream
        read, captured = threading.Event(), threading.Event()
        batches = []

        def run():
            for batch in numbers(64).cuda(ring=1, max_device_bytes=THREE):
                batches.append(batch.index)
                batch.wait_on(side)
                batch.record_use(side)
                del batch
                read.set()
                if captured.is_set():
                    return

        thread = threading.Thread(target=run)

        def meanwhile():
            thread.start()
            self.assertTrue(read.wait(60))

        graph = self.capture(meanwhile)
        captured.set()
        thread.join()
        self.assertEqual(batches, list(range(len(batches))))
        self.check_graph(graph)

    def test_batches_are_made_between_those_that_are_taken(self):
        # The pipeline's threads page-lock memory, and the feed copies, while the graph is captured.
        right = []
        iterator = iter(numbers().torch("value", device="cuda", ring=2, repeat=False))
        for number, values in enumerate(iterator):
            graph = self.capture(lambda: None)
            wanted = torch.arange(number * ROWS, (number + 1) * ROWS, device="cuda")
            right.append((values == wanted).all())
            del values, wanted
            self.check_graph(graph)
        self.assertEqual(len(right), 24)
        self.assertTrue(torch.stack(right).all().item())

    def test_page_locked_memory_is_made_and_given_back_meanwhile(self):
        def meanwhile():
            with numbers(8).numpy("value", pinned=True, repeat=False) as loader:
                self.assertEqual([values[0] for values in loader], [i * ROWS for i in range(8)])

        self.check_graph(self.capture(meanwhile))


class Pinned(unittest.TestCase):
    def test_tensors_are_pinned(self):
        self.assertTrue(next(iter(numbers(2).torch("value", pinned=True))).is_pinned())
        self.assertFalse(next(iter(numbers(2).torch("value"))).is_pinned())

    def test_copies_that_do_not_hold_up_the_host_get_the_bytes(self):
        loader = numbers().torch("value", pinned=True, prefetch=1, repeat=False)
        right = []
        for number, values in enumerate(loader):
            keep_busy()
            there = values.to("cuda", non_blocking=True)
            del values
            wanted = torch.arange(number * ROWS, (number + 1) * ROWS, device="cuda")
            right.append((there == wanted).all())
        self.assertTrue(torch.stack(right).all().item())

    def test_copies_under_way_that_take_the_budget_are_waited_for(self):
        context = mr.Context(memory_budget="64MiB")  # 8 MiB a batch, with its ids
        loader = numbers().torch("value", pinned=True, context=context, repeat=False)
        right = []
        for number, values in enumerate(loader):
            keep_busy()
            there = values.to("cuda", non_blocking=True)
            del values
            right.append((there[0] == number * ROWS) & (there[-1] == (number + 1) * ROWS - 1))
        self.assertEqual(len(right), 24)
        self.assertTrue(torch.stack(right).all().item())


if __name__ == "__main__":
    unittest.main()
