"""quern.nn's modules: what they register, list, save and load; training beside evaluation, in plain steps and in
functions that are traced; layers of graphs beside their formulas."""

import os
import subprocess
import sys
import tempfile
import unittest

import quern as qn
from quern import nn
from quern.nn import functional as F

X = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [-2.0, 1.0, 0.5], [0.1, 0.2, -0.3]]


class Net(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(p))
        self.scale = nn.Parameter(qn.ones(6))
        self.register_buffer("offset", qn.zeros(6))
        self.register_buffer("scratch", qn.zeros(1), persistent=False)
        self.head = nn.Linear(6, 2, bias=False)

    def forward(self, x):
        return self.head(self.body(x) * self.scale + self.offset)


NAMES = ["scale", "offset", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "body.1.running_mean",
         "body.1.running_var", "body.1.num_batches_tracked", "head.weight"]


def loss_of(model, x, y):
    return F.cross_entropy(model(x), y)


class Registering(unittest.TestCase):
    def test_attributes_are_parameters_buffers_and_parts(self):
        net = Net()
        self.assertEqual(list(net.state_dict()), NAMES)
        self.assertEqual([n for n, _ in net.named_parameters()],
                         ["scale", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "head.weight"])
        self.assertEqual([n for n, _ in net.named_buffers()][:2], ["offset", "scratch"])
        self.assertEqual([n for n, _ in net.named_modules()][:3], ["", "body", "body.0"])
        self.assertTrue(all(p.requires_grad for p in net.parameters()))
        self.assertIsNone(net.head.bias)
        self.assertIs(net.get_parameter("body.0.weight"), net.body[0].weight)
        with self.assertRaisesRegex(TypeError, "scale is a parameter"):
            net.scale = qn.zeros(6)
        with self.assertRaisesRegex(AttributeError, "super"):
            type("Late", (nn.Module,), {"__init__": lambda self: setattr(self, "a", nn.ReLU())})()
        net.scale = None
        self.assertNotIn("scale", net.state_dict())

    def test_a_tensor_of_two_modules_is_listed_once_and_saved_twice(self):
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        b.weight = a.weight
        both = nn.ModuleList([a, b])
        self.assertEqual(len(list(both.parameters())), 3)
        self.assertEqual(len(both.state_dict()), 4)

    def test_containers(self):
        parts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Identity()})
        parts["c"] = nn.Tanh()
        self.assertEqual(list(parts), ["a", "b", "c"])
        line = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.assertEqual(list(line[1:].state_dict()), ["2.weight", "2.bias"])
        self.assertEqual(len(nn.ModuleList([nn.ReLU()]).append(nn.ReLU())), 2)
        self.assertEqual([n for n, _ in nn.ParameterList([qn.zeros(2), qn.zeros(3)]).named_parameters()], ["0", "1"])
        seen = []
        line.apply(lambda m: seen.append(type(m).__name__))
        self.assertEqual(seen, ["Linear", "ReLU", "Linear", "Sequential"])
        self.assertIn("(0): Linear(in_features=3, out_features=4, bias=True)", repr(line).replace("has_bias", "bias"))

    def test_containers_keep_names_and_places(self):
        line = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        self.assertEqual(len(line[1:].append(nn.Tanh())), 3)
        end = line[2]
        delattr(line, "0")
        line.append(nn.Tanh())
        self.assertEqual((len(line), line[1]), (3, end))
        parts = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        delattr(parts, "0")
        parts.insert(0, nn.GELU())
        parts[1] = nn.SiLU()
        self.assertEqual([(n, type(m).__name__) for n, m in parts.named_children()], [("0", "GELU"), ("1", "SiLU")])
        a, b = nn.Parameter(qn.zeros(2)), nn.Parameter(qn.zeros(3))
        many = nn.ParameterList([a, b, a])
        self.assertTrue(many[-1] is a and many[1] is b and [x is a for x in many] == [True, False, True])
        for wrong in (3, -4):
            with self.assertRaises(IndexError):
                many[wrong]
        for name in ("forward", "training", "items", "a.b", ""):
            for make in (lambda: nn.ModuleDict({name: nn.ReLU()}), lambda: nn.ParameterDict({name: a}),
                         lambda: nn.Module().register_buffer("to" if name == "items" else name, a)):
                with self.assertRaises(KeyError):
                    make()
        with self.assertRaises(KeyError):
            nn.ParameterDict({"x": a})["forward"]

    def test_a_mode_is_given_by_the_parts_own_train(self):
        class Frozen(nn.BatchNorm1d):
            def train(self, mode=True):
                return super().train(False)

        net = nn.Sequential(nn.Linear(3, 3), Frozen(3))
        net.train()
        self.assertEqual([m.training for m in net.modules()], [True, True, False])

    def test_first_values_follow_the_seed(self):
        nn.manual_seed(3)
        a = nn.Linear(4, 4).weight.tolist()
        b = nn.Linear(4, 4).weight.tolist()
        nn.manual_seed(3)
        self.assertEqual(nn.Linear(4, 4).weight.tolist(), a)
        self.assertNotEqual(a, b)
        self.assertLessEqual(max(abs(x) for row in a for x in row), 0.5)

    def test_what_is_wrong_says_so(self):
        with self.assertRaisesRegex(TypeError, "Conv2d: missing a required argument: 'kernel_size'"):
            nn.Conv2d(3, 4)
        with self.assertRaisesRegex(ValueError, "3 channels become 4 in 2 groups"):
            nn.Conv2d(3, 4, 1, groups=2)
        with self.assertRaisesRegex(ValueError, "padding_mode is 'zero'"):
            nn.Conv2d(3, 4, 1, padding_mode="zero")
        with self.assertRaisesRegex(ValueError, "kernel_size"):
            nn.Conv2d(3, 4, (1, 1, 1))
        with self.assertRaisesRegex(ValueError, "the input has 2 axes"):
            nn.BatchNorm2d(3)(qn.zeros((2, 3)))
        with self.assertRaisesRegex(TypeError, "no argument is called 'reduce'"):
            nn.MSELoss(reduce=True)


