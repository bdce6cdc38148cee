"""mlp.py - a network of linear maps for classes, with the names of torchvision.ops.MLP.

    model = MLP(784, (256, 128, 10))
    optimizer = quern.optim.Adam(model.parameters(), lr=1e-3)

    @quern.jit
    def step(x, labels):
        loss = model.loss(x, labels)                             # [N, ..] of 784 numbers each, and labels [N]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

from quern import nn
from quern.nn import functional as F


class MLP(nn.Sequential):
    """Each hidden layer is a linear map, a norm where one is given, an activation and dropout; the last one is a
    linear map and dropout. Dropout of 0 stays a layer: the numbers that are names count it."""

    def __init__(self, into, widths, norm=None, activation=nn.ReLU, dropout=0.0):
        layers = []
        for k, width in enumerate(widths):
            layers.append(nn.Linear(into, width))
            if k + 1 < len(widths):
                layers += [norm(width), activation()] if norm else [activation()]
            layers.append(nn.Dropout(dropout))
            into = width
        super().__init__(*layers)

    def forward(self, x):
        return super().forward(x.reshape(x.shape[0], -1))

    def loss(self, x, labels):
        return F.cross_entropy(self(x), labels)
