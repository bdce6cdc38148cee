"""moe.py - Mixtral, a mixture of experts (Jiang et al. 2024), with the names of transformers' MixtralForCausalLM.

    model = Mixtral(vocabulary=32000, width=512, layers=4, heads=8, kv_heads=2, hidden=1024, experts=8, chosen=2)
    model.load_state_dict(quern.load("model.safetensors"))       # also by the names of files: an expert, a name
    logits = model(ids)                                          # [N, T] -> [N, T, vocabulary]

    optimizer = quern.optim.AdamW(model.parameters(), lr=3e-4)

    @quern.jit
    def step(ids):
        loss = model.loss(ids, balance=0.01)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

Sizes must not follow from values, so that a step is one static graph: the tokens of each expert stand in whole blocks,
the last one filled up, and a product of matrices goes over as many blocks as there may be. The attention is llama.py's.
"""

import quern
from llama import Attention
from quern import nn
from quern.nn import functional as F

BLOCK = 32  # tokens


class Router(nn.Module):
    """The experts of each token and their shares, which add up to 1, [tokens, chosen]; the probabilities of all."""

    def __init__(self, width, experts, chosen):
        super().__init__()
        self.chosen = chosen
        self.weight = nn.Parameter(quern.zeros((experts, width)))

    def forward(self, x):
        p = F.linear(x, self.weight).softmax(axis=-1)
        best = quern.topk(p, self.chosen)
        return best.index, best.values / best.values.sum(axis=-1, keepdims=True), p


def blocks_of(which, experts):
    """Choices in blocks: at each place the number of a choice, or -1, and the expert of each block. There are at most
    choices / BLOCK + experts blocks, for each expert leaves one of its own unfilled."""
    which, n = which.reshape(-1), which.size
    counts = quern.bincount(which, bins=experts)
    blocks = (counts + BLOCK - 1) // BLOCK
    ends = quern.cumsum(blocks)
    moved = (ends - blocks) * BLOCK - (quern.cumsum(counts) - counts)       # from the order by experts to places
    order, most = quern.argsort(which), n // BLOCK + experts
    places = quern.arange(n) + moved[which[order]]
    choices = quern.scatter(quern.full((most * BLOCK,), -1), places, order, 0)
    owners = quern.searchsorted(ends, quern.arange(most), right=True)
    return choices, quern.minimum(owners, experts - 1)                      # blocks behind the last one are empty


class Experts(nn.Module):
    def __init__(self, width, hidden, experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(quern.zeros((experts, 2 * hidden, width)))
        self.down_proj = nn.Parameter(quern.zeros((experts, width, hidden)))

    def forward(self, x, which, share):
        choices, owners = blocks_of(which, self.down_proj.shape[0])
        at = quern.maximum(choices, 0)
        tokens = at // which.shape[1]
        weight = quern.where(choices < 0, 0.0, share.reshape(-1)[at]).reshape(-1, BLOCK, 1)
        h = x[tokens].reshape(-1, BLOCK, x.shape[1]) @ self.gate_up_proj[owners].mT
        gate, up = quern.chunk(h, 2, axis=-1)
        y = (F.silu(gate) * up * weight) @ self.down_proj[owners].mT
        return quern.index_add(quern.zeros_like(x), tokens, y.reshape(-1, x.shape[1]), 0)


class Mixture(nn.Module):
    def __init__(self, width, hidden, experts, chosen):
        super().__init__()
        self.gate, self.experts = Router(width, experts, chosen), Experts(width, hidden, experts)

    def forward(self, x):
        """The experts' result, and (which are chosen, probabilities)."""
        flat = x.reshape(-1, x.shape[-1])
        which, share, p = self.gate(flat)
        return self.experts(flat, which, share).reshape(x.shape), (which, p)


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden, experts, chosen, base, eps):
        super().__init__()
        self.self_attn = Attention(width, heads, kv_heads, base)
        self.mlp = Mixture(width, hidden, experts, chosen)
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(width, eps=eps) for _ in range(2))

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        y, route = self.mlp(self.post_attention_layernorm(x))
        return x + y, route


class Mixtral(nn.Module):
    def __init__(self, vocabulary=32000, width=4096, layers=32, heads=32, kv_heads=8, hidden=14336, experts=8,
                 chosen=2, base=1e6, eps=1e-5):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocabulary, width)
        self.model.layers = nn.ModuleList(Block(width, heads, kv_heads, hidden, experts, chosen, base, eps)
                                          for _ in range(layers))
        self.model.norm = nn.RMSNorm(width, eps=eps)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        for x in self.parameters():
            if x.ndim > 1:
                nn.init.normal_(x, std=0.02)

    def routed(self, ids):
        """Logits, and the route of each layer."""
        x, routes = self.model.embed_tokens(ids), []
        for block in self.model.layers:
            x, route = block(x)
            routes.append(route)
        return self.lm_head(self.model.norm(x)), routes

    def forward(self, ids):
        return self.routed(ids)[0]

    def loss(self, ids, balance=0.0):
        """Of what follows, and `balance` times what uneven use of the experts costs (Fedus et al. 2022)."""
        logits, routes = self.routed(ids)
        value = F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        return value + balance * unevenness(routes) if balance else value

    def load_state_dict(self, state_dict, strict=True):
        """Also by the names of Mixtral's files, which have w1, w2 and w3 of each expert."""
        state = {}
        for name, x in state_dict.items():
            name, _, part = name.replace(".block_sparse_moe.", ".mlp.").partition(".experts.")
            number, _, w = part.partition(".")
            if not number.isdigit():
                state[f"{name}.experts.{part}" if part else name] = x
            elif number == "0" and w == "w2.weight":
                state[f"{name}.experts.down_proj"] = quern.stack(of_experts(state_dict, name, "w2"))
            elif number == "0" and w == "w1.weight":
                both = zip(of_experts(state_dict, name, "w1"), of_experts(state_dict, name, "w3"))
                state[f"{name}.experts.gate_up_proj"] = quern.stack([quern.concat(pair) for pair in both])
        return super().load_state_dict(state, strict)


def of_experts(state, name, w):
    """The matrices of a layer's experts by the names of files."""
    start, found = name.replace(".mlp", ".block_sparse_moe"), []
    while (key := f"{start}.experts.{len(found)}.{w}.weight") in state:
        found.append(quern.asarray(state[key]))
    return found


def unevenness(routes):
    """How often each expert is chosen times its probability, added up: `chosen` where all are used alike."""
    p = quern.concat([p for _, p in routes]).mean(axis=0)
    which = quern.concat([which for which, _ in routes])
    often = quern.one_hot(which, p.shape[0], p.dtype).sum(axis=1).mean(axis=0)
    return (often * p).sum() * p.shape[0]
