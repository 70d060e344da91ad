"""Sums of gradients of PyTorch. Skipped where it is not installed."""
import copy
import os
import signal
import subprocess
import sys
import unittest

import data
import millrace as mr
import ranks

data.needs("torch")

import torch  # noqa: E402
from millrace._torch_ddp import BucketSums  # noqa: E402
from millrace.gradients import options_of  # noqa: E402
from torch import nn  # noqa: E402

mrt = mr.torch


def make_net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 5))


def inputs(rank, step=0):
    return torch.randn(6, 3, 6, 6, generator=torch.Generator().manual_seed(100 * rank + step))


def loss_of(net, rank, step=0):
    return net(inputs(rank, step)).square().mean()


def gradients_of(net, rank, step=0):
    """The gradients of one rank alone, by their names."""
    net = copy.deepcopy(net)
    net.zero_grad()
    loss_of(net, rank, step).backward()
    return {name: each.grad.clone() for name, each in net.named_parameters()}


def average(all_gradients):
    return {name: sum(gradients[name] * (1 / len(all_gradients)) for gradients in all_gradients)
            for name in all_gradients[0]}


class Averages(unittest.TestCase):
    def check_steps(self, zero, **options):
        nets = [make_net() for _ in range(2)]
        wanted = [average([gradients_of(nets[0], rank, step) for rank in range(2)])
                  for step in range(3)]

        def train(group):
            net = nets[group.rank]
            reducer = mrt.Reducer(net, communicator=group, **options)
            optimizer = torch.optim.SGD(net.parameters(), lr=0)
            addresses = [each.grad.data_ptr() for each in net.parameters()]
            for step in range(3):
                zero(reducer, optimizer)
                loss_of(net, group.rank, step).backward()
                outcome = reducer.finish()
                self.assertEqual(outcome, (0, False, 1, 0, True))
                self.assertEqual([each.grad.data_ptr() for each in net.parameters()], addresses)
                for name, each in net.named_parameters():
                    self.assertTrue(torch.equal(each.grad, wanted[step][name]), name)
            return reducer.counters.steps

        self.assertEqual(ranks.in_threads(2, train), [3, 3])

    def test_gradients_are_the_averages_in_the_same_memory(self):
        self.check_steps(lambda reducer, optimizer: reducer.zero_grad())
        self.check_steps(lambda reducer, optimizer: reducer.zero_grad(), exact=True,
                         bucket_bytes=256, edge_bucket_bytes=128)

    def test_gradients_that_the_optimizer_has_dropped_are_taken_back(self):
        self.check_steps(lambda reducer, optimizer: optimizer.zero_grad())
        self.check_steps(lambda reducer, optimizer: optimizer.zero_grad(set_to_none=False))

    def test_the_norm_is_limited(self):
        net = make_net()
        averages = average([gradients_of(net, rank) for rank in range(2)])
        limited = [nn.Parameter(each.clone()) for each in averages.values()]
        for each, value in zip(limited, averages.values()):
            each.grad = value.clone()
        norm = nn.utils.clip_grad_norm_(limited, 0.01)

        def train(group):
            own = copy.deepcopy(net)
            reducer = mrt.Reducer(own, communicator=group, clip_norm=0.01)
            loss_of(own, group.rank).backward()
            return reducer.finish(), [each.grad.clone() for each in own.parameters()]

        for outcome, gradients in ranks.in_threads(2, train):
            self.assertAlmostEqual(outcome.norm / norm.item(), 1, places=5)
            self.assertLess(outcome.clip_factor, 1)
            for gradient, wanted in zip(gradients, limited):
                torch.testing.assert_close(gradient, wanted.grad)

    def test_without_syncing_gradients_are_added_up(self):
        net = make_net()
        wanted = average([gradients_of(net, rank, step) for rank in range(2) for step in range(2)])

        def train(group):
            own = copy.deepcopy(net)
            reducer = mrt.Reducer(own, communicator=group)
            reducer.zero_grad()
            with reducer.no_sync():
                loss_of(own, group.rank, 0).backward()
            loss_of(own, group.rank, 1).backward()
            reducer.finish()
            return {name: each.grad.clone() for name, each in own.named_parameters()}

        for summed in ranks.in_threads(2, train):
            for name, gradient in summed.items():
                torch.testing.assert_close(gradient, 2 * wanted[name])

    def test_sums_are_divided_by_the_rows_of_all(self):
        def train(group):
            weight = nn.Parameter(torch.ones(3))
            reducer = mrt.Reducer([weight], communicator=group, average_by_rows=True)
            rows = group.rank + 1
            reducer.set_rows(rows)
            (weight * torch.full((rows, 3), 6.0)).sum().backward()
            return reducer.finish().rows, weight.grad.tolist()

        self.assertEqual(ranks.in_threads(2, train), [(3, [6.0] * 3)] * 2)

    def test_rows_of_several_batches_are_added_up(self):
        def train(group):
            weight = nn.Parameter(torch.ones(3))
            reducer = mrt.Reducer([weight], communicator=group, average_by_rows=True)
            averages = []
            for _ in range(2):
                reducer.zero_grad()
                with reducer.no_sync():
                    reducer.set_rows(2)
                    (weight * torch.full((2, 3), 6.0)).sum().backward()
                reducer.set_rows(3)
                (weight * torch.full((3, 3), 6.0)).sum().backward()
                averages.append((reducer.finish().rows, weight.grad.tolist()))
            return averages

        self.assertEqual(ranks.in_threads(2, train), [[(10, [6.0] * 3)] * 2] * 2)

    def test_sums_that_are_not_finite_are_found(self):
        def train(group):
            weight = nn.Parameter(torch.ones(3))
            reducer = mrt.Reducer([weight], communicator=group, skip_non_finite=True, clip_norm=1.0)
            (weight * (float("inf") if group.rank else 1)).sum().backward()
            return reducer.finish().skip

        self.assertEqual(ranks.in_threads(2, train), [True, True])

    def test_unused_parameters_are_zero_where_that_is_asked_for(self):
        def train(group):
            weights = [nn.Parameter(torch.ones(2)) for _ in range(2)]
            reducer = mrt.Reducer(weights, communicator=group, find_unused=True)
            for step in range(2):
                torch.optim.SGD(weights, lr=0).zero_grad()
                weights[group.rank].sum().backward()
                reducer.finish()
            return [each.grad.tolist() for each in weights]

        self.assertEqual(ranks.in_threads(2, train), [[[0.5, 0.5]] * 2] * 2)

    def test_layers_may_share_a_parameter(self):
        def train(group):
            net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
            net[1].weight = net[0].weight
            reducer = mrt.Reducer(net, communicator=group)
            net(torch.ones(1, 3)).sum().backward()
            reducer.finish()
            return net[0].weight.grad.clone()

        torch.manual_seed(3)
        one, other = ranks.in_threads(2, train)
        self.assertTrue(torch.equal(one, other))

    def test_types_and_layouts_are_those_of_the_parameters(self):
        group, = mr.Communicator.threads(1)
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            net = nn.Conv2d(3, 4, 3).to(dtype).to(memory_format=torch.channels_last)
            reducer = mrt.Reducer(net, communicator=group)
            net(torch.ones(1, 3, 4, 4, dtype=dtype)).sum().backward()
            wanted = net.weight.grad.clone()
            reducer.finish()
            self.assertEqual((net.weight.grad.dtype, net.weight.grad.stride()),
                             (dtype, net.weight.stride()))
            self.assertTrue(torch.equal(net.weight.grad, wanted))


