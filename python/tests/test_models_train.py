"""models/ in training: beside modules of PyTorch from equal weights on equal data, and, wherever it runs, that losses
fall, that the same seed gives the same bits, and that a jitted step is a plain one."""

import os
import sys
import unittest
import unittest.mock
from typing import Any, NamedTuple

import quern as qn
from quern import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "models"))

import dit  # noqa: E402
import gan  # noqa: E402
import gcn  # noqa: E402
import gpt2  # noqa: E402
import llama  # noqa: E402
import lstm  # noqa: E402
import mlp  # noqa: E402
import moe  # noqa: E402
import resnet  # noqa: E402
import unet  # noqa: E402
import vae  # noqa: E402
import vit  # noqa: E402

try:
    import numpy as np
    import torch
    from . import torch_models as plain
except ImportError:
    torch = None
try:
    import torchvision
except ImportError:
    torchvision = None
try:
    import torch_geometric
except ImportError:
    torch_geometric = None
try:
    import transformers
except ImportError:
    transformers = None


# ---- small ones of each --------------------------------------------------------------------------


def floats(seed, *shape):
    return qn.randn(qn.key(seed), shape).realize()


def labels(seed, classes, *shape):
    return qn.randint(qn.key(seed), 0, classes, shape).cast("int64").realize()


def blobs():
    """Images of which one half is lighter, and which half that is."""
    which = labels(3, 2, 4, 1, 1, 1)
    left = (qn.arange(23) < 11).reshape(1, 1, 1, 23)
    light = qn.where(left, 1 - which, which)
    return (floats(4, 4, 2, 19, 23) * 0.5 + light).realize(), qn.broadcast_to(light, (4, 1, 19, 23))[:, 0].realize()


def graph():
    """A ring of 24 nodes with chords, one loop and one edge twice, and labels of some nodes."""
    at = qn.arange(24)
    edges = qn.concat([qn.stack([at, (at + 1) % 24]), qn.stack([(at + 1) % 24, at]), qn.stack([at, (at * 5 + 2) % 24]),
                       qn.tensor([[3, 4], [3, 5]])], axis=1).realize()
    return floats(5, 24, 6), edges, labels(6, 3, 10), qn.arange(0, 20, 2)


class Case(NamedTuple):
    ours: Any           # makes a model
    theirs: Any         # its reference, None: that of another package
    data: Any           # makes what a loss takes
    loss: str           # theirs, a function of torch_models
    output: Any         # of (model, *data): what both compute in evaluation
    falls: float        # how far the loss falls in 20 steps
    method: str = "Adam"
    settings: Any = {"lr": 0.01}
    our_loss: Any = lambda model, *data: model.loss(*data)


def classes(model, x, *_):
    return model(x)


