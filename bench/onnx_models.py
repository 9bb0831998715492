"""Small models of torchvision, transformers and torch itself for onnx_sweep.py: name -> (model, inputs, axes, loss).

Inputs are formulas, as in tests/oracle/export_onnx.py; dropout is 0, sizes are small enough for a CPU.
"""
import torch
import torchvision
import transformers
from torch import nn

BATCH, SEQ, VOCAB = 4, 12, 64
# Whose masks overflow in fp64 in this version of transformers.
SINGLE = ["transformers/opt"]


class Answer(nn.Module):
    """A model of transformers whose answer is one tensor."""

    def __init__(self, model, names, **settings):
        super().__init__()
        self.model, self.names, self.settings = model, names, settings

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)), **self.settings)
        return out.logits if hasattr(out, "logits") else out[0]


def real(shape, shift=0.0):
    count = torch.Size(shape).numel()
    return torch.sin(0.7 * torch.arange(count, dtype=torch.float64) + 1 + shift).reshape(shape)


def ids(shape, modulus, a=7, b=3):
    count = torch.Size(shape).numel()
    return ((a * torch.arange(count) + b) % modulus).reshape(shape)


def picture(size=64, channels=3):
    return {"images": real((BATCH, channels, size, size))}


class Recurrent(nn.Module):
    """The mean of all states, in two layers."""

    def __init__(self, kind):
        super().__init__()
        self.states, self.head = kind(6, 12, 2, batch_first=True), nn.Linear(12, 10)

    def forward(self, steps):
        return self.head(self.states(steps)[0].mean(1))


class Unweighted(nn.Module):
    """Norms of samples, of groups and of features without weights."""

    def __init__(self):
        super().__init__()
        self.mix, self.groups = nn.Conv1d(7, 8, 3, padding=1), nn.GroupNorm(2, 8, affine=False)
        self.images, self.rows = nn.BatchNorm1d(8, affine=False), nn.BatchNorm1d(8, affine=False)
        self.free, self.head = nn.LayerNorm(6, elementwise_affine=False), nn.Linear(8, 10)

    def forward(self, steps):
        x = torch.sigmoid(self.images(self.mix(steps)))
        return self.head(self.rows((self.free(x) * self.groups(torch.sin(3 * x))).mean(-1)))


@torch.jit.script
def bent_where_six(x):
    if x.shape[1] == 6:
        x = torch.tanh(x)
    else:
        x = torch.linalg.det(x).unsqueeze(1)
    return x


