"""The object of kind TensorBoard that a job has for itself, with the spec that it states.

It is made when the job is first seen, also while that is suspended, and follows edits also after the end.
"""

from operator import attrgetter
from typing import Final

from tf_operator.job.tensorboard import RESOURCE
from tf_operator.planning.child_kinds.kind import ChildKind

KIND: Final = ChildKind(
    RESOURCE,
    spec=attrgetter("tensorboard_spec"),
    may_have=attrgetter("has_tensorboard_spec"),
    is_for_active=False,
    is_whole=True,
    is_labelled=False,
    is_noted=False,
    flag="tensorboards",
    off="this operator creates no TensorBoards: it runs with --tensorboards=none",
)
