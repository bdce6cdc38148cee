"""Optimizers and schedules beside PyTorch's, where it is installed, and by numbers worked out by hand."""

import math
import unittest

import quern as qn
from quern import lr_scheduler

try:
    import torch
except ImportError:
    torch = None

W = [[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]]
B = [0.1, -0.2]
X = [[1.0, 2.0, -1.0], [0.5, -0.5, 3.0]]


def parameters():
    w, b = qn.tensor(W), qn.tensor(B)
    w.requires_grad = b.requires_grad = True
    return w, b


def loss_of(w, b, x):
    return ((x @ w + b).tanh() ** 2).mean()


def one(value=1.0, **given):
    x = qn.tensor([value] * 3, **given)
    x.requires_grad = True
    return x


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BesidePyTorch(unittest.TestCase):
    CASES = (("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "maximize": True}),
             ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}), ("Adam", {}),
             ("Adam", {"amsgrad": True, "betas": (0.7, 0.6)}), ("AdamW", {"weight_decay": 0.3}),
             ("RMSprop", {"centered": True, "momentum": 0.5, "eps": 0.01}), ("Adagrad", {"lr_decay": 0.1}),
             ("Adadelta", {}), ("Adamax", {}), ("Adafactor", {"weight_decay": 0.1}))

    def theirs(self):
        return torch.tensor(W, requires_grad=True), torch.tensor(B, requires_grad=True)

    def near(self, ours, theirs, places=4):
        for a, b in zip(ours.reshape(-1).tolist(), theirs.detach().reshape(-1).tolist(), strict=True):
            self.assertAlmostEqual(a, b, places)

    def test_defaults_are_pytorchs(self):
        for name in qn.optim.METHODS:
            theirs = getattr(torch.optim, name, None)
            if theirs is None:
                continue
            for setting, value in theirs([torch.zeros(2, 2, requires_grad=True)]).defaults.items():
                mine = getattr(qn.optim, name)([one().reshape(3, 1)]).defaults
                if setting in mine:
                    got = mine[setting]
                    got = (got[0] or None, *got[1:]) if name == "Adafactor" and setting == "eps" else got
                    self.assertEqual(got, value, (name, setting))

    def test_twenty_steps_of_groups_under_a_schedule(self):
        for name, given in self.CASES:
            (w, b), (tw, tb) = parameters(), self.theirs()
            ours = getattr(qn.optim, name)([{"params": [w]}, {"params": b, "lr": 0.05}], **given)
            theirs = getattr(torch.optim, name)([{"params": [tw]}, {"params": tb, "lr": 0.05}], **given)
            mine = lr_scheduler.CosineAnnealingLR(ours, 8)
            other = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, 8)
            with self.subTest(name=name, given=given):
                for t in range(20):
                    ours.zero_grad(), theirs.zero_grad()
                    loss_of(w, b, qn.tensor(X)).backward()
                    loss_of(tw, tb, torch.tensor(X)).backward()
                    before = qn.optim.clip_grad_norm_([w, b], 0.1)
                    self.assertAlmostEqual(before.item(), torch.nn.utils.clip_grad_norm_([tw, tb], 0.1).item(), 3)
                    ours.step(), theirs.step(), mine.step(), other.step()
                    w.realize()
                    if t == 2:
                        settled = qn.stats()
                for what in ("plans", "compiles"):
                    self.assertEqual(qn.stats()[what], settled[what])
                self.near(w, tw)
                self.near(b, tb)

    def test_states_load_by_name(self):
        for name, given in self.CASES:
            (w, b), (tw, tb) = parameters(), self.theirs()
            theirs = getattr(torch.optim, name)([tw, tb], **given)
            for _ in range(3):
                theirs.zero_grad()
                loss_of(tw, tb, torch.tensor(X)).backward()
                theirs.step()
            ours = getattr(qn.optim, name)([w, b])
            ours.load_state_dict(theirs.state_dict())
            with qn.no_grad():
                w.assign(qn.tensor(tw.detach())), b.assign(qn.tensor(tb.detach()))
            with self.subTest(name=name, given=given):
                for _ in range(3):
                    ours.zero_grad(), theirs.zero_grad()
                    loss_of(w, b, qn.tensor(X)).backward()
                    loss_of(tw, tb, torch.tensor(X)).backward()
                    ours.step(), theirs.step()
                self.near(w, tw)

    def test_schedules(self):
        cases = (("ConstantLR", {"factor": 0.5}), ("StepLR", {"step_size": 3}), ("ExponentialLR", {"gamma": 0.9}),
                 ("LinearLR", {"end_factor": 0.5}), ("LinearLR", {"start_factor": 1.0, "end_factor": 0.0}),
                 ("PolynomialLR", {"power": 2.0, "total_iters": 12}), ("CosineAnnealingLR", {"T_max": 7}),
                 ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
                 ("CosineAnnealingWarmRestarts", {"T_0": 4}), ("MultiStepLR", {"milestones": [2, 5, 5, 9]}),
                 ("LambdaLR", {"lr_lambda": lambda t: 1 / (1 + t)}), ("OneCycleLR", {"max_lr": 0.5, "total_steps": 30}),
                 ("OneCycleLR", {"max_lr": 0.5, "epochs": 10, "steps_per_epoch": 3, "three_phase": True,
                                 "anneal_strategy": "linear"}))
        for name, given in cases:
            for method in ("SGD", "Adam"):
                also = {"momentum": 0.9} if method == "SGD" else {}
                ours = getattr(qn.optim, method)([one()], lr=0.3, **also)
                theirs = getattr(torch.optim, method)([torch.zeros(3, requires_grad=True)], lr=0.3, **also)
                mine = getattr(lr_scheduler, name)(ours, **given)
                other = getattr(torch.optim.lr_scheduler, name)(theirs, **given)
                with self.subTest(name=name, given=given):
                    for t in range(29):
                        self.assertAlmostEqual(ours.param_groups[0]["lr"], theirs.param_groups[0]["lr"], 9, t)
                        for m in ("momentum", "betas"):
                            a, b = ours.param_groups[0].get(m), theirs.param_groups[0].get(m)
                            for x, y in zip([a] if m == "momentum" else a or (), [b] if m == "momentum" else b or ()):
                                if x is not None:
                                    self.assertAlmostEqual(x, y, 9)
                        theirs.step(), mine.step(), other.step()

    def test_sequences_and_plateaus(self):
        ours, theirs = qn.optim.SGD([one()], lr=0.3), torch.optim.SGD([torch.zeros(3, requires_grad=True)], lr=0.3)

        def sequence(at, o):
            return at.SequentialLR(o, [at.LinearLR(o, 0.1, total_iters=4), at.StepLR(o, 2, 0.5)], [4])

        mine, other = sequence(lr_scheduler, ours), sequence(torch.optim.lr_scheduler, theirs)
        for _ in range(10):
            self.assertAlmostEqual(ours.param_groups[0]["lr"], theirs.param_groups[0]["lr"], 9)
            theirs.step(), mine.step(), other.step()
        for given in ({}, {"mode": "max", "patience": 1, "cooldown": 2}, {"patience": 0, "threshold_mode": "abs"}):
            mine = lr_scheduler.ReduceLROnPlateau(ours, **given)
            other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **given)
            for t in range(40):
                metric = math.sin(t / 3) + 2
                mine.step(metric), other.step(metric)
                self.assertAlmostEqual(ours.param_groups[0]["lr"], theirs.param_groups[0]["lr"], 9, (given, t))


