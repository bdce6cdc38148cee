"""quern.nn - layers, modules and losses with PyTorch's names, arguments and state dicts."""

from typing import TYPE_CHECKING as _TYPE_CHECKING, Any as _Any

from . import functional, init, utils  # noqa: F401
from .layers import *  # noqa: F401,F403
from .layers import KINDS, Layer  # noqa: F401
from .losses import *  # noqa: F401,F403
from .module import (  # noqa: F401
    Module, ModuleDict, ModuleList, Parameter, ParameterDict, ParameterList, Sequential, functional_call)
from .random import get_rng_state, manual_seed, set_rng_state  # noqa: F401
from .stacks import *  # noqa: F401,F403

if _TYPE_CHECKING:
    def __getattr__(name: str) -> _Any: ...  # losses, which are made from a table
