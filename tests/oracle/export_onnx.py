#!/usr/bin/env python3
"""Exports small models of PyTorch, transformers and torchvision to ONNX, with what they compute.

    export_onnx.py OUT [NAME ...]

writes OUT/NAME-script.onnx (TorchScript exporter, opset 17) and OUT/NAME-dynamo.onnx (opset 18; of scores 23), and
OUT/NAME.json: parameters, FLOP of forward (torch.utils.flop_counter, attention unfused), the loss of one
batch in fp64, and the sum of squares of every parameter's gradient, ascending. Inputs are formulas: element i
of an input of real numbers is sin(0.7 i + 1), of ids (7 i + 3) % modulus (modulus 0: ones), of labels
(5 i + 1) % classes. NAME.json says the moduli. Dropout is 0; cross entropies are sums over labels.

Made with torch 2.11.0, torchvision 0.26.0 and transformers 4.46.3, the last whose text models TorchScript takes;
the JSON files hold the versions.
"""
import json
import pathlib
import sys
import warnings

import onnx
import timm
import torch
import torchvision
import transformers
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

warnings.filterwarnings("ignore")


class First(nn.Module):
    """A model whose answer is one tensor."""

    def __init__(self, model, names):
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)))
        return out.logits if hasattr(out, "logits") else out[0]


class UNet(nn.Module):
    """Two levels, batch norm, transposed convolutions, a class for each pixel."""

    def __init__(self, base=8, classes=3):
        super().__init__()

        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                                 nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(2, o), nn.SiLU())

        self.down1, self.down2, self.middle = block(3, base), block(base, 2 * base), block(2 * base, 4 * base)
        self.pool = nn.MaxPool2d(2)
        self.up2, self.up1 = nn.ConvTranspose2d(4 * base, 2 * base, 2, 2), nn.ConvTranspose2d(2 * base, base, 2, 2)
        self.join2, self.join1 = block(4 * base, 2 * base), block(2 * base, base)
        self.head = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.middle(self.pool(b))
        c = self.join2(torch.cat([b, self.up2(c)], 1))
        c = self.join1(torch.cat([a, self.up1(c)], 1))
        return self.head(c)


class Recommender(nn.Module):
    """Neural collaborative filtering: tables of users and items, a product and an MLP."""

    def __init__(self, users=20, items=30, width=8):
        super().__init__()
        self.user, self.item = nn.Embedding(users, width), nn.Embedding(items, width)
        self.user_mlp, self.item_mlp = nn.Embedding(users, width), nn.Embedding(items, width)
        self.mlp = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        self.head = nn.Linear(2 * width, 1)

    def forward(self, user, item):
        product = self.user(user) * self.item(item)
        mlp = self.mlp(torch.cat([self.user_mlp(user), self.item_mlp(item)], -1))
        return self.head(torch.cat([product, mlp], -1))[:, 0]


class Patterns(nn.Module):
    """What models do with ids beside looking them up, and parts of tensors: split, chunk and unbind, one-hot,
    conditions of ids and of pairs of them, hashed ids, rows of a larger table, rows and elements at data."""

    def __init__(self, width=16):
        super().__init__()
        self.embed, self.hashed = nn.Embedding(64, width), nn.Embedding(32, width)
        self.places = nn.Embedding(16, width)
        self.table = nn.Parameter(torch.randn(64, 2, width) * 0.1)
        self.classes, self.mix = nn.Linear(64, width, bias=False), nn.Linear(width, width)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, ids):
        seen = ids != 0
        at = torch.cumsum(seen.int(), 1).long() * seen
        x = self.embed(ids) + self.hashed(ids * 2654435761 % 32) + self.places(at)
        x = x + self.classes(nn.functional.one_hot(ids, 64).to(x.dtype)) + self.table[ids].sum(2)
        a, b = torch.split(self.mix(x), 8, -1)
        c, d, e = torch.split(x, [4, 4, 8], -1)
        f, g = x.chunk(2, 1)
        x = torch.cat([torch.tanh(a) * b, c + d, torch.sigmoid(e)[..., :4]], -1) + torch.cat([g, f], 1)
        causal = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool, device=ids.device).tril()
        pairs = (seen[:, None, :] & seen[:, :, None] & causal) | torch.eye(ids.shape[1], dtype=torch.bool)
        x = (x @ x.transpose(1, 2)).masked_fill(~pairs, -1e4).softmax(-1) @ x
        kept = ((ids > 10) & (ids < 50)) | (ids == 3)
        x = torch.where(kept[..., None], x, 0.5 * x)
        picked = torch.gather(x, 1, (ids % 4)[..., None].expand(-1, -1, x.shape[-1]))
        x = x + picked + torch.gather(x, 2, ids[..., None] % 16)
        rows = torch.arange(ids.shape[0], device=ids.device)
        last = x[rows, seen.int().sum(-1) - 1]
        return self.head(torch.cat([last, x[rows, ids.argmax(-1)]], -1))