class Scripted(nn.Module):
    """With an If, as TorchScript exports it."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(6, 10)

    def forward(self, steps):
        return self.head(bent_where_six(steps.mean(1)))


def torch_models():
    return {"rnn": lambda: Recurrent(nn.RNN), "gru": lambda: Recurrent(nn.GRU), "lstm": lambda: Recurrent(nn.LSTM),
            "scripted": Scripted, "unweighted": Unweighted}


def torchvision_models():
    models = torchvision.models
    convnext, efficientnet = models.convnext.CNBlockConfig, models.efficientnet
    mobile, last = models.mobilenetv3._mobilenet_v3_conf("mobilenet_v3_small", width_mult=0.5)
    inverted, _ = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=0.5)
    fused = [efficientnet.FusedMBConvConfig(1, 3, 1, 8, 8, 1), efficientnet.FusedMBConvConfig(4, 3, 2, 8, 16, 1),
             efficientnet.MBConvConfig(4, 3, 2, 16, 32, 2)]
    regnet = models.regnet.BlockParams.from_init_params
    blocks = {"stochastic_depth_prob": 0.0, "num_classes": 10}
    return {
        "resnext": (lambda: models.ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], 10, groups=8, width_per_group=4), 64),
        "mobilenet_v2": (lambda: models.mobilenet_v2(width_mult=0.25, num_classes=10, dropout=0), 64),
        "mobilenet_v3": (lambda: models.MobileNetV3(mobile, last, num_classes=10, dropout=0), 64),
        "efficientnet": (lambda: models.EfficientNet(inverted, 0, **blocks), 64),
        "efficientnet_v2": (lambda: models.EfficientNet(fused, 0, last_channel=64, **blocks), 64),
        "convnext": (lambda: models.ConvNeXt([convnext(16, 32, 1), convnext(32, None, 2)], **blocks), 64),
        "regnet_x": (lambda: models.RegNet(regnet(depth=6, w_0=16, w_a=16.0, w_m=2.0, group_width=8), 10), 64),
        "regnet_y": (lambda: models.RegNet(regnet(depth=6, w_0=16, w_a=16.0, w_m=2.0, group_width=8, se_ratio=0.25), 10), 64),
        "mnasnet": (lambda: models.MNASNet(0.25, num_classes=10, dropout=0), 64),
        "shufflenet_v2": (lambda: models.ShuffleNetV2([1, 2, 1], [8, 16, 32, 64, 128], num_classes=10), 64),
        "googlenet": (lambda: models.GoogLeNet(10, aux_logits=False, init_weights=False, dropout=0), 64),
        "inception_v3": (lambda: models.Inception3(10, aux_logits=False, init_weights=False, dropout=0), 96),
        "squeezenet": (lambda: models.squeezenet1_1(num_classes=10, dropout=0), 64),
        "maxvit": (lambda: models.MaxVit((64, 64), 16, 8, [16, 32], [1, 1], 4, 0.0, num_classes=10), 64),
        "swin_v2": (lambda: models.SwinTransformer([2, 2], 16, [2, 2], [2, 4], [4, 4], num_classes=10,
                    stochastic_depth_prob=0.0, block=models.swin_transformer.SwinTransformerBlockV2,
                    downsample_layer=models.swin_transformer.PatchMergingV2), 32),
        "lraspp": (lambda: Segmented(models.segmentation.lraspp_mobilenet_v3_large(
            weights=None, weights_backbone=None, num_classes=5)), 64),
        "fcn": (lambda: Segmented(models.segmentation.fcn_resnet50(
            weights=None, weights_backbone=None, num_classes=5)), 32),
    }


class Segmented(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0

    def forward(self, images):
        return self.model(images)["out"]


def transformers_models():
    t = transformers
    still = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    encoder = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                   max_position_embeddings=32, num_labels=5, **still)
    decoder = dict(vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                   num_key_value_heads=2, intermediate_size=48, max_position_embeddings=32, use_cache=False,
                   attention_dropout=0, pad_token_id=0)
    vision = dict(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                  intermediate_size=64, num_labels=5, **still)

    def text(kind, config, mask=False, **settings):
        return ("text", lambda: kind(config), mask, settings)

    def image(kind, config, **settings):
        return ("image", lambda: kind(config), False, settings)

    return {
        "distilbert": text(t.DistilBertForMaskedLM, t.DistilBertConfig(
            vocab_size=VOCAB, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=32, dropout=0,
            attention_dropout=0)),
        "roberta": text(t.RobertaForSequenceClassification, t.RobertaConfig(**encoder), mask=True),
        "electra": text(t.ElectraForSequenceClassification, t.ElectraConfig(embedding_size=16, **encoder), mask=True),
        "electra_discriminator": text(t.ElectraForPreTraining, t.ElectraConfig(embedding_size=16, **encoder)),
        "albert": text(t.AlbertForMaskedLM, t.AlbertConfig(embedding_size=16, inner_group_num=1, classifier_dropout_prob=0, **encoder)),
        "deberta": text(t.DebertaForMaskedLM, t.DebertaConfig(relative_attention=True, pos_att_type=["c2p", "p2c"], **encoder), mask=True),
        "deberta_v2": text(t.DebertaV2ForMaskedLM, t.DebertaV2Config(
            relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8, share_att_key=True,
            norm_rel_ebd="layer_norm", **encoder), mask=True),
        "mpnet": text(t.MPNetForMaskedLM, t.MPNetConfig(**encoder)),
        "bart_encoder": text(lambda c: t.BartModel(c).encoder, t.BartConfig(
            vocab_size=VOCAB, d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=32, dropout=0,
            attn_implementation="eager"), mask=True),
        "t5_encoder": text(t.T5EncoderModel, t.T5Config(
            vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0,
            relative_attention_num_buckets=8, relative_attention_max_distance=16), mask=True),
        "llama": text(t.LlamaForCausalLM, t.LlamaConfig(**decoder)),
        "mistral": text(t.MistralForCausalLM, t.MistralConfig(sliding_window=4, attn_implementation="eager", **decoder)),
        "qwen2": text(t.Qwen2ForCausalLM, t.Qwen2Config(**decoder)),
        "phi": text(t.PhiForCausalLM, t.PhiConfig(embd_pdrop=0, resid_pdrop=0, **decoder)),
        "phi3": text(t.Phi3ForCausalLM, t.Phi3Config(attn_implementation="eager", **decoder)),
        "gemma": text(t.GemmaForCausalLM, t.GemmaConfig(head_dim=8, **decoder)),
        "gemma2": text(t.Gemma2ForCausalLM, t.Gemma2Config(head_dim=8, query_pre_attn_scalar=8, sliding_window=4,
                                                           attn_implementation="eager", **decoder)),
        "stablelm": text(t.StableLmForCausalLM, t.StableLmConfig(partial_rotary_factor=0.5, hidden_dropout=0, **decoder)),
        "gpt_neox": text(t.GPTNeoXForCausalLM, t.GPTNeoXConfig(
            vocab_size=VOCAB, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
            max_position_embeddings=32, use_cache=False, attention_dropout=0, hidden_dropout=0)),
        "opt": text(t.OPTForCausalLM, t.OPTConfig(
            vocab_size=VOCAB, hidden_size=32, word_embed_proj_dim=32, num_hidden_layers=2, num_attention_heads=4,
            ffn_dim=64, max_position_embeddings=32, dropout=0, use_cache=False, attn_implementation="eager")),
        "bloom": text(t.BloomForCausalLM, t.BloomConfig(
            vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4, hidden_dropout=0, attention_dropout=0, use_cache=False)),
        "olmo": text(t.OlmoForCausalLM, t.OlmoConfig(**decoder)),
        "vit": image(t.ViTForImageClassification, t.ViTConfig(**vision)),
        "deit": image(t.DeiTForImageClassification, t.DeiTConfig(**vision)),
        "beit": image(t.BeitForImageClassification, t.BeitConfig(
            drop_path_rate=0, use_relative_position_bias=True, use_mean_pooling=True, **vision)),
        "dinov2": image(t.Dinov2ForImageClassification, t.Dinov2Config(drop_path_rate=0, **vision)),
        "swin": image(t.SwinForImageClassification, t.SwinConfig(
            image_size=32, patch_size=2, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
            drop_path_rate=0, num_labels=5, **still)),
        "segformer": image(t.SegformerForImageClassification, t.SegformerConfig(
            num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3],
            strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2], drop_path_rate=0, num_labels=5, **still)),
        "mobilevit": image(t.MobileViTForImageClassification, t.MobileViTConfig(
            image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 24, 32, 40, 48],
            num_attention_heads=4, classifier_dropout_prob=0, num_labels=5, **still)),
        "clip_vision": image(t.CLIPVisionModelWithProjection, t.CLIPVisionConfig(
            image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, projection_dim=16, attn_implementation="eager")),
        "whisper_encoder": ("sound", lambda: t.WhisperModel(t.WhisperConfig(
            vocab_size=VOCAB, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4,
            decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_source_positions=24, dropout=0,
            pad_token_id=0, bos_token_id=0, eos_token_id=0, decoder_start_token_id=0,
            attn_implementation="eager")).encoder, False, {}),
    }


def build(name):
    """The model in training mode, its inputs, the names of their dims."""
    torch.manual_seed(0)
    images = torchvision_models()
    if name.removeprefix("torchvision/") in images and name.startswith("torchvision/"):
        make, size = images[name.removeprefix("torchvision/")]
        return make().train(), picture(size), {"images": {0: "batch"}}
    if name.startswith("torch/"):
        return torch_models()[name.removeprefix("torch/")]().train(), {"steps": real((BATCH, 7, 6))}, {"steps": {0: "batch"}}
    kind, make, mask, settings = transformers_models()[name.removeprefix("transformers/")]
    if kind == "text":
        inputs = {"input_ids": ids((BATCH, SEQ), VOCAB - 2) + 2}  # 0 and 1 pad
        if mask:
            inputs["attention_mask"] = torch.ones(BATCH, SEQ, dtype=torch.int64)
            inputs["attention_mask"][0, 8:] = 0
        axes = {n: {0: "batch", 1: "seq"} for n in inputs}
    elif kind == "sound":
        inputs, axes = {"input_features": real((BATCH, 16, 48))}, {"input_features": {0: "batch"}}
    else:
        size = getattr(make().config, "image_size", 32)
        size = 32 if not isinstance(size, int) or size > 64 else size
        inputs, axes = {"pixel_values": picture(size)["images"]}, {"pixel_values": {0: "batch"}}
    torch.manual_seed(0)
    return Answer(make(), list(inputs), **settings).train(), inputs, axes


def names():
    return (["torchvision/" + n for n in torchvision_models()] + ["transformers/" + n for n in transformers_models()] +
            ["torch/" + n for n in torch_models()])