class States(unittest.TestCase):
    def test_states_load_by_name(self):
        nn.manual_seed(1)
        a, b = Net(), Net()
        x = qn.tensor(X)
        a(x).realize()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.safetensors")
            qn.save(path, a.state_dict())
            b.load_state_dict(qn.load(path))
        self.assertEqual(a.eval()(x).tolist(), b.eval()(x).tolist())
        state = dict(a.state_dict())
        state["other"] = state.pop("scale")
        with self.assertRaisesRegex(RuntimeError, "there is no scale; it has no other"):
            b.load_state_dict(state)
        found = b.load_state_dict(state, strict=False)
        self.assertEqual((found.missing_keys, found.unexpected_keys), (["scale"], ["other"]))
        with self.assertRaisesRegex(RuntimeError, r"head.weight is \(2, 6\), not \(3,\)"):
            b.load_state_dict({"head.weight": qn.zeros(3)}, strict=False)

    def test_other_dtypes(self):
        net = Net().double()
        self.assertEqual({p.dtype.name for p in net.parameters()}, {"float64"})
        self.assertEqual(net.body[1].num_batches_tracked.dtype.name, "int64")
        self.assertEqual(net(qn.tensor(X, "float64")).dtype.name, "float64")
        self.assertTrue(all(p.requires_grad for p in net.parameters()))

    def test_a_shared_tensor_stays_one_and_what_fits_stays(self):
        net = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        net[1].weight = net[0].weight
        before = list(net.parameters())
        self.assertTrue(all(a is b for a, b in zip(before, net.to(device="cpu").float().parameters())))
        self.assertIs(net.half()[0].weight, net[1].weight)
        self.assertIsNot(net[0].weight, before[0])
        self.assertEqual(len(list(net.parameters())), 3)


