"""Stands for the programs of bench/rows_*.py, so that rows run and nothing is measured."""
import contextlib
from unittest import mock


def step(ms, parameters=7, **more):
    """What the programs of the trainer's rows print of a step."""
    return {"step_ms": ms, "mean_step_ms": ms, "step_cpu_ms": ms, "images_per_cpu_second": 1e3 / ms,
            "parameters": parameters, "data_wait": 0.0, "convolutions_cpu_ms": ms / 2,
            "products_cpu_ms": 0, "update_cpu_ms": 0, "bytes": 3, "live_bytes": 2,
            "process_bytes": 4} | more


class Programs:
    """Takes commands, and gives what `answer` says."""

    def __init__(self, answer):
        self.answer = answer
        self.commands = []

    def __call__(self, command, env=None):
        words = [str(word) for word in command]
        self.commands.append(words)
        return self.answer(words)


def with_programs(answer, modules, **there):
    """Lets `modules` run these programs, in the first of them with what is `there`, and on any
    number of cores. Returns a context, and the programs."""
    programs = Programs(answer)
    stack = contextlib.ExitStack()
    for module in modules:
        for name, value in (("run_json", programs), ("need_cores", lambda count: None)):
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, value))
    stack.enter_context(mock.patch.multiple(modules[0], **there))
    return stack, programs
