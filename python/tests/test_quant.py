"""Tensors in blocks: sizes, values by hand, and those of the package gguf where it is installed."""

import math
import random
import struct
import unittest

import quern as qn


class Blocks(unittest.TestCase):
    def test_the_list(self):
        types = {t.name: t for t in qn.quant.types()}
        self.assertEqual(types["q4_0"], ("q4_0", 32, 18, True))
        self.assertEqual((types["q8_0"].bits, types["iq2_s"].made, len(types)), (8.5, False, 23))
        self.assertIs(qn.quant.type_of("Q4_K"), types["q4_k"])
        self.assertIs(qn.quant.type_of(types["tq1_0"]), types["tq1_0"])

    def test_q8_0_is_what_its_definition_says(self):
        r = random.Random(1)
        x = [r.uniform(-3, 3) for _ in range(64)]
        x = list(struct.unpack("64f", struct.pack("64f", *x)))
        blocks = qn.quant.quantize(qn.tensor([x]), "q8_0")
        self.assertEqual((blocks.shape, blocks.dtype), ((1, 68), qn.uint8))
        data, back = blocks.tobytes(), qn.quant.dequantize(blocks, "q8_0").tolist()[0]
        for at in (0, 1):
            scale, *q = struct.unpack("<e32b", data[34 * at:34 * at + 34])
            part = x[32 * at:32 * at + 32]
            want = max(map(abs, part)) / 127
            self.assertLess(abs(scale - want), want * 2**-10)
            for v, k, b in zip(part, q, back[32 * at:]):
                self.assertLessEqual(abs(v / want - k), 0.5001)
                self.assertEqual(b, scale * k)

    def test_each_that_is_made_is_near(self):
        x = qn.randn(qn.key(3), (2, 3, 256))
        size = math.sqrt((x * x).mean().item())
        for t in qn.quant.types():
            if not t.made:
                with self.assertRaisesRegex(ValueError, "only read"):
                    qn.quant.quantize(x, t)
                continue
            blocks = qn.quant.quantize(x, t)
            self.assertEqual(blocks.shape, (2, 3, 256 // t.elements * t.bytes), t)
            off = qn.quant.dequantize(blocks, t) - x
            self.assertLess(math.sqrt((off * off).mean().item()), size * (0.9 if t.bits < 3 else 0.2), t)

    def test_bits_are_those_of_gguf(self):
        try:
            import gguf
            import numpy as np
        except ImportError as e:
            self.skipTest(str(e))
        x = np.random.default_rng(5).normal(size=(4, 512)).astype(np.float32)
        for t in qn.quant.types():
            kind = getattr(gguf.GGMLQuantizationType, t.name.upper(), None)
            try:
                want = gguf.quants.quantize(x, kind) if t.made else None
            except (NotImplementedError, AttributeError):
                continue
            if want is None:
                continue
            got = qn.quant.quantize(x, t)
            self.assertEqual(got.tobytes(), want.tobytes(), t)
            self.assertEqual(qn.quant.dequantize(want, t).tobytes(), gguf.quants.dequantize(want, kind).tobytes(), t)

    def test_they_are_part_of_a_graph(self):
        w, x = qn.randn(qn.key(1), (8, 64)), qn.randn(qn.key(2), (3, 64))
        blocks = qn.quant.quantize(w, "q4_0").realize()
        f = qn.jit(lambda x, b: x @ qn.quant.dequantize(b, "q4_0").T)
        want = (x @ qn.quant.dequantize(blocks, "q4_0").T).tolist()
        self.assertEqual([[round(v, 4) for v in row] for row in f(x, blocks).tolist()],
                         [[round(v, 4) for v in row] for row in want])
        x.requires_grad = True
        (x @ qn.quant.dequantize(blocks, "q4_0").T).sum().backward()
        self.assertEqual(x.grad.shape, (3, 64))

    def test_what_is_wrong(self):
        x = qn.zeros((2, 64))
        for bad, kind, text in ((lambda: qn.quant.quantize(x, "q9_9"), ValueError, "'q9_9' is no type .* q4_0"),
                                (lambda: qn.quant.quantize(x, 7), ValueError, "7 is no type"),
                                (lambda: qn.quant.quantize(x[:, :40], "q4_0"), ValueError, "40"),
                                (lambda: qn.quant.quantize(x.astype("int32"), "q4_0"), TypeError, "i32"),
                                (lambda: qn.quant.dequantize(x, "q4_0"), TypeError, "f32"),
                                (lambda: qn.quant.dequantize([1, 2], "q4_0"), TypeError, "a tensor is wanted"),
                                (lambda: qn.quant.dequantize(qn.zeros((2, 19), "uint8"), "q4_0"), ValueError, "19")):
            with self.assertRaisesRegex(kind, text):
                bad()


if __name__ == "__main__":
    unittest.main()
