"""The page of a plan's first batches, as the command `millrace show` makes it."""
from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from ._text import ORIGIN
from .errors import Error, FailedPrecondition, PlanError

if TYPE_CHECKING:
    from .plan import Plan


class Page:
    """A page of HTML that needs no other file. A notebook shows it in a frame."""

    def __init__(self, text: str) -> None:
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html)}" '
                'style="width: 100%; height: 40em; border: 0"></iframe>')

    def __repr__(self) -> str:
        return f"<Page: {len(self.html)} characters of HTML; save(path) keeps it>"


def page_of(plan: Plan, rows: int, batches: int, rank: int, world: int) -> Page:
    """Returns the page of the first batches (Plan.show)."""
    plan.check()
    attached = plan._attached
    if attached.ops or attached.memory or attached.push is not None:
        raise FailedPrecondition(
            "show runs the plan in another process, which does not have its Python functions, "
            "memory and pushed records: peek() of a loader shows its next batch")
    with tempfile.TemporaryDirectory() as folder:
        plan.save(os.path.join(folder, ORIGIN))
        said = _run(folder, "show", ORIGIN, "--out", "page.html", "--rows", str(rows),
                    "--batches", str(batches), "--rank", str(rank), "--world", str(world))
        if said is None:
            with open(os.path.join(folder, "page.html"), encoding="utf-8") as page:
                return Page(page.read())
    if said.startswith(ORIGIN):
        raise plan._placed(PlanError(said))
    raise Error(said)


def _run(folder: str, *arguments: str) -> str | None:
    """Runs the command `millrace` in a process of its own, for which it is made, and returns its
    error; None if there is none."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    ended = subprocess.run([sys.executable, "-m", "millrace", *arguments], cwd=folder,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                           capture_output=True, check=False)
    if ended.returncode == 0:
        return None
    said = ended.stderr.decode(errors="replace").strip()
    return re.sub("^millrace: (error|usage): ", "", said) or f"millrace {arguments[0]} ended with {ended.returncode}"
