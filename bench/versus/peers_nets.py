"""peers_nets.py - play_nets.c's networks in PyTorch, with the same weights: LSTM and GRU by PyTorch's own
modules, ResNet-18 for small images. Each function gives a function that takes a step and returns the
loss."""

import numpy as np


class Parameters:
    """Parameters in the order in which play_nets.c makes them."""

    def __init__(self, array):
        self.array, self.list = array, []

    def __call__(self, shape, fan):
        if fan > 0:
            scale = np.sqrt(np.float32(6) / np.float32(fan)).astype(np.float32)
            self.list.append(self.array(100 + len(self.list), *shape) * scale)
        else:
            self.list.append(np.full(shape, fan == 0, np.float32))


def lstm(torch, array, d):
    return recurrent(torch, array, d, torch.nn.LSTM, 4)


def gru(torch, array, d):
    return recurrent(torch, array, d, torch.nn.GRU, 3)


def recurrent(torch, array, d, kind, gates):
    """PyTorch adds two biases, one of which stays 0 here; its gates stand in the same order."""
    layers, width, batch, steps = d[:4]
    make = Parameters(array)
    net = kind(width, width, layers)
    for layer in range(layers):
        make((width, gates * width), 6 * width)
        make((width, gates * width), 6 * width)
        make((gates * width,), -1)
        w = [torch.from_numpy(np.ascontiguousarray(v.T)) for v in make.list[3 * layer:]]
        with torch.no_grad():
            for name, value in zip(("weight_ih", "weight_hh", "bias_ih"), w):
                getattr(net, f"{name}_l{layer}").copy_(value)
            getattr(net, f"bias_hh_l{layer}").zero_()
        getattr(net, f"bias_hh_l{layer}").requires_grad_(False)
    x = torch.from_numpy(array(0, steps, batch, width))
    p = [w for w in net.parameters() if w.requires_grad]

    def step():
        loss = net(x)[0].square().mean()
        grads = torch.autograd.grad(loss, p)
        with torch.no_grad():
            torch._foreach_add_(p, grads, alpha=-0.5)
        return loss
    return step


def resnet(torch, array, d):
    width, size, batch = d[:3]
    f, make, shapes = torch.nn.functional, Parameters(array), []

    def conv_norm(c, to, k, stride):
        make((to, c, k, k), c * k * k)
        make((to,), 0)
        make((to,), -1)
        shapes.append((k // 2, stride))
    conv_norm(3, width, 3, 1)
    c, blocks = width, []
    for block in range(8):
        to, stride = width << block // 2, 2 if block > 1 and block % 2 == 0 else 1
        conv_norm(c, to, 3, stride)
        conv_norm(to, to, 3, 1)
        if stride > 1:
            conv_norm(c, to, 1, stride)
        blocks.append(stride > 1)
        c = to
    make((c, 10), c)
    make((10,), -1)
    p = [torch.from_numpy(v).requires_grad_() for v in make.list]
    x = torch.from_numpy(array(0, batch, 3, size, size))
    labels = torch.arange(batch) % 10
    optimizer = torch.optim.SGD(p, lr=0.01, momentum=0.9, fused=True)

    def norm(x, i):
        pad, stride = shapes[i]
        y = f.conv2d(x, p[3 * i], padding=pad, stride=stride)
        return f.batch_norm(y, None, None, p[3 * i + 1], p[3 * i + 2], training=True, eps=1e-5)

    def step():
        optimizer.zero_grad(set_to_none=True)
        h, i = torch.relu(norm(x, 0)), 1
        for narrows in blocks:
            y = norm(torch.relu(norm(h, i)), i + 1)
            h = norm(h, i + 2) if narrows else h
            h, i = torch.relu(h + y), i + 2 + narrows
        loss = f.cross_entropy(torch.addmm(p[-1], h.mean((2, 3)), p[-2]), labels)
        loss.backward()
        optimizer.step()
        return loss
    return step
