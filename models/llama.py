"""llama.py - Llama (Touvron et al. 2023), with the names of transformers' LlamaForCausalLM.

    model = Llama(vocabulary=32000, width=2048, layers=22, heads=32, kv_heads=4, hidden=5632)      # TinyLlama's sizes
    model.load_state_dict(quern.load("model.safetensors"), strict=False)
    logits = model(ids)                                          # [N, T] -> [N, T, vocabulary]

    optimizer = quern.optim.AdamW(model.parameters(), lr=3e-4)

    @quern.jit
    def step(ids):
        loss = model.loss(ids)                                   # each told by those before it
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

It is for training; quern.llm generates, with a cache. Positions are not scaled as those of Llama 3.1 are.
"""

import quern
from quern import nn
from quern.nn import functional as F


class Attention(nn.Module):
    """Queries of `heads`, keys and values of `kv_heads`, each of which serves a group of queries."""

    def __init__(self, width, heads, kv_heads, base, head_width=None):
        super().__init__()
        self.size, self.base = head_width or width // heads, base
        self.q_proj, self.o_proj = (nn.Linear(width, heads * self.size, bias=False),
                                    nn.Linear(heads * self.size, width, bias=False))
        self.k_proj, self.v_proj = (nn.Linear(width, kv_heads * self.size, bias=False) for _ in range(2))

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (f(x).reshape(n, t, -1, self.size).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (quern.rope(part, quern.arange(t), base=self.base) for part in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(n, t, -1))


class MLP(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(width, hidden, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden, base, eps, head_width):
        super().__init__()
        self.self_attn = Attention(width, heads, kv_heads, base, head_width)
        self.mlp = MLP(width, hidden)
        self.input_layernorm, self.post_attention_layernorm = (nn.RMSNorm(width, eps=eps) for _ in range(2))

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """tied: the head's weight is that of the embeddings."""

    def __init__(self, vocabulary=32000, width=4096, layers=32, heads=32, kv_heads=None, hidden=11008, base=10000.0,
                 eps=1e-5, head_width=None, tied=False):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocabulary, width)
        self.model.layers = nn.ModuleList(Block(width, heads, kv_heads or heads, hidden, base, eps, head_width)
                                          for _ in range(layers))
        self.model.norm = nn.RMSNorm(width, eps=eps)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        for x in self.parameters():
            if x.ndim > 1:
                nn.init.normal_(x, std=0.02)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for block in self.model.layers:
            x = block(x)
        return self.lm_head(self.model.norm(x))

    def loss(self, ids, labels=None):
        """labels [N, T] are the ids unless others are given; those of -100 do not count."""
        logits, labels = self(ids)[:, :-1], (ids if labels is None else labels)[:, 1:]
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
