/* rows.h - the kinds of layers, a row each: C's qn_layer_new, Python's quern.nn, docs/layers.md and
 * the comparison with PyTorch follow from it.
 *
 * LAYER(name, arguments, tensors, apply, space, least, most, results, doc)
 *     name       PyTorch's; of graph layers that of PyTorch Geometric
 *     arguments  PyTorch's in its order, with its defaults; arguments.h has the field of each
 *     tensors    a function that makes parameters and buffers in the order of PyTorch's state dict,
 *                or NULL
 *     apply      a function that takes them in the same order and records the results
 *     space      how many spatial axes its images have, or 0
 *     least most how many inputs it must be given and takes
 *     results    how many there are
 * UNARY(name, arguments, apply, member, function, doc)
 *     what calls one function of one tensor: `member` of layer_function has its type */

LAYER(Linear, "in_features out_features bias=True", linear_tensors, apply_linear, 0, 1, 1, 1,
      "x @ weight.T + bias of [.., in_features]: [.., out_features]")
LAYER(Bilinear, "in1_features in2_features out_features bias=True", bilinear_tensors,
      apply_bilinear, 0, 2, 2, 1, "x1 @ weight[k] @ x2 + bias[k] for each k of [.., out_features]")
LAYER(Embedding, "num_embeddings embedding_dim padding_idx=None", embedding_tensors,
      apply_embedding, 0, 1, 1, 1,
      "rows of weight at the indices; row padding_idx starts at 0 and has no gradient")
LAYER(Identity, "", NULL, apply_identity, 0, 1, 1, 1, "the input")
LAYER(Flatten, "start_dim=1 end_dim=-1", NULL, apply_flatten, 0, 1, 1, 1,
      "axes from start_dim to end_dim as one")

LAYER(Conv1d,
      "in_channels out_channels kernel_size stride=1 padding=0 dilation=1 groups=1 bias=True "
      "padding_mode='zeros'",
      conv_tensors, apply_conv, 1, 1, 1, 1, "convolution of [N, in_channels, L], or of one image")
LAYER(Conv2d,
      "in_channels out_channels kernel_size stride=1 padding=0 dilation=1 groups=1 bias=True "
      "padding_mode='zeros'",
      conv_tensors, apply_conv, 2, 1, 1, 1,
      "convolution of [N, in_channels, H, W], or of one image")
LAYER(Conv3d,
      "in_channels out_channels kernel_size stride=1 padding=0 dilation=1 groups=1 bias=True "
      "padding_mode='zeros'",
      conv_tensors, apply_conv, 3, 1, 1, 1,
      "convolution of [N, in_channels, D, H, W], or of one image")
LAYER(ConvTranspose1d,
      "in_channels out_channels kernel_size stride=1 padding=0 output_padding=0 groups=1 bias=True "
      "dilation=1",
      conv_transpose_tensors, apply_conv_transpose, 1, 1, 1, 1,
      "the gradient of Conv1d by its input, as a layer")
LAYER(ConvTranspose2d,
      "in_channels out_channels kernel_size stride=1 padding=0 output_padding=0 groups=1 bias=True "
      "dilation=1",
      conv_transpose_tensors, apply_conv_transpose, 2, 1, 1, 1,
      "the gradient of Conv2d by its input, as a layer")
LAYER(ConvTranspose3d,
      "in_channels out_channels kernel_size stride=1 padding=0 output_padding=0 groups=1 bias=True "
      "dilation=1",
      conv_transpose_tensors, apply_conv_transpose, 3, 1, 1, 1,
      "the gradient of Conv3d by its input, as a layer")

LAYER(MaxPool1d,
      "kernel_size stride=None padding=0 dilation=1 return_indices=False ceil_mode=False", NULL,
      apply_max_pool, 1, 1, 1, 2, "the largest of each window, and with return_indices where")
LAYER(MaxPool2d,
      "kernel_size stride=None padding=0 dilation=1 return_indices=False ceil_mode=False", NULL,
      apply_max_pool, 2, 1, 1, 2, "the largest of each window, and with return_indices where")