class InPlace(unittest.TestCase):
    def test_a_tensor_may_be_empty(self):  # and lie nowhere
        def train(group):
            own = [torch.empty(0), torch.full((2,), group.rank + 1.0)]
            reducer = mr.Reducer(own, communicator=group, in_place=True)
            for number in range(2):
                reducer.mark_ready(number)
            reducer.finish()
            return reducer.gradient(0).shape, own[1].tolist()

        self.assertEqual(ranks.in_threads(2, train), [((0,), [3.0, 3.0])] * 2)


class Bucket:
    """A bucket of DistributedDataParallel."""

    def __init__(self, number, memory, last):
        self._of = (number, memory, last)

    def index(self):
        return self._of[0]

    def buffer(self):
        return self._of[1]

    def is_last(self):
        return self._of[2]


class Buckets(unittest.TestCase):
    def averages(self, sums, memory, rank):
        """Takes a step over buckets in this memory, and returns the averages, by the buckets."""
        futures = []
        for number, each in enumerate(memory):
            each.fill_(float(rank + number))
            futures.append(sums.take(Bucket(number, each, number + 1 == len(memory))))
        for future, each in zip(futures, memory):
            self.assertEqual(future.wait().data_ptr(), each.data_ptr())
        return [each[-1].item() for each in memory]

    def test_buckets_may_move_on_one_rank_and_change_on_all(self):
        def train(group):
            sums = BucketSums(group, options_of())
            memory = [torch.zeros(3), torch.zeros(5)]
            done = [self.averages(sums, memory, group.rank) for _ in range(3)]
            if group.rank == 1:
                memory = [torch.zeros(3), torch.zeros(5)]
            done += [self.averages(sums, memory, group.rank) for _ in range(2)]
            memory = [torch.zeros(8)]
            return done, [self.averages(sums, memory, group.rank) for _ in range(4)]

        self.assertEqual(ranks.in_threads(2, train), [([[0.5, 1.5]] * 5, [[0.5]] * 4)] * 2)

    def test_buckets_that_change_within_a_step(self):
        group, = mr.Communicator.threads(1)
        sums = BucketSums(group, options_of())
        memory = [torch.zeros(3), torch.zeros(5)]
        for _ in range(3):
            self.averages(sums, memory, 0)
        with self.assertRaisesRegex(mr.FailedPrecondition, "bucket 1 .* within a step"):
            self.averages(sums, [memory[0], torch.zeros(6)], 0)


