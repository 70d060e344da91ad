"""The text of `millrace explain`."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _core
from .context import Context, default_context
from .ops import table_of

if TYPE_CHECKING:
    from .http import HttpOptions
    from .plan import Plan


def explain(plan: Plan, context: Optional[Context], rank: int, world: int, **options: Any) -> str:
    """Returns the text of `millrace explain` (Plan.explain)."""
    attached = plan._attached
    http: Optional[HttpOptions] = options.pop("http", None)
    if http is not None:
        options["http"] = http.core()
    return _core.explain(
        plan.core(), (context or default_context())._core, rank=rank, world=world,
        push=attached.push, memory=attached.memory or None, ops=table_of(attached.ops), **options)
