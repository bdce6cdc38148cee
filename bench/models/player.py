#!/usr/bin/env python3
"""player.py - one library's training steps of one network of cases.py, started and asked by main.py.

Usage: player.py LIBRARY CASE THREADS WEIGHTS    LIBRARY: quern, torch, torch-compile, torch64, jax, make

`make` writes PyTorch's parameters and buffers to WEIGHTS (.npz) and ends; the others begin with them, say "ready", and
then answer each line of standard input: "step" by milliseconds and the loss, "memory" by the MiB that the process
has had at most since then beyond what it had when its library was loaded. A step is the loss, its gradients and Adam.
"""

import os
import sys
import time

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(ROOT, "models"), os.path.join(ROOT, "python")]
RATE, SEED = 1e-4, 1


def status(field):
    """MiB, of this process."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field)) / 1024


def weights_of(path, kinds=("p/", "b/", "t/")):
    """A state dict of parameters, buffers, and parameters under a second name (tied)."""
    with np.load(path) as file:
        return {name[2:]: file[name] for name in file if name[:2] in kinds}


# ---- libraries: (load(threads), step(case, data, path)) ---------------------------------------------


def load_quern(threads):
    os.environ["QN_THREADS"] = str(threads)
    import quern
    quern.zeros(1).realize()


def quern_step(case, data, path):
    import quern
    model, loss_of = case.ours()
    model.load_state_dict({n: quern.tensor(x) for n, x in weights_of(path).items()})
    optimizer = quern.optim.Adam(model.parameters(), lr=RATE)
    data = [quern.tensor(x) for x in data]

    @quern.jit
    def step(*data):
        loss = loss_of(model, *data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
    return lambda: step(*data).item()


def load_torch(threads):
    import torch
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.zeros(1)


def torch_step(case, data, path, compiler=lambda f: f, exact=False):
    import torch
    model, loss_of = case.theirs()
    model.load_state_dict({n: torch.from_numpy(x) for n, x in weights_of(path).items()})
    data = [torch.from_numpy(x) for x in data]
    if exact:
        model, data = model.double(), [x.double() if x.is_floating_point() else x for x in data]
    optimizer, loss_of = torch.optim.Adam(model.parameters(), lr=RATE, fused=True), compiler(loss_of)

    def step():
        loss = loss_of(model, *data)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()
    return step


def compiled_step(case, data, path):
    import torch
    return torch_step(case, data, path, torch.compile)


def exact_step(case, data, path):
    return torch_step(case, data, path, exact=True)


def load_jax(threads):  # which takes its number of threads from the processors that it may use
    import jax
    jax.numpy.zeros(1).block_until_ready()


def jax_step(case, data, path):
    """Adam as PyTorch has it; weights and state are donated."""
    import jax
    import jax_nets
    from jax import numpy as jnp
    weights = {n: jnp.asarray(x) for n, x in weights_of(path, ("p/",)).items()}
    data = [jnp.asarray(x) for x in data]
    state = [weights, *({n: jnp.zeros_like(x) for n, x in weights.items()} for _ in range(2)), jnp.zeros(())]

    def loss_of(weights, *data):
        return getattr(jax_nets, case.jax)(weights, *data, **case.sizes)

    def changed(w, g, m, v, t):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return w - RATE * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8), m, v

    def whole(weights, m, v, t, *data):
        t, (loss, gradients) = t + 1, jax.value_and_grad(loss_of)(weights, *data)
        new = {n: changed(w, gradients[n], m[n], v[n], t) for n, w in weights.items()}
        return loss, *({n: x[k] for n, x in new.items()} for k in range(3)), t
    whole = jax.jit(whole, donate_argnums=(0, 1, 2, 3))

    def step():
        loss, *state[:] = whole(*state, *data)
        return float(loss)
    return step


LIBRARIES = {"quern": (load_quern, quern_step), "torch": (load_torch, torch_step),
             "torch-compile": (load_torch, compiled_step), "torch64": (load_torch, exact_step),
             "jax": (load_jax, jax_step)}


def make(case, path):
    import torch
    torch.manual_seed(SEED)
    model, _ = case.theirs()
    own, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    np.savez(path, **{("p/" if n in own else "b/" if n in buffers else "t/") + n: x.numpy()
                      for n, x in model.state_dict().items()})


def main():
    library, name, threads, path = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(threads)])
    from cases import CASES
    case = CASES[name]
    if library == "make":
        return make(case, path)
    load, step_of = LIBRARIES[library]
    load(int(threads))
    loaded = status("VmRSS")
    step = step_of(case, case.data(np.random.default_rng(SEED)), path)
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")                                          # VmHWM counts from here
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "memory":
            print(status("VmHWM") - loaded, flush=True)
            continue
        start = time.perf_counter()
        loss = step()
        print((time.perf_counter() - start) * 1e3, repr(loss), flush=True)


if __name__ == "__main__":
    main()
