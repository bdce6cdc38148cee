"""Layers to be compared with PyTorch's, by the package's tests and by tools/compare/layers.py.

A case is (kind, arguments by position, by name, inputs): a list, or a dict by the names of forward(). An input is
("f", shape) of floats, ("p", shape) of positive ones, ("i", below, shape), ("b", shape), or a tuple of such."""

IMAGE = {1: (2, 4, 9), 2: (2, 4, 9, 8), 3: (2, 4, 5, 6, 5)}


def floats(*shape):
    return ("f", shape)


def whole(most, *shape):
    return ("i", most, shape)


def bools(*shape):
    return ("b", shape)


# (kind, arguments, inputs): inputs are kinds of random arrays, by name where the call has them so.
CASES = [("Linear", (5, 3), {}, [floats(2, 4, 5)]), ("Linear", (5, 3), {"bias": False}, [floats(5)]),
         ("Bilinear", (3, 4, 2), {}, [floats(5, 3), floats(5, 4)]),
         ("Embedding", (7, 4), {}, [whole(7, 2, 3)]), ("Embedding", (7, 4, 2), {}, [whole(7, 2, 9)]),
         ("Embedding", (7, 4), {"padding_idx": -1}, [whole(7, 2, 9)]),
         ("Flatten", (), {}, [floats(2, 3, 4)]), ("Flatten", (0, 1), {}, [floats(2, 3, 4)]),
         ("Identity", (), {}, [floats(2)])]
for d, shape in IMAGE.items():
    other = floats(*shape)
    CASES += [
        (f"Conv{d}d", (4, 6, 3), {}, [other]), (f"Conv{d}d", (4, 6, 3, 2, 1), {"groups": 2, "bias": False}, [other]),
        (f"Conv{d}d", (4, 6, 3), {"padding": "same", "dilation": 2}, [other]),
        (f"Conv{d}d", (4, 6, 2), {}, [floats(*shape[1:])]),
        (f"ConvTranspose{d}d", (4, 6, 3), {}, [other]),
        (f"ConvTranspose{d}d", (4, 6, 3, 2, 1, 1), {"groups": 2}, [other]),
        (f"MaxPool{d}d", (2,), {}, [other]), (f"MaxPool{d}d", (3, 2, 1), {"ceil_mode": True}, [other]),
        (f"MaxPool{d}d", (2,), {"return_indices": True}, [other]),
        (f"AvgPool{d}d", (2,), {}, [other]),
        (f"AvgPool{d}d", (3, 2, 1), {"count_include_pad": False, "ceil_mode": True}, [other]),
        (f"AdaptiveAvgPool{d}d", (3,), {}, [other]), (f"AdaptiveMaxPool{d}d", (2,), {"return_indices": True}, [other]),
        (f"BatchNorm{d}d", (4,), {}, [other]), (f"BatchNorm{d}d", (4,), {"affine": False, "momentum": None}, [other]),
        (f"BatchNorm{d}d", (4,), {"track_running_stats": False}, [other]),
        (f"InstanceNorm{d}d", (4,), {}, [other]),
        (f"InstanceNorm{d}d", (4,), {"affine": True, "track_running_stats": True, "momentum": 0.3}, [other])]
for mode in ("reflect", "replicate", "circular"):
    CASES += [(f"Conv{d}d", (4, 2, 3), {"padding": 1, "padding_mode": mode}, [floats(*IMAGE[d])]) for d in (1, 2)]
CASES += [
    ("Conv2d", (4, 2, (3, 2)), {"padding": "same", "padding_mode": "circular"}, [floats(*IMAGE[2])]),
    ("Conv2d", (4, 2, (3, 2), (2, 1), (1, 0)), {"dilation": (1, 2)}, [floats(*IMAGE[2])]),
    ("AdaptiveAvgPool2d", ((3, None),), {}, [floats(*IMAGE[2])]), ("AdaptiveAvgPool2d", (1,), {}, [floats(*IMAGE[2])]),
    ("LPPool1d", (2, 3), {}, [floats(*IMAGE[1])]), ("LPPool2d", (3, 2), {"stride": 1}, [("p", IMAGE[2])]),
    ("LPPool1d", (1, 2), {"ceil_mode": True}, [floats(*IMAGE[1])]), ("LPPool1d", (3, 2), {}, [floats(*IMAGE[1])]),
    ("AdaptiveAvgPool2d", ((None, 4),), {}, [floats(*IMAGE[2])]),
    ("BatchNorm1d", (4,), {}, [floats(6, 4)]), ("GroupNorm", (2, 4), {}, [floats(*IMAGE[2])]),
    ("GroupNorm", (2, 4), {"affine": False, "eps": 0.1}, [floats(*IMAGE[1])]),
    ("LayerNorm", (5,), {}, [floats(2, 3, 5)]), ("LayerNorm", ((3, 5),), {"bias": False}, [floats(2, 3, 5)]),
    ("LayerNorm", (5,), {"elementwise_affine": False}, [floats(2, 5)]),
    ("LayerNorm", ((2, 1, 3, 5),), {}, [floats(2, 1, 3, 5)]), ("RMSNorm", (5,), {"eps": 0.0}, [floats(2, 5)]),
    ("RMSNorm", (5,), {}, [floats(2, 3, 5)]), ("RMSNorm", ((3, 5),), {"eps": 0.1}, [floats(2, 3, 5)]),
    ("PReLU", (), {}, [floats(2, 4, 3)]), ("PReLU", (4, 0.1), {}, [floats(2, 4, 3)])]
