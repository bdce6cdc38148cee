"""jax_nets.py - the networks of models/ in JAX, for the bench alone.

Each is a loss of weights by PyTorch's names, in PyTorch's layouts, and of the data: plain jax.numpy, one function of
pure arithmetic that jax.jit takes whole. The running statistics of batch norm, which no loss of training reads, are
not kept. The mixture takes all tokens through all experts: sizes that follow from values JAX does not trace.
"""

import jax
import jax.numpy as jnp
from jax import lax

LAYOUT = ("NCHW", "OIHW", "NCHW")


def linear(p, name, x):
    y = x @ p[f"{name}.weight"].T
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def cross_entropy(logits, labels):
    """Classes along the second axis, as PyTorch has them."""
    log = jax.nn.log_softmax(logits, axis=1)
    return -jnp.take_along_axis(log, jnp.expand_dims(labels, 1), 1).mean()


def next_loss(logits, ids):
    return cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def norm(p, name, x, axes, shape, eps):
    mean = x.mean(axes, keepdims=True)
    y = (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(axes, keepdims=True) + eps)
    return y * p[f"{name}.weight"].reshape(shape) + p[f"{name}.bias"].reshape(shape)


def layer_norm(p, name, x, eps=1e-5):
    return norm(p, name, x, (-1,), (-1,), eps)


def batch_norm(p, name, x):
    return norm(p, name, x, (0, 2, 3), (1, -1, 1, 1), 1e-5)


def rms_norm(p, name, x, eps=1e-5):
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps) * p[f"{name}.weight"]


def conv(p, name, x, stride=1, pad=0):
    y = lax.conv_general_dilated(x, p[f"{name}.weight"], (stride, stride), [(pad, pad)] * 2, dimension_numbers=LAYOUT)
    return y + p[f"{name}.bias"][:, None, None] if f"{name}.bias" in p else y


def conv_transpose(p, name, x, stride, pad):
    w = jnp.flip(p[f"{name}.weight"], (2, 3)).swapaxes(0, 1)
    edge = w.shape[-1] - 1 - pad
    y = lax.conv_general_dilated(x, w, (1, 1), [(edge, edge)] * 2, (stride, stride), dimension_numbers=LAYOUT)
    return y + p[f"{name}.bias"][:, None, None] if f"{name}.bias" in p else y


def attention(q, k, v, causal):
    """[.., T, size] each."""
    s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        s = jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)
    return jax.nn.softmax(s, -1) @ v


def heads_of(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def joined(x):
    x = x.swapaxes(1, 2)
    return x.reshape(*x.shape[:2], -1)


# ---- one after the other ------------------------------------------------------------------------


def mlp(p, x, labels, *, layers):
    for k in range(layers):
        x = linear(p, str(3 * k), x)
        x = jax.nn.relu(x) if k + 1 < layers else x
    return cross_entropy(x, labels)


def vae(p, x, noise):
    h = jax.nn.relu(linear(p, "fc1", x))
    mean, log_var = linear(p, "fc21", h), linear(p, "fc22", h)
    z = mean + noise * jnp.exp(0.5 * log_var)
    logits = linear(p, "fc4", jax.nn.relu(linear(p, "fc3", z)))
    entropy = jnp.sum(jax.nn.softplus(logits) - x * logits)
    return (entropy - 0.5 * jnp.sum(1 + log_var - mean ** 2 - jnp.exp(log_var))) / len(x)


def lstm(p, ids, *, layers):
    """The part of the gates that the input makes is one product for all times."""
    x = p["encoder.weight"][ids].swapaxes(0, 1)
    for k in range(layers):
        wi, wh, bi, bh = (p[f"rnn.{n}_l{k}"] for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))

        def cell(state, into, wh=wh):
            h, c = state
            i, f, g, o = jnp.split(into + h @ wh.T, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h
        zero = jnp.zeros((x.shape[1], wh.shape[1]))
        x = lax.scan(cell, (zero, zero), x @ wi.T + (bi + bh))[1]
    return next_loss(linear(p, "decoder", x.swapaxes(0, 1)), ids)


# ---- images --------------------------------------------------------------------------------------


def resnet(p, x, labels, *, layers):
    def block(x, name, stride):
        y = jax.nn.relu(batch_norm(p, f"{name}.bn1", conv(p, f"{name}.conv1", x, stride, 1)))
        y = batch_norm(p, f"{name}.bn2", conv(p, f"{name}.conv2", y, 1, 1))
        if f"{name}.downsample.0.weight" in p:
            x = batch_norm(p, f"{name}.downsample.1", conv(p, f"{name}.downsample.0", x, stride))
        return jax.nn.relu(y + x)
    x = jax.nn.relu(batch_norm(p, "bn1", conv(p, "conv1", x, 2, 3)))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0)] * 2 + [(1, 1)] * 2)
    for k, n in enumerate(layers):
        for j in range(n):
            x = block(x, f"layer{k + 1}.{j}", 2 if k and not j else 1)
    return cross_entropy(linear(p, "fc", x.mean((2, 3))), labels)