class Training(unittest.TestCase):
    def setUp(self):
        nn.manual_seed(2)
        self.x, self.y = qn.tensor(X), qn.tensor([0, 1, 1, 0])

    def test_a_jitted_step_is_a_plain_one(self):
        finals = []
        for way in (lambda f: f, qn.jit):
            nn.manual_seed(2)
            net = Net(0.3)
            optimizer = qn.optim.AdamW(net.parameters(), lr=0.01)

            @way
            def step(x, y):
                optimizer.zero_grad()
                loss = loss_of(net, x, y)
                loss.backward()
                optimizer.step()
                return loss
            finals.append([step(self.x, self.y).item() for _ in range(4)] + net.body[1].running_mean.tolist())
            self.assertEqual(net.body[1].num_batches_tracked.item(), 4)
        for a, b in zip(*finals):
            self.assertAlmostEqual(a, b, 5)

    def test_evaluation_changes_nothing_and_a_trace_follows_the_mode(self):
        net = Net(0.5)
        f = qn.jit(lambda x: net(x))
        net.eval()
        a = f(self.x).tolist()
        self.assertEqual(a, f(self.x).tolist())
        self.assertEqual(net.body[1].num_batches_tracked.item(), 0)
        net.train()
        b, c = f(self.x).tolist(), f(self.x).tolist()
        self.assertNotEqual(b, c)
        net.eval()
        self.assertEqual(net.body[1].num_batches_tracked.item(), 2)
        self.assertNotEqual(f(self.x).tolist(), a)

    def test_dropout_takes_no_new_plan(self):
        drop, plans = nn.Dropout(0.5), []
        ones = qn.ones(1000)
        for _ in range(4):
            y = drop(ones)
            self.assertTrue(350 < (y == 0).sum().item() < 650)
            plans.append(qn.stats()["plans"])
        self.assertEqual(plans[2], plans[3])
        state = nn.get_rng_state()
        a = drop(ones).tolist()
        nn.set_rng_state(state)
        self.assertEqual(drop(ones).tolist(), a)
        rows = nn.Dropout2d(0.5)(qn.ones((8, 9, 2, 2))).reshape(8 * 9, 4)
        self.assertTrue(((rows.max(axis=1) == rows.min(axis=1)).all()).item())

    def test_gradients_of_a_module_as_a_tree(self):
        net = Net()
        loss, slopes = qn.value_and_grad(loss_of)(net, self.x, self.y)
        self.assertIsInstance(slopes, Net)
        loss.backward() if loss.requires_grad else loss_of(net, self.x, self.y).backward()
        for p, g in zip(net.parameters(), slopes.parameters()):
            for a, b in zip(p.grad.reshape(-1).tolist(), g.reshape(-1).tolist()):
                self.assertAlmostEqual(a, b, 5)
        moved = qn.tree.map(lambda p, g: p - 0.1 * g, net, slopes)
        self.assertLess(loss_of(moved, self.x, self.y).item(), loss.item())

    def test_a_functional_call_takes_other_tensors(self):
        net = nn.Linear(3, 2)
        y = nn.functional_call(net, {"weight": qn.zeros((2, 3))}, self.x)
        self.assertEqual(y[0].tolist(), net.bias.tolist())
        g = qn.grad(lambda w: nn.functional_call(net, {"weight": w}, (self.x,)).sum())(net.weight)
        for a, b in zip(g[0].tolist(), self.x.sum(axis=0).tolist()):
            self.assertAlmostEqual(a, b, 5)

    def test_a_functional_call_replaces_a_shared_tensor_everywhere(self):
        net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        net[1].weight = old = net[0].weight
        y = nn.functional_call(net, {"0.weight": qn.eye(3)}, self.x)
        self.assertEqual(y.tolist(), self.x.tolist())
        self.assertTrue(net[0].weight is old and net[1].weight is old)
        with self.assertRaisesRegex(ValueError, "1.weight is one tensor with another name"):
            nn.functional_call(net, {"0.weight": qn.eye(3), "1.weight": qn.zeros((3, 3))}, self.x)

    def test_attention_with_a_cache_is_attention_of_all(self):
        net = nn.MultiheadAttention(6, 2, batch_first=True)
        x = qn.tensor([[[0.1 * i * j - 0.5 for j in range(6)] for i in range(4)]])
        whole, _ = net(x, x, x, is_causal=True, need_weights=False)
        cache, rows = (), []
        for t in range(4):
            one = x[:, t:t + 1]
            y, _, cache = net(one, one, one, need_weights=False, cache=cache)
            rows.append(y)
        for a, b in zip(qn.concat(rows, axis=1).reshape(-1).tolist(), whole.reshape(-1).tolist()):
            self.assertAlmostEqual(a, b, 5)

    def test_stacks_have_layers_of_their_own(self):
        net = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), 2, nn.LayerNorm(6))
        self.assertEqual(len(list(net.parameters())), 26)
        self.assertIsNot(net.layers[0].linear1.weight, net.layers[1].linear1.weight)
        self.assertIn("layers.1.self_attn.out_proj.weight", net.state_dict())
        self.assertEqual(net(qn.zeros((2, 3, 6))).shape, (2, 3, 6))
        with self.assertRaises(TypeError):
            nn.TransformerEncoder(net.layers[0], 2, enable_nested_tensors=False)

    def test_transformers_begin_and_are_asked_for_as_pytorchs(self):
        nn.manual_seed(0)
        net = nn.Transformer(4, 2, 2, 1, 8, activation=F.gelu)
        for layers in (net.encoder.layers, net.decoder.layers):
            self.assertEqual(layers[0].activation, "gelu")
        a, b = (layer.linear1.weight for layer in net.encoder.layers)
        self.assertNotEqual(a.tolist(), b.tolist())
        self.assertLessEqual(abs(a).max().item(), (6 / 12) ** 0.5)
        self.assertGreater(abs(a).max().item(), 0.5)
        x = qn.zeros((3, 1, 4))
        self.assertEqual(net(x, x).shape, (3, 1, 4))
        nn.TransformerEncoderLayer(4, 2, 8, activation=F.relu)
        with self.assertRaisesRegex(ValueError, "tanh"):
            nn.TransformerEncoderLayer(4, 2, 8, activation=F.tanh)