LAYER(MaxPool3d,
      "kernel_size stride=None padding=0 dilation=1 return_indices=False ceil_mode=False", NULL,
      apply_max_pool, 3, 1, 1, 2, "the largest of each window, and with return_indices where")
LAYER(AvgPool1d, "kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True", NULL,
      apply_avg_pool, 1, 1, 1, 1, "the mean of each window")
LAYER(AvgPool2d, "kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True", NULL,
      apply_avg_pool, 2, 1, 1, 1, "the mean of each window")
LAYER(AvgPool3d, "kernel_size stride=None padding=0 ceil_mode=False count_include_pad=True", NULL,
      apply_avg_pool, 3, 1, 1, 1, "the mean of each window")
LAYER(LPPool1d, "norm_type kernel_size stride=None ceil_mode=False", NULL, apply_norm_pool, 1, 1, 1,
      1, "(sum x^norm_type)^(1/norm_type) of each window")
LAYER(LPPool2d, "norm_type kernel_size stride=None ceil_mode=False", NULL, apply_norm_pool, 2, 1, 1,
      1, "(sum x^norm_type)^(1/norm_type) of each window")
LAYER(LPPool3d, "norm_type kernel_size stride=None ceil_mode=False", NULL, apply_norm_pool, 3, 1, 1,
      1, "(sum x^norm_type)^(1/norm_type) of each window")
LAYER(AdaptiveAvgPool1d, "output_size", NULL, apply_adaptive_avg, 1, 1, 1, 1,
      "means of output_size windows, as even as can be")
LAYER(AdaptiveAvgPool2d, "output_size", NULL, apply_adaptive_avg, 2, 1, 1, 1,
      "means of output_size windows, as even as can be; an axis of None stays")
LAYER(AdaptiveAvgPool3d, "output_size", NULL, apply_adaptive_avg, 3, 1, 1, 1,
      "means of output_size windows, as even as can be; an axis of None stays")
LAYER(AdaptiveMaxPool1d, "output_size return_indices=False", NULL, apply_adaptive_max, 1, 1, 1, 2,
      "the largest of output_size windows")
LAYER(AdaptiveMaxPool2d, "output_size return_indices=False", NULL, apply_adaptive_max, 2, 1, 1, 2,
      "the largest of output_size windows")
LAYER(AdaptiveMaxPool3d, "output_size return_indices=False", NULL, apply_adaptive_max, 3, 1, 1, 2,
      "the largest of output_size windows")

LAYER(
    BatchNorm1d, "num_features eps=1e-05 momentum=0.1 affine=True track_running_stats=True",
    batch_norm_tensors, apply_batch_norm, 1, 1, 1, 1,
    "normalised by channels of [N, C] or [N, C, L]; in training by the batch, else by the running "
    "statistics; a momentum of None: their mean over all batches")
LAYER(BatchNorm2d, "num_features eps=1e-05 momentum=0.1 affine=True track_running_stats=True",
      batch_norm_tensors, apply_batch_norm, 2, 1, 1, 1,
      "normalised by channels of [N, C, H, W]; as BatchNorm1d")
LAYER(BatchNorm3d, "num_features eps=1e-05 momentum=0.1 affine=True track_running_stats=True",
      batch_norm_tensors, apply_batch_norm, 3, 1, 1, 1,
      "normalised by channels of [N, C, D, H, W]; as BatchNorm1d")
LAYER(InstanceNorm1d, "num_features eps=1e-05 momentum=0.1 affine=False track_running_stats=False",
      batch_norm_tensors, apply_instance_norm, 1, 1, 1, 1,
      "normalised by channels of each of [N, C, L]")
LAYER(InstanceNorm2d, "num_features eps=1e-05 momentum=0.1 affine=False track_running_stats=False",
      batch_norm_tensors, apply_instance_norm, 2, 1, 1, 1,
      "normalised by channels of each of [N, C, H, W]")
LAYER(InstanceNorm3d, "num_features eps=1e-05 momentum=0.1 affine=False track_running_stats=False",
      batch_norm_tensors, apply_instance_norm, 3, 1, 1, 1,
      "normalised by channels of each of [N, C, D, H, W]")
LAYER(GroupNorm, "num_groups num_channels eps=1e-05 affine=True", group_norm_tensors,
      apply_group_norm, 0, 1, 1, 1, "normalised by groups of channels of [N, C, ..]")
