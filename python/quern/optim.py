"""optim.py - optimizers with PyTorch's names, over the methods of quern_nn.h.

A class is a row of METHODS: the C method, PyTorch's names of its settings beside quern_nn.h's, and those of its
state. The update itself is recorded by C; here is the state, in tensors like any others: so a step may be in a
function that quern.jit traces. A learning rate is data, a new value no new plan; so is a momentum that a schedule
changes. Rates in a jitted step: give lr as a tensor, which a schedule then assigns to.
"""

from . import _core, lr_scheduler  # noqa: F401
from ._core import Tensor
from .autograd import no_grad

# class: (method, {PyTorch's setting: quern_nn.h's, or several}, names of the state, what its doc says)
METHODS = {
    "SGD": ("sgd", {"lr": "rate", "momentum": "momentum", "dampening": "dampening", "weight_decay": "weight_decay",
                    "nesterov": "nesterov"}, ("momentum_buffer",), "Stochastic gradient descent."),
    "Adam": ("adam", {"lr": "rate", "betas": ("beta1", "beta2"), "eps": "epsilon", "weight_decay": "weight_decay",
                      "amsgrad": "amsgrad"}, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"), "Kingma and Ba 2015."),
    "AdamW": ("adamw", {"lr": "rate", "betas": ("beta1", "beta2"), "eps": "epsilon", "weight_decay": "weight_decay",
                        "amsgrad": "amsgrad"}, ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
              "Loshchilov and Hutter 2019."),
    "RMSprop": ("rmsprop", {"lr": "rate", "alpha": "beta2", "eps": "epsilon", "weight_decay": "weight_decay",
                            "momentum": "momentum", "centered": "centered"},
                ("square_avg", "momentum_buffer", "grad_avg"), "Hinton 2012."),
    "Adagrad": ("adagrad", {"lr": "rate", "lr_decay": "rate_decay", "weight_decay": "weight_decay",
                            "initial_accumulator_value": "start", "eps": "epsilon"}, ("sum",), "Duchi et al. 2011."),
    "Adadelta": ("adadelta", {"lr": "rate", "rho": "beta2", "eps": "epsilon", "weight_decay": "weight_decay"},
                 ("square_avg", "acc_delta"), "Zeiler 2012."),
    "Adamax": ("adamax", {"lr": "rate", "betas": ("beta1", "beta2"), "eps": "epsilon",
                          "weight_decay": "weight_decay"}, ("exp_avg", "exp_inf"), "Kingma and Ba 2015."),
    "Adafactor": ("adafactor", {"lr": "rate", "beta2_decay": "beta2_decay", "eps": ("epsilon", "epsilon2"),
                                "d": "threshold", "weight_decay": "weight_decay"},
                  ("row_var", "col_var", "variance"), "Shazeer and Stern 2018. An eps[0] of 0 is the dtype's."),
    "Lion": ("lion", {"lr": "rate", "betas": ("beta1", "beta2"), "weight_decay": "weight_decay"}, ("exp_avg",),
             "Chen et al. 2023."),
    "LAMB": ("lamb", {"lr": "rate", "betas": ("beta1", "beta2"), "eps": "epsilon", "weight_decay": "weight_decay"},
             ("exp_avg", "exp_avg_sq"), "You et al. 2020."),
    "Muon": ("muon", {"lr": "rate", "weight_decay": "weight_decay", "momentum": "momentum", "nesterov": "nesterov",
                      "ns_coefficients": "coefficients", "eps": "epsilon", "ns_steps": "iterations",
                      "adjust_lr_fn": "adjust"}, ("momentum_buffer",), "Jordan et al. 2024, of matrices alone."),
    "Sophia": ("sophia", {"lr": "rate", "betas": ("beta1", "beta2"), "rho": "threshold", "weight_decay": "weight_decay",
                          "eps": "epsilon"}, ("exp_avg", "hessian"),
               "Liu et al. 2023, the curvature estimated by the square of every gradient."),
}
ADJUST = {None: 0, "original": 0, "match_rms_adamw": 1, "spectral_unclamped": 2}


def number(x):
    """Of a setting: what C takes for it."""
    return 0.0 if x is None else x.item() if isinstance(x, Tensor) else x


class Optimizer:
    """Steps of parameters down their .grad: zero_grad(), loss.backward(), step(). `params` are tensors, or dicts
    with "params" and settings of their own."""

    def __init__(self, params, defaults):
        self.defaults, self.param_groups, self.state = defaults, [], {}
        self._scalars = {}  # (group, what): (number, tensor), of steps that are not traced
        params = list(params)
        if not params:
            raise ValueError(f"{type(self).__name__}: there are no parameters")
        for group in params if isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """More parameters, with settings of their own."""
        group = dict(param_group)
        params = group["params"]
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        unknown = set(group) - set(self.defaults) - {"params"}
        if unknown:
            raise TypeError(f"{type(self).__name__}: no setting is called {sorted(unknown)[0]!r}")
        known = [q for g in self.param_groups for q in g["params"]]
        for k, p in enumerate(group["params"]):
            if not isinstance(p, Tensor):
                raise TypeError(f"{type(self).__name__}: parameter {k} is {type(p).__name__}, not a tensor")
            if any(p is q for q in known):
                raise ValueError(f"{type(self).__name__}: parameter {k} is there already")
            known.append(p)
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        options = self._options(group)
        wide = any(p.dtype.name == "float64" for p in group["params"])
        begun = [_core.optimizer_begin(options, p) for p in group["params"]]
        for p, state in zip(group["params"], begun):
            step = _core.tensor(0.0, "float64" if wide else "float32")  # its own: others may rest
            self.state[id(p)] = {"step": step, **{n: s for n, s in zip(self.names, state) if s is not None}}
        self.param_groups.append(group)

    def _options(self, group):
        """The settings of a group by C's names; what is data is left to the scalars."""
        options = dict(self.base, maximize=bool(group["maximize"]))
        for name, fields in self.settings.items():
            value = group[name]
            if fields == "adjust":
                if value not in ADJUST:
                    raise ValueError(f"{type(self).__name__}: adjust_lr_fn is {value!r}, not one of {list(ADJUST)}")
                options[fields] = ADJUST[value]
            elif isinstance(fields, tuple):
                options.update(zip(fields, map(number, value)))
            elif fields != "rate":
                options[fields] = number(value) if fields != "coefficients" else tuple(value)
        lr = group["lr"]
        options["rate"] = 0.0 if isinstance(lr, Tensor) else lr
        return options

    @staticmethod
    def _scalar(scalars, key, value, like):
        """A tensor of a number, made again only when that is another one."""
        if isinstance(value, Tensor):
            return value
        known = scalars.get(key)
        if known is None or known[0] != value or known[1].dtype != like.dtype:
            scalars[key] = known = value, _core.tensor(float(value), like.dtype)
        return known[1]

    def _momentum(self, scalars, k, group, like):
        """The momentum as data where a schedule has changed it."""
        cycled = group.get("_cycled")
        return None if cycled is None else self._scalar(scalars, (k, "momentum"), cycled, like)

    def zero_grad(self, set_to_none=True):
        """Forget the gradients."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = None if set_to_none else _core.zeros_like(p.grad)

    def step(self, closure=None):
        """One step of all parameters that have a gradient. `closure` computes the loss again and gives it."""
        loss = closure() if closure is not None else None
        with no_grad():
            self._step(None)
        return loss

    def _step(self, fine, scale=None):
        changes = []
        scalars = {} if _core.is_tracing() else self._scalars  # those of a trace are gone with it
        for k, group in enumerate(self.param_groups):
            self._step_group(k, group, scale, changes, scalars)
        for x, value in changes:
            x.assign(value if fine is None else _core.where(fine, value, x))

    def _step_group(self, k, group, scale, changes, scalars):
        options = self._options(group)
        for p in group["params"]:
            state, g = self.state[id(p)], p.grad
            if g is None:
                continue
            step = state["step"]
            count = step + 1
            if g.shape != p.shape:
                raise ValueError(f"{type(self).__name__}: a gradient of {g.shape} for a parameter of {p.shape}")
            if scale is not None:
                g = g.cast("float64" if p.dtype.name == "float64" else "float32") / scale
            before = tuple(state.get(n) for n in self.names) + (None,) * (3 - len(self.names))
            options["rate"] = 0.0
            after = _core.optimizer_update(options, p, g, self._scalar(scalars, (k, "lr"), group["lr"], step),
                                           self._momentum(scalars, k, group, step), count, before)
            changes += [(x, y) for x, y in zip((p, *before, step), (*after, count)) if x is not None]

    def state_dict(self):
        """As PyTorch's: {"state": {number of a parameter: its state}, "param_groups": settings}."""
        numbers, groups = {}, []
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
            groups.append({**group, "params": [numbers[id(p)] for p in group["params"]]})
        return {"state": {numbers[i]: dict(s) for i, s in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Take the state and settings of another one with as many parameters; also PyTorch's, of arrays or tensors."""
        groups = state_dict["param_groups"]
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(f"{type(self).__name__}: the state is of groups of other sizes")
        for mine, theirs in zip(self.param_groups, groups):
            mine.update({n: v for n, v in theirs.items() if n in self.defaults})
            options = self._options(mine)
            for p, number_of in zip(mine["params"], theirs["params"]):
                self._load(p, options, state_dict["state"].get(number_of, {}))

    def _load(self, p, options, found):
        state, begun = self.state[id(p)], zip(self.names, _core.optimizer_begin(options, p))
        kept = {n: state.get(n, s) for n, s in begun if s is not None}  # tensors stay, for steps that were traced
        self.state[id(p)] = {"step": state["step"], **kept}
        if found and "step" not in found:  # PyTorch's SGD and Muon count none: it is not the first
            found = {**found, "step": 1.0}
        for name in self.state[id(p)]:
            value = found.get(name)
            if value is None:
                continue
            old = self.state[id(p)][name]
            value = (value if isinstance(value, Tensor) else _core.tensor(value)).cast(old.dtype)
            if value.shape != old.shape:
                raise ValueError(f"{type(self).__name__}: {name} is {value.shape}, not {old.shape}")
            old.assign(value)

    def __repr__(self):
        groups = [", ".join(f"{n}={v!r}" for n, v in g.items() if n != "params") for g in self.param_groups]
        return "\n".join(f"{type(self).__name__}({g})" for g in groups)


def _class(name, row):
    """The class of a row, whose defaults are C's."""
    method, settings, names, doc = row
    base = _core.optimizer_defaults(method)
    defaults = {n: tuple(base[f] for f in fields) if isinstance(fields, tuple) else base[fields]
                for n, fields in settings.items()}
    if "adjust_lr_fn" in defaults:
        defaults["adjust_lr_fn"] = None
    defaults["maximize"] = False

    def __init__(self, params, *args, **given):
        if len(args) > len(settings):
            raise TypeError(f"{name}: {len(args)} settings by position, there are {len(settings)}")
        given = {**dict(zip(settings, args)), **given}
        for setting in given:
            if setting not in defaults:
                raise TypeError(f"{name}: no setting is called {setting!r}; there are {', '.join(defaults)}")
        Optimizer.__init__(self, params, {**defaults, **given})

    words = ", ".join(f"{n}={v!r}" for n, v in defaults.items())
    __init__.__doc__ = f"{name}(params, {words})"
    return type(name, (Optimizer,), {"__init__": __init__, "__doc__": f"{name}(params, {words}): {doc}", "base": base,
                                     "settings": settings, "names": names, "__module__": "quern.optim"})


for _name, _row in METHODS.items():
    globals()[_name] = _class(_name, _row)


# ---- gradients -----------------------------------------------------------------------------------


def _with_gradients(parameters):
    return [p for p in ([parameters] if isinstance(parameters, Tensor) else parameters) if p.grad is not None]


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Scale gradients down so that the norm of all of them together is at most max_norm; gives the norm before."""
    found = _with_gradients(parameters)
    if not found:
        return _core.tensor(0.0)
    with no_grad():
        norms = [_core.norm(p.grad.reshape(-1), p=float(norm_type)) for p in found]
        total = norms[0] if len(norms) == 1 else _core.norm(_core.stack(norms), p=float(norm_type))
        factor = _core.minimum(max_norm / (total + 1e-6), _core.full_like(total, 1.0))
        for p in found:
            p.grad = p.grad * factor.cast(p.grad.dtype)
    return total


def clip_grad_value_(parameters, clip_value):
    """Hold every element of the gradients within clip_value."""
    with no_grad():
        for p in _with_gradients(parameters):
            p.grad = _core.clamp(p.grad, -float(clip_value), float(clip_value))


class GradScaler:
    """PyTorch's loss scaling for gradients in float16: scale(loss).backward(), step(optimizer), update(). A step
    whose gradients are not finite changes nothing, which is data: no value is read."""

    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self._scale, self._good, self._fine = _core.tensor(float(init_scale)), _core.tensor(0.0), None

    def scale(self, loss):
        return loss * self._scale

    def step(self, optimizer):
        with no_grad():
            fine = None
            for group in optimizer.param_groups:
                for p in _with_gradients(group["params"]):
                    one = _core.all(_core.isfinite(p.grad))
                    fine = one if fine is None else fine & one
            if fine is None:
                return
            optimizer._step(fine, self._scale)
            self._fine = fine if self._fine is None else self._fine & fine

    def update(self):
        if self._fine is None:
            return
        with no_grad():
            good = self._good + 1.0
            enough = good >= float(self.growth_interval)
            grown = _core.where(enough, self._scale * self.growth_factor, self._scale)
            grown = _core.where(_core.isfinite(grown), grown, self._scale)
            scale = _core.where(self._fine, grown, self._scale * self.backoff_factor)
            good = _core.where(self._fine & ~enough, good, _core.zeros_like(good))
            self._scale.assign(scale)
            self._good.assign(good)
            self._fine = None

    def get_scale(self):
        return self._scale.item()

    def state_dict(self):
        return {"scale": self._scale.item(), "growth_factor": self.growth_factor,
                "backoff_factor": self.backoff_factor, "growth_interval": self.growth_interval,
                "_growth_tracker": int(self._good.item())}

    def load_state_dict(self, state):
        self._scale, self._good = _core.tensor(float(state["scale"])), _core.tensor(float(state["_growth_tracker"]))
        self.growth_factor, self.backoff_factor = state["growth_factor"], state["backoff_factor"]
        self.growth_interval = state["growth_interval"]


class EMA:
    """Averages of parameters, which begin as their values at the first update(): a = decay * a + (1 - decay) * p."""

    def __init__(self, parameters, decay=0.999):
        self.parameters, self.decay = list(parameters), decay
        self.averages = [p.detach().clone().realize() for p in self.parameters]
        self._begun = _core.tensor(0.0)

    def update(self):
        with no_grad():
            old = self._begun * self.decay
            for a, p in zip(self.averages, self.parameters):
                part = old.cast(a.dtype)
                a.assign(a * part + p.detach() * (1.0 - part))
            self._begun.assign(_core.full_like(self._begun, 1.0))

    def swap(self):
        """Exchange parameters and averages: before an evaluation, and after it."""
        with no_grad():
            before = [p.detach().clone().realize() for p in self.parameters]
            for a, p, b in zip(self.averages, self.parameters, before):
                p.assign(a.clone().realize())
                a.assign(b)
