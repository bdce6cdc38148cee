"""gcn.py - a graph convolutional network (Kipf and Welling 2017), with the names of PyTorch Geometric's models.GCN.

    model = GCN(into=1433, hidden=16, layers=2, out=7)
    optimizer = quern.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    edges, weights = normalised(edges, nodes)                    # once: [2, E] of integers, from and to

    @quern.jit
    def step(x, labels):                                         # [nodes, into], [known]
        loss = model.loss(x, edges, labels, known, weights)      # known: the numbers of nodes that have labels
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss
"""

import quern
from quern import nn
from quern.nn import functional as F


def normalised(edges, nodes):
    """Edges with a loop for each node, and 1 / sqrt(degree of from * degree of to) of each: the sparse form of
    D^-1/2 (A + I) D^-1/2. A loop that is given weighs 0, for the added one is there instead."""
    at = quern.arange(nodes, dtype=edges.dtype)
    weights = quern.concat([(edges[0] != edges[1]).float(), quern.ones(nodes)])
    edges = quern.concat([edges, quern.stack([at, at])], axis=1)
    root = quern.index_add(quern.zeros(nodes), edges[1], weights, 0).rsqrt()
    return edges, root[edges[0]] * weights * root[edges[1]]


class GCN(nn.Module):
    def __init__(self, into, hidden, layers, out, dropout=0.5):
        super().__init__()
        widths = [into, *[hidden] * (layers - 1), out]
        self.dropout = nn.Dropout(dropout)
        self.convs = nn.ModuleList(nn.GCNConv(a, b, add_self_loops=False, normalize=False)
                                   for a, b in zip(widths, widths[1:]))

    def forward(self, x, edges, weights=None):
        """x [nodes, into] to [nodes, out]. weights: what normalised() gives, with its edges; else made here."""
        if weights is None:
            edges, weights = normalised(edges, x.shape[0])
        for conv in list(self.convs)[:-1]:
            x = self.dropout(F.relu(conv(x, edges, weights)))
        return self.convs[-1](x, edges, weights)

    def loss(self, x, edges, labels, known, weights=None):
        return F.cross_entropy(self(x, edges, weights)[known], labels)