class Nodes(nn.Module):
    """Nodes that become several ops: activations, pools that round up, windows along one dim, norms, largest elements,
    sums of products, repeated dims, divisors of their own, columns of a table, and a bias of one feature."""

    def __init__(self):
        super().__init__()
        self.conv, self.bent, self.gate = nn.Conv2d(3, 8, 3, 2), nn.PReLU(), nn.Linear(8, 1)
        self.mix, self.table = nn.Parameter(torch.randn(8, 6)), nn.Parameter(torch.randn(6, 11))
        self.head, self.line = nn.Linear(6, 5), nn.Conv1d(8, 8, 3, padding=1)

    def forward(self, images, ids):
        f = nn.functional
        x = f.max_pool2d(self.conv(images), 2, 2, ceil_mode=True)
        x = f.avg_pool2d(x, 3, 2, padding=1, ceil_mode=True, count_include_pad=False)
        x = f.hardswish(x) + f.hardsigmoid(3 * x) + f.leaky_relu(x, 0.1) + self.bent(x) + f.elu(x, 0.7) + f.selu(x)
        x = x + f.celu(x, 0.5) + f.mish(x) + f.softsign(x) + torch.abs(x)
        x = x.flatten(2)
        x = x / x.norm(dim=-1, keepdim=True) + x.amax(1, keepdim=True) * x.amin(2, keepdim=True)
        x = torch.maximum(x, x.flip(1)) + torch.minimum(x, 0.5 * x.flip(1))
        x = x * torch.sigmoid(self.gate(x.transpose(1, 2))).transpose(1, 2)
        x = torch.einsum("ncs,cd->nsd", torch.tanh(self.line(x)), self.mix)
        x = x + torch.einsum("nst,ntd->nsd", torch.einsum("nsd,ntd->nst", x, x).softmax(-1), x)
        halves = torch.cat([x.repeat(1, 1, 2)[..., 3:9], x], 1).sum(1)
        hashed = (ids[..., None] // torch.tensor([1, 3, 7])) % torch.tensor([5, 7, 11])
        columns = self.table[:, hashed].sum((2, 3)).transpose(0, 1)
        return self.head(halves * columns)


class Volumes(nn.Module):
    """Images of three dims: windows that overlap along frames, in groups, one behind the other and with frames between,
    all of them also turned around; norms, pools and other sizes. Beside them buffers that nothing trains: a table of
    positions, a mask and numbers in the source."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv3d(2, 4, (3, 5, 5), (1, 2, 2), (1, 2, 2), bias=False), nn.BatchNorm3d(4)
        self.pool, self.groups = nn.MaxPool3d(3, 2, 1), nn.Conv3d(4, 8, 3, (2, 1, 1), 1, groups=2)
        self.part, self.up = nn.GroupNorm(2, 8), nn.ConvTranspose3d(8, 4, 2, 2)
        self.apart, self.patch = nn.Conv3d(4, 4, (2, 3, 3), padding="same", dilation=(2, 1, 1)), nn.Conv3d(4, 8, 2, 2)
        self.ask, self.head = nn.Parameter(torch.randn(8) * 0.1), nn.Linear(8, 5)
        t, i = torch.arange(16.0)[:, None], torch.arange(4.0)[None]
        angles = t / 100 ** (i / 4)
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[None])
        self.register_buffer("seen", torch.ones(1, 16, 16).tril())

    def forward(self, images):
        f = nn.functional
        x = f.relu(self.norm(self.first(images)))
        y = self.up(f.silu(self.part(self.groups(self.pool(x)))))
        y = f.interpolate(self.apart(y), scale_factor=2, mode="trilinear")
        y = f.avg_pool3d(x, (3, 1, 1), (2, 1, 1), (1, 0, 0), False, False) + f.avg_pool3d(y, 2, ceil_mode=True)
        y = self.patch(y).flatten(2).transpose(1, 2) + self.pe
        scores = (y @ y.transpose(1, 2) * torch.tensor([0.5, 0.25])[:1]).masked_fill(self.seen == 0, -1e4)
        y = scores.softmax(-1) @ y
        return self.head(y) * torch.sigmoid(y @ self.ask)[..., None]


class Writes(nn.Module):
    """Elements written in place, or looked up at constant places; the largest in order; dims turned round; images
    padded with their own elements, resized with their corners, rearranged; norms of one dim, of two, of no weight."""

    def __init__(self, width=8):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
        self.edge = nn.Conv2d(4, 4, 3, padding=1, padding_mode="replicate")
        self.up, self.norm = nn.ConvTranspose1d(16, 6, 4, 2, 1, output_padding=1), nn.BatchNorm1d(6)
        self.embed, self.gate = nn.Embedding(64, width), nn.Linear(width, 4)
        self.experts = nn.Parameter(torch.randn(4, width, width) * 0.3)
        self.free, self.plane = nn.LayerNorm(width, elementwise_affine=False), nn.LayerNorm([4, width])
        self.rows = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 5)

    def forward(self, images, ids):
        f = nn.functional
        x = f.interpolate(self.conv(images), size=(8, 6), mode="bilinear", align_corners=True)
        x = f.pixel_unshuffle(f.pixel_shuffle(self.edge(x), 2), 4)
        line = self.norm(self.up(x.flatten(2))).amax((1, 2), keepdim=True)
        picked = x[:, :, [0, 1, 0, 1], [0, 0, 0, 0]].sum((1, 2))
        t = self.embed(ids)
        y = torch.zeros_like(t)
        y[:, 1:] = t[:, :-1]
        y[:, 0] = 0.5 * t[:, -1]
        y[:, 2:8, 1:3] = torch.sin(t[:, 2:8, 1:3])
        y[:, [1, 10, 4]] = torch.cos(2 * t[:, [0, 2, 5]])
        p, at = self.gate(y).softmax(-1).topk(2, dim=-1)
        gates = torch.zeros_like(p).repeat(1, 1, 2).scatter(-1, at, p / p.sum(-1, keepdim=True))
        z = torch.einsum("bsh,ehf->bsef", y, self.experts).relu()
        y = y + torch.einsum("bsef,bse->bsf", z, gates)
        y = self.free(y) + y.flip(1).cumsum(1).flip(1) / 12 + y.topk(3, dim=1, largest=False)[0].mean(1, keepdim=True)
        y = y + f.log_softmax(y, 1) - torch.logsumexp(y, -1, keepdim=True)
        y = y + f.pad(f.pad(y, (0, 0, 2, 1), mode="constant", value=0.5), (0, 0, -1, -2))
        y = self.plane(y[:, 4:8]).sum(1)
        return self.head(self.rows(y + picked[:, None] + line[:, 0]))


class Recurrent(nn.Module):
    """An LSTM in both directions, and GRUs of which one begins where the other ends."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(64, 6), nn.LSTM(6, 5, bidirectional=True, batch_first=True)
        self.encoder, self.decoder = nn.GRU(10, 4, batch_first=True), nn.GRU(6, 4, batch_first=True)
        self.plain, self.head = nn.RNN(4, 3, nonlinearity="relu", batch_first=True), nn.Linear(3, 5)

    def forward(self, ids):
        x = self.embed(ids)
        _, state = self.encoder(self.lstm(x)[0])
        return self.head(self.plain(self.decoder(x[:, :4], state)[0])[0])


class Ends(nn.Module):
    """The last cells of an LSTM and the last states of a GRU, and nothing else."""

    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(64, 6), nn.LSTM(6, 5, batch_first=True)
        self.gru, self.head = nn.GRU(6, 4, batch_first=True), nn.Linear(9, 5)

    def forward(self, ids):
        x = self.embed(ids)
        _, (_, cells) = self.lstm(x)
        _, states = self.gru(x)
        return self.head(torch.cat([cells.reshape(-1, 5), states.reshape(-1, 4)], 1))


class Scores(nn.Module):
    """PyTorch's attention, causal and with a mask of data: from operator set 23 on one node each."""

    def __init__(self, width=8):
        super().__init__()
        self.embed, self.qkv = nn.Embedding(64, width), nn.Linear(width, 3 * width)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, ids):
        parts = self.qkv(self.embed(ids)).chunk(3, -1)
        q, k, v = (x.unflatten(-1, (2, -1)).transpose(1, 2) for x in parts)
        attend = nn.functional.scaled_dot_product_attention
        seen = (ids != 3)[:, None, None, :]
        both = [attend(q, k, v, is_causal=True), attend(q, k, v, attn_mask=seen, scale=0.5)]
        return self.head(torch.cat([x.transpose(1, 2).flatten(2) for x in both], -1))


