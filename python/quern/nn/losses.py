"""losses.py - losses as modules: a class for each function of functional.py, whose keywords are its arguments."""

import inspect
from typing import TYPE_CHECKING, Any

from . import functional
from .module import Module

# class: (function, how many tensors it is called with)
LOSSES = {"CrossEntropyLoss": ("cross_entropy", 2), "NLLLoss": ("nll_loss", 2), "MSELoss": ("mse_loss", 2),
          "L1Loss": ("l1_loss", 2), "HuberLoss": ("huber_loss", 2), "SmoothL1Loss": ("smooth_l1_loss", 2),
          "BCELoss": ("binary_cross_entropy", 2), "BCEWithLogitsLoss": ("binary_cross_entropy_with_logits", 2),
          "KLDivLoss": ("kl_div", 2), "CTCLoss": ("ctc_loss", 4), "TripletMarginLoss": ("triplet_margin_loss", 3),
          "CosineEmbeddingLoss": ("cosine_embedding_loss", 3), "MarginRankingLoss": ("margin_ranking_loss", 3),
          "HingeEmbeddingLoss": ("hinge_embedding_loss", 2), "SoftMarginLoss": ("soft_margin_loss", 2),
          "PoissonNLLLoss": ("poisson_nll_loss", 2), "GaussianNLLLoss": ("gaussian_nll_loss", 3),
          "CosineSimilarity": ("cosine_similarity", 2)}


class Loss(Module):
    """A loss: what it is made with goes to its function at every call."""

    function: Any = None
    tensors = 2

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__()
        words = [*inspect.signature(self.function).parameters.values()][self.tensors:]
        names = [w.name for w in words]
        places = [w.name for w in words if w.kind != w.KEYWORD_ONLY]
        if len(args) > len(places):
            raise TypeError(f"{type(self).__name__}: {len(args)} arguments by place, there are "
                            f"{', '.join(places) or 'none'}; by name {', '.join(names)}")
        self.given = {**dict(zip(places, args)), **given}
        for name in self.given:
            if name not in names:
                raise TypeError(f"{type(self).__name__}: no argument is called {name!r}; there are {', '.join(names)}")

    def forward(self, *tensors: Any) -> Any:
        return type(self).function(*tensors, **self.given)

    def extra_repr(self) -> str:
        return ", ".join(f"{n}={v!r}" for n, v in self.given.items())


def class_of(name, function, tensors):
    f = getattr(functional, function)
    words = inspect.signature(f)
    return type(Loss)(name, (Loss,), {"function": staticmethod(f), "tensors": tensors, "__module__": "quern.nn",
                                      "__doc__": f"functional.{function}{words} as a module."})


globals().update({name: class_of(name, *row) for name, row in LOSSES.items()})
__all__ = list(LOSSES)
if TYPE_CHECKING:
    def __getattr__(name: str) -> Any: ...
