"""quern.export: programs of C, compiled, called and held against what Python computes, bit by bit."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import quern as qn
from quern import nn, optim

CC = shutil.which(os.environ.get("CC", "cc"))
FLAGS = "-std=c99 -O2 -Wall -Wextra -Werror -ffp-contract=off -fPIC -shared".split()


def aligned(size, align):
    """Bytes, of which the first lies where it should, and what holds them."""
    held = ctypes.create_string_buffer(size + align)
    return ctypes.addressof(held) + -ctypes.addressof(held) % align, held


class Program:
    """An exported program, its library and its state."""

    def __init__(self, folder, exported, blob=None):
        self.name = exported.name
        text = (Path(folder) / f"{self.name}.h").read_text()
        self.numbers = {k: int(v) for k, v in re.findall(rf"#define {self.name.upper()}_(\w+) (-?\d+)\n", text)}
        self.text, self.states = text, list(exported.states)
        path = Path(folder) / f"{self.name}.so"
        subprocess.run([CC, *FLAGS, str(Path(folder) / f"{self.name}.c"), "-o", str(path), "-lm"], check=True)
        self.library = ctypes.CDLL(str(path))
        self.run_c = getattr(self.library, f"{self.name}_run")
        self.weights = [self.memory("WEIGHTS_BYTES", blob)] if blob else []
        self.state = [self.memory("STATE_BYTES")] if self.states else []
        if self.states:
            getattr(self.library, f"{self.name}_init")(*self.pointers(self.state + self.weights))

    def memory(self, size, data=b""):
        at, held = aligned(self.numbers[size], self.numbers["ALIGN"])
        ctypes.memmove(at, data, len(data))
        return at, held

    @staticmethod
    def pointers(memory):
        return [ctypes.c_void_p(at) for at, _ in memory]

    def __call__(self, *inputs):
        """The outputs' bytes."""
        given = [self.memory(f"INPUT_{i}_BYTES", x.tobytes()) for i, x in enumerate(inputs)]
        out = [self.memory(f"OUTPUT_{i}_BYTES") for i in range(self.numbers["OUTPUTS"])]
        everything = given + out + self.state + self.weights + [self.memory("ARENA_BYTES")]
        self.run_c(*self.pointers(everything))
        return [ctypes.string_at(at, self.numbers[f"OUTPUT_{i}_BYTES"]) for i, (at, _) in enumerate(out)]

    def value(self, name):
        """A state's bytes."""
        i = self.states.index(name)
        return ctypes.string_at(self.state[0][0] + self.numbers[f"STATE_{i}_OFFSET"], self.numbers[f"STATE_{i}_BYTES"])


def conv_net():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(8 * 4 * 4, 5))


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "net.c")
        nn.manual_seed(3)

    def tearDown(self):
        self.folder.cleanup()

    def program(self, exported, blob=None):
        return Program(self.folder.name, exported, blob)


