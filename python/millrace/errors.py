"""The exceptions of Millrace.

Each is an Error, and the built-in exception that comes nearest, so that code which knows nothing
of Millrace catches it too.
"""

from typing import Dict, NamedTuple, Optional, Tuple, Type

__all__ = [
    "AlreadyExists", "Cancelled", "DataLoss", "Error", "FailedPrecondition", "Internal", "NotFound",
    "OpChangedWarning", "OutOfBudget", "OutOfRange", "PeerLost", "PermissionDenied", "PlanError",
    "Record", "TimeLimit", "Unavailable", "Unimplemented",
]

_REASONS = (
    "unknown", "length_crc", "data_crc", "truncated_header", "truncated_payload", "absurd_length",
    "compressed_data", "compressed_cut", "wrong_compression", "example", "feature", "image",
    "value",
)


class Record(NamedTuple):
    """The record that an error is about. A number that is not known is None."""

    file: str
    offset: Optional[int]  #: bytes from the start of the (inflated) file
    ordinal: Optional[int]  #: number of the record in its file, from 0
    position: Optional[int]  #: position in the stream
    reason: str  #: why it is bad, such as "data_crc"


class Error(RuntimeError):
    """An error of Millrace.

    code: the number of its absl::StatusCode.
    retryable: True if the caller can remove the cause and call again: batches that it holds and
        that leave no room for the next one, for example.
    record: the Record that it is about, or None.
    """

    code = 2

    def __init__(self, message: str = "", *, code: Optional[int] = None, retryable: bool = False,
                 record: Optional[Record] = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        self.retryable = retryable
        self.record = record

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class Cancelled(Error):
    """The loader was closed or cancelled."""

    code = 1


class PlanError(Error, ValueError):
    """A mistake in a plan or in an option: MESSAGE says where."""

    code = 3


class TimeLimit(Error, TimeoutError):
    """Nothing was ready in the time that was given."""

    code = 4


class NotFound(Error, FileNotFoundError):
    """A file is missing."""

    code = 5


class AlreadyExists(Error, FileExistsError):
    """What was to be made exists."""

    code = 6


class PermissionDenied(Error, PermissionError):
    """The system does not permit it."""

    code = 7


class OutOfBudget(Error, MemoryError):
    """The memory budget, or the system, has no room."""

    code = 8


class FailedPrecondition(Error):
    """A state of another plan or of other data, or a use after a fork."""

    code = 9


class OutOfRange(Error, IndexError):
    """There are fewer."""

    code = 11


class Unimplemented(Error, NotImplementedError):
    """Millrace cannot do it."""

    code = 12


class Internal(Error):
    """A bug of Millrace."""

    code = 13


class Unavailable(Error, ConnectionError):
    """A server or a peer cannot be reached."""

    code = 14


class PeerLost(Unavailable):
    """A rank of the job is gone.

    rank, bucket, step: its rank, the bucket of gradients and the step in which it was seen last;
        None where that is not known.
    phase: the phase of the step, such as "reducing".
    """

    rank: int
    bucket: Optional[int]
    step: Optional[int]
    phase: str


class DataLoss(Error):
    """Data that is damaged, or not what the plan says: `record` says where."""

    code = 15


class OpChangedWarning(UserWarning):
    """A state was made with other code of a Python op that has the same version."""


_CLASSES: Dict[int, Type[Error]] = {kind.code: kind for kind in (
    Cancelled, PlanError, TimeLimit, NotFound, AlreadyExists, PermissionDenied, OutOfBudget,
    FailedPrecondition, OutOfRange, Unimplemented, Internal, Unavailable, DataLoss)}


def _known(number: int) -> Optional[int]:
    return None if number < 0 else number


def from_code(code: int, message: str, retryable: int,
              record: Optional[Tuple[str, int, int, int, int]],
              peer: Optional[Tuple[int, int, int, str]]) -> Error:
    """Makes the exception of an mr_error."""
    where = None
    if record is not None:
        file, offset, ordinal, position, reason = record
        where = Record(file, _known(offset), _known(ordinal), _known(position), _REASONS[reason])
    if peer is None:
        kind = DataLoss if code == PlanError.code and where else _CLASSES.get(code, Error)
        return kind(message, code=code, retryable=bool(retryable), record=where)
    lost = PeerLost(message, code=code, retryable=bool(retryable), record=where)
    lost.rank, bucket, step, lost.phase = peer
    lost.bucket, lost.step = _known(bucket), _known(step)
    return lost