CASES += [(k, (), {}, [floats(3, 7)]) for k in (
    "ReLU", "ReLU6", "SiLU", "Mish", "SELU", "Sigmoid", "LogSigmoid", "Tanh", "Tanhshrink", "Softsign", "Hardswish",
    "Hardsigmoid", "GELU", "ELU", "CELU", "LeakyReLU", "Hardshrink", "Softshrink", "Hardtanh", "Softplus")]
CASES += [("GELU", ("tanh",), {}, [floats(9)]), ("ELU", (0.5,), {}, [floats(9)]), ("CELU", (0.5,), {}, [floats(9)]),
          ("LeakyReLU", (0.0,), {}, [floats(9)]), ("Hardshrink", (0.2,), {}, [floats(9)]),
          ("Softshrink", (0.2,), {}, [floats(9)]), ("Hardtanh", (-0.5, 0.25), {}, [floats(9)]),
          ("Softplus", (2.0, 1.0), {}, [floats(9)]), ("Threshold", (0.1, -2.0), {}, [floats(9)]),
          ("GLU", (), {}, [floats(3, 8)]), ("GLU", (0,), {}, [floats(4, 3)])]
CASES += [(k, (d,), {}, [floats(3, 5)]) for k in ("Softmax", "LogSoftmax", "Softmin") for d in (0, -1)]
CASES += [(k, (), {}, [floats(*s)]) for k in ("Softmax", "LogSoftmax", "Softmin") for s in ((4,), (3, 5), (2, 3, 4))]
for kind, h in (("RNN", 1), ("GRU", 1), ("LSTM", 2)):
    def states(*shape, n=h):
        return floats(*shape) if n == 1 else (floats(*shape), floats(*shape))
    CASES += [
        (kind, (3, 5), {}, [floats(6, 2, 3)]), (kind, (3, 5), {}, [floats(6, 2, 3), states(1, 2, 5)]),
        (kind, (3, 5, 2), {"batch_first": True, "bidirectional": True}, [floats(2, 6, 3), states(4, 2, 5)]),
        (kind, (3, 5), {"bias": False}, [floats(6, 3), states(1, 5)]),
        (kind + "Cell", (3, 5), {}, [floats(2, 3)]), (kind + "Cell", (3, 5, False), {}, [floats(2, 3), states(2, 5)]),
        (kind + "Cell", (3, 5), {}, [floats(3), states(5)])]
CASES += [("RNN", (3, 5), {"nonlinearity": "relu", "num_layers": 2}, [floats(6, 2, 3)]),
          ("RNNCell", (3, 5), {"nonlinearity": "relu"}, [floats(2, 3)]),
          ("LSTM", (3, 5, 2), {"proj_size": 4, "bidirectional": True}, [floats(6, 2, 3)])]
MHA = [floats(5, 2, 8)] * 3
CASES += [
    ("MultiheadAttention", (8, 2), {}, MHA), ("MultiheadAttention", (8, 2), {"bias": False}, [floats(5, 8)] * 3),
    ("MultiheadAttention", (8, 2), {"batch_first": True, "kdim": 3, "vdim": 6},
     [floats(2, 5, 8), floats(2, 7, 3), floats(2, 7, 6)]),
    ("MultiheadAttention", (8, 2), {"add_bias_kv": True, "add_zero_attn": True},
     {"query": MHA[0], "key": MHA[0], "value": MHA[0], "key_padding_mask": bools(2, 5), "attn_mask": bools(5, 5)}),
    ("MultiheadAttention", (8, 2), {}, {"query": MHA[0], "key": MHA[0], "value": MHA[0], "attn_mask": floats(4, 5, 5),
                                        "average_attn_weights": False}),
    ("MultiheadAttention", (8, 2), {}, {"query": MHA[0], "key": floats(3, 2, 8), "value": floats(3, 2, 8),
                                        "key_padding_mask": bools(2, 3)}),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0), {}, [floats(5, 2, 8)]),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0, "gelu"), {"batch_first": True, "norm_first": True},
     {"src": floats(2, 5, 8), "src_mask": floats(5, 5), "src_key_padding_mask": floats(2, 5)}),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0), {"bias": False}, [floats(5, 8)]),
    ("TransformerDecoderLayer", (8, 2, 16, 0.0), {}, [floats(5, 2, 8), floats(3, 2, 8)]),
    ("TransformerDecoderLayer", (8, 2, 16, 0.0, "gelu"), {"batch_first": True, "norm_first": True, "bias": False},
     {"tgt": floats(2, 5, 8), "memory": floats(2, 3, 8), "tgt_mask": bools(5, 5),
      "memory_key_padding_mask": bools(2, 3)})]
