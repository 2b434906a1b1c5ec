"""The kinds of children that jobs may have beside their replicas. To add one: a module like these, and a line here.

If it has a flag, the chart gets a value for it; and the operator needs the permissions in any case.
"""

from typing import Final

from tf_operator.planning.child_kinds import hpa, network_policy, tensorboard
from tf_operator.planning.child_kinds.kind import ChildKind

ALL: Final[tuple[ChildKind, ...]] = (tensorboard.KIND, hpa.KIND, network_policy.KIND)
