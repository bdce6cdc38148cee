"""digits.py - a network that reads handwritten digits, from files to its curve: 08_digits.c in Python.

    python examples/digits.py [FOLDER [CURVE.svg]]    the folder of the data, examples/data

docs/tutorial.md explains it.
"""

import os
import sys

import quern as qn
from quern.data import DataLoader, FileDataset, StackDataset, random_split

BATCH, EPOCHS, SEED = 64, 15, 1


def make_network():
    """Parameters by name; weights begin normal with deviation sqrt(2 / inputs)."""
    def weight(seed, *shape):
        inputs = 1
        for n in shape[1:]:
            inputs *= n
        return qn.randn(qn.key(seed), shape) * (2 / inputs) ** 0.5

    net = {"conv1.weight": weight(1, 16, 1, 3, 3), "conv1.bias": qn.zeros(16),
           "conv2.weight": weight(2, 32, 16, 3, 3), "conv2.bias": qn.zeros(32),
           "out.weight": weight(3, 10, 512), "out.bias": qn.zeros(10)}
    for p in net.values():
        p.realize()
        p.requires_grad = True
    return net


def logits_of(net, images):
    """Images uint8 [n, 8, 8] -> logits [n, 10]."""
    x = (images.astype("float32") / 16).unsqueeze(1)
    x = qn.relu(qn.conv(x, net["conv1.weight"], net["conv1.bias"], padding="same"))
    x = qn.relu(qn.conv(x, net["conv2.weight"], net["conv2.bias"], padding="same"))
    x = qn.max_pool(x, (2, 2))
    return qn.linear(x.flatten(1, 3), net["out.weight"], net["out.bias"])


def print_curve(name, values, rows=12, columns=64):
    """A curve in the terminal, each column the mean of what it stands for."""
    columns = min(columns, len(values))
    parts = [values[len(values) * k // columns:len(values) * (k + 1) // columns] for k in range(columns)]
    means = [sum(p) / len(p) for p in parts]
    low, high = min(values), max(values)
    print(name)
    for r in range(rows):
        level = high - (high - low) * r / (rows - 1)
        marks = "".join("*" if round((high - m) / (high - low) * (rows - 1)) == r else " " for m in means)
        print(f"{level:8.3f} |{marks}")
    print("         +" + "-" * columns)


def write_svg(path, curves):
    """Curves, (name, color, values), each in its own range, which the legend says."""
    width, height, left, top = 640, 320, 20, 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width + 2 * left} '
           f'{height + 2 * top + 24 * len(curves)}" font-family="sans-serif" font-size="14">',
           "<style>svg { background: #fff; color: #222 } @media (prefers-color-scheme: dark) "
           "{ svg { background: #181818; color: #ddd } }</style>",
           f'<path d="M{left} {top}V{top + height}H{left + width}" fill="none" stroke="currentColor"/>']
    for k, (name, color, values) in enumerate(curves):
        low, high = min(values), max(values)
        points = " ".join(f"{left + width * (i + 1) / len(values):.1f},"
                          f"{top + height * (high - v) / (high - low or 1):.1f}" for i, v in enumerate(values))
        out.append(f'<polyline fill="none" stroke-width="2" stroke="{color}" points="{points}"/>')
        out.append(f'<text x="{left}" y="{top + height + 24 * (k + 1)}" fill="{color}">{name}, {low:.4g} to '
                   f'{high:.4g}</text>')
    with open(path, "w") as f:
        f.write("\n".join(out) + "\n</svg>\n")


def main(folder="examples/data", svg=None):
    images, labels = (FileDataset(os.path.join(folder, f"digits-{what}.idx")) for what in ("images", "labels"))
    train, test = random_split(StackDataset(images, labels), [1437, 360], seed=SEED)
    batches = DataLoader(train, BATCH, shuffle=True, drop_last=True, num_workers=1, seed=SEED)
    unseen = DataLoader(test, len(test))
    net = make_network()
    rate = qn.tensor(3e-3)
    optimizer = qn.optim.AdamW(list(net.values()), lr=rate)
    schedule = qn.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS * len(batches))

    @qn.jit
    def step(images, labels):
        loss = qn.cross_entropy(logits_of(net, images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    @qn.jit
    def judge(images, labels):
        return (logits_of(net, images).argmax(axis=1) == labels.astype("int64")).astype("float32").mean()

    losses, right = [], []
    for epoch in range(EPOCHS):
        for images, labels in batches:
            losses.append(step(images, labels).item())
            schedule.step()
        with qn.no_grad():
            right.append(judge(*next(iter(unseen))).item())
        print(f"epoch {epoch + 1:2}  loss {losses[-1]:.4f}  of unseen digits right: {100 * right[-1]:.2f} %")
    print_curve("loss of each step", losses)
    if svg:
        write_svg(svg, [("loss of each step", "#3b82f6", losses),
                        ("part of unseen digits read right", "#f59e0b", right)])
    return right[-1]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) < 0.98)
