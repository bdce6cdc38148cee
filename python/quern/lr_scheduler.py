"""lr_scheduler.py - learning rates by PyTorch's names: step() after each step of the optimizer, or epoch.

The formulas are quern_nn.h's closed forms of the steps done, a row each; so a training that goes on needs no more
than last_epoch.
"""

import bisect

from . import _core
from ._core import Tensor

# class: (kind, {PyTorch's argument: (quern_nn.h's option, default)}); None: it must be given
KINDS = {
    "ConstantLR": (0, {"factor": ("from", 1 / 3), "total_iters": ("period", 5)}),
    "StepLR": (1, {"step_size": ("period", None), "gamma": ("gamma", 0.1)}),
    "ExponentialLR": (2, {"gamma": ("gamma", None)}),
    "LinearLR": (3, {"start_factor": ("from", 1 / 3), "end_factor": ("to", 1.0), "total_iters": ("period", 5)}),
    "PolynomialLR": (4, {"total_iters": ("period", 5), "power": ("power", 1.0)}),
    "CosineAnnealingLR": (5, {"T_max": ("period", None), "eta_min": ("last", 0.0)}),
    "CosineAnnealingWarmRestarts": (6, {"T_0": ("period", None), "T_mult": ("stretch", 1),
                                        "eta_min": ("last", 0.0)}),
}


def set_rate(group, rate):
    """A tensor stays the one that it is: a traced step has it."""
    if isinstance(group["lr"], Tensor):
        group["lr"].assign(_core.tensor(float(rate), group["lr"].dtype))
    else:
        group["lr"] = rate


def meant(value):
    """A number for C, which takes 0 for what was not given, and -0.0 for a 0."""
    return -0.0 if value == 0 else value


def rate_of(group):
    lr = group["lr"]
    return lr.item() if isinstance(lr, Tensor) else lr


