"""A program with types, which mypy --strict reads (make mypy): what a user's checker sees of the package."""

import quern as qn
from quern import Tensor, llm, nn, onnx, quant


def loss(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return ((qn.tanh(x @ p["w"]) - y) ** 2).mean()


@qn.jit
def step(p: dict[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Tensor]:
    slope: dict[str, Tensor] = qn.grad(loss)(p, x, y)
    new: dict[str, Tensor] = qn.tree.map(lambda w, g: w - 0.1 * g, p, slope)
    return new


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 8, batch_first=True)
        self.head = nn.Sequential(nn.Linear(8, 4, bias=False), nn.GELU("tanh"))

    def forward(self, x: Tensor) -> Tensor:
        all_, (h, c) = self.lstm(x)
        y: Tensor = self.head(all_[:, -1] + h[0] * c[0])
        return y


def cell(h: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    h = qn.tanh(h * 0.5 + x)
    return h, h


def say(path: str, question: str) -> str:
    with llm.open(path, context=512) as m:
        said: str = "".join(m.stream_chat([{"role": "user", "content": question}], temperature=0.8, stop=["\n"]))
        ids: list[int] = m.tokenizer.encode(said) + list(m.tokens(said, max_tokens=3, seed=1))
        return said if m.perplexity(ids) < m.logits(ids).shape[0] else m.generate(ids, max_tokens=None)


def seen(path: str, image: Tensor) -> Tensor | None:
    onnx.save(path, lambda x: x * 2, {"image": image}, output_names=["out"], data="w.bin")
    with onnx.load(path) as model:
        return model.run({model.inputs[0].name: image})[model.outputs[0].name]


def written(path: str, x: Tensor) -> list[str]:
    program: qn.Exported = qn.export(lambda x: x * 2, path, x, name="twice", blob=path + ".bin")
    return [*program.inputs, *program.outputs, *program.states]


def narrow(w: Tensor) -> Tensor:
    return quant.dequantize(quant.quantize(w, "q4_0"), quant.types()[0])


def main() -> int:
    x: Tensor = qn.ones((8, 3), qn.float32)
    p = {"w": qn.randn(qn.key(1), (3,)) * 0.1}
    p = step(p, x, qn.zeros(8))
    best = x.topk(2)
    values, index = best.values, best.index
    last, all_ = qn.scan(cell, qn.zeros(3), x)
    mask: Tensor = values > 0.5
    mask[0] = False
    size: int = x.shape[0] + int(last.sum()) + len(index)
    z = -abs(x[None, ..., 1:].reshape(-1).astype("float64")) // 2
    with qn.no_grad():
        z += 1
    s, places = x.sum(axis=(0, 1), keepdims=True), x.argmax(axis=-1)
    f: float = s.item() + z.max().item() + places.dtype.itemsize
    qn.save("/dev/null/x", p) if f > 1e9 else None
    each: Tensor = qn.vmap(lambda r: r.sum())(x)
    loader = qn.data.DataLoader(qn.data.TensorDataset(x), batch_size=4, shuffle=True)
    place: int = loader.state_dict()["epoch"] + sum(b[0].shape[0] for b in loader)
    total: int = size + each.shape[0] + all_.shape[0] + place
    return total


if __name__ == "__main__":
    main()