class States(unittest.TestCase):
    def test_parameters_and_buffers_become_those_of_rank_0(self):
        class Net(nn.Module):
            def __init__(self, rank):
                super().__init__()
                self.weight = nn.Parameter(torch.full((2, 3), float(rank)).t())
                self.register_buffer("mask", torch.tensor([rank == 0, False]))
                self.register_buffer("steps", torch.tensor(7 + rank))

        def start(group, **options):
            net = Net(group.rank)
            mrt.Reducer(net, communicator=group, **options)
            return {name: value.tolist() for name, value in net.state_dict().items()}

        first, second = ranks.in_threads(2, start)
        self.assertEqual(first, {"weight": [[0.0] * 2] * 3, "mask": [True, False], "steps": 7})
        self.assertEqual(second, first)
        _, own = ranks.in_threads(2, lambda group: start(group, broadcast=False))
        self.assertEqual(own["steps"], 8)

    def test_a_buffer_that_the_module_has_replaced_is_given(self):
        def train(group):
            net = nn.BatchNorm1d(2)
            reducer = mrt.Reducer(net, communicator=group)
            net.running_mean = torch.full((2,), float(group.rank + 1))
            reducer.broadcast()
            return net.running_mean.tolist()

        self.assertEqual(ranks.in_threads(2, train), [[1.0, 1.0]] * 2)

    def test_gradients_that_were_there_are_kept(self):
        group, = mr.Communicator.threads(1)
        weight = nn.Parameter(torch.ones(2))
        weight.sum().backward()
        reducer = mrt.Reducer([("weight", weight)], communicator=group)
        weight.sum().backward()
        reducer.finish()
        self.assertEqual(weight.grad.tolist(), [2, 2])

    def test_without_its_hooks_gradients_are_this_rank_s(self):
        def train(group):
            weight = nn.Parameter(torch.ones(2))
            reducer = mrt.Reducer([weight], communicator=group)
            reducer.remove_hooks()
            (weight * (group.rank + 1)).sum().backward()
            return weight.grad.tolist()

        self.assertEqual(ranks.in_threads(2, train), [[1, 1], [2, 2]])