LAYER(LayerNorm, "normalized_shape eps=1e-05 elementwise_affine=True bias=True", layer_norm_tensors,
      apply_layer_norm, 0, 1, 1, 1, "normalised over the last axes, of normalized_shape")
LAYER(RMSNorm, "normalized_shape eps=None elementwise_affine=True", rms_norm_tensors,
      apply_rms_norm, 0, 1, 1, 1,
      "divided by the root of the mean of squares over the last axes; eps None: the dtype's")

LAYER(Dropout, "p=0.5", NULL, apply_dropout, 0, 1, 1, 1,
      "in training zeros with probability p, the rest times 1 / (1 - p)")
LAYER(Dropout1d, "p=0.5", NULL, apply_dropout, 1, 1, 1, 1, "Dropout of whole channels of [N, C, L]")
LAYER(Dropout2d, "p=0.5", NULL, apply_dropout, 2, 1, 1, 1,
      "Dropout of whole channels of [N, C, H, W]")
LAYER(Dropout3d, "p=0.5", NULL, apply_dropout, 3, 1, 1, 1,
      "Dropout of whole channels of [N, C, D, H, W]")

UNARY(ReLU, "", apply_one, one, qn_relu, "max(x, 0)")
UNARY(ReLU6, "", apply_one, one, qn_relu6, "min(max(x, 0), 6)")
UNARY(SiLU, "", apply_one, one, qn_silu, "x * sigmoid(x)")
UNARY(Mish, "", apply_one, one, qn_mish, "x * tanh(softplus(x))")
UNARY(SELU, "", apply_one, one, qn_selu, "scaled elu of Klambauer et al. 2017")
UNARY(Sigmoid, "", apply_one, one, qn_sigmoid, "1 / (1 + e^-x)")
UNARY(LogSigmoid, "", apply_one, one, qn_log_sigmoid, "log(sigmoid(x))")
UNARY(Tanh, "", apply_one, one, qn_tanh, "tanh(x)")
UNARY(Tanhshrink, "", apply_one, one, tanhshrink, "x - tanh(x)")
UNARY(Softsign, "", apply_one, one, qn_softsign, "x / (1 + |x|)")
UNARY(Hardswish, "", apply_one, one, qn_hardswish, "x * relu6(x + 3) / 6")
UNARY(Hardsigmoid, "", apply_one, one, qn_hardsigmoid, "relu6(x + 3) / 6")
UNARY(GELU, "approximate='none'", apply_gelu, one, qn_gelu,
      "x * Phi(x), or its approximation by 'tanh'")
UNARY(ELU, "alpha=1.0", apply_number, number, qn_elu, "x above 0, else alpha * (e^x - 1)")
UNARY(CELU, "alpha=1.0", apply_number, number, qn_celu, "x above 0, else alpha * (e^(x/alpha) - 1)")
UNARY(LeakyReLU, "negative_slope=0.01", apply_number, number, qn_leaky_relu,
      "x above 0, else negative_slope * x")
UNARY(Hardshrink, "lambd=0.5", apply_number, number, hardshrink, "x, but 0 from -lambd to lambd")
UNARY(Softshrink, "lambd=0.5", apply_number, number, softshrink,
      "x less lambd towards 0, but 0 from -lambd to lambd")
UNARY(Hardtanh, "min_val=-1.0 max_val=1.0", apply_numbers, numbers, qn_hardtanh,
      "x within min_val and max_val")
UNARY(Softplus, "beta=1.0 threshold=20.0", apply_numbers, numbers, qn_softplus_beta,
      "log(1 + e^(beta x)) / beta, and x where beta x is above threshold")
UNARY(Threshold, "threshold value", apply_numbers, numbers, threshold,
      "x above threshold, else value")
UNARY(Softmax, "dim=None", apply_axis, axis, qn_softmax,
      "e^x over its sum along dim; None: axis 0 of 0, 1 or 3 axes, else axis 1")