class Tasks(nn.Module):
    """Two answers of one trunk."""

    def __init__(self):
        super().__init__()
        self.embed, self.trunk = nn.Embedding(30, 8), nn.Linear(8, 16)
        self.topic, self.rating = nn.Linear(16, 5), nn.Linear(16, 3)

    def forward(self, item):
        x = torch.tanh(self.trunk(self.embed(item)))
        return self.topic(x), self.rating(x)


# Output -> its loss, and what it weighs.
LOSSES = {"topic": {"kind": "cross_entropy", "weight": 0.7, "divisor": "elements"},
          "rating": {"kind": "mean_square", "weight": 0.5, "divisor": "samples"}}


def text(kind):
    """A model, and the modulus of each of its inputs."""
    masked = kind.endswith("-masked")
    kind = kind.removesuffix("-masked")
    attention = "sdpa" if masked and kind == "bert" else "eager"
    small = dict(vocab_size=64, attn_implementation=attention, num_labels=5)
    layers = 1 if masked and kind != "gpt2" else 2
    if kind == "gpt2":
        config = transformers.GPT2Config(n_layer=layers, n_embd=32, n_head=4, n_positions=16, resid_pdrop=0,
                                         embd_pdrop=0, attn_pdrop=0, use_cache=False, **small)
        model = transformers.GPT2LMHeadModel(config)
    elif kind == "bert":
        config = transformers.BertConfig(num_hidden_layers=layers, hidden_size=32, num_attention_heads=4,
                                         intermediate_size=64, max_position_embeddings=16, hidden_dropout_prob=0,
                                         attention_probs_dropout_prob=0, **small)
        model = (transformers.BertForSequenceClassification if masked else transformers.BertForMaskedLM)(config)
    elif kind == "roberta":
        config = transformers.RobertaConfig(num_hidden_layers=1, hidden_size=16, num_attention_heads=2,
                                            intermediate_size=32, max_position_embeddings=18, pad_token_id=1,
                                            hidden_dropout_prob=0, attention_probs_dropout_prob=0, **small)
        model = transformers.RobertaForMaskedLM(config)
    elif kind == "distilbert":
        config = transformers.DistilBertConfig(n_layers=layers, dim=32, n_heads=4, hidden_dim=64, dropout=0,
                                               max_position_embeddings=16, attention_dropout=0,
                                               seq_classif_dropout=0, **small)
        model = transformers.DistilBertForSequenceClassification(config)
    else:
        config = transformers.LlamaConfig(num_hidden_layers=layers, hidden_size=32, num_attention_heads=4,
                                          num_key_value_heads=2, intermediate_size=48, max_position_embeddings=16,
                                          use_cache=False, **small)
        model = transformers.LlamaForCausalLM(config)
    moduli = {"input_ids": 64, "attention_mask": 2} if masked else {"input_ids": 64}
    return First(model, list(moduli)), moduli