@unittest.skipUnless(CC, "needs a C compiler")
class Inference(Case):
    def test_a_perceptron_with_its_weights(self):
        net = nn.Sequential(nn.Linear(20, 33), nn.GELU(), nn.Linear(33, 7))
        x = qn.randn(qn.key(1), (5, 20))
        for f in (net, lambda x: net(x), qn.jit(net), net.forward):
            exported = qn.export(f, self.path, x)
            self.assertEqual(exported, ("net", ("x",), ("output",), {}))
            run = self.program(exported)
            for seed in range(3):
                x = qn.randn(qn.key(seed), (5, 20))
                self.assertEqual(run(x), [net(x).tobytes()])

    def test_a_network_of_convolutions(self):
        net = conv_net()
        net[1].running_mean.assign(qn.randn(qn.key(4), (8,)))
        net.eval()
        x = qn.randn(qn.key(1), (2, 3, 8, 8))
        run = self.program(qn.export(net, self.path, x))
        self.assertEqual(run(x), [net(x).tobytes()])

    def test_a_blob_has_the_weights(self):
        net = nn.Linear(16, 8)
        x = qn.randn(qn.key(1), (3, 16))
        blob = Path(self.folder.name) / "net.bin"
        exported = qn.export(net, Path(self.path), x, blob=blob, name="other")
        self.assertEqual(exported.name, "other")
        os.rename(Path(self.folder.name) / "net.c", Path(self.folder.name) / "other.c")
        os.link(Path(self.folder.name) / "net.h", Path(self.folder.name) / "other.h")
        data = blob.read_bytes()
        self.assertEqual(len(data), 576)
        run = self.program(exported, data)
        self.assertEqual(run(x), [net(x).tobytes()])
        self.assertNotEqual(self.program(exported, bytes(576))(x), [net(x).tobytes()])

    def test_trees_are_inputs_and_outputs_in_their_order(self):
        def f(pair, scale, *rest, **more):
            return {"b": pair["y"] * scale, "a": [pair["x"] + rest[0], None, more["last"] - 1]}

        a, b, c, d = (qn.full((2,), v) for v in (1.0, 2.0, 3.0, 4.0))
        exported = qn.export(f, self.path, {"y": a, "x": b}, 3.0, c, last=d)
        self.assertEqual(exported.inputs, ("pair.x", "pair.y", "rest.0", "more.last"))
        self.assertEqual(exported.outputs, ("a.0", "a.2", "b"))
        wanted = [b + c, d - 1, a * 3.0]
        self.assertEqual(self.program(exported)(b, a, c, d), [y.tobytes() for y in wanted])

    def test_dtypes_and_inputs_that_are_given_twice_or_not_used(self):
        def f(x, y, z, i):
            return x + y, i * 2, x

        x, z, i = qn.ones(3, "float64"), qn.ones(1), qn.tensor([1, -2], "int8")
        exported = qn.export(f, self.path, x, x, z, i)
        self.assertEqual(exported.inputs, ("x", "z", "i"))
        x = x * 0.1
        self.assertEqual(self.program(exported)(x, z, i), [y.tobytes() for y in f(x, x, z, i)])

    def test_an_argument_that_is_found_outside_is_an_input(self):
        w = qn.tensor([1.0, 2.0])
        exported = qn.export(lambda x: x + w, self.path, w)
        self.assertEqual(self.program(exported)(qn.tensor([3.0, 5.0])), [qn.tensor([6.0, 10.0]).tobytes()])

    def test_indices_outside_are_0_and_checked_again_afterwards(self):
        w = qn.tensor([1.0, 2.0, 3.0])
        i = qn.tensor([0, 7])
        run = self.program(qn.export(lambda i: w.take(i, axis=0), self.path, i))
        self.assertEqual(run(qn.tensor([2, 7])), [qn.tensor([3.0, 0.0]).tobytes()])
        with self.assertRaises(IndexError):
            w.take(i, axis=0).tolist()


