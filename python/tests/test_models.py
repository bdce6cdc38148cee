"""models/ beside torchvision's and transformers' modules of random weights, whose state dicts load by name."""

import os
import sys
import unittest

import quern as qn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "models"))

try:
    import numpy as np
    import torch
except ImportError:
    torch = None
try:
    import torchvision
except ImportError:
    torchvision = None
try:
    import transformers
except ImportError:
    transformers = None


def randomised(model):
    """Norms and statistics, too, so that none of them is 1 or 0."""
    torch.manual_seed(1)
    for x in model.state_dict().values():
        if x.dtype == torch.float32:
            x.copy_(x + 0.1 * torch.rand_like(x))
    return model.eval()


class States(unittest.TestCase):
    def check(self, made, other, value):
        """Names with and without what stands before them; `other` is one as another file has it."""
        ours = made()
        self.assertNotIn(other, ours.state_dict())
        ours.load_state_dict({other: qn.full(value.shape, 3.0)}, strict=False)
        self.assertEqual(value.max().item(), 3.0)
        with self.assertRaisesRegex(RuntimeError, "no name of a state fits: .*nothing"):
            ours.load_state_dict({"nothing": qn.zeros(3)}, strict=False)

    def test_names_of_other_heads(self):
        import bert
        import gpt2
        ours = gpt2.GPT2(11, 8, 1, 2, 4)
        self.check(lambda: ours, "h.0.ln_1.weight", ours.transformer.h[0].ln_1.weight)
        ours = bert.Bert(11, 4, 1, 2, 8, 8)
        self.check(lambda: ours, "bert.pooler.dense.bias", ours.pooler.dense.bias)
        self.check(lambda: ours, "bert.embeddings.LayerNorm.gamma", ours.embeddings.LayerNorm.weight)

    def test_first_values_follow_the_seed(self):
        import gpt2
        values = []
        for seed in (1, 1, 2):
            qn.nn.manual_seed(seed)
            h = gpt2.GPT2(11, 8, 1, 2, 4).transformer.h[0]
            values.append((h.mlp.c_fc.weight.tolist(), h.mlp.c_proj.weight.reshape(-1).tolist()))
        self.assertEqual(values[0], values[1])
        self.assertNotEqual(values[0][1], values[2][1])


class Beside(unittest.TestCase):
    def near(self, ours, theirs):
        a, b = np.asarray(ours.detach()), theirs.detach().numpy()
        self.assertEqual(a.shape, b.shape)
        self.assertLess(abs(a - b).max() / abs(b).max(), 1e-4)

    @unittest.skipIf(torchvision is None, "torchvision is not installed")
    def test_resnet(self):
        import resnet
        theirs, ours = randomised(torchvision.models.resnet18()), resnet.resnet18()
        ours.load_state_dict(theirs.state_dict())
        x = torch.randn(2, 3, 64, 64)
        self.near(ours.eval()(qn.tensor(x.numpy())), theirs(x))

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_gpt2(self):
        import gpt2
        sizes = transformers.GPT2Config(vocab_size=101, n_positions=32, n_embd=48, n_layer=3, n_head=4)
        theirs = randomised(transformers.GPT2LMHeadModel(sizes))
        ours = gpt2.GPT2(101, 32, 3, 4, 48)
        found = ours.load_state_dict(theirs.state_dict(), strict=False)
        self.assertEqual(found.missing_keys, [])
        ids = torch.randint(0, 101, (2, 20))
        self.near(ours.eval()(qn.tensor(ids.numpy())), theirs(ids).logits)

    @unittest.skipIf(transformers is None, "transformers is not installed")
    def test_bert(self):
        import bert
        sizes = transformers.BertConfig(vocab_size=101, hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
                                        intermediate_size=96, max_position_embeddings=32)
        theirs = randomised(transformers.BertModel(sizes))
        ours = bert.Bert(101, 48, 3, 4, 96, 32)
        ours.load_state_dict(theirs.state_dict(), strict=False)
        self.assertEqual(set(ours.state_dict()) - set(theirs.state_dict()), set())
        ids, mask = torch.randint(1, 101, (2, 20)), torch.ones(2, 20, dtype=torch.int64)
        mask[1, 13:] = 0
        a, b = ours.eval()(qn.tensor(ids.numpy()), qn.tensor(mask.numpy())), theirs(ids, attention_mask=mask)
        self.near(a[0], b.last_hidden_state)
        self.near(a[1], b.pooler_output)


if __name__ == "__main__":
    unittest.main()