def image(kind):
    if kind == "resnet":
        return timm.models.resnet.ResNet(timm.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10,
                                         channels=(8, 16, 24, 32), stem_width=8)
    if kind == "vit":
        return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2,
                                                    hidden_dim=32, mlp_dim=64, num_classes=10)
    if kind == "swin":
        return torchvision.models.SwinTransformer(patch_size=[2, 2], embed_dim=16, depths=[2, 1], num_heads=[2, 4],
                                                  window_size=[4, 4], num_classes=10, stochastic_depth_prob=0)
    if kind == "densenet":
        return torchvision.models.DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=10)
    return UNet()


TEXT = ["gpt2", "bert", "llama", "gpt2-masked", "bert-masked", "llama-masked", "distilbert-masked", "roberta"]
OTHERS = ["recommender", "patterns", "tasks", "nodes", "scores", "writes", "recurrent", "ends", "volumes"]
IMAGES = ["resnet", "vit", "swin", "densenet", "unet"]
# The optimisation that dynamo's exports have folds batch norms into convolutions, and tables into biases.
AS_IT_IS = ["resnet", "densenet", "unet", "swin", "patterns", "nodes", "writes", "recurrent", "ends", "volumes"]
OPSETS = {"scores": 23}  # of dynamo's
BATCH, SEQ = 2, 12