class Optimizers(unittest.TestCase):
    def test_every_method_goes_down(self):
        for name in qn.optim.METHODS:
            p = qn.tensor([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]])
            p.requires_grad = True
            optimizer = getattr(qn.optim, name)([p], lr=0.1)
            before = (p * p).sum().item()
            for _ in range(5):
                optimizer.zero_grad()
                (p * p).sum().backward()
                optimizer.step()
            with self.subTest(name=name):
                self.assertLess((p * p).sum().item(), before)

    def test_a_momentum_that_cycles_is_data(self):
        p = one()
        optimizer = qn.optim.Adam([p])
        schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, 20)
        for t in range(10):
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()
            p.realize()
            if t == 1:
                plans = qn.stats()["plans"]
            schedule.step()
        self.assertEqual(qn.stats()["plans"], plans)

    def test_a_setting_that_changes_is_no_new_plan(self):
        changes = {"AdamW": {"weight_decay": 1e-3, "eps": 1e-6, "betas": (0.8, 0.99)},
                   "SGD": {"momentum": 0.5, "weight_decay": 1e-3}, "RMSprop": {"alpha": 0.8, "eps": 1e-6}}
        for name, settings in changes.items():
            p = one()
            optimizer = getattr(qn.optim, name)([p], **{n: v for n, v in settings.items()})
            for t in range(6):
                optimizer.zero_grad()
                (p * p).sum().backward()
                optimizer.step()
                p.realize()
                if t == 1:
                    before = qn.stats()
                for what, value in settings.items():
                    part = 1 + 0.01 * t
                    optimizer.param_groups[0][what] = (value[0] * part, value[1]) if what == "betas" else value * part
            self.assertEqual([qn.stats()[n] for n in ("plans", "compiles")], [before["plans"], before["compiles"]])

    def test_what_has_no_gradient_rests(self):
        p, q = one(), one()
        optimizer = qn.optim.SGD([p, q], lr=0.5, momentum=0.9)
        (p.sum() * 2 + q.sum()).backward()
        optimizer.step()
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()
        self.assertEqual(q.tolist(), [0.5] * 3)
        self.assertAlmostEqual(p.tolist()[0], 1 - 0.5 * 2 - 0.5 * (0.9 * 2 + 1), 6)
        steps = [optimizer.state_dict()["state"][k]["step"].item() for k in (0, 1)]
        self.assertEqual(steps, [2, 1])

    def test_a_closure_gives_the_loss(self):
        p = one()
        optimizer = qn.optim.SGD([p], lr=0.25)

        def closure():
            optimizer.zero_grad()
            loss = (p * p).sum()
            loss.backward()
            return loss

        self.assertEqual([round(optimizer.step(closure).item(), 6) for _ in range(3)], [3.0, 0.75, 0.1875])

    def test_steps_are_traced(self):
        w, b = parameters()
        other, another = parameters()
        optimizer = qn.optim.AdamW([w, b], lr=qn.tensor(0.1))
        plain = qn.optim.AdamW([other, another], lr=0.1)
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.8)
        same = lr_scheduler.ExponentialLR(plain, 0.8)

        @qn.jit
        def step(x):
            optimizer.zero_grad()
            loss = loss_of(w, b, x)
            loss.backward()
            optimizer.step()
            return loss

        for _ in range(6):
            traced = step(qn.tensor(X)).item()
            schedule.step()
            plain.zero_grad()
            loss = loss_of(other, another, qn.tensor(X))
            loss.backward()
            plain.step()
            same.step()
            self.assertAlmostEqual(traced, loss.item(), 6)
        self.assertLessEqual(step.traces, 2)

    def test_numbers_and_counts_of_traced_steps(self):
        """Traced again, beside steps that are not, and with a parameter that rests."""
        def make(wrap, method, lr):
            p, q = one(), one()
            optimizer = getattr(qn.optim, method)([p, q], lr=lr())

            def step(x, both):
                optimizer.zero_grad()
                loss = (x * p * p).sum() + ((q * q).sum() if both else 0.0)
                loss.backward()
                optimizer.step()
                return loss
            f, told = wrap(step), []
            for n, both in ((1, False), (1, False), (1, False), (2, True), (1, False)):
                f(qn.ones((n, 1)).realize(), both)
                told.append((p.tolist(), q.tolist()))
            step(qn.ones((1, 1)), True)
            return told + [p.tolist(), q.tolist()] + [s["step"].item() for s in optimizer.state.values()]
        for method in ("Adam", "SGD", "Adagrad"):
            for lr in (lambda: 0.125, lambda: qn.tensor(0.125)):
                wanted, found = make(lambda f: f, method, lr), make(qn.jit, method, lr)
                self.assertEqual(found[-2:], [6.0, 2.0])
                for a, b in zip(qn.tree.leaves(found), qn.tree.leaves(wanted), strict=True):
                    self.assertAlmostEqual(a, b, 5)

    def test_a_given_zero_is_zero(self):
        def rates(make, steps=6):
            optimizer = qn.optim.SGD([one()], lr=0.5)
            schedule = make(optimizer)
            found = [optimizer.param_groups[0]["lr"]]
            for k in range(steps):
                schedule.step(*((1.0 - k * 1e-6,) if hasattr(schedule, "plateaus") else ()))
                found.append(optimizer.param_groups[0]["lr"])
            return found
        lrs = qn.optim.lr_scheduler
        self.assertEqual(rates(lambda o: lrs.StepLR(o, 2, gamma=0.0), 3), [0.5, 0.5, 0.0, 0.0])
        self.assertEqual(rates(lambda o: lrs.ExponentialLR(o, 0.0), 2), [0.5, 0.0, 0.0])
        self.assertEqual(rates(lambda o: lrs.PolynomialLR(o, 2, power=0.0), 4), [0.5] * 5)
        self.assertEqual(rates(lambda o: lrs.ConstantLR(o, 0.0, 2), 3), [0.0, 0.0, 0.5, 0.5])
        self.assertEqual(rates(lambda o: lrs.ReduceLROnPlateau(o, patience=1, threshold=0.0)), [0.5] * 7)
        self.assertEqual(rates(lambda o: lrs.ReduceLROnPlateau(o, patience=0, factor=0.0), 2), [0.5, 0.5, 0.0])
        tiny = qn.optim.SGD([one()], lr=1e-9)
        plateau = lrs.ReduceLROnPlateau(tiny, patience=0, factor=0.5, eps=0.0)
        for _ in range(2):
            plateau.step(1.0)
        self.assertEqual(tiny.param_groups[0]["lr"], 5e-10)
        with self.assertRaisesRegex(ValueError, "div_factor"):
            lrs.OneCycleLR(tiny, 1.0, total_steps=4, div_factor=0.0)

    def test_bad_settings_say_which(self):
        p = one()
        for call, error, text in ((lambda: qn.optim.SGD([]), ValueError, "no parameters"),
                                  (lambda: qn.optim.SGD([p], lrr=1), TypeError, "lrr"),
                                  (lambda: qn.optim.SGD([1.0]), TypeError, "parameter 0 is float"),
                                  (lambda: qn.optim.SGD([p, p]), ValueError, "there already"),
                                  (lambda: qn.optim.Adam([p], betas=(1.0, 0.9)), ValueError, "beta1 is 1"),
                                  (lambda: qn.optim.Muon([p]), ValueError, "matrices"),
                                  (lambda: lr_scheduler.StepLR(qn.optim.SGD([p])), TypeError, "step_size"),
                                  (lambda: lr_scheduler.OneCycleLR(qn.optim.Adagrad([p]), 1, 9), ValueError,
                                   "momentum")):
            with self.assertRaisesRegex(error, text):
                call()