class WrongUse(unittest.TestCase):
    def setUp(self):
        self.group, = mr.Communicator.threads(1)

    def test_parameters_without_a_gradient_are_named(self):
        weights = {name: nn.Parameter(torch.ones(2)) for name in ("used", "unused")}
        reducer = mrt.Reducer(weights.items(), communicator=self.group)
        weights["used"].sum().backward()
        with self.assertRaisesRegex(mr.FailedPrecondition, "in this step: 'unused'. .*find_unused"):
            reducer.finish()
        weights["unused"].sum().backward()
        reducer.finish()

    def test_a_second_gradient_in_a_step(self):
        weight = nn.Parameter(torch.ones(2))
        reducer = mrt.Reducer([("weight", weight)], communicator=self.group)
        weight.sum().backward()
        with self.assertRaisesRegex(mr.FailedPrecondition, "'weight' got a second .*no_sync"):
            weight.sum().backward()
        reducer.finish()

    def test_a_second_reducer_of_a_parameter(self):
        weight = nn.Parameter(torch.ones(2))
        first = mrt.Reducer([weight], communicator=self.group)
        with self.assertRaisesRegex(ValueError, "'0' has a Reducer: .*remove_hooks"):
            mrt.Reducer([weight], communicator=self.group)
        first.remove_hooks()
        second = mrt.Reducer([weight], communicator=self.group)
        first.remove_hooks()
        with self.assertRaisesRegex(ValueError, "'0' has a Reducer"):
            mrt.Reducer([weight], communicator=self.group)
        weight.sum().backward()
        second.finish()
        self.assertEqual(weight.grad.tolist(), [1, 1])

    def test_what_cannot_be_summed(self):
        lookup = nn.Embedding(4, 2, sparse=True)
        for parameters, kind, text in (
                (nn.Linear(2, 2, device="meta"), ValueError, "'weight' is on 'meta'.*NCCL"),
                (nn.Linear(2, 2).double(), ValueError, "'weight' is torch.float64"),
                (nn.Flatten(), ValueError, "no parameter"), ([1], TypeError, "'0' is a int")):
            with self.subTest(text), self.assertRaisesRegex(kind, text):
                mrt.Reducer(parameters, communicator=self.group)
        reducer = mrt.Reducer(lookup, communicator=self.group)
        lookup.zero_grad()
        with self.assertRaisesRegex(ValueError, "'weight' has a sparse gradient"):
            lookup(torch.tensor([1])).sum().backward()
        del reducer
        with self.assertRaisesRegex(ValueError, "on 'meta'.*NCCL"):
            self.group.all_reduce(torch.ones(2, device="meta"))

    def test_options_that_are_none(self):
        for options, text in (({"shard": True}, "no_sync"), ({"micro_batches": 2}, "no_sync"),
                              ({"buckets": 3}, "buckets")):
            with self.subTest(text), self.assertRaisesRegex(TypeError, text):
                mrt.Reducer(nn.Linear(2, 2), communicator=self.group, **options)
        with self.assertRaisesRegex(TypeError, "Linear"):
            mrt.reduce_gradients(nn.Linear(2, 2))


# Ranks of torch.distributed: Millrace's meet by them.
BEGIN = """
import copy, os, signal, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
import millrace as mr
mrt = mr.torch
rank, world = int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + "/torch", rank=rank,
                        world_size=world)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 300), nn.ReLU(),
                    nn.Linear(300, 10))
def loss_of(model, step):
    random = torch.Generator().manual_seed(100 * rank + step)
    return model(torch.randn(8, 300, generator=random)).square().mean()
def gradients(model):
    return torch.cat([each.grad.reshape(-1) for each in model.parameters()]).clone()
def make(**options):
    return DDP(copy.deepcopy(net), bucket_cap_mb=0.1, **options)
"""