def real(shape, shift=0):
    count = torch.Size(shape).numel()
    return torch.sin(0.7 * torch.arange(count, dtype=torch.float64) + 1 + shift).reshape(shape)


def ids(shape, modulus, a=7, b=3):
    count = torch.Size(shape).numel()
    return ((a * torch.arange(count) + b) % modulus).reshape(shape)


def build(name):
    torch.manual_seed(0)
    if name in TEXT:
        model, moduli = text(name)
        inputs = {n: ids((BATCH, SEQ), modulus) for n, modulus in moduli.items()}
        return model, inputs, moduli, {n: {0: "batch", 1: "seq"} for n in inputs}, "cross_entropy"
    if name == "recommender":
        inputs = {"user": ids((BATCH,), 20), "item": ids((BATCH,), 30)}
        return Recommender(), inputs, {"user": 20, "item": 30}, {n: {0: "batch"} for n in inputs}, "binary_cross_entropy"
    if name == "patterns":
        return Patterns(), {"ids": ids((BATCH, SEQ), 64)}, {"ids": 64}, {"ids": {0: "batch", 1: "seq"}}, "cross_entropy"
    if name == "nodes":
        inputs = {"images": real((BATCH, 3, 32, 32)), "ids": ids((BATCH, 4), 40)}
        return Nodes(), inputs, {"ids": 40}, {n: {0: "batch"} for n in inputs}, "cross_entropy"
    if name == "volumes":
        return Volumes(), {"images": real((BATCH, 2, 4, 16, 16))}, {}, {"images": {0: "batch"}}, "cross_entropy"
    if name == "writes":
        inputs = {"images": real((BATCH, 3, 16, 16)), "ids": ids((BATCH, SEQ), 64)}
        return Writes(), inputs, {"ids": 64}, {n: {0: "batch"} for n in inputs}, "cross_entropy"
    if name == "recurrent":
        return Recurrent(), {"ids": ids((BATCH, SEQ), 64)}, {"ids": 64}, {"ids": {0: "batch"}}, "cross_entropy"
    if name == "ends":
        return Ends(), {"ids": ids((BATCH, SEQ), 64)}, {"ids": 64}, {"ids": {0: "batch"}}, "cross_entropy"
    if name == "scores":
        return Scores(), {"ids": ids((BATCH, SEQ), 64)}, {"ids": 64}, {"ids": {0: "batch", 1: "seq"}}, "cross_entropy"
    if name == "tasks":
        return Tasks(), {"item": ids((BATCH,), 30)}, {"item": 30}, {"item": {0: "batch"}}, LOSSES
    return image(name), {"images": real((BATCH, 3, 32, 32))}, {}, {"images": {0: "batch"}}, "cross_entropy"


