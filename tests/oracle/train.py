"""Trains small models with PyTorch, for tests/real/oracle/pytorch_test.cpp to compare with. By hand:

    python3 -m venv oracle && oracle/bin/pip install torch==2.11.0 transformers==5.23.0 numpy==2.4.6
    ninja -C build/release real_test
    oracle/bin/python tests/oracle/train.py build/release/tests/real_test tests/golden/training

Our program writes, for each of its studies, the initial weights as a model that transformers loads,
the inputs of every sample, and the rules of training. Here transformers computes the logits,
autograd the gradients, torch.optim and clip_grad_norm_ the update; the loss is written out below.
Families that transformers has not are written out in plain_models.py. Nothing of ours takes part
but the names: which rows of which of their tensors a weight of ours is.

What is written is trained in double precision, so that all rounding is that of whoever is compared
with it. Some things transformers computes in float32 whatever the type of the model: RMS norms,
rotary angles, the softmax of some models. They are replaced by the same formulas in double, and all
is trained in float32 with the library as it is, too: the script stops where the two differ by more than float32 rounds (and an
input of a ReLU within rounding of 0, see pytorch_test.cpp, moves a loss).
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import types

import numpy as np
import torch
import transformers as tf
from safetensors.torch import load_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import cross_entropy

from learning_rates import make_schedule
from plain_models import PlainModel

NOT_PREDICTED = -100


def rms_norm(self, x):
    eps = self.eps if hasattr(self, "eps") else self.variance_epsilon
    weight = 1 + self.weight if type(self).__name__.startswith("Gemma") else self.weight
    return weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps))


def frequencies(rope, dim, dtype):
    """Those of default, linear and llama3 angles; modeling_rope_utils.py."""
    frequency = rope["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=dtype) / dim)
    if rope["rope_type"] == "linear":
        return frequency / rope["factor"]
    if rope["rope_type"] != "llama3":
        return frequency
    turns = rope["original_max_position_embeddings"] * frequency / (2 * np.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return frequency * (kept + (1 - kept) / rope["factor"])


def rotary_angles(self, x, position_ids):
    frequency = frequencies(self.config.rope_parameters, self.inv_freq.numel() * 2, x.dtype)
    angle = position_ids[..., None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def softmax(x, dim=-1, dtype=None, **_):
    """That of torch.nn.functional, of a double in double whatever is asked for."""
    return torch.softmax(x, dim, dtype=None if x.dtype == torch.float64 else dtype)


def to_float(x, *_, **__):
    """Tensor.float(), but for a double."""
    return x if x.dtype == torch.float64 else x.to(torch.float32)


def compute_in_double(model):
    torch.nn.functional.softmax = softmax
    torch.Tensor.float = to_float
    for module in model.modules():
        kind = type(module).__name__
        if kind.endswith("RMSNorm") or kind == "T5LayerNorm":
            module.forward = types.MethodType(rms_norm, module)
        if kind.endswith("RotaryEmbedding"):
            module.forward = types.MethodType(rotary_angles, module)


def name_in_memory(name):
    """GPT-NeoX's head has another name in files, and so have the layers of ViT and Swin."""
    for file, memory in (("embed_out.", "lm_head."), ("vit.encoder.layer.", "vit.layers."),
                         ("attention.attention.query.", "attention.q_proj."),
                         ("attention.attention.key.", "attention.k_proj."),
                         ("attention.attention.value.", "attention.v_proj.")):
        name = name.replace(file, memory)
    if not name.startswith(("vit.", "swin.")):
        return name
    for file, memory in (("attention.self.query.", "attention.q_proj."), ("attention.self.key.", "attention.k_proj."),
                         ("attention.self.value.", "attention.v_proj."),
                         ("attention.self.", "attention.relative_position_bias."),
                         ("attention.output.dense.", "attention.o_proj.")):
        name = name.replace(file, memory)
    return name.replace("intermediate.dense.", "mlp.fc1.").replace("output.dense.", "mlp.fc2.")