CASES = {
    "mlp": Case(lambda: mlp.MLP(12, (16, 8, 3)), lambda: plain.mlp(12, (16, 8, 3)),
                lambda: (floats(1, 20, 12), labels(2, 3, 20)), "label_loss", classes, 0.65),
    "mlp by momentum": Case(lambda: mlp.MLP(12, (16, 8, 3)), lambda: plain.mlp(12, (16, 8, 3)),
                            lambda: (floats(1, 20, 12), labels(2, 3, 20)), "label_loss", classes, 0.87, "SGD",
                            {"lr": 0.05, "momentum": 0.9}),
    "lstm": Case(lambda: lstm.LSTM(13, 10, 12, 2, 0.0), lambda: plain.LSTM(13, 10, 12, 2),
                 lambda: (labels(2, 13, 4, 10),), "next_loss",
                 lambda m, ids: m(ids)[0] if isinstance(m, nn.Module) else m(ids), 0.94),
    "vit": Case(lambda: vit.ViT(16, 4, 2, 2, 16, num_classes=4), lambda: plain.ViT(16, 4, 2, 2, 16, 4),
                lambda: (floats(1, 6, 3, 16, 16), labels(2, 4, 6)), "label_loss", classes, 0.15),
    "unet": Case(lambda: unet.UNet(2, 2, False, 4), lambda: plain.UNet(2, 2, False, 4), blobs, "unet_loss", classes,
                 0.5),
    "unet of one class, resized": Case(lambda: unet.UNet(2, 1, True, 4), lambda: plain.UNet(2, 1, True, 4), blobs,
                                       "unet_loss", classes, 0.6),
    "vae": Case(lambda: vae.VAE(30, 20, 5), lambda: plain.VAE(30, 20, 5),
                lambda: (floats(1, 8, 30).sigmoid().realize(), floats(2, 8, 5)), "vae_loss",
                lambda m, x, noise: m(x, noise)[0], 0.93),
    "gcn": Case(lambda: gcn.GCN(6, 8, 3, 3, 0.0), lambda: plain.GCN(6, 8, 3, 3), graph, "node_loss",
                lambda m, x, edges, *_: m(x, edges), 0.85),
    "llama": Case(lambda: llama.Llama(17, 16, 2, 4, 2, 24),
                  lambda: plain.Llama(17, 16, 2, 4, 2, lambda: plain.LlamaMLP(16, 24)),
                  lambda: (labels(2, 17, 3, 9),), "next_loss", classes, 0.35),
    "moe": Case(lambda: moe.Mixtral(17, 16, 2, 4, 2, 12, 5, 2, base=1e4),
                lambda: plain.Llama(17, 16, 2, 4, 2, lambda: plain.Mixture(16, 12, 5, 2)),
                lambda: (labels(2, 17, 3, 9),), "mixture_loss", classes, 0.35,
                our_loss=lambda m, ids: m.loss(ids, balance=0.02)),
    "dit": Case(lambda: dit.DiT(8, 2, 1, 24, 2, 2, 4, False), lambda: plain.DiT(8, 2, 1, 24, 2, 2, 4, 1),
                lambda: (floats(1, 6, 1, 8, 8).tanh().realize(), labels(2, 5, 6), labels(3, 1000, 6),
                         floats(4, 6, 1, 8, 8)), "noise_loss", lambda m, x, k, t, noise: m(x, t, k), 0.3,
                our_loss=lambda m, x, k, t, noise: m.loss(x, k, drawn=(t, noise, k))),
    "gpt2": Case(lambda: gpt2.GPT2(17, 12, 2, 2, 16, 0.0), None, lambda: (labels(2, 17, 3, 9),), "next_loss", classes,
                 0.35),
    "resnet": Case(lambda: resnet.ResNet(resnet.BasicBlock, (1, 1, 1, 1), 4), None,
                   lambda: (floats(1, 4, 3, 40, 40), labels(2, 4, 4)), "label_loss", classes, 0.1, "SGD",
                   {"lr": 0.01, "momentum": 0.9}),
}
STEPS = 20


def stepper(case, model, data, way):
    """A function of a step of training that gives the loss."""
    optimizer = getattr(qn.optim, case.method)(model.parameters(), **case.settings)

    @way
    def step(*data):
        optimizer.zero_grad()
        loss = case.our_loss(model, *data)
        loss.backward()
        optimizer.step()
        return loss
    return lambda: step(*data).item()


def gan_stepper(models, data, way):
    optimizers = [qn.optim.Adam(m.parameters(), lr=0.002, betas=(0.5, 0.999)) for m in models]
    step = way(lambda images, noise: gan.train(*models, *optimizers, images, noise))
    return lambda: [x.item() for x in step(*data)]


def gan_pair():
    return gan.Generator(6, 4, 2, 16), gan.Discriminator(4, 2, 16)


def gan_data():
    return floats(1, 6, 2, 16, 16).tanh().realize(), floats(2, 6, 6, 1, 1)


# ---- everywhere ----------------------------------------------------------------------------------


