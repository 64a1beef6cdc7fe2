"""Params: refuses job parameters that a workload does not declare, before a job gets them."""

from collections.abc import Iterable, Mapping

from ringrift.kernel.errors import SettingsError, require_name
from ringrift.kernel.overlay import describe_type
from ringrift.workload.api import HasParams, ParamSpec, Scalar, Workload, params_of


def own_params(workload: Workload, params: Mapping[str, Scalar], others: Iterable[Workload] = ()) -> dict[str, Scalar]:
    """Those of *params* that *workload* declares, without those that only *others* in the same run declare.

    A workload that declares no parameters takes any.  Raises UnknownName, or SettingsError outside a range.
    """
    if not isinstance(workload, HasParams):
        return dict(params)
    specs = {spec.name: spec for spec in workload.params}
    foreign = {spec.name for other in others for spec in params_of(other)} - set(specs)
    own = {name: value for name, value in params.items() if name not in foreign}
    for name, value in own.items():
        require_name(f"parameter of {workload.name}", name, specs)
        if problem := _find_problem(specs[name], value):
            raise SettingsError(f"work.params.{name}", value, problem)
    return own


def _find_problem(spec: ParamSpec, value: Scalar) -> str:
    """What is wrong with *value*; empty if nothing is."""
    kind = type(spec.low if spec.default is None else spec.default)
    if type(value) is not kind and (kind, type(value)) != (float, int):
        return f"must be {describe_type(kind)}"
    if spec.choices and value not in spec.choices:
        return f"must be one of {', '.join(spec.choices)}"
    if isinstance(value, int | float) and spec.low is not None and spec.high is not None:
        return "" if spec.low <= value <= spec.high else f"must lie between {spec.low:g} and {spec.high:g}"
    return ""
