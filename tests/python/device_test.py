"""Batches on a CUDA device, on a driver whose devices have the memory of the host.

MILLRACE_CUDA_LIBRARY names that driver, so that bytes can be read here at their addresses.
"""
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np

import data
import millrace as mr

if "MILLRACE_CUDA_LIBRARY" not in os.environ:
    raise unittest.SkipTest("MILLRACE_CUDA_LIBRARY names no driver")

LEGACY, PER_THREAD = 1, 2
DRIVER = ctypes.CDLL(os.environ["MILLRACE_CUDA_LIBRARY"])
for question in ("fake_cuda_live", "fake_cuda_calls", "fake_cuda_misuses",
                 "fake_cuda_recorded_on"):
    getattr(DRIVER, question).restype = ctypes.c_int64
DTYPES = ("uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def read(tensor):
    """Returns the bits of a field on a device as a NumPy array of their own."""
    dtype = "uint16" if tensor.dtype == "bfloat16" else tensor.dtype
    count = int(np.prod(tensor.shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    return np.frombuffer(ctypes.string_at(tensor.address, count), dtype).reshape(tensor.shape)


def arrived(batch):
    """Waits for the bytes, and says that they are read, of which the host is done at once."""
    batch.wait_on()
    while not batch.ready():
        pass
    batch.record_use()
    return batch


def values(loader):
    return [read(arrived(batch)["value"]).tolist() for batch in loader]


def shuffled(count=40, size=8):
    return mr.range(count).global_shuffle().batch(size).options(seed=3)


class Bytes(unittest.TestCase):
    def check_same(self, plan, **options):
        with plan.numpy(repeat=False, **options) as host, \
                plan.cuda(device=1, repeat=False, **options) as device:
            batches = list(zip(host, device, strict=True))
        self.assertTrue(batches)
        for wanted, got in batches:
            arrived(got)
            self.assertEqual(got.names, wanted.names)
            for name in got.names:
                self.assertEqual(got.dtype(name), wanted.dtype(name))
                np.testing.assert_array_equal(read(got[name]), wanted.bits(name))
            for number in ("index", "epoch", "rows", "valid_rows", "global_valid_rows",
                           "first_global_row", "ends_epoch", "trimmed", "token"):
                self.assertEqual(getattr(got, number), getattr(wanted, number), number)
            np.testing.assert_array_equal(got.valid, wanted.valid)
            np.testing.assert_array_equal(got.ids, wanted.ids)
            self.assertEqual(got.state_dict(), wanted.state_dict())

    def test_their_loader_is_diagnosed(self):
        # What a loader has copied ahead counts: nothing behind the only epoch.
        with mr.range(20).batch(8).cuda(repeat=False) as loader:
            for batch in loader:
                arrived(batch)
            self.assertEqual(loader.diagnose().dict["samples"], 20)

    def test_they_are_those_of_the_host(self):
        self.check_same(shuffled(44))
        self.check_same(shuffled(44), last="trim")
        self.check_same(shuffled(44), rank=1, world=2)

    def test_all_types_are_those_of_the_plan(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                self.check_same(mr.range(20).cast("value", dtype).batch(8))

    def test_ragged_fields_come_with_their_splits(self):
        records = [b'{"x": [1, 2]}', b'{"x": []}', b'{"x": [4]}']
        plan = mr.memory(records).parse_json(mr.feature("x", int, shape=[-1])).ragged_batch(2)
        self.check_same(plan)
        self.check_same(plan, last="trim")

    def test_rows_between_others_stay_and_are_named(self):
        records = [b'{"x": 1}', b"damage", b'{"x": 3}', b'{"x": 4}']
        plan = (mr.memory(records).parse_json(mr.feature("x", int)).batch(4)
                .options(on_damage=mr.on_damage("mask", max_count=9)))
        batch = arrived(plan.cuda(last="trim").next())
        self.assertTrue(batch.has_gaps)
        with self.assertRaisesRegex(BufferError, "between others.*whole.*kept"):
            batch["x"]
        kept = batch.kept("x")
        self.assertEqual(kept.tolist(), [True, False, True, True])
        self.assertEqual(read(batch.whole("x"))[kept].tolist(), [1, 3, 4])
        (row, sample_id, error), = batch.damaged
        self.assertEqual((row, sample_id), (1, (0, 1, 0)))
        self.assertIsInstance(error, mr.DataLoss)

    def test_rows_that_are_to_be_left_out_are_named(self):
        first, last = mr.range(12).batch(8).cuda(last="trim", repeat=False)
        self.assertIsNone(first.kept("value"))
        self.assertEqual(last.kept("value").tolist(), 4 * [True] + 4 * [False])
        self.assertEqual(read(arrived(last).whole("value"))[last.kept("value")].tolist(),
                         read(last["value"]).tolist())
        # With "pad" none is left out.
        for batch in mr.range(12).batch(8).cuda(repeat=False):
            self.assertIsNone(batch.kept("value"))

    def test_a_batch_is_a_mapping(self):
        batch = shuffled().cuda(device=1).next()
        self.assertEqual((list(batch), len(batch), batch.names), (["value"], 1, ("value",)))
        self.assertIn("value", batch)
        self.assertEqual([name for name, _ in batch.items()], ["value"])
        self.assertEqual(batch.values()[0].shape, (8,))
        self.assertIsNone(batch.get("none"))
        self.assertEqual(batch.device, 1)
        self.assertEqual(repr(batch), "<DeviceBatch 0 of epoch 0 on 1: value: int64[8]>")
        with self.assertRaisesRegex(KeyError, "no field 'none'"):
            batch["none"]
        with self.assertRaisesRegex(TypeError, "a loader makes batches"):
            mr.DeviceBatch()

    def test_keys_give_fields_and_tuples(self):
        field = shuffled().cuda("value")
        self.assertEqual(next(iter(field)).shape, (8,))
        first, second = next(iter(shuffled().cuda(("value", "value"))))
        self.assertEqual((first.shape, second.dtype), ((8,), "int64"))


class Streams(unittest.TestCase):
    """What the capsules say; the bytes are those of the host."""

    def tensor(self, **options):
        self.batch = mr.range(20).batch(8).cuda(device=1, **options).next()
        return self.batch["value"]

    def test_a_field_is_that_of_its_device(self):
        tensor = self.tensor()
        self.assertEqual(tensor.__dlpack_device__(), (2, 1))
        self.assertEqual((tensor.shape, tensor.dtype, tensor.device), ((8,), "int64", 1))

    def test_a_consumer_names_its_stream(self):
        tensor = self.tensor()
        for stream in (None, -1, LEGACY, PER_THREAD):
            for version in (None, (1, 0)):
                capsule = tensor.__dlpack__(stream=stream, max_version=version,
                                            dl_device=(2, 1), copy=False)
                name = "dltensor_versioned" if version else "dltensor"
                self.assertIn(f'"{name}"', repr(capsule))
                del capsule  # nobody has taken it: its deleter runs
        for ambiguous in (0, -2):
            with self.assertRaises(ValueError):
                tensor.__dlpack__(stream=ambiguous)
        with self.assertRaises(TypeError):
            tensor.__dlpack__(stream="fast")

    def test_wishes_that_cannot_be_fulfilled_are_refused(self):
        tensor = self.tensor()
        for field in (tensor, mr.range(4).batch(4).numpy().next().tensor("value")):
            for copy in (True, 1, np.True_):
                with self.assertRaisesRegex(BufferError, "copy"):
                    field.__dlpack__(copy=copy)
            field.__dlpack__(copy=np.False_)
        for device in ((1, 0), (2, 0)):
            with self.assertRaisesRegex(BufferError, "CUDA device, \\(2, 1\\)"):
                tensor.__dlpack__(dl_device=device)

    def test_a_tensor_that_is_read_only_needs_a_version(self):
        tensor = self.tensor(writable=False)
        tensor.__dlpack__(max_version=(1, 0))
        with self.assertRaisesRegex(BufferError, "read-only"):
            tensor.__dlpack__()
        self.assertEqual(tensor.__cuda_array_interface__["data"], (tensor.address, True))

    def test_a_capsule_holds_the_batch_and_gives_it_back(self):
        # Room for one batch: the second comes when the first is given back.
        loader = mr.range(1 << 20).batch(1 << 16).cuda(ring=1, max_device_bytes=1000)
        capsule = loader.next()["value"].__dlpack__(stream=LEGACY)
        with self.assertRaisesRegex(mr.OutOfBudget, "max_device_bytes"):
            loader.next()
        self.assertIn("dltensor", repr(capsule))
        del capsule
        self.assertEqual(loader.next().index, 1)

    def test_the_capsule_of_a_trimmed_field_has_its_extents(self):
        batch = list(mr.range(20).batch(8).cuda(last="trim"))[-1]
        self.assertEqual(batch["value"].shape, (4,))
        capsule = batch["value"].__dlpack__(stream=-1)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor: data, device, ndim, dtype, shape
        shape = ctypes.c_void_p.from_address(pointer(capsule, b"dltensor") + 24).value
        self.assertEqual(ctypes.c_int64.from_address(shape).value, 4)

    def test_the_interface_of_cupy_and_numba(self):
        interface = self.tensor().__cuda_array_interface__
        self.assertEqual(interface, {
            "shape": (8,), "typestr": "<i8", "data": (self.batch["value"].address, False),
            "strides": None, "version": 3, "stream": LEGACY})
        for dtype, typestr in zip(DTYPES, ("|u1", "<i4", "<i8", "<f2", "<u2", "<f4", "<f8")):
            batch = mr.range(4).cast("value", dtype).batch(4).cuda().next()
            self.assertEqual(batch["value"].__cuda_array_interface__["typestr"], typestr)

    def test_the_end_of_a_view_is_a_use_that_is_recorded(self):
        tensor = self.tensor()
        for make, records in ((lambda: tensor.__dlpack__(stream=LEGACY), 1),
                              (lambda: tensor.__dlpack__(stream=-1), 0)):
            view = make()
            before = DRIVER.fake_cuda_calls(b"cuEventRecord")
            del view
            self.assertEqual(DRIVER.fake_cuda_calls(b"cuEventRecord") - before, records)
        self.assertIsNotNone(tensor.__cuda_array_interface__)
        before = DRIVER.fake_cuda_calls(b"cuEventRecord")
        del tensor
        self.assertEqual(DRIVER.fake_cuda_calls(b"cuEventRecord") - before, 1)

    def test_the_use_of_a_thread_s_own_stream_is_recorded_for_all_threads(self):
        tensor = self.tensor()
        for stream in (PER_THREAD, LEGACY):
            self.batch.record_use(PER_THREAD)
            self.assertEqual(DRIVER.fake_cuda_recorded_on(), PER_THREAD)
            capsule = tensor.__dlpack__(stream=stream)
            del capsule
            self.assertEqual(DRIVER.fake_cuda_recorded_on(), LEGACY)

    def test_streams_wait_and_are_waited_for(self):
        batch = self.tensor() and self.batch
        for stream in (None, 0, LEGACY, PER_THREAD):
            batch.wait_on(*([] if stream is None else [stream]))
            batch.record_use(stream)
        for call in (batch.wait_on, batch.record_use):
            with self.assertRaises(ValueError):
                call(-1)


class Loaders(unittest.TestCase):
    def test_epochs_are_those_of_the_host(self):
        with shuffled().numpy("value") as loader:
            epochs = [[batch.tolist() for batch in loader] for _ in range(3)]
        with shuffled().cuda() as loader:
            self.assertEqual(len(loader), 5)
            self.assertEqual([values(loader) for _ in range(3)], epochs)
            loader.set_epoch(1)
            self.assertEqual(values(loader), epochs[1])
            for _ in loader:
                break
            self.assertEqual(values(loader), self.epoch(3))

    def epoch(self, number):
        with shuffled().numpy("value") as loader:
            loader.set_epoch(number)
            return [batch.tolist() for batch in loader]

    def test_a_state_goes_on_inside_of_an_epoch(self):
        whole = self.epoch(0)
        for resume in ("loader", "batch"):
            loader = shuffled().cuda(ring=3)
            for step, batch in enumerate(loader, 1):
                if step == 2:
                    break
            state = (loader if resume == "loader" else batch).state_dict()
            loader.close()
            for other in (shuffled().cuda(), loader):
                other.load_state_dict(state)
                self.assertEqual(values(other), whole[2:], resume)
        # And on the host, with what a device has left.
        host = shuffled().numpy("value")
        host.load_state_dict(state)
        self.assertEqual([batch.tolist() for batch in host], whole[2:])

    def test_an_open_loader_goes_back(self):
        loader = shuffled().cuda()
        first = values(loader)
        loader.load_state_dict({"millrace": "", "epoch": 0, "inside": False})
        self.assertEqual(values(loader), first)
        state = loader.peek().index, loader.next().index
        self.assertEqual(state, (5, 5))

    def test_what_it_is(self):
        loader = shuffled().cuda()
        self.assertEqual(loader.spec, (mr.Field("value", "int64", ()),))
        first = loader.next().ids[0]
        self.assertEqual(loader.locate(first)[2], first[1])
        with self.assertRaisesRegex(KeyError, "no field 'none'"):
            shuffled().cuda("none").open()

    def test_batches_held_are_out_of_budget_until_some_are_dropped(self):
        loader = mr.range(1 << 20).batch(1 << 14).cuda(ring=1, max_device_bytes="512KiB")
        held = []
        with self.assertRaises(mr.OutOfBudget) as raised:
            for batch in loader:
                held.append(batch)
                del batch
        self.assertTrue(raised.exception.retryable)
        count = len(held)
        self.assertGreater(count, 0)
        held.clear()
        self.assertEqual(next(iter(loader)).index, count)

    def test_a_batch_that_cannot_be_delivered_is_left_out(self):
        records = [b"damage" if i == 1 else b'{"x": %d}' % i for i in range(12)]
        plan = (mr.memory(records).parse_json(mr.feature("x", int)).batch(4)
                .options(on_damage=mr.on_damage("mask", max_count=9)))
        loader = plan.cuda("x", last="trim", repeat=False)
        with self.assertRaisesRegex(BufferError, "between others"):
            next(iter(loader))
        self.assertEqual([read(field).tolist() for field in loader],
                         [[4, 5, 6, 7], [8, 9, 10, 11]])

    def test_a_field_is_held_by_the_program_alone(self):
        iterator = iter(shuffled().cuda("value"))
        self.assertEqual(sys.getrefcount(next(iterator)), 1)

    def test_pinned_batches_of_the_host_are_the_same(self):
        gc.collect()
        for pinned, device, other in ((True, 0, 1), (0, 0, 1), (1, 1, 0)):
            with shuffled().numpy("value", pinned=pinned) as loader:
                self.assertEqual([batch.tolist() for batch in loader], self.epoch(0))
                self.assertGreater(DRIVER.fake_cuda_live(b"host_memory"), 0)
                self.assertGreater(DRIVER.fake_cuda_live(b"context_%d" % device), 0)
                self.assertEqual(DRIVER.fake_cuda_live(b"context_%d" % other), 0)
        with self.assertRaisesRegex(ValueError, "device"):
            shuffled().numpy(pinned=-1)


class Errors(unittest.TestCase):
    def test_a_device_that_is_not_there(self):
        with self.assertRaises(mr.PlanError):
            shuffled().cuda(device=2).open()
        with self.assertRaisesRegex(mr.PlanError, "device"):
            shuffled().cuda(device=-1).open()
        with self.assertRaises(TypeError):
            shuffled().cuda(device="cuda")

    def test_without_a_driver(self):
        said = run("""
            try:
                mr.range(8).batch(8).cuda().open()
            except mr.FailedPrecondition as error:
                print("driver" in str(error))
            print(mr.range(4).batch(4).numpy("value", pinned=True).next()["value"].tolist())
            """, MILLRACE_CUDA_LIBRARY="/nowhere/libcuda.so.1")
        self.assertEqual(said[:2], (0, "True\n[0, 1, 2, 3]\n"))
        self.assertIn("batches lie in pageable memory", said[2])


def run(program, **environment):
    """Runs a program of its own, and returns its status and what it has written."""
    lines = [line.removeprefix(12 * " ") for line in program.splitlines()]
    done = subprocess.run([sys.executable, "-c", "import millrace as mr\n" + "\n".join(lines)],
                          capture_output=True, text=True, timeout=100, check=False,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class Life(unittest.TestCase):
    def test_nothing_is_left_in_the_driver(self):
        gc.collect()
        self.assertEqual(DRIVER.fake_cuda_live(None), 0)
        loader = shuffled().cuda()
        held = [loader.next() for _ in range(3)]
        fields = [batch["value"] for batch in held]
        capsules = [field.__dlpack__() for field in fields]
        interfaces = [field.__cuda_array_interface__ for field in fields]
        loader.close()
        self.assertGreater(DRIVER.fake_cuda_live(b"memory"), 0)
        del loader, held, fields, capsules, interfaces
        gc.collect()
        self.assertEqual(DRIVER.fake_cuda_live(None), 0)
        self.assertEqual(DRIVER.fake_cuda_misuses(), 0)

    def test_threads_run_while_the_driver_lets_a_batch_wait(self):
        def make(take):
            loader = shuffled().cuda()
            held = [take(loader.next())]
            loader.close()
            return held

        def interface(batch):
            field = batch["value"]
            self.assertIsNotNone(field.__cuda_array_interface__)
            return field

        for take, function in ((lambda batch: batch, b"cuMemFreeAsync"),
                               (interface, b"cuEventRecord"),
                               (lambda batch: batch["value"].__dlpack__(), b"cuEventRecord")):
            held = make(take)
            before = DRIVER.fake_cuda_calls(function)
            DRIVER.fake_cuda_hold(function)
            thread = threading.Thread(target=held.clear)
            thread.start()
            while DRIVER.fake_cuda_calls(function) == before:
                pass
            DRIVER.fake_cuda_hold(None)
            thread.join()

    def test_a_batch_and_a_field_outlive_their_loader(self):
        loader = shuffled().cuda()
        batch = loader.next()
        field, capsule = batch["value"], batch["value"].__dlpack__(stream=LEGACY)
        wanted = read(arrived(batch)["value"]).tolist()
        loader.close()
        del loader, batch
        gc.collect()
        self.assertEqual(read(field).tolist(), wanted)
        del field, capsule

    def test_the_interpreter_ends_with_live_feeds(self):
        for _ in range(5):
            said = run("""
            plan = mr.range(1 << 20).batch(64).prefetch(8)
            loaders = [plan.cuda(device=device) for device in range(2)]
            held = [loader.next() for loader in loaders]
            capsules = [batch["value"].__dlpack__(stream=1) for batch in held]
            iterator = iter(loaders[0])
            next(iterator)
            print("ends")
            """)
            self.assertEqual(said, (0, "ends\n", ""))

    def test_ctrl_c_ends_a_wait_and_the_loader_goes_on(self):
        program = """
import millrace as mr
feed = mr.PushSource()
loader = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).cuda().open()
try:
    print("ready", flush=True)
    loader.next()
except KeyboardInterrupt:
    print("interrupted", flush=True)
feed.push(b'{"x": 7}')
print(loader.next()["x"].shape, flush=True)
"""
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                              text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGINT)
            said = process.stdout.read()
            self.assertEqual(process.wait(100), 0, said)
        self.assertIn("(1,)\n", said)

    def test_closing_ends_a_wait_in_another_thread(self):
        feed = mr.PushSource()
        loader = mr.push(feed).parse_json(mr.feature("x", int)).batch(1).cuda().open()
        self.assertEqual(data.errors_of_a_cancelled_wait(loader), 1)

    def test_an_op_of_python_may_run_meanwhile(self):
        @mr.op(reads="value", writes=mr.field("value", "int64"), name="double")
        def double(rows):
            rows.out["value"] = rows["value"] * 2

        loader = mr.range(1 << 12).op(double).batch(64).prefetch(8).cuda()
        self.assertEqual(read(arrived(loader.next())["value"])[:3].tolist(), [0, 2, 4])
        del loader


if __name__ == "__main__":
    unittest.main()