def vit(p, x, labels, *, layers, heads, patch):
    x = conv(p, "conv_proj", x, patch)
    x = x.reshape(*x.shape[:2], -1).swapaxes(1, 2)
    first = jnp.broadcast_to(p["class_token"], (len(x), 1, x.shape[-1]))
    x = jnp.concatenate([first, x], 1) + p["encoder.pos_embedding"]
    for k in range(layers):
        at = f"encoder.layers.encoder_layer_{k}."
        y = layer_norm(p, at + "ln_1", x, 1e-6)
        y = y @ p[at + "self_attention.in_proj_weight"].T + p[at + "self_attention.in_proj_bias"]
        q, k_, v = (heads_of(z, heads) for z in jnp.split(y, 3, -1))
        x = x + linear(p, at + "self_attention.out_proj", joined(attention(q, k_, v, False)))
        y = linear(p, at + "mlp.0", layer_norm(p, at + "ln_2", x, 1e-6))
        x = x + linear(p, at + "mlp.3", jax.nn.gelu(y, approximate=False))
    return cross_entropy(linear(p, "heads.head", layer_norm(p, "encoder.ln", x, 1e-6)[:, 0]), labels)


def halved(x):
    """The largest of each two by two."""
    n, c, h, w = x.shape
    return x[:, :, :h // 2 * 2, :w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def doubled(x):
    """Linearly between places, the corners where they were."""
    def between(n):
        at = jnp.arange(2 * n) * (n - 1) / (2 * n - 1)
        return jnp.maximum(1 - abs(at[:, None] - jnp.arange(n)), 0)
    return jnp.einsum("ph,nchw,qw->ncpq", between(x.shape[2]), x, between(x.shape[3]))


def unet(p, x, labels):
    def double(name, x):
        for k in (0, 3):
            x = conv(p, f"{name}.double_conv.{k}", x, 1, 1)
            x = jax.nn.relu(batch_norm(p, f"{name}.double_conv.{k + 1}", x))
        return x
    beside = [double("inc", x)]
    for k in range(1, 5):
        beside.append(double(f"down{k}.maxpool_conv.1", halved(beside[-1])))
    x = beside.pop()
    for k in range(1, 5):
        x = conv_transpose(p, f"up{k}.up", x, 2, 0) if f"up{k}.up.weight" in p else doubled(x)
        skip = beside.pop()
        room = [(a - b) for a, b in zip(skip.shape[2:], x.shape[2:])]
        x = jnp.pad(x, [(0, 0), (0, 0)] + [(d // 2, d - d // 2) for d in room])
        x = double(f"up{k}.conv", jnp.concatenate([skip, x], 1))
    logits = conv(p, "outc.conv", x)
    prob = jax.nn.softmax(logits, 1)
    target = jnp.moveaxis(jax.nn.one_hot(labels, logits.shape[1], dtype=prob.dtype), -1, 1)
    both, all_ = (prob * target).sum((2, 3)), (prob + target).sum((2, 3))
    return cross_entropy(logits, labels) + 1 - ((2 * both + 1e-6) / (all_ + 1e-6)).mean()


def generator(p, x, wanted):
    last = max(int(name.split(".")[1]) for name in p)
    for k in range(0, last + 1, 3):
        x = conv_transpose(p, f"main.{k}", x, 2 if k else 1, 1 if k else 0)
        x = jax.nn.relu(batch_norm(p, f"main.{k + 1}", x)) if k < last else jnp.tanh(x)
    return jnp.square(x - wanted).mean()


def discriminator(p, x):
    last = max(int(name.split(".")[1]) for name in p)
    x = jax.nn.leaky_relu(conv(p, "main.0", x, 2, 1), 0.2)
    for k in range(2, last, 3):
        x = jax.nn.leaky_relu(batch_norm(p, f"main.{k + 1}", conv(p, f"main.{k}", x, 2, 1)), 0.2)
    return jax.nn.softplus(conv(p, f"main.{last}", x)).mean()


# ---- graphs --------------------------------------------------------------------------------------


def gcn(p, x, edges, labels, known, weights, *, layers):
    for k in range(layers):
        x = (jax.nn.relu(x) if k else x) @ p[f"convs.{k}.lin.weight"].T
        x = jnp.zeros_like(x).at[edges[1]].add(weights[:, None] * x[edges[0]]) + p[f"convs.{k}.bias"]
    return cross_entropy(x[known], labels)


# ---- language models -----------------------------------------------------------------------------


def gpt2(p, ids, *, layers, heads):
    x = p["transformer.wte.weight"][ids] + p["transformer.wpe.weight"][:ids.shape[1]]

    def map_of(name, x):
        return x @ p[f"{name}.weight"] + p[f"{name}.bias"]
    for k in range(layers):
        at = f"transformer.h.{k}."
        y = map_of(at + "attn.c_attn", layer_norm(p, at + "ln_1", x))
        q, k_, v = (heads_of(z, heads) for z in jnp.split(y, 3, -1))
        x = x + map_of(at + "attn.c_proj", joined(attention(q, k_, v, True)))
        y = jax.nn.gelu(map_of(at + "mlp.c_fc", layer_norm(p, at + "ln_2", x)), approximate=True)
        x = x + map_of(at + "mlp.c_proj", y)
    return next_loss(layer_norm(p, "transformer.ln_f", x) @ p["transformer.wte.weight"].T, ids)


def turned(x):
    half = x.shape[-1] // 2
    angle = jnp.outer(jnp.arange(x.shape[-2]), 1e4 ** (-jnp.arange(half) / half)).astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angle) - b * jnp.sin(angle), b * jnp.cos(angle) + a * jnp.sin(angle)], -1)


def grouped_attention(p, at, x, heads, kv_heads):
    q, k, v = (heads_of(linear(p, f"{at}self_attn.{n}_proj", x), h)
               for n, h in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
    k, v = (jnp.repeat(y, heads // kv_heads, 1) for y in (turned(k), v))
    return linear(p, f"{at}self_attn.o_proj", joined(attention(turned(q), k, v, True)))


def gated(p, at, x):
    y = jax.nn.silu(linear(p, at + "mlp.gate_proj", x)) * linear(p, at + "mlp.up_proj", x)
    return linear(p, at + "mlp.down_proj", y), None


def mixture(p, at, x, chosen):
    prob = jax.nn.softmax(linear(p, at + "mlp.gate", x), -1)
    share, which = lax.top_k(prob, chosen)
    taken = jax.nn.one_hot(which, prob.shape[-1])
    share = jnp.einsum("btk,btke->bte", share / share.sum(-1, keepdims=True), taken)
    h = jnp.einsum("btw,ehw->bteh", x, p[at + "mlp.experts.gate_up_proj"])
    gate, up = jnp.split(h, 2, -1)
    y = jnp.einsum("bteh,ewh->btw", jax.nn.silu(gate) * up * share[..., None], p[at + "mlp.experts.down_proj"])
    return y, (prob, taken.sum(-2))


def llama(p, ids, *, layers, heads, kv_heads, chosen=0, balance=0.0):
    """chosen: experts of a token, 0: a block has one."""
    x, routes = p["model.embed_tokens.weight"][ids], []
    for k in range(layers):
        at = f"model.layers.{k}."
        x = x + grouped_attention(p, at, rms_norm(p, at + "input_layernorm", x), heads, kv_heads)
        y = rms_norm(p, at + "post_attention_layernorm", x)
        y, route = mixture(p, at, y, chosen) if chosen else gated(p, at, y)
        x = x + y
        routes.append(route)
    loss = next_loss(linear(p, "lm_head", rms_norm(p, "model.norm", x)), ids)
    if chosen:
        prob, often = (jnp.stack(r).mean((0, 1, 2)) for r in zip(*routes))
        loss = loss + balance * len(prob) * (prob * often).sum()
    return loss