class Alone(unittest.TestCase):
    def run_of(self, case, way, seed=3, steps=STEPS):
        nn.manual_seed(seed)
        step = stepper(case, case.ours(), case.data(), way)
        return [step() for _ in range(steps)]

    def test_losses_fall_and_follow_the_seed(self):
        for name, case in CASES.items():
            with self.subTest(name):
                first = self.run_of(case, qn.jit)
                self.assertLess(first[-1], case.falls * first[0])
                self.assertEqual(first, self.run_of(case, qn.jit))
                self.assertNotEqual(first[-1], self.run_of(case, qn.jit, seed=4)[-1])

    def test_a_jitted_step_is_a_plain_one(self):
        for name, case in CASES.items():
            with self.subTest(name):
                for a, b in zip(self.run_of(case, qn.jit, steps=3), self.run_of(case, lambda f: f, steps=3)):
                    self.assertAlmostEqual(a / b, 1, 5)

    def test_both_of_a_gan_learn_by_one_step(self):
        runs = []
        for way in (qn.jit, qn.jit, lambda f: f):
            nn.manual_seed(3)
            models = gan_pair()
            before = [next(m.parameters()).tolist() for m in models]
            step = gan_stepper(models, gan_data(), way)
            runs.append([step() for _ in range(STEPS)])
            for m, old in zip(models, before):
                self.assertNotEqual(next(m.parameters()).tolist(), old)
                self.assertTrue(all(x.grad is None for x in m.parameters()))
        self.assertLess(runs[0][-1][0], 0.75 * runs[0][0][0])
        self.assertEqual(runs[0], runs[1])
        for a, b in zip(runs[0][1], runs[2][1]):
            self.assertAlmostEqual(a / b, 1, 5)

    def test_noise_of_an_autoencoder_is_other_at_each_call(self):
        nn.manual_seed(1)
        model, x = vae.VAE(30, 20, 5), floats(1, 8, 30).sigmoid()
        loss = qn.jit(lambda: model.loss(x))
        values = [loss().item() for _ in range(3)]
        self.assertEqual(len(set(values)), 3)
        self.assertNotIn(model.loss(x, qn.zeros((8, 5))).item(), values)

    def test_a_state_goes_on(self):
        model, ids = lstm.LSTM(13, 10, 12, 2).eval(), labels(2, 13, 2, 9)
        whole, last = model(ids)
        first, state = model(ids[:, :4])
        second, end = model(ids[:, 4:], state)
        for a, b in ((whole, qn.concat([first, second], axis=1)), (last[0], end[0]), (last[1], end[1])):
            self.assertTrue(qn.allclose(a, b, rtol=1e-5, atol=1e-6))

    def test_tied_heads_are_one_parameter(self):
        a, b = lstm.LSTM(13, 12, 12, 1, tied=True), llama.Llama(17, 16, 1, 2, tied=True, hidden=8)
        self.assertIs(a.decoder.weight, a.encoder.weight)
        self.assertIs(b.lm_head.weight, b.model.embed_tokens.weight)
        for model, ids in (a, labels(2, 13, 2, 5)), (b, labels(2, 17, 2, 5)):
            self.assertEqual(sum(x.ndim == 2 and x.shape[0] in (13, 17) for x in model.parameters()), 1)
            model.loss(ids).backward()

    def test_what_comes_later_is_not_seen(self):
        for name in "lstm", "llama", "moe":
            model, (ids, *_) = CASES[name].ours(), CASES[name].data()
            other = qn.where(qn.arange(ids.shape[1]) < 5, ids, (ids + 1) % 13)
            a, b = (CASES[name].output(model, x)[:, 3:6] for x in (ids, other))
            with self.subTest(name):
                self.assertTrue(qn.allclose(a[:, :2], b[:, :2], rtol=0, atol=1e-6))
                self.assertFalse(qn.allclose(a[:, 2], b[:, 2], rtol=0, atol=1e-5))

    def test_dropout_is_of_training(self):
        x, edges, *_ = graph()
        for model, *given in ((mlp.MLP(12, (16, 3), dropout=0.5), floats(1, 20, 12)),
                              (vit.ViT(16, 8, 1, 2, 16, dropout=0.5), floats(1, 2, 3, 16, 16)),
                              (lstm.LSTM(13, 12, 12, 1, 0.5), labels(2, 13, 2, 5)), (gcn.GCN(6, 8, 2, 3), x, edges)):
            if isinstance(model, vit.ViT):
                nn.init.normal_(model.heads[0].weight)
            values = []
            for training in (True, True, False, False):
                y = model.train(training)(*given)
                values.append((y[0] if isinstance(y, tuple) else y).tolist())
            with self.subTest(type(model).__name__):
                self.assertNotEqual(values[0], values[1])
                self.assertEqual(values[2], values[3])

    def test_weights_of_edges_may_be_made_before(self):
        x, edges, *_ = graph()
        model = gcn.GCN(6, 8, 2, 3).eval()
        self.assertEqual(model(x, edges).tolist(), model(x, *gcn.normalised(edges, 24)).tolist())
        layer = nn.GCNConv(6, 8)
        layer.load_state_dict(model.convs[0].state_dict())
        self.assertTrue(qn.allclose(layer(x, edges), model.convs[0](x, *gcn.normalised(edges, 24)), atol=1e-6))

    def test_experts_by_the_names_of_files(self):
        nn.manual_seed(1)
        model = moe.Mixtral(17, 16, 2, 4, 2, 12, 5, 2)
        files = {}
        for name, x in model.state_dict().items():
            name = name.replace(".mlp.", ".block_sparse_moe.")
            for k in range(5 if ".experts." in name else 0):
                start = name.rpartition(".")[0]
                parts = {"w1": x[k, :12], "w3": x[k, 12:]} if name.endswith("gate_up_proj") else {"w2": x[k]}
                files.update({f"{start}.{k}.{w}.weight": part for w, part in parts.items()})
            if ".experts." not in name:
                files[name] = x
        other = moe.Mixtral(17, 16, 2, 4, 2, 12, 5, 2)
        other.load_state_dict(files)
        ids = labels(2, 17, 3, 9)
        self.assertEqual(other(ids).tolist(), model(ids).tolist())

    def test_blocks_hold_each_choice_once_and_one_expert_each(self):
        for which in (labels(1, 4, 50, 2), qn.zeros((40, 2), dtype="int64"), qn.tensor([[3, 0]])):
            choices, owners = (x.tolist() for x in moe.blocks_of(which, 4))
            flat = which.reshape(-1).tolist()
            self.assertEqual(sorted(k for k in choices if k >= 0), list(range(len(flat))))
            for place, k in enumerate(choices):
                if k >= 0:
                    self.assertEqual(owners[place // moe.BLOCK], flat[k])

    def test_the_size_of_blocks_changes_nothing(self):
        model, ids, made = CASES["moe"].ours(), labels(2, 17, 3, 9), []
        for size in moe.BLOCK, 3, 1:
            with unittest.mock.patch.object(moe, "BLOCK", size):
                model.zero_grad()
                loss = model.loss(ids)
                loss.backward()
                made.append([loss, *(x.grad for x in model.parameters())])
        for other in made[1:]:
            for a, b in zip(made[0], other):
                self.assertTrue(qn.allclose(a, b, rtol=1e-4, atol=1e-6))

    def test_only_chosen_experts_are_trained(self):
        nn.manual_seed(1)
        model, ids = moe.Mixtral(17, 16, 1, 4, 2, 12, 5, 1), labels(2, 17, 1, 4)
        model.loss(ids).backward()
        which = model.routed(ids)[1][0][0]
        self.assertEqual(which.shape, (4, 1))
        used = [k in which[:-1].reshape(-1).tolist() for k in range(5)]  # the last token tells of none
        self.assertIn(False, used)
        slope = model.model.layers[0].mlp.experts.down_proj.grad
        self.assertEqual((slope != 0).any(axis=(1, 2)).tolist(), used)


# ---- beside PyTorch ------------------------------------------------------------------------------


def to_torch(x):
    return torch.from_numpy(np.array(x)) if isinstance(x, qn.Tensor) else x


@unittest.skipIf(torch is None, "PyTorch is not installed")
class Beside(unittest.TestCase):
    def pair(self, case):
        """Both with the reference's weights, none of which is 1 or 0."""
        torch.manual_seed(1)
        theirs = case.theirs()
        for x in theirs.state_dict().values():
            if x.dtype == torch.float32:
                x.copy_(x + 0.1 * torch.rand_like(x))
        ours = case.ours()
        ours.load_state_dict(theirs.state_dict())
        return ours, theirs

    def near(self, ours, theirs):
        a, b = np.asarray(ours.detach()), theirs.detach().numpy()
        self.assertEqual(a.shape, b.shape)
        self.assertLess(abs(a - b).max() / abs(b).max(), 1e-4)

    def test_states_load_by_name(self):
        for name, case in CASES.items():
            if case.theirs is None:
                continue
            with self.subTest(name):
                ours, theirs = self.pair(case)
                data = case.data()
                self.near(case.output(ours.eval(), *data), case.output(theirs.eval(), *map(to_torch, data)))

    def check_losses(self, case, ours, theirs):
        """Of jitted steps, beside those in double precision."""
        data = case.data()
        step = stepper(case, ours.train(), data, qn.jit)
        theirs = theirs.double().train()
        data = [x.double() if x.is_floating_point() else x for x in map(to_torch, data)]
        optimizer = getattr(torch.optim, case.method)(theirs.parameters(), **case.settings)
        worst = 0
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = getattr(plain, case.loss)(theirs, *data)
            loss.backward()
            optimizer.step()
            worst = max(worst, abs(step() / loss.item() - 1))
        self.assertLess(worst, 1e-4)

    def test_losses_of_twenty_steps(self):
        for name, case in CASES.items():
            if case.theirs:
                with self.subTest(name):
                    self.check_losses(case, *self.pair(case))

    def test_a_gan(self):
        torch.manual_seed(1)
        theirs, ours = plain.dcgan(6, 4, 2, 16), gan_pair()
        for a, b in zip(ours, theirs):
            a.load_state_dict(b.state_dict())
        images, noise = gan_data()
        made = ours[0].eval()(noise)
        self.near(made, theirs[0].eval().main(to_torch(noise)))
        self.near(ours[1].eval()(made), theirs[1].eval().main(to_torch(made)).flatten())
        step = gan_stepper([m.train() for m in ours], (images, noise), qn.jit)
        theirs = [m.double().train() for m in theirs]
        optimizers = [torch.optim.Adam(m.parameters(), lr=0.002, betas=(0.5, 0.999)) for m in theirs]
        worst = 0
        for _ in range(STEPS):
            losses = plain.dcgan_step(*theirs, *optimizers, *(to_torch(x).double() for x in (images, noise)))
            worst = max(worst, *(abs(a / b.item() - 1) for a, b in zip(step(), losses)))
        self.assertLess(worst, 1e-4)


def logits_of(model):
    """A model of transformers that gives its logits alone."""
    model.register_forward_hook(lambda *call: call[-1].logits)
    return model


@unittest.skipIf(torch is None, "PyTorch is not installed")
class BesideOthers(unittest.TestCase):
    """Against the implementations whose names the models have."""

    near, check_losses = Beside.__dict__["near"], Beside.__dict__["check_losses"]

    def moved(self, theirs):
        torch.manual_seed(1)
        for x in theirs.state_dict().values():
            if x.dtype == torch.float32:
                x.copy_(x + 0.1 * torch.rand_like(x))
        return theirs.eval()

    @unittest.skipIf(torchvision is None, "torchvision is not installed")
    def test_mlp(self):
        theirs = self.moved(torchvision.ops.MLP(12, [16, 8, 3], norm_layer=torch.nn.LayerNorm, dropout=0.5))
        ours = mlp.MLP(12, (16, 8, 3), nn.LayerNorm, dropout=0.5)
        ours.load_state_dict(theirs.state_dict())
        x = floats(1, 20, 12)
        self.near(ours.eval()(x), theirs(to_torch(x)))

    @unittest.skipIf(torchvision is None, "torchvision is not installed")
    def test_vit(self):
        theirs = self.moved(torchvision.models.VisionTransformer(32, 8, 3, 4, 24, 40, num_classes=5))
        ours = vit.ViT(32, 8, 3, 4, 24, 40, num_classes=5)
        ours.load_state_dict(theirs.state_dict())
        x = floats(1, 2, 3, 32, 32)
        self.near(ours.eval()(x), theirs(to_torch(x)))

    @unittest.skipIf(torchvision is None, "torchvision is not installed")
    def test_resnet(self):
        theirs = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=4)
        case, theirs = CASES["resnet"], self.moved(theirs)
        ours = case.ours()
        ours.load_state_dict(theirs.state_dict())
        self.check_losses(case, ours, theirs)

    @unittest.skipIf(torch_geometric is None, "PyTorch Geometric is not installed")
    def test_gcn(self):
        theirs = self.moved(torch_geometric.nn.models.GCN(6, 8, 3, 3, dropout=0.5))
        ours = gcn.GCN(6, 8, 3, 3)
        ours.load_state_dict(theirs.state_dict())
        x, edges, *_ = graph()
        self.near(ours.eval()(x, edges), theirs(to_torch(x), to_torch(edges)))

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_gpt2(self):
        theirs = self.moved(transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=17, n_positions=12, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=0, eos_token_id=0)))
        case = CASES["gpt2"]
        ours = case.ours()
        ours.load_state_dict(theirs.state_dict(), strict=False)
        self.check_losses(case, ours, logits_of(theirs))

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_llama(self):
        for kv_heads, tied in ((2, False), (4, True)):
            theirs = self.moved(transformers.LlamaForCausalLM(transformers.LlamaConfig(
                vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=kv_heads, rms_norm_eps=1e-5, tie_word_embeddings=tied)))
            ours = llama.Llama(101, 32, 3, 4, kv_heads, 48, tied=tied)
            ours.load_state_dict(theirs.state_dict())
            ids = labels(1, 101, 2, 20)
            made = theirs(to_torch(ids), labels=to_torch(ids))
            self.near(ours(ids), made.logits)
            self.near(ours.loss(ids), made.loss)
            told = qn.where(qn.arange(20) < 5, qn.full_like(ids, -100), ids)
            self.near(ours.loss(ids, told), theirs(to_torch(ids), labels=to_torch(told)).loss)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_moe(self):
        theirs = self.moved(transformers.MixtralForCausalLM(transformers.MixtralConfig(
            vocab_size=101, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, num_local_experts=6, num_experts_per_tok=2, output_router_logits=True,
            router_aux_loss_coef=0.02, rope_parameters={"rope_type": "default", "rope_theta": 1e6})))
        ours = moe.Mixtral(101, 32, 2, 4, 2, 48, 6, 2)
        ours.load_state_dict(theirs.state_dict())
        ids = labels(1, 101, 2, 20)
        made = theirs(to_torch(ids), labels=to_torch(ids))
        self.near(ours(ids), made.logits)
        self.near(ours.loss(ids, balance=0.02), made.loss)


if __name__ == "__main__":
    unittest.main()