class Beside(unittest.TestCase):
    def test_scales_fall_with_steps_that_are_none(self):
        p = one()
        optimizer = qn.optim.SGD([p], lr=0.5)
        scaler = qn.optim.GradScaler(init_scale=4.0, growth_interval=2)
        found = []
        for g in (1.0, math.inf, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((p * qn.tensor([g, 1.0, 1.0])).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append((p.tolist()[0], scaler.get_scale()))
        self.assertEqual(found, [(0.5, 4.0), (0.5, 2.0), (0.0, 2.0), (-0.5, 4.0)])
        again = qn.optim.GradScaler()
        again.load_state_dict(scaler.state_dict())
        self.assertEqual(again.get_scale(), 4.0)

    def test_averages_begin_as_the_first_value(self):
        p = one()
        ema = qn.optim.EMA([p], decay=0.75)
        wanted = None
        for value in (4.0, 8.0, 0.0):
            with qn.no_grad():
                p.assign(qn.full_like(p, value))
            ema.update()
            wanted = value if wanted is None else 0.75 * wanted + 0.25 * value
            self.assertAlmostEqual(ema.averages[0].tolist()[0], wanted, 6)
        ema.swap()
        self.assertAlmostEqual(p.tolist()[0], wanted, 6)
        ema.swap()
        self.assertEqual(p.tolist()[0], 0.0)

    def test_elements_of_gradients_are_held_within(self):
        p = one()
        (p * qn.tensor([3.0, -5.0, 0.25])).sum().backward()
        qn.optim.clip_grad_value_([p], 1.0)
        self.assertEqual(p.grad.tolist(), [1.0, -1.0, 0.25])


if __name__ == "__main__":
    unittest.main()
