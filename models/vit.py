"""vit.py - the vision transformer (Dosovitskiy et al. 2021), with the names of torchvision's VisionTransformer.

    model = vit_b_16()                                           # or ViT(32, patch=4, layers=6, heads=8, width=256)
    model.load_state_dict(quern.load("vit_b_16.safetensors"))
    logits = model.eval()(images)                                # [N, 3, 224, 224] -> [N, 1000]

    optimizer = quern.optim.AdamW(model.train().parameters(), lr=1e-3)

    @quern.jit
    def step(images, labels):
        loss = model.loss(images, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

import quern
from quern import nn
from quern.nn import functional as F


class Block(nn.Module):
    def __init__(self, width, heads, hidden, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout),
                                 nn.Linear(hidden, width), nn.Dropout(dropout))
        for linear in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.normal_(linear.bias, std=1e-6)

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.dropout(self.self_attention(y, y, y, need_weights=False)[0])
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    def __init__(self, length, layers, heads, width, hidden, dropout):
        super().__init__()
        self.pos_embedding = nn.init.normal_(nn.Parameter(quern.zeros((1, length, width))), std=0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential({f"encoder_layer_{k}": Block(width, heads, hidden, dropout)
                                     for k in range(layers)})
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class ViT(nn.Module):
    """Patches as tokens behind one of the class, whose place gives the logits; the head's weight begins as 0."""

    def __init__(self, size=224, patch=16, layers=12, heads=12, width=768, hidden=None, num_classes=1000,
                 dropout=0.0):
        super().__init__()
        self.conv_proj = nn.Conv2d(3, width, patch, patch)
        self.class_token = nn.Parameter(quern.zeros((1, 1, width)))
        self.encoder = Encoder((size // patch) ** 2 + 1, layers, heads, width, hidden or 4 * width, dropout)
        self.heads = nn.Sequential({"head": nn.Linear(width, num_classes)})
        nn.init.trunc_normal_(self.conv_proj.weight, std=(3 * patch * patch) ** -0.5)
        for x in (self.conv_proj.bias, self.heads[0].weight, self.heads[0].bias):
            nn.init.zeros_(x)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)         # [N, places, width]
        first = quern.broadcast_to(self.class_token, (x.shape[0], 1, x.shape[2]))
        return self.heads(self.encoder(quern.concat([first, x], axis=1))[:, 0])

    def loss(self, x, labels):
        return F.cross_entropy(self(x), labels)


def vit_b_16(**given):
    return ViT(**given)
