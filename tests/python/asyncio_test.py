"""Records that tasks of asyncio push."""
import asyncio
import gc
import threading
import unittest
import weakref

import millrace as mr
from millrace._room import Room

GUARD = 100  # seconds until a test is taken to hang


def record(number):
    return b'{"x": %d}' % number


def open_numbers(feed):
    return mr.push(feed).parse_json(mr.feature("x", int)).batch(1).numpy("x")


def read(loader):
    return [int(value) for batch in loader for value in batch]


def run(test):
    return asyncio.run(asyncio.wait_for(test, GUARD))


async def start(coroutine):
    """Returns a task that has come to its first wait."""
    task = asyncio.create_task(coroutine)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


class PushTest(unittest.TestCase):
    def test_tasks_push_while_the_stream_is_full_and_others_run(self):
        async def test():
            feed = mr.PushSource(max_bytes=1)

            async def produce():
                async with feed:
                    for number in range(50):
                        await feed.apush(record(number))

            threads = threading.active_count()
            producer = await start(produce())
            self.assertFalse(producer.done())
            self.assertEqual(threading.active_count(), threads)
            numbers = await asyncio.to_thread(read, open_numbers(feed))
            await producer
            self.assertEqual(numbers, list(range(50)))

        run(test())

    def test_a_cancelled_task_leaves_the_stream_usable(self):
        async def test():
            feed = mr.PushSource(max_bytes=1)
            await feed.apush(record(0))
            for _ in range(3):
                waiting = await start(feed.apush(record(99)))
                self.assertFalse(waiting.done())
                waiting.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(feed.apush(record(98)), 0.001)
            waiting = await start(feed.apush(record(1)))
            reader = asyncio.create_task(asyncio.to_thread(read, open_numbers(feed)))
            await waiting
            await feed.apush(record(2))
            feed.finish()
            self.assertEqual(await reader, [0, 1, 2])

        run(test())

    def test_tasks_that_wait_are_served_in_their_order(self):
        async def test():
            feed = mr.PushSource(max_bytes=1)
            await feed.apush(record(0))
            waiting = [await start(feed.apush(record(number))) for number in range(1, 20)]
            waiting[6].cancel()  # number 7
            reader = asyncio.create_task(asyncio.to_thread(read, open_numbers(feed)))
            await asyncio.gather(*waiting, return_exceptions=True)
            feed.finish()
            self.assertEqual(await reader, [number for number in range(20) if number != 7])

        run(test())

    def test_a_wait_ends_with_the_loader_and_with_the_stream(self):
        async def test():
            feed, finished = mr.PushSource(max_bytes=1), mr.PushSource(max_bytes=1)
            for source in (feed, finished):
                await source.apush(record(0))
            loader = open_numbers(feed)
            self.assertEqual(loader.next()["x"].tolist(), [0])
            producer = asyncio.create_task(self.push_until_it_fails(feed))
            waiting = await start(finished.apush(record(1)))
            loader.close()
            self.assertIsInstance(await producer, mr.Cancelled)
            finished.finish()
            with self.assertRaises(mr.FailedPrecondition):
                await waiting

        run(test())

    async def push_until_it_fails(self, feed):
        try:
            while True:
                await feed.apush(record(1))
        except mr.Error as error:
            return error

    def test_an_exception_in_a_block_is_the_loaders_error(self):
        async def test():
            feed = mr.PushSource()
            with self.assertRaises(KeyError):
                async with feed:
                    await feed.apush(record(5))
                    raise KeyError("lens cap")
            loader = open_numbers(feed)
            self.assertEqual(loader.next()["x"].tolist(), [5])
            with self.assertRaisesRegex(mr.Error, "KeyError: 'lens cap'"):
                loader.next()

        run(test())

    def test_a_source_works_in_one_loop_after_another(self):
        feed = mr.PushSource(max_bytes=1)
        run(feed.apush(record(0)))

        async def give_up():
            waiting = await start(feed.apush(record(99)))
            waiting.cancel()

        run(give_up())  # what tells of room finds the loop closed

        async def rest():
            reader = asyncio.create_task(asyncio.to_thread(read, open_numbers(feed)))
            await feed.apush(record(1))
            feed.finish()
            return await reader

        self.assertEqual(run(rest()), [0, 1])


class FakeCore:
    """A stream that is full until it is told otherwise."""

    def __init__(self):
        self.is_full = True
        self.calls = []

    def push(self, record, timeout_ns):
        return not self.is_full

    def on_room(self, call):
        self.calls.append(call)


class RoomTest(unittest.TestCase):
    def test_waits_that_are_given_up_leave_one_call_behind(self):
        async def test():
            core = FakeCore()
            room = Room(core, asyncio.get_running_loop())
            for _ in range(10):
                waiting = await start(room.push(b"x"))
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
            self.assertEqual(len(core.calls), 1)
            waiting = await start(room.push(b"x"))
            core.calls.pop()()  # there was room, and it is gone
            await start(asyncio.sleep(0))
            self.assertEqual(len(core.calls), 1)
            core.is_full = False
            core.calls.pop()()
            await waiting
            self.assertEqual(core.calls, [])

        run(test())

    def test_the_call_does_not_hold_the_stream(self):
        async def test():
            core = FakeCore()
            room = Room(core, asyncio.get_running_loop())
            waiting = await start(room.push(b"x"))
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            reference = weakref.ref(room)
            del room, waiting
            await asyncio.sleep(0)  # the loop holds what it has woken last
            gc.collect()
            self.assertIsNone(reference())
            core.calls.pop()()

        run(test())

    def test_room_that_comes_before_the_call_is_asked_for_is_used(self):
        async def test():
            core = FakeCore()

            def make_room(_):
                core.is_full = False

            core.on_room = make_room
            await Room(core, asyncio.get_running_loop()).push(b"x")

        run(test())


if __name__ == "__main__":
    unittest.main()
