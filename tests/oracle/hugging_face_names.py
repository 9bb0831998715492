"""Checks by hand, against the transformers library itself, that its weights and ours are the same.

    python3 -m venv oracle && oracle/bin/pip install torch==2.11.0 transformers==5.23.0 numpy==2.4.6
    ninja -C build/release checkpoint_test
    oracle/bin/python tests/oracle/hugging_face_names.py build/release/tests/checkpoint_test

For one tiny model of each kind: transformers makes it, with random weights everywhere, and saves it
("theirs"). Our program reads that, writes a checkpoint of ours ("ours"), and saves it for transformers
again ("again"). Then
  - transformers loads "again" with no key missing or unexpected, and every weight is the same,
  - its logits are those that the model of models/*.cpp gives, written down here in numpy, with the
    weights of "ours" under our names; of CLIP and Mamba-2 its loss is that of plain_models.py.

With --golden DIR it also writes the names and shapes that transformers saved, which
tests/real/checkpoint/hugging_face_names_test.cpp compares with (DIR is tests/golden/hugging_face/names).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers as tf
from safetensors.numpy import load_file

import plain_models

V, D, N, H, F, S = 23, 12, 3, 4, 20, 7  # vocabulary, hidden, heads, head dim, ffn, sequence


def tiny_models():
    bert = dict(num_hidden_layers=2, hidden_size=D, num_attention_heads=N, intermediate_size=F,
                vocab_size=V, max_position_embeddings=16)
    llama = dict(bert, num_attention_heads=N * 2, num_key_value_heads=N, head_dim=H)
    t5 = dict(num_layers=2, num_decoder_layers=1, d_model=D, d_kv=H, num_heads=N + 1, d_ff=F,
              vocab_size=V, relative_attention_num_buckets=8)
    gpt2 = dict(n_layer=2, n_embd=D, n_head=N, n_inner=F, vocab_size=V, n_positions=16,
                bos_token_id=None, eos_token_id=None)
    qwen3 = dict(llama, layer_types=None)
    gemma2 = dict(llama, sliding_window=4, query_pre_attn_scalar=9, attn_logit_softcapping=5.0,
                  final_logit_softcapping=3.0)
    neox = dict(num_hidden_layers=2, hidden_size=D, num_attention_heads=N, intermediate_size=F,
                vocab_size=V, max_position_embeddings=16, rotary_pct=0.5)
    falcon = dict(num_hidden_layers=2, hidden_size=D, num_attention_heads=N, ffn_hidden_size=F,
                  vocab_size=V, max_position_embeddings=16)
    opt = dict(num_hidden_layers=2, hidden_size=D, num_attention_heads=N, ffn_dim=F, vocab_size=V,
               max_position_embeddings=16, word_embed_proj_dim=D)
    mpt = dict(n_layers=2, d_model=D, n_heads=N, vocab_size=V, max_seq_len=16)
    phi3 = dict(bert, num_key_value_heads=N, pad_token_id=None, eos_token_id=None)
    vit = dict(num_hidden_layers=2, hidden_size=D, num_attention_heads=N, intermediate_size=F, image_size=8,
               patch_size=4, num_labels=5)
    swin = dict(embed_dim=8, depths=[2, 2, 3, 2], num_heads=[2, 4, 8, 16], image_size=32, patch_size=2,
                window_size=2, num_labels=5)
    resnet = dict(embedding_size=64, num_labels=5)
    mamba2 = dict(num_hidden_layers=2, hidden_size=D, expand=2, num_heads=N, head_dim=2 * D // N, n_groups=1,
                  state_size=6, chunk_size=4, vocab_size=V)
    tower = dict(num_hidden_layers=2, hidden_size=D, num_attention_heads=N, intermediate_size=4 * D)
    clip = dict(text_config=dict(tower, vocab_size=V, max_position_embeddings=S, eos_token_id=V - 1, bos_token_id=V - 2),
                vision_config=dict(tower, hidden_size=2 * D, intermediate_size=8 * D, image_size=8, patch_size=4),
                projection_dim=10)
    return {
        "clip": tf.CLIPModel(tf.CLIPConfig(**clip)),
        "mamba2": tf.Mamba2ForCausalLM(tf.Mamba2Config(**mamba2)),
        "mamba2-tied": tf.Mamba2ForCausalLM(tf.Mamba2Config(**mamba2, tie_word_embeddings=True)),
        "resnet-basic": tf.ResNetForImageClassification(tf.ResNetConfig(
            **resnet, depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic")),
        "resnet-bottleneck": tf.ResNetForImageClassification(tf.ResNetConfig(
            **resnet, depths=[3, 4, 6, 3], hidden_sizes=[256, 512, 1024, 2048])),
        "swin": tf.SwinForImageClassification(tf.SwinConfig(**swin)),
        "vit": tf.ViTForImageClassification(tf.ViTConfig(**vit)),
        "qwen3": tf.Qwen3ForCausalLM(tf.Qwen3Config(**qwen3)),
        "gemma": tf.GemmaForCausalLM(tf.GemmaConfig(**llama)),
        "gemma2": tf.Gemma2ForCausalLM(tf.Gemma2Config(**gemma2)),
        "phi3": tf.Phi3ForCausalLM(tf.Phi3Config(**phi3, partial_rotary_factor=0.5)),
        "gpt_neox": tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**neox)),
        "falcon-7b": tf.FalconForCausalLM(tf.FalconConfig(**falcon)),
        "falcon-40b": tf.FalconForCausalLM(tf.FalconConfig(
            **falcon, new_decoder_architecture=True, num_kv_heads=N)),
        "falcon-rw": tf.FalconForCausalLM(tf.FalconConfig(
            **falcon, alibi=True, multi_query=False, bias=True, parallel_attn=False)),
        "opt": tf.OPTForCausalLM(tf.OPTConfig(**opt)),
        "mpt": tf.MptForCausalLM(tf.MptConfig(**mpt)),
        "gpt2": tf.GPT2LMHeadModel(tf.GPT2Config(**gpt2)),
        "gpt2-untied": tf.GPT2LMHeadModel(tf.GPT2Config(**gpt2, tie_word_embeddings=False)),
        "llama": tf.LlamaForCausalLM(tf.LlamaConfig(**llama)),
        "llama-tied-bias": tf.LlamaForCausalLM(tf.LlamaConfig(
            **llama, tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
        "mistral": tf.MistralForCausalLM(tf.MistralConfig(**llama, sliding_window=None)),
        "qwen2": tf.Qwen2ForCausalLM(tf.Qwen2Config(**dict(llama, head_dim=D // (2 * N)))),
        "bert-pretraining": tf.BertForPreTraining(tf.BertConfig(**bert)),
        "bert-masked": tf.BertForMaskedLM(tf.BertConfig(**bert)),
        "bert-untied": tf.BertForMaskedLM(tf.BertConfig(**bert, tie_word_embeddings=False)),
        "roberta": tf.RobertaForMaskedLM(tf.RobertaConfig(**bert, type_vocab_size=1)),
        "roberta-untied": tf.RobertaForMaskedLM(tf.RobertaConfig(
            **bert, type_vocab_size=1, tie_word_embeddings=False)),
        "t5": tf.T5ForConditionalGeneration(tf.T5Config(**t5)),
        "t5-gated": tf.T5ForConditionalGeneration(tf.T5Config(
            **t5, feed_forward_proj="gated-gelu")),
    }


# What our models compute, from models/*.cpp; w is a dict of weights under our names.

def linear(w, module, x):
    y = x @ w[module + ".weight"].T
    return y + w[module + ".bias"] if module + ".bias" in w else y


def layer_norm(w, module, x, eps):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)
    return x * w[module + ".weight"] + w[module + ".bias"]


def rms_norm(w, module, x, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w[module + ".weight"]


def gelu(x):
    return 0.5 * x * (1 + torch.erf(torch.from_numpy(x) / 2 ** 0.5).numpy())


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x ** 3)))


def silu(x):
    return x / (1 + np.exp(-x))


def heads(x, dim):
    return x.reshape(x.shape[0], -1, dim).transpose(1, 0, 2)  # [N, S, H]


def rope(x, base):
    dim = x.shape[-1]
    angle = np.arange(x.shape[1])[:, None] * base ** (-np.arange(0, dim, 2) / dim)[None, :]
    cos, sin = np.cos(angle), np.sin(angle)
    a, b = x[..., :dim // 2], x[..., dim // 2:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(w, module, x, dim, source=None, causal=False, scaled=True, bias=None, rope_base=None):
    source = x if source is None else source
    q = heads(linear(w, module + ".q", x), dim)
    k = heads(linear(w, module + ".k", source), dim)
    v = heads(linear(w, module + ".v", source), dim)
    if rope_base:
        q, k = rope(q, rope_base), rope(k, rope_base)
    share = q.shape[0] // k.shape[0]
    k, v = np.repeat(k, share, 0), np.repeat(v, share, 0)
    scores = q @ k.transpose(0, 2, 1) / (dim ** 0.5 if scaled else 1)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    return linear(w, module + ".proj", (p @ v).transpose(1, 0, 2).reshape(x.shape[0], -1))


def mlp(w, module, x, act):
    if module + ".gate.weight" in w:
        gate, up = linear(w, module + ".gate", x), linear(w, module + ".up", x)
        return linear(w, module + ".down", act(gate) * up)
    return linear(w, module + ".fc2", act(linear(w, module + ".fc1", x)))


def gpt(w, c, ids):
    x = w["embedding.tokens.weight"][ids] + w["embedding.positions.weight"][:len(ids)]
    for i in range(c.n_layer):
        p = f"decoder.layers.{i}."
        x = x + attention(w, p + "attention", layer_norm(w, p + "norm_1", x, 1e-5),
                          c.n_embd // c.n_head, causal=True)
        x = x + mlp(w, p + "mlp", layer_norm(w, p + "norm_2", x, 1e-5), gelu_tanh)
    x = layer_norm(w, "decoder.final_norm", x, 1e-5)
    return x @ w.get("lm_head.weight", w["embedding.tokens.weight"]).T


def llama(w, c, ids):
    x = w["embedding.tokens.weight"][ids]
    dim = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    for i in range(c.num_hidden_layers):
        p = f"decoder.layers.{i}."
        x = x + attention(w, p + "attention", rms_norm(w, p + "norm_1", x, 1e-6), dim,
                          causal=True, rope_base=10000.0)
        x = x + mlp(w, p + "mlp", rms_norm(w, p + "norm_2", x, 1e-6), silu)
    x = rms_norm(w, "decoder.final_norm", x, 1e-6)
    return x @ w.get("lm_head.weight", w["embedding.tokens.weight"]).T


def bert(w, c, ids):
    eps = 1e-12
    first = 2 if c.model_type == "roberta" else 0
    x = (w["embedding.tokens.weight"][ids] + w["embedding.token_types.weight"][0]
         + w["embedding.positions.weight"][first:first + len(ids)])
    x = layer_norm(w, "embedding.norm", x, eps)
    for i in range(c.num_hidden_layers):
        p = f"encoder.layers.{i}."
        x = layer_norm(w, p + "norm_1", x + attention(
            w, p + "attention", x, c.hidden_size // c.num_attention_heads), eps)
        x = layer_norm(w, p + "norm_2", x + mlp(w, p + "mlp", x, gelu), eps)
    h = layer_norm(w, "mlm_head.norm", gelu(linear(w, "mlm_head.dense", x)), eps)
    table = w.get("mlm_head.weight", w["embedding.tokens.weight"])
    logits = h @ table.T + w["mlm_head.bias"]
    if "next_sentence_head.weight" not in w:
        return logits
    pooled = np.tanh(linear(w, "pooler", x[0]))
    return logits, linear(w, "next_sentence_head", pooled)


def relative_bias(w, stack, length, bidirectional):
    """[N, S, S], buckets as Raffel et al. have them; here only distances that are exact."""
    table = w[f"{stack}.layers.0.self_attention.relative_bias.weight"]
    distance = np.arange(length)[None, :] - np.arange(length)[:, None]  # key - query
    bucket = tf.models.t5.modeling_t5.T5Attention._relative_position_bucket(
        torch.from_numpy(distance), bidirectional=bidirectional, num_buckets=len(table),
        max_distance=128).numpy()
    return table[bucket].transpose(2, 0, 1)


def t5(w, c, ids):
    act = gelu_tanh if c.feed_forward_proj == "gated-gelu" else lambda x: np.maximum(x, 0)
    plain = dict(dim=c.d_kv, scaled=False)
    table = w["embedding.tokens.weight"]
    x = table[ids]
    bias = relative_bias(w, "encoder", len(ids), True)
    for i in range(c.num_layers):
        p = f"encoder.layers.{i}."
        x = x + attention(w, p + "self_attention", rms_norm(w, p + "norm_1", x, 1e-6), bias=bias,
                          **plain)
        x = x + mlp(w, p + "mlp", rms_norm(w, p + "norm_2", x, 1e-6), act)
    encoded = rms_norm(w, "encoder.final_norm", x, 1e-6)
    x = table[ids]
    bias = relative_bias(w, "decoder", len(ids), False)
    for i in range(c.num_decoder_layers):
        p = f"decoder.layers.{i}."
        x = x + attention(w, p + "self_attention", rms_norm(w, p + "norm_1", x, 1e-6), bias=bias,
                          causal=True, **plain)
        x = x + attention(w, p + "cross_attention", rms_norm(w, p + "norm_2", x, 1e-6),
                          source=encoded, **plain)
        x = x + mlp(w, p + "mlp", rms_norm(w, p + "norm_3", x, 1e-6), act)
    x = rms_norm(w, "decoder.final_norm", x, 1e-6)
    if "lm_head.weight" in w:
        return x @ w["lm_head.weight"].T
    return x @ table.T / c.d_model ** 0.5


FORWARD = {"gpt2": gpt, "llama": llama, "mistral": llama, "qwen2": llama, "bert": bert,
           "roberta": bert, "t5": t5}


def their_logits(model, ids):
    ids = torch.from_numpy(ids)[None]
    if model.config.model_type == "t5":
        return model(input_ids=ids, decoder_input_ids=ids).logits[0].numpy()
    out = model(input_ids=ids)
    if hasattr(out, "prediction_logits"):
        return out.prediction_logits[0].numpy(), out.seq_relationship_logits[0].numpy()
    return out.logits[0].numpy()


def plain_losses(model, weights):
    """The loss of one batch: by plain_models.py, which train.py holds ours to, on our weights, and by theirs."""
    numbers = np.random.default_rng(2)
    for name, weight in weights.items():  # dims behind the first are stored as one
        if name.endswith("mixer.conv.weight"):
            weights[name] = weight.reshape(len(weight), 1, 1, -1)
        elif name == "image.embedding.patches.weight":
            weights[name] = weight.reshape(len(weight), 3, 4, 4)
    ids = torch.from_numpy(numbers.integers(0, V - 2, (4, S + 1)))
    if model.config.model_type == "mamba2":
        x = {"tokens": ids[:, :-1], "labels": ids[:, 1:]}
        logits = model(x["tokens"]).logits
        theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), x["labels"].flatten())
        return plain_models.mamba2_loss(weights, x, {"norm_eps": 1e-5}).item(), theirs.item()
    ids[:, -2] = V - 1  # ends the text
    x = {"tokens": ids[:, :-1], "images": torch.from_numpy(numbers.standard_normal((4, 3, 8, 8)))}
    theirs = model(input_ids=x["tokens"], pixel_values=x["images"], return_loss=True).loss
    numbers = {"norm_eps": 1e-5, "heads": N, "image_heads": N, "contrast": 4}
    return plain_models.clip_loss(weights, x, numbers).item(), theirs.item()


def check(name, folder):
    theirs_cls = getattr(tf, json.load(open(f"{folder}/theirs/config.json"))["architectures"][0])
    original = theirs_cls.from_pretrained(f"{folder}/theirs").eval()
    config = json.load(open(f"{folder}/again/config.json"))
    model, info = getattr(tf, config["architectures"][0]).from_pretrained(
        f"{folder}/again", output_loading_info=True)
    model.eval()
    # How many batches a norm has seen is read where its momentum is None alone; ours do not count.
    info["missing_keys"] = [key for key in info["missing_keys"] if not key.endswith("num_batches_tracked")]
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        assert not info.get(kind), (name, kind, info[kind])
    state = model.state_dict()
    # An untied head has a bias that nothing reads beside its decoder's.
    dead = ("cls.predictions.bias", "lm_head.bias") if name.endswith("-untied") else ()
    for key, value in original.state_dict().items():
        if key in dead:
            continue
        # CLIP's scale is kept as its distance from where it starts, in fp32.
        same = torch.equal(state[key], value) or key == "logit_scale" and torch.allclose(state[key], value, atol=3e-7)
        assert same, (name, key)
    if model.config.model_type in plain_models.LOSSES:
        ours = {k: torch.from_numpy(v.astype(np.float64)) for k, v in
                load_file(f"{folder}/ours/step-00000001/rank-00000.safetensors").items()}
        got, expected = plain_losses(original.double(), ours)
        assert abs(got / expected - 1) < 1e-6, (name, got, expected)
        print(f"{name:18} {type(model).__name__:28} {len(ours):3} weights, losses {got:.6f} and {expected:.6f}")
        return
    # What these compute is compared in training (train.py); here they are but read and written.
    if model.config.model_type not in FORWARD:
        print(f"{name:18} {type(model).__name__:28} all weights are the same")
        return
    weights = {k: v.astype(np.float64) for k, v in
               load_file(f"{folder}/ours/step-00000001/rank-00000.safetensors").items()}
    ids = np.random.default_rng(1).integers(3, V, S)
    expected = their_logits(model, ids)
    got = FORWARD[model.config.model_type](weights, model.config, ids)
    pairs = list(zip(got, expected)) if isinstance(expected, tuple) else [(got, expected)]
    error = max(np.abs(a - b).max() for a, b in pairs)
    assert error < 2e-5, (name, error)
    print(f"{name:18} {type(model).__name__:28} {len(weights):3} weights, logits of up to "
          f"{max(np.abs(b).max() for _, b in pairs):.2f} differ by at most {error:.1e}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("checkpoint_test")
    parser.add_argument("--golden")
    args = parser.parse_args()
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    torch.manual_seed(7)
    torch.set_grad_enabled(False)
    with tempfile.TemporaryDirectory() as root:
        models = tiny_models()
        for name, model in models.items():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape) * 0.3)
            for buffer_name, buffer in model.named_buffers():
                if "running" in buffer_name:
                    buffer.copy_(torch.rand(buffer.shape))
            model.save_pretrained(f"{root}/{name}/theirs")
        subprocess.run([args.checkpoint_test, "[oracle]"], check=True, stdout=sys.stderr,
                       env=dict(os.environ, TRAINYARD_ORACLE=root))
        for name in models:
            check(name, f"{root}/{name}")
            if args.golden:
                tensors = load_file(f"{root}/{name}/theirs/model.safetensors")
                config = json.load(open(f"{root}/{name}/theirs/config.json"))
                with open(f"{args.golden}/{name}.json", "w") as out:
                    out.write(json.dumps({
                        "source": f"save_pretrained() of transformers {tf.__version__}, torch "
                                  f"{torch.__version__.split('+')[0]}; by tests/oracle/"
                                  "hugging_face_names.py",
                        "config": config}, indent=1)[:-2])
                    out.write(',\n "tensors": {\n')
                    out.write(",\n".join(f'  "{k}": {list(v.shape)}'
                                         for k, v in sorted(tensors.items())
                                         if not k.endswith("num_batches_tracked")))
                    out.write("\n }\n}\n")
    print("all agree")


if __name__ == "__main__":
    main()
