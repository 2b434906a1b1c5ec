"""Which controllers a process has: one for each served API, and those of TensorBoards."""

from tf_operator.app import tensorboards
from tf_operator.app.options.options import Options
from tf_operator.app.wiring import ControllerContext, MakeController, Runnable


def frameworks(options: Options) -> dict[str, str]:
    """Their names, with the framework of what each runs or shows."""
    return {api.controller: api.framework for api in options.apis} | tensorboards.frameworks(options)


def make_all(context: ControllerContext, make_controller: MakeController) -> dict[str, Runnable]:
    of_jobs = {api.controller: make_controller(context, api) for api in context.options.apis}
    return {**of_jobs, **tensorboards.make_controllers(context)}