@unittest.skipUnless(CC, "needs a C compiler")
class Training(Case):
    def steps(self, step, exported, batches):
        """Some steps of the program beside as many of a jit; all states afterwards."""
        run, jitted = self.program(exported), qn.jit(step)
        for batch in batches:
            self.assertEqual(run(*batch), [y.tobytes() for y in qn.tree.leaves(jitted(*batch))])
        for name, x in exported.states.items():
            self.assertEqual(run.value(name), x.tobytes(), name)
        return run

    def test_steps_of_an_optimizer(self):
        net = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 4))
        optimizer = optim.Adam(net.parameters(), lr=0.01)

        def step(x, label):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), label)
            loss.backward()
            optimizer.step()
            return loss

        batches = [(qn.randn(qn.key(k), (8, 12)), qn.tensor([k % 4] * 8, "int32")) for k in range(4)]
        exported = qn.export(step, self.path, *batches[0])
        self.assertEqual(list(exported.states)[:2], ["net.0.weight", "net.0.bias"])
        self.assertIs(exported.states["net.2.weight.exp_avg"], optimizer.state[id(net[2].weight)]["exp_avg"])
        self.assertEqual(len(exported.states), 16)
        run = self.steps(step, exported, batches)
        self.assertIn('state 0, "net.0.weight": elements are f32', run.text)
        self.assertEqual(Path(self.path).read_text().count("memcpy((void *)(kept + "), 16 + 4)  # first values; counts
        self.assertEqual(optimizer.state[id(net[0].weight)]["step"].item(), 4.0)

    def test_running_means_and_keys_of_dropout(self):
        net = nn.Sequential(conv_net(), nn.Dropout(0.5))
        x = qn.randn(qn.key(1), (2, 3, 8, 8))
        exported = qn.export(net, self.path, x)
        self.assertLessEqual({"0.1.running_mean", "0.1.running_var", "nn.random.key"}, set(exported.states))
        batches = [(qn.randn(qn.key(k), (2, 3, 8, 8)),) for k in range(3)]
        with qn.no_grad():
            self.steps(net, exported, batches)

    def test_states_that_change_places_and_counters_without_outputs(self):
        a, b, n = qn.tensor([1.0, 2.0]), qn.tensor([3.0, 4.0]), qn.tensor(0, "int32")

        def step():
            nonlocal n
            c = a * 1
            a.assign(b)
            b.assign(c + n)
            n += 1

        exported = qn.export(step, self.path)
        self.assertEqual((exported.inputs, exported.outputs, set(exported.states)), ((), (), {"a", "b", "n"}))
        self.assertEqual(n.item(), 0)
        self.steps(step, exported, [()] * 3)
        self.assertEqual((n.item(), a.tolist(), b.tolist()), (3, [4.0, 5.0], [3.0, 4.0]))

    def test_states_that_go_round(self):
        a, b, c = (qn.tensor([float(k), -0.0]) for k in range(3))

        def step():
            first = a * 1
            a.assign(b)
            b.assign(c)
            c.assign(first)
            return first

        self.steps(step, qn.export(step, self.path), [()] * 4)
        self.assertEqual([t.tolist()[0] for t in (a, b, c)], [1, 2, 0])

    def test_a_constant_behind_the_step_of_an_optimizer(self):
        w, fixed = qn.ones(2), qn.full((2,), 3.0).realize()
        w.requires_grad = True
        optimizer = optim.SGD([w], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = (w * x).sum()
            loss.backward()
            optimizer.step()
            w.assign(fixed)
            return loss

        exported = qn.export(step, self.path, qn.ones(2))
        self.assertEqual((len(exported.states), w.tolist()), (2, [1.0, 1.0]))  # and a count of steps
        run = self.program(exported)
        self.assertEqual([run(qn.ones(2))[0] for _ in range(2)], [qn.tensor(v).tobytes() for v in (2.0, 6.0)])

    def test_states_that_get_constants_and_what_does_not_change(self):
        a, b, fixed = qn.tensor([1.0, -0.0]), qn.tensor([True, False]), qn.tensor([-0.0, 7.0])

        def step():
            out = a * 1
            a.assign(fixed)
            b.assign(qn.zeros_like(b))
            return out, b | False

        exported = qn.export(step, self.path)
        self.assertEqual(set(exported.states), {"a", "b"})
        run = self.steps(step, exported, [()] * 2)
        self.assertEqual(run()[0], fixed.tobytes())

    def test_gradients_that_are_added_up_are_states(self):
        w = qn.tensor([1.0, 2.0])
        w.requires_grad = True
        w.grad = qn.tensor([10.0, 20.0])

        def add(x):
            (w * x).sum().backward()

        x = qn.tensor([1.0, 3.0])
        exported = qn.export(add, self.path, x)
        self.assertEqual(list(exported.states), ["w.grad"])
        self.assertEqual(w.grad.tolist(), [10.0, 20.0])
        run = self.program(exported)
        for _ in range(2):
            run(x)
        self.assertEqual(run.value("w.grad"), qn.tensor([12.0, 26.0]).tobytes())

    def test_what_was_assigned_before_is_done_and_the_program_begins_with_it(self):
        w, other = qn.tensor([1.0]), qn.tensor([5.0])
        with qn.no_grad():
            w += 1
            other += 1

        def step():
            w.assign(w * 2)
            return w + 0

        exported = qn.export(step, self.path)
        self.assertEqual(list(exported.states), ["w"])
        run = self.program(exported)
        self.assertEqual([run()[0], run()[0]], [qn.tensor([4.0]).tobytes(), qn.tensor([8.0]).tobytes()])
        self.assertEqual((w.tolist(), other.tolist()), ([2.0], [6.0]))


    def test_what_was_assigned_before_is_no_state_of_a_program_that_knows_nothing_of_it(self):
        w = qn.tensor([5.0])
        w.assign(w + 1)
        exported = qn.export(lambda x: x * 2, self.path, qn.ones(1))
        run = self.program(exported)
        self.assertEqual(run.numbers["STATES"], 0)
        self.assertEqual((run(qn.ones(1)), w.tolist()), ([qn.tensor([2.0]).tobytes()], [6.0]))


class Afterwards(Case):
    def test_nothing_has_changed(self):
        net = conv_net()
        optimizer = optim.AdamW(net.parameters(), lr=0.05)

        def step(x, y):
            optimizer.zero_grad()
            loss = ((net(x) - y) ** 2).mean()
            loss.backward()
            optim.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            net[0].weight.requires_grad = False
            return loss

        x, y = qn.randn(qn.key(1), (2, 3, 8, 8)), qn.randn(qn.key(2), (2, 5))
        ((net(x) - y) ** 2).mean().backward()
        optimizer.step()
        kept = {**net.state_dict(), **{f"{k}.{n}": t for k, s in optimizer.state.items() for n, t in s.items()},
                "x": x, "y": y, "key": nn.random.generator.key}

        def all_of():
            return ({k: (id(t), t.tobytes(), t.requires_grad, t.dtype) for k, t in kept.items()},
                    [(id(p.grad), p.grad.tobytes()) for p in net.parameters()], nn.get_rng_state(),
                    qn.is_no_grad() if hasattr(qn, "is_no_grad") else None)

        before, handle = all_of(), qn._core.handle_copy(net[0].weight)
        qn.export(step, self.path, x, y)
        self.assertTrue(qn._core.same_handle(net[0].weight, handle))
        self.assertEqual(all_of(), before)
        with self.assertRaisesRegex(RuntimeError, "\"draw\""):
            qn.export(lambda x, y: step(x, y) + qn.gamma(qn.key(1), x[0, 0]).sum(), self.path, x, y)
        with self.assertRaises(ZeroDivisionError):
            qn.export(lambda x, y: step(x, y) / (1 // 0), self.path, x, y)
        self.assertEqual(all_of(), before)
        loss = ((net(x) - y) ** 2).mean()  # and it all goes on
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        self.assertEqual(optimizer.state[id(net[0].weight)]["step"].item(), 2.0)

    def test_what_python_changes_is_told(self):
        count = [0]

        def f(x):
            count[0] += 1
            return x

        with self.assertWarnsRegex(RuntimeWarning, r"export: f changed count\[0\]"):
            qn.export(f, self.path, qn.ones(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            qn.export(lambda x: x + 1, self.path, qn.ones(1))


class Mistakes(Case):
    def refused(self, kind, text, f, *args, **keywords):
        with self.assertRaisesRegex(kind, text):
            qn.export(f, keywords.pop("path", self.path), *args, **keywords)
        self.assertEqual(os.listdir(self.folder.name), [])

    def test_arguments_that_change(self):
        x = qn.ones(2)

        def add(x):
            x += 1
            return x

        self.refused(ValueError, "add changes argument x, and a program's inputs stay", add, x)
        x.requires_grad = True
        self.refused(ValueError, "slope changes the gradient of argument p.w", slope, {"w": x})
        self.assertEqual((x.tolist(), x.grad), ([1.0, 1.0], None))

    def test_gradients_without_a_place(self):
        w = qn.ones(2)
        w.requires_grad = True

        def back(x):
            (w * x).sum().backward()
            return x

        self.refused(ValueError, "back leaves a gradient in w, which", back, qn.ones(2))

        def late(x):
            (w * x).sum().backward()
            total = w.grad.sum()
            w.grad = None
            return total

        qn.export(late, self.path, qn.ones(2))
        os.remove(self.path)
        os.remove(self.path[:-1] + "h")
        w.grad = qn.ones(2)
        self.refused(ValueError, "late uses the gradient that w has now, and clears it", late, qn.ones(2))
        self.assertEqual(w.grad.tolist(), [1.0, 1.0])

    def test_what_is_no_tensor(self):
        x = qn.ones(2)
        self.refused(TypeError, "export: loss of what .* gives is 1.5", lambda x: {"loss": 1.5}, x)
        self.refused(ValueError, "gives no tensor and changes none", lambda x: None, x)
        self.refused(TypeError, r"argument \{1\} of .* is neither", lambda x, y: x, x, {1})
        self.refused(RuntimeError, "is not known while a function is traced", lambda x: x if x.sum() > 0 else -x, x)

    def test_the_librarys_errors(self):
        a = qn.tensor([[2.0, 0.5], [0.5, 1.0]])
        self.refused(RuntimeError, "export: .*cholesky", qn.linalg.cholesky, a)
        self.refused(RuntimeError, "export: the graph calls \"draw\"", lambda x: qn.gamma(qn.key(1), x), a)
        self.refused(ValueError, "net.txt\" is no path of a .c file", qn.tanh, a, path=self.path[:-1] + "txt")
        self.refused(ValueError, "\"1st\" is no name of C", qn.tanh, a, name="1st")
        self.refused(ValueError, "are one file", qn.tanh, a, blob=self.path)
        self.refused(OSError, "nowhere", qn.tanh, a, path=self.folder.name + "/nowhere/net.c")
        self.refused(RuntimeError, "device ref has no plans", qn.tanh, a.to("ref"))
        self.assertEqual(a.tolist(), [[2.0, 0.5], [0.5, 1.0]])

    def test_within_a_trace(self):
        def f(x):
            qn.export(qn.tanh, self.path, x)
            return x

        with self.assertRaisesRegex(RuntimeError, "a trace is open already"):
            qn.jit(f)(qn.ones(1))

    def test_devices_of_work_groups(self):
        program = "import quern as qn; qn.export(qn.tanh, '/dev/null/net.c', qn.tensor([1.0], device='opencl'))"
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                               env={**os.environ, "PYTHONPATH": str(Path(qn.__file__).parents[1])})
        if "cannot be opened" in found.stderr:
            self.skipTest("there is no such device")
        self.assertIn("RuntimeError: export: device opencl has kernels for work groups; make the plan on cpu",
                      found.stderr)


def slope(p):
    (p["w"] * 2).sum().backward()
    return p["w"] + 0


if __name__ == "__main__":
    unittest.main()