class Graphs(unittest.TestCase):
    EDGES = [[0, 1, 2, 2, 3], [1, 2, 0, 2, 1]]  # node 2 has a loop

    def test_convolution(self):
        net = nn.GCNConv(3, 2)
        weight, x = [2.0, 1.0, 0.5, 3.0, 1.5], qn.tensor(X)
        got = net(x, qn.tensor(self.EDGES), qn.tensor(weight)).tolist()
        h, n = (x @ net.lin.weight.T).tolist(), 4
        a = [[0.0] * n for _ in range(n)]
        for s, t, w in zip(*self.EDGES, weight):
            a[t][s] += w
        for i in range(n):
            a[i][i] = a[i][i] or 1.0
        d = [sum(row) ** -0.5 for row in a]
        for i in range(n):
            for c in range(2):
                self.assertAlmostEqual(got[i][c], sum(d[i] * a[i][j] * d[j] * h[j][c] for j in range(n)), 5)

    def test_attention(self):
        import math
        for concat in (True, False):
            net, x = nn.GATConv(3, 2, heads=2, concat=concat), qn.tensor(X)
            got = net(x, qn.tensor(self.EDGES)).tolist()
            h = (x @ net.lin.weight.T).reshape(4, 2, 2)
            src, dst = ((h * p).sum(axis=-1).tolist() for p in (net.att_src, net.att_dst))
            edges = [(s, t) for s, t in zip(*self.EDGES) if s != t] + [(i, i) for i in range(4)]
            heads = h.tolist()
            for i in range(4):
                out = []
                for k in range(2):
                    into = [s for s, t in edges if t == i]
                    e = [src[s][k] + dst[i][k] for s in into]
                    e = [math.exp(v if v > 0 else 0.2 * v) for v in e]
                    out.append([sum(w * heads[s][k][c] for w, s in zip(e, into)) / sum(e) for c in range(2)])
                wanted = out[0] + out[1] if concat else [(p + q) / 2 for p, q in zip(*out)]
                for a, b in zip(got[i], wanted):
                    self.assertAlmostEqual(a, b, 5)


class FirstDraw(unittest.TestCase):
    def test_the_first_bits_are_drawn_in_a_jitted_function(self):
        code = """
import quern as qn
from quern import nn
drop = nn.Dropout(0.5)
f = qn.jit(lambda x: drop(x))
a, b, c = [f(qn.ones(64)).tolist() for _ in range(3)]
assert a != b and b != c and {*a, *b, *c} == {0.0, 2.0}
import os
child = os.fork()
if not child:
    os._exit({*drop(qn.ones(64)).tolist()} != {0.0, 2.0})
assert os.waitpid(child, 0)[1] == 0
"""
        subprocess.run([sys.executable, "-c", code], check=True, timeout=300)


if __name__ == "__main__":
    unittest.main()