class LRScheduler:
    """What all have in common: get_lr() gives the rate of each group after last_epoch steps."""

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", rate_of(group))
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def step(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._last_lr = self.get_lr()
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            set_rate(group, rate)

    def get_last_lr(self):
        return self._last_lr

    def state_dict(self):
        return {n: v for n, v in vars(self).items() if n != "optimizer" and not callable(v)}

    def load_state_dict(self, state):
        vars(self).update(state)
        for group, rate in zip(self.optimizer.param_groups, self._last_lr):
            set_rate(group, rate)


def _class(name, row):
    kind, arguments = row

    def __init__(self, optimizer, *args, last_epoch=-1, **given):
        names = list(arguments) + ["last_epoch"]
        if len(args) > len(names):
            raise TypeError(f"{name}: too many arguments")
        given = {"last_epoch": last_epoch, **dict(zip(names, args)), **given}
        self.options = {"kind": kind}
        for argument, (option, default) in arguments.items():
            value = given.pop(argument, default)
            if value is None:
                raise TypeError(f"{name}: {argument} is not given")
            self.options[option] = meant(value) if option in ("from", "gamma", "power") else value
        last = given.pop("last_epoch")
        if given:
            raise TypeError(f"{name}: no argument is called {sorted(given)[0]!r}")
        LRScheduler.__init__(self, optimizer, last)

    def get_lr(self):
        return [_core.rate_at({**self.options, "rate": base}, self.last_epoch) for base in self.base_lrs]

    words = ", ".join(n if d is None else f"{n}={d:.4g}" for n, (_, d) in arguments.items())
    return type(name, (LRScheduler,), {"__init__": __init__, "get_lr": get_lr, "__module__": "quern.lr_scheduler",
                                       "__doc__": f"{name}(optimizer, {words}, last_epoch=-1)"})


for _name, _row in KINDS.items():
    globals()[_name] = _class(_name, _row)


class LambdaLR(LRScheduler):
    """The first rate times lr_lambda(steps done), of one function or one for each group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        several = isinstance(lr_lambda, (list, tuple))
        self.lr_lambdas = list(lr_lambda) if several else [lr_lambda] * len(optimizer.param_groups)
        if len(self.lr_lambdas) != len(optimizer.param_groups):
            raise ValueError(f"LambdaLR: {len(self.lr_lambdas)} functions for {len(optimizer.param_groups)} groups")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]

    def state_dict(self):
        return {n: v for n, v in super().state_dict().items() if n != "lr_lambdas"}


class MultiStepLR(LRScheduler):
    """The first rate times gamma to the number of milestones that are behind."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        behind = bisect.bisect_right(self.milestones, self.last_epoch)
        return [base * self.gamma ** behind for base in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Smith and Topin 2018: up to max_lr and further down; the momentum, or beta1, the other way."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR: total_steps, or epochs and steps_per_epoch, are not given")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}, not 'cos' or 'linear'")
        if not div_factor > 0 or not final_div_factor > 0:
            raise ValueError(f"OneCycleLR: div_factor {div_factor!r} and final_div_factor {final_div_factor!r} divide")
        groups = len(optimizer.param_groups)
        self.max_lrs = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * groups
        self.cycle_momentum, self.momenta = cycle_momentum, (base_momentum, max_momentum)
        self.options = {"kind": 7, "period": total_steps if total_steps is not None else epochs * steps_per_epoch,
                        "rise": meant(pct_start), "linear": anneal_strategy == "linear", "divide": div_factor,
                        "divide_last": final_div_factor, "three_phase": three_phase}
        if cycle_momentum and not {"momentum", "betas"} & set(optimizer.defaults):
            raise ValueError("OneCycleLR: the optimizer has no momentum to cycle")
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [_core.rate_at({**self.options, "rate": peak}, self.last_epoch) for peak in self.max_lrs]

    def step(self, epoch=None):
        super().step(epoch)
        if not self.cycle_momentum:
            return
        base, most = self.momenta
        # From most to base and back along the curve of a rate between 1 and 2, the end at its beginning.
        curve = {**self.options, "rate": 2.0, "divide": 2.0, "divide_last": 1.0}
        momentum = most - (most - base) * (_core.rate_at(curve, self.last_epoch) - 1.0)
        for group in self.optimizer.param_groups:
            group["_cycled"] = momentum
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


class SequentialLR(LRScheduler):
    """One scheduler after another, each from its milestone on as if it began there."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR: {len(schedulers)} schedulers take one milestone less")
        self._schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        k = bisect.bisect_right(self.milestones, self.last_epoch)
        one = self._schedulers[k]
        one.last_epoch = self.last_epoch - (self.milestones[k - 1] if k else 0)
        return one.get_lr()

    def state_dict(self):
        return {n: v for n, v in super().state_dict().items() if n != "_schedulers"}


class ReduceLROnPlateau:
    """The rate falls when step(metric) no longer gets better."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0,
                 min_lr=0, eps=1e-8):
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: mode {mode!r}, threshold_mode {threshold_mode!r}")
        self.optimizer = optimizer
        least = min_lr if isinstance(min_lr, (list, tuple)) else [min_lr] * len(optimizer.param_groups)
        self.plateaus = [{"factor": meant(float(factor)), "patience": patience or -1,
                          "threshold": meant(float(threshold)), "maximize": mode == "max",
                          "absolute": threshold_mode == "abs", "cooldown": cooldown,
                          "least": float(k), "epsilon": meant(float(eps))} for k in least]

    def step(self, metrics):
        metric = float(metrics)
        for k, group in enumerate(self.optimizer.param_groups):
            self.plateaus[k] = _core.plateau_next({**self.plateaus[k], "rate": float(rate_of(group))}, metric)
            if self.plateaus[k]["rate"] != rate_of(group):
                set_rate(group, self.plateaus[k]["rate"])

    def get_last_lr(self):
        return [rate_of(group) for group in self.optimizer.param_groups]

    def state_dict(self):
        return {"plateaus": self.plateaus}

    def load_state_dict(self, state):
        self.plateaus = state["plateaus"]