class Processes(unittest.TestCase):
    def test_a_hook_makes_the_averages_of_gloo(self):
        self.assertEqual(ranks.said_by_all("""
gloo, views, copies, unused = (make(**options) for options in (
    {}, {"gradient_as_bucket_view": True}, {}, {"find_unused_parameters": True}))
for model in (views, copies, unused):
    mrt.reduce_gradients(model)
addresses = []
for step in range(6):
    for model in (gloo, views, copies, unused):
        model.zero_grad(set_to_none=False)
        loss_of(model, step).backward()
    wanted = gradients(gloo)
    assert all(torch.equal(gradients(model), wanted) for model in (views, copies, unused)), step
    addresses.append([each.grad.data_ptr() for each in views.parameters()])
assert all(each == addresses[2] for each in addresses[2:])
double, doubles = (DDP(copy.deepcopy(net).double()) for _ in range(2))
mrt.reduce_gradients(doubles)
for step in range(4):
    for model in (double, doubles):
        model.zero_grad()
        model(torch.ones(2, 300, dtype=torch.float64) * (rank + step)).sum().backward()
    assert torch.equal(gradients(double), gradients(doubles)), step
print("same")
""", beginning=BEGIN), ["same\n"] * 2)

    def test_a_reducer_makes_the_averages_of_gloo(self):
        self.assertEqual(ranks.said_by_all("""
gloo = make()
if rank == 1:
    torch.manual_seed(5)
    for each in net.parameters():
        nn.init.normal_(each)
reducer = mrt.Reducer(net, bucket_bytes=1 << 17, edge_bucket_bytes=1 << 14)
assert reducer.communicator is mr.default_communicator()
for step in range(4):
    gloo.zero_grad()
    loss_of(gloo, step).backward()
    reducer.zero_grad()
    loss_of(net, step).backward()
    reducer.finish()
    assert torch.equal(gradients(net), gradients(gloo)), step
print("same")
""", beginning=BEGIN), ["same\n"] * 2)

    def test_three_ranks_are_as_gloo_s_but_for_rounding(self):
        self.assertEqual(ranks.said_by_all("""
gloo, hook = make(), make()
mrt.reduce_gradients(hook, exact=True)
for step in range(5):
    for model in (gloo, hook):
        model.zero_grad()
        loss_of(model, step).backward()
    torch.testing.assert_close(gradients(hook), gradients(gloo))
print("close")
""", size=3, beginning=BEGIN), ["close\n"] * 3)

    def test_a_rank_that_is_killed_in_backward_is_named(self):
        for model in ("reducer = mrt.Reducer(net)\n"
                      "end = reducer.finish",
                      "net = make()\n"
                      "mrt.reduce_gradients(net)\n"
                      "end = lambda: None"):
            with ranks.Processes(f"""
{model}
try:
    for step in range(6):
        loss = loss_of(net, step)
        if rank == 1 and step == 5:
            hook = list(net.parameters())[0].register_hook(
                lambda grad: os.kill(os.getpid(), signal.SIGKILL))
        net.zero_grad()
        loss.backward()
        end()
except mr.PeerLost as error:
    print(error.rank, error.bucket is not None, error.step)
    sys.stdout.flush()
    os._exit(0)  # gloo waits for the rank
""", beginning=BEGIN) as processes:
                self.assertEqual(processes.said(0), "1 True 5\n")
                self.assertEqual(processes.ranks[1].wait(100), -signal.SIGKILL)

    def test_a_model_of_some_ranks_needs_their_communicator(self):
        said = ranks.said_by_all("""
alone = [dist.new_group([each]) for each in range(world)][rank]
model = make(process_group=alone)
try:
    mrt.reduce_gradients(model)
except ValueError as error:
    print(error)
group, = mr.Communicator.threads(1)
mrt.reduce_gradients(model, communicator=group)
loss_of(model, 0).backward()
print("summed")
""", beginning=BEGIN)
        for each in said:
            self.assertRegex(each, "has 1 of 2 ranks: give the communicator of these\nsummed")

    def test_wrong_use_of_the_hook(self):
        said = ranks.said_by_all("""
model = make()
group, = mr.Communicator.threads(1)
for call in (lambda: mrt.reduce_gradients(model, communicator=group),
             lambda: mrt.reduce_gradients(model, clip_norm=1.0)):
    try:
        call()
    except (TypeError, ValueError) as error:
        print(error)
""", beginning=BEGIN)
        self.assertRegex(said[1], "rank 1 of 2, and the communicator as rank 0 of 1\n.*clip_norm")


class Examples(unittest.TestCase):
    def test_ddp_hook(self):
        example = os.path.join(os.environ["MILLRACE_SOURCE_DIR"], "examples/python/ddp_hook.py")
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
             example, data.fashion_mnist()], capture_output=True, text=True, timeout=180,
            check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^epoch 0: loss [01]\.\d+ on 2 ranks\n$")


if __name__ == "__main__":
    unittest.main()