def load_model(folder, dtype):
    config = json.load(open(f"{folder}/config.json"))
    weights = load_file(f"{folder}/model.safetensors")
    weights = {name_in_memory(name): weight for name, weight in weights.items()}
    # LibTorch's fused attention has no caps of scores, and MPT none of it.
    eager = config["model_type"] in ("gemma2", "mpt")
    model = getattr(tf, config["architectures"][0]).from_pretrained(
        folder, dtype=dtype, attn_implementation="eager" if eager else "sdpa")
    # T5's config of this version calls every table tied; what was saved apart is apart.
    if "lm_head.weight" in weights:
        model.lm_head.weight = torch.nn.Parameter(weights["lm_head.weight"].to(dtype))
    # Id 0 or 1 is a token like any other here, not padding whose row is to get no gradient.
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.padding_idx = None
    if dtype == torch.float64:
        compute_in_double(model)
    state = model.state_dict()
    for name, value in weights.items():
        assert torch.equal(state[name], value.to(dtype)), name
    stored = {state[name].data_ptr() for name in weights}
    for name, parameter in model.named_parameters():
        assert parameter.data_ptr() in stored, f"{name} was not loaded"
    return model


def logits_of(model, x):
    """Logits of the tokens, and of the next-sentence head where there is one."""
    kind = model.config.model_type
    if kind == "t5":
        return model(input_ids=x["tokens"], attention_mask=x["mask"],
                     decoder_input_ids=x["decoder_tokens"]).logits, None
    if kind in ("bert", "roberta"):
        out = model(input_ids=x["tokens"], attention_mask=x["mask"], position_ids=x["positions"],
                    token_type_ids=x["token_types"])
        if hasattr(out, "prediction_logits"):
            return out.prediction_logits, out.seq_relationship_logits
        return out.logits, None
    if kind == "gpt2":
        return model(input_ids=x["tokens"], position_ids=x["positions"]).logits, None
    if kind in ("vit", "swin"):
        sides = (model.config.num_channels, model.config.image_size, model.config.image_size)
        return model(pixel_values=x["images"].to(model.dtype).unflatten(1, sides)).logits, None
    return model(input_ids=x["tokens"]).logits, None


def loss_of(model, x):
    if isinstance(model, PlainModel):
        return model.loss(x)
    logits, next_sentence = logits_of(model, x)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    labels = x["labels"]
    loss = cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=NOT_PREDICTED,
                         reduction="sum") / (labels != NOT_PREDICTED).sum()
    if next_sentence is not None:
        loss = loss + cross_entropy(next_sentence, x["next_sentence_labels"].flatten())
    return loss


def make_optimizer(model, rule):
    if rule["optimizer"] == "sgd":
        return torch.optim.SGD(model.parameters(), lr=rule["lr"]["peak"],
                               weight_decay=rule["weight_decay"])
    # Matrices and tables; not biases, norms, and Swin's tables of relative positions, as Liu et al. 2021 have it.
    decayed = [p for n, p in model.named_parameters() if p.dim() > 1 and "position_bias_table" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() <= 1 or "position_bias_table" in n]
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": rule["weight_decay"]},
         {"params": others, "weight_decay": 0.0}],
        lr=rule["lr"]["peak"], betas=rule["betas"], eps=rule["eps"])


def projection(values):
    """On the vector whose component i is (i * 2654435761 mod 2^32) / 2^31 - 1."""
    i = np.arange(values.size, dtype=np.uint64)
    vector = ((i * np.uint64(2654435761)) % np.uint64(2 ** 32)).astype(np.float64) / 2 ** 31 - 1
    return float(values @ vector)