def loss_of(logits, kind):
    if isinstance(kind, dict):
        return sum(loss["weight"] * (one.shape[1] if loss["divisor"] == "samples" else 1) * loss_of(one, loss["kind"])
                   for one, loss in zip(logits, kind.values()))
    if kind == "mean_square":
        return nn.functional.mse_loss(logits, real(logits.shape))
    if kind == "binary_cross_entropy":
        return nn.functional.binary_cross_entropy_with_logits(logits, ids(logits.shape, 2, 5, 1).to(logits.dtype))
    classes = logits.shape[1] if logits.dim() == 4 else logits.shape[-1]
    if logits.dim() == 4:
        logits = logits.permute(0, 2, 3, 1)
    flat = logits.reshape(-1, classes)
    return nn.functional.cross_entropy(flat, ids((flat.shape[0],), classes, 5, 1), reduction="sum")


def as_fp32(value):
    return value.float() if value.is_floating_point() else value


def without_traces(path):
    """The exporters' notes on source lines are most of a small file: what remains are module paths."""
    model = onnx.load(path)
    for node in model.graph.node:
        node.doc_string = ""
        kept = [p for p in node.metadata_props if p.key == "namespace"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    del model.metadata_props[:]
    for info in list(model.graph.input) + list(model.graph.output) + list(model.graph.initializer):
        del info.metadata_props[:]
        info.doc_string = ""
    onnx.save(model, path)


def export(name, out):
    model, inputs, moduli, axes, kind = build(name)
    for i, (path, parameter) in enumerate(model.named_parameters()):
        if ".ln_" not in path:  # of gpt2: as they start; elsewhere zeros and ones would hide mistakes
            with torch.no_grad():
                parameter.add_(0.02 * real(parameter.shape, i).to(parameter.dtype))
    names, values = list(inputs), tuple(as_fp32(v) for v in inputs.values())
    outputs = list(kind) if isinstance(kind, dict) else ["logits"]
    script = out / f"{name}-script.onnx"
    torch.onnx.export(model.train(), values, str(script), dynamo=False, opset_version=17, input_names=names,
                      output_names=outputs, dynamic_axes=axes, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING)
    dynamo = out / f"{name}-dynamo.onnx"
    shapes = tuple({d: torch.export.Dim(axis) for d, axis in axes[n].items()} for n in names)
    if isinstance(model, First):
        shapes = (shapes,)
    torch.onnx.export(model.train(), values, str(dynamo), dynamo=True, opset_version=OPSETS.get(name, 18),
                      input_names=names, output_names=outputs, dynamic_shapes=shapes, external_data=False,
                      optimize=name not in AS_IT_IS)
    without_traces(script)
    without_traces(dynamo)
    for module in model.modules():  # the files do not say which row has no gradient
        if isinstance(module, nn.Embedding):
            module.padding_idx = None
    model = model.double()
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH):
        logits = model(*inputs.values())
    angles = sum(sum(flop.values()) for path, flop in counter.get_flop_counts().items()
                 if path.endswith("rotary_emb"))  # of constants: computed when the file is read
    loss = loss_of(logits, kind)
    loss.backward()
    parameters = {id(p): p for p in model.parameters()}.values()
    golden = {
        "torch": torch.__version__, "torchvision": torchvision.__version__, "transformers": transformers.__version__,
        "timm": timm.__version__, "batch": BATCH, "axes": {"seq": SEQ} if any("seq" in a.values() for a in axes.values()) else {}, "moduli": moduli,
        "loss_kind": kind, "loss": loss.item(), "parameters": sum(p.numel() for p in parameters),
        "flop": counter.get_total_flops() - angles,
        "gradients": sorted(float((p.grad ** 2).sum()) for p in parameters if p.grad is not None)}
    (out / f"{name}.json").write_text(json.dumps(golden, indent=1) + "\n")


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or TEXT + IMAGES + OTHERS:
        export(name, out)


if __name__ == "__main__":
    main()