UNARY(LogSoftmax, "dim=None", apply_axis, axis, qn_log_softmax, "log(softmax(x))")
UNARY(Softmin, "dim=None", apply_axis, axis, qn_softmin, "softmax(-x)")
UNARY(GLU, "dim=-1", apply_axis, axis, qn_glu, "the first half along dim times sigmoid(the second)")
LAYER(PReLU, "num_parameters=1 init=0.25", prelu_tensors, apply_prelu, 0, 1, 1, 1,
      "x above 0, else weight * x, with a weight or one for each channel")

LAYER(RNN,
      "input_size hidden_size num_layers=1 nonlinearity='tanh' bias=True batch_first=False "
      "dropout=0.0 bidirectional=False",
      recurrent_tensors, apply_recurrent, 0, 1, 2, 2,
      "h = tanh(W_ih x + b_ih + W_hh h + b_hh) of [T, N, input_size]: the last layer's h, [T, N, "
      "hidden_size], and each layer's last, [layers, N, hidden_size]; the first h is an input")
LAYER(LSTM,
      "input_size hidden_size num_layers=1 bias=True batch_first=False dropout=0.0 "
      "bidirectional=False proj_size=0",
      recurrent_tensors, apply_recurrent, 0, 1, 3, 3,
      "as RNN, with h and c (Hochreiter and Schmidhuber)")
LAYER(GRU,
      "input_size hidden_size num_layers=1 bias=True batch_first=False dropout=0.0 "
      "bidirectional=False",
      recurrent_tensors, apply_recurrent, 0, 1, 2, 2, "as RNN (Cho et al. 2014)")
LAYER(RNNCell, "input_size hidden_size bias=True nonlinearity='tanh'", cell_tensors, apply_cell, 0,
      1, 2, 1, "a step of RNN: x [N, input_size] and h [N, hidden_size]")
LAYER(LSTMCell, "input_size hidden_size bias=True", cell_tensors, apply_cell, 0, 1, 3, 2,
      "a step of LSTM: h and c")
LAYER(GRUCell, "input_size hidden_size bias=True", cell_tensors, apply_cell, 0, 1, 2, 1,
      "a step of GRU")

LAYER(
    MultiheadAttention,
    "embed_dim num_heads dropout=0.0 bias=True add_bias_kv=False add_zero_attn=False kdim=None "
    "vdim=None batch_first=False",
    multihead_tensors, apply_multihead, 0, 3, 7, 4,
    "attention of query [L, N, E] over key and value [S, N, ..] by heads; key_padding_mask [N, S] "
    "and attn_mask [L, S] or [N * heads, L, S] say what is not seen, or are added. Past keys and "
    "values [N, heads, P, E / heads] are those of calls before")
LAYER(TransformerEncoderLayer,
      "d_model nhead dim_feedforward=2048 dropout=0.1 activation='relu' layer_norm_eps=1e-05 "
      "batch_first=False norm_first=False bias=True",
      encoder_tensors, apply_encoder, 0, 1, 3, 1,
      "src + attention, then + feedforward (Vaswani et al. 2017), of src, src_mask and "
      "src_key_padding_mask")
LAYER(TransformerDecoderLayer,
      "d_model nhead dim_feedforward=2048 dropout=0.1 activation='relu' layer_norm_eps=1e-05 "
      "batch_first=False norm_first=False bias=True",
      decoder_tensors, apply_decoder, 0, 2, 6, 1,
      "as the encoder's with attention over memory between, of tgt, memory, tgt_mask, memory_mask, "
      "tgt_key_padding_mask and memory_key_padding_mask")

LAYER(GCNConv,
      "in_channels out_channels improved=False add_self_loops=True normalize=True bias=True",
      gcn_tensors, apply_gcn, 0, 2, 3, 1,
      "sum over edges of x[from] @ weight.T / sqrt(degrees), of x [nodes, in_channels], edge_index "
      "[2, E] (from, to) and edge_weight [E] (Kipf and Welling 2017)")
LAYER(GATConv,
      "in_channels out_channels heads=1 concat=True negative_slope=0.2 dropout=0.0 "
      "add_self_loops=True bias=True",
      gat_tensors, apply_gat, 0, 2, 2, 1,
      "sum over edges by attention between their nodes, of x [nodes, in_channels] and edge_index "
      "[2, E] (Velickovic et al. 2018)")
