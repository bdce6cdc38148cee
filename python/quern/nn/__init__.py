"""quern.nn - layers, modules and losses with PyTorch's names, arguments and state dicts."""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from . import functional as functional, init as init, utils as utils
from .layers import *  # noqa: F401,F403
from .layers import KINDS as KINDS, Layer as Layer
from .losses import *  # noqa: F401,F403
from .module import (
    Module as Module, ModuleDict as ModuleDict, ModuleList as ModuleList, Parameter as Parameter,
    ParameterDict as ParameterDict, ParameterList as ParameterList, Sequential as Sequential,
    functional_call as functional_call)
from .random import get_rng_state as get_rng_state, manual_seed as manual_seed, set_rng_state as set_rng_state
from .stacks import *  # noqa: F401,F403

if _TYPE_CHECKING:
    def __getattr__(name: str) -> _Any: ...  # losses, which are made from a table
