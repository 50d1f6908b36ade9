"""The library's failures as c10d's: torch.distributed.DistBackendError, with the same text."""
from __future__ import annotations

from typing import Any

import torch.distributed as dist

from ..errors import Error


_made: dict[type[Error], Any] = {}


def _mixed(kind: type[Error]) -> Any:
    if issubclass(kind, dist.DistBackendError):
        return kind
    if kind not in _made:
        _made[kind] = type(kind.__name__, (kind, dist.DistBackendError),
                           {"__module__": __name__, "__doc__": kind.__doc__})
    return _made[kind]


def backend_error(error: Error, what: str = "") -> Error:
    """The same failure, as an error of c10d's too; `what` has failed."""
    message = f"{error.message} ({what})" if what else error.message
    made: Error = _mixed(type(error))(error.status, message)
    return made
