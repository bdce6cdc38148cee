"""moe.py - Mixtral, a mixture of experts (Jiang et al. 2024), with the names of transformers' MixtralForCausalLM.

    model = Mixtral(vocabulary=32000, width=512, layers=4, heads=8, kv_heads=2, hidden=1024, experts=8, chosen=2)
    model.load_state_dict(quern.load("model.safetensors"))       # also by the names of files: an expert, a name
    logits = model(ids)                                          # [N, T] -> [N, T, vocabulary]

    optimizer = quern.optim.AdamW(model.parameters(), lr=3e-4)

    @quern.jit
    def step(ids):
        optimizer.zero_grad()
        loss = model.loss(ids, balance=0.01)
        loss.backward()
        optimizer.step()
        return loss

Every expert computes every token, and those not chosen have a share of 0: sizes do not follow from values, so a step
is one static graph. It takes experts / chosen times the work of the chosen ones alone. The attention is llama.py's.
"""

import quern
from llama import Attention
from quern import nn
from quern.nn import functional as F


class Router(nn.Module):
    """The shares of the experts that are chosen, which add up to 1, [.., experts], and the probabilities of all."""

    def __init__(self, width, experts, chosen):
        super().__init__()
        self.chosen = chosen
        self.weight = nn.Parameter(quern.zeros((experts, width)))

    def forward(self, x):
        p = F.linear(x, self.weight).softmax(axis=-1)
        best = quern.topk(p, self.chosen)
        share = best.values / best.values.sum(axis=-1, keepdims=True)
        where = quern.one_hot(best.index, p.shape[-1], p.dtype)
        return (where * share.unsqueeze(-1)).sum(axis=-2), p


class Experts(nn.Module):
    def __init__(self, width, hidden, experts):
        super().__init__()
        self.gate_up_proj = nn.Parameter(quern.zeros((experts, 2 * hidden, width)))
        self.down_proj = nn.Parameter(quern.zeros((experts, width, hidden)))

    def forward(self, x, share):
        """x [tokens, width] by shares [tokens, experts]."""
        gate, up = quern.chunk(x @ self.gate_up_proj.mT, 2, axis=-1)       # [experts, tokens, hidden]
        h = F.silu(gate) * up * share.T.unsqueeze(-1)
        return quern.einsum("etj,eij->ti", h, self.down_proj)


class Mixture(nn.Module):
    def __init__(self, width, hidden, experts, chosen):
        super().__init__()
        self.gate, self.experts = Router(width, experts, chosen), Experts(width, hidden, experts)

    def forward(self, x):
        """The experts' result, and (shares, probabilities)."""
        flat = x.reshape(-1, x.shape[-1])
        route = self.gate(flat)
        return self.experts(flat, route[0]).reshape(x.shape), route


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
    often = quern.concat([(share != 0).cast(share.dtype) for share, _ in routes]).mean(axis=0)
    p = quern.concat([p for _, p in routes]).mean(axis=0)
    return (often * p).sum() * p.shape[0]