def gradients(model, names):
    """Norm and projection of each weight's gradient, by our names and in our layout."""
    theirs = dict(model.named_parameters(remove_duplicate=False))
    whole, known = {}, set()
    for name in names:
        # A head's bias that transformers keeps twice has its gradient where it is computed with,
        # which is named first.
        if (name["ours"], name["part"]) in known:
            continue
        known.add((name["ours"], name["part"]))
        grad = theirs[name_in_memory(name["theirs"])].grad
        grad = grad.T if name["transposed"] else grad.reshape(name["stacked"], -1)
        run = name["run"] or name["rows"]
        rows = [name["first_row"] + r // run * name["stride"] + r % run for r in range(name["rows"])]
        grad = grad[rows].to(torch.float64).numpy().reshape(name["rows"], -1)
        ours = whole.setdefault(name["ours"], np.zeros((name["rows"] * name["parts"], grad.shape[1])))
        ours[name["our_rows"]] = grad
    result = {}
    for name, values in whole.items():
        values = np.ascontiguousarray(values).reshape(-1)
        result[name] = [float(np.sqrt(values @ values)), projection(values)]
    return result


def train(folder, study, rule, dtype):
    model = (PlainModel(study["plain"], dtype) if "plain" in study
             else load_model(f"{folder}/theirs", dtype).eval())  # no dropout
    optimizer = make_optimizer(model, rule)
    schedule = make_schedule(optimizer, rule["lr"], study["steps"])
    batch = study["global_batch"]
    inputs = {name: torch.tensor(values) for name, values in study["inputs"].items()}
    losses, norms, first = [], [], None
    for step in range(study["steps"]):
        optimizer.zero_grad()
        loss = loss_of(model, {name: x[step * batch:(step + 1) * batch]
                               for name, x in inputs.items()})
        loss.backward()
        first = first or gradients(model, study["names"])
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), rule["clip_norm"] or float("inf"))
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return source_of(model), first, {"losses": losses, "gradient_norms": norms}


def train_twice(folder, study, rule):
    """In double, and a look whether float32 with nothing replaced says the same."""
    kind, first, curves = train(folder, study, rule, torch.float64)
    _, first_32, curves_32 = train(folder, study, rule, torch.float32)
    loss = max(abs(a / b - 1) for a, b in zip(curves_32["losses"], curves["losses"]))
    total = sum(norm ** 2 for norm, _ in first.values()) ** 0.5
    gradient = max(abs(a - b) / (10 * norm + total) for name, (norm, projected) in first.items()
                   for a, b in zip(first_32[name], (norm, projected)))
    assert loss < 1e-4 and gradient < 1e-6, (loss, gradient)
    print(f"{os.path.basename(folder):20} {rule['optimizer']:6} loss {curves['losses'][0]:.6f} "
          f"to {curves['losses'][-1]:.6f}; float32 differs by {loss:.1e}, its first gradients by "
          f"{gradient:.1e}")
    return kind, first, curves


def source_of(model):
    if isinstance(model, PlainModel):
        return f"{model.model['family']} of plain_models.py"
    return f"{type(model).__name__} of transformers {tf.__version__}"


def short(value, digits=13):
    if isinstance(value, list):
        return "[" + ", ".join(short(v, digits) for v in value) + "]"
    return f"{value:.{digits}g}" if np.isfinite(value) else "null"


def write(path, kind, first, curves):
    with open(path, "w") as out:
        out.write(json.dumps({
            "source": f"{kind}, torch {torch.__version__.split('+')[0]}, in double; by "
                      "tests/oracle/train.py"},
            indent=1)[:-2])
        for name, curve in curves.items():
            out.write(f',\n "{name}": {{\n')
            out.write(",\n".join(f'  "{k}": {short(v)}' for k, v in curve.items()) + "\n }")
        out.write(',\n "gradients": {\n')
        out.write(",\n".join(f'  "{k}": {short(v)}' for k, v in sorted(first.items())))
        out.write("\n }\n}\n")


def run_studies(usage, train_study):
    """Calls train_study(name, folder, study, out) for each study that real_test writes, in the order of their names."""
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("real_test")
    parser.add_argument("out")
    parser.add_argument("studies", nargs="*", help="those alone; none: all")
    args = parser.parse_args()
    tf.logging.set_verbosity_error()
    tf.logging.disable_progress_bar()
    torch.set_num_threads(1)
    os.makedirs(args.out, exist_ok=True)
    with tempfile.TemporaryDirectory() as root, sdpa_kernel(SDPBackend.MATH):
        subprocess.run([args.real_test, "[.oracle-inputs]"], check=True, stdout=sys.stderr,
                       env=dict(os.environ, TRAINYARD_ORACLE=root))
        for name in sorted(args.studies or os.listdir(root)):
            folder = f"{root}/{name}"
            train_study(name, folder, json.load(open(f"{folder}/inputs.json")), args.out)


def train_study(name, folder, study, out):
    curves = {}
    for training, rule in sorted(study["trainings"].items()):
        kind, first, curves[training] = train_twice(folder, study, rule)
    write(f"{out}/{name}.json", kind, first, curves)


if __name__ == "__main__":
    run_studies(__doc__, train_study)
