// The keys of `model:`, in the order of study.resolved.yaml. Where a preset is named its numbers
// hold instead of the defaults.
#include <algorithm>

#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using M = ModelConfig;

template <auto member>
constexpr KeyField of_model() {
  return field<&Study::model, member>();
}

constexpr IntegerForm kSize{1, kMaxModelNumber};
constexpr IntegerForm kSizeOrNone{0, kMaxModelNumber};

constexpr std::string_view kText = "gpt, bert, t5, llama";
constexpr std::string_view kAttends = "gpt, bert, t5, llama, vit";
constexpr std::string_view kHasLayers = "gpt, bert, t5, llama, vit, swin";
constexpr std::string_view kImages = "vit, resnet, vgg, densenet, swin, unet";

/// Whether the comma-separated list names the family.
bool names(std::string_view list, Family family) {
  const std::string_view word = to_string(family);
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(", ", at), list.size());
    if (list.substr(at, end - at) == word) return true;
    at = end + 2;
  }
  return false;
}

}  // namespace

bool belongs_to(const StudyKey& key, Family family) {
  if (key.matters.empty() || names(key.matters, family)) return true;
  // What matters to some families of text is of no effect in the others.
  const auto is_named = [&](Family text) { return names(key.matters, text); };
  constexpr Family kFamiliesOfText[] = {Family::kGpt, Family::kBert, Family::kT5, Family::kLlama};
  return is_of_text(family) &&
         std::any_of(std::begin(kFamiliesOfText), std::end(kFamiliesOfText), is_named);
}

const KeyTable& model_keys() {
  static const KeyTable keys = {
      {"preset",
       {TextForm{{}, StudyResolvers::Names::kModels}},
       "a preset or path whose numbers hold where none is given here"},
      {.name = "name",
       .forms = {TextForm{}},
       .help = "what reports call the model",
       .field = of_model<&M::name>(),
       .fallback = "the preset with these numbers, else custom"},
      {.name = "family",
       .forms = {WordForm{kFamilyWords}},
       .help = "architecture",
       .field = of_model<&M::family>(),
       .fallback = "required without a preset"},
      {.name = "layers",
       .forms = {IntegerForm{1, kMaxLayers}},
       .help = "transformer layers; t5: of the encoder; swin: blocks of all stages, 2, 2, layers - "
               "6 and 2",
       .field = of_model<&M::layers>(),
       .fallback = "required without a preset",
       .matters = kHasLayers},
      {.name = "decoder_layers",
       .forms = {IntegerForm{0, kMaxLayers}},
       .help = "layers of the decoder",
       .field = of_model<&M::decoder_layers>(),
       .fallback = "layers",
       .matters = "t5"},
      {.name = "hidden",
       .forms = {kSize},
       .help = "width of the residual stream; swin: of the first stage; unet: channels of the "
               "first level, a multiple of 8",
       .field = of_model<&M::hidden>(),
       .fallback = "required without a preset",
       .matters = "gpt, bert, t5, llama, vit, swin, unet"},
      {.name = "heads",
       .forms = {kSize},
       .help = "attention heads; swin: of the first stage",
       .field = of_model<&M::heads>(),
       .fallback = "required without a preset",
       .matters = kHasLayers},
      {.name = "kv_heads",
       .forms = {kSize},
       .help = "key and value heads",
       .field = of_model<&M::kv_heads>(),
       .fallback = "heads",
       .matters = kAttends},
      {.name = "head_dim",
       .forms = {kSize},
       .help = "width of a head",
       .field = of_model<&M::head_dim>(),
       .fallback = "hidden / heads",
       .matters = kAttends},
      {.name = "ffn",
       .forms = {kSize},
       .help = "width of the MLP's hidden layer",
       .field = of_model<&M::ffn>(),
       .fallback = "4 x hidden; llama 8/3 x hidden, up to a multiple of 256",
       .matters = kAttends},
      {.name = "vocab",
       .forms = {IntegerForm{1, kMaxVocab}},
       .help = "vocabulary size",
       .field = of_model<&M::vocab>(),
       .fallback = "required without a preset",
       .matters = kText},
      {.name = "pad_vocab_to",
       .forms = {kSize},
       .help = "vocabulary with padding",
       .field = of_model<&M::pad_vocab_to>(),
       .fallback = "vocab, up to a multiple of parallel.tensor",
       .matters = kText},
      {.name = "seq_len",
       .forms = {kSize},
       .help = "tokens per sequence",
       .field = of_model<&M::seq_len>(),
       .fallback = "required without a preset",
       .matters = kText},
      {.name = "decoder_seq_len",
       .forms = {kSizeOrNone},
       .help = "tokens of the decoder",
       .field = of_model<&M::decoder_seq_len>(),
       .fallback = "seq_len",
       .matters = "t5"},
      {.name = "max_positions",
       .forms = {kSizeOrNone},
       .help = "rows of the learned position table; 0: none",
       .field = of_model<&M::max_positions>(),
       .fallback = "gpt seq_len; bert the larger of 512 and seq_len; else 0",
       .matters = "gpt, bert"},
      {.name = "token_types",
       .forms = {kSizeOrNone},
       .help = "rows of the token type table",
       .field = of_model<&M::token_types>(),
       .fallback = "2",
       .matters = "bert"},
      {.name = "relative_buckets",
       .forms = {kSizeOrNone},
       .help = "buckets of the relative attention bias",
       .field = of_model<&M::relative_buckets>(),
       .fallback = "32",
       .matters = "t5"},
      {.name = "activation",
       .forms = {WordForm{kActivationWords}},
       .help = "of the MLP",
       .field = of_model<&M::activation>(),
       .fallback = "gpt, bert, vit gelu; t5 relu; llama swiglu",
       .matters = kAttends},
      {.name = "tied_embeddings",
       .forms = {FlagForm{}},
       .help = "the LM head shares the token embedding",
       .field = of_model<&M::tied_embeddings>(),
       .fallback = "true; llama false",
       .matters = kText},
      {.name = "linear_bias",
       .forms = {FlagForm{}},
       .help = "projections and MLP have biases",
       .field = of_model<&M::linear_bias>(),
       .fallback = "gpt, bert, vit true; t5, llama false",
       .matters = kAttends},
      {.name = "qkv_bias",
       .forms = {FlagForm{}},
       .help = "query, key and value have biases",
       .field = of_model<&M::qkv_bias>(),
       .fallback = "linear_bias",
       .matters = kAttends},
      {.name = "next_sentence",
       .forms = {FlagForm{}},
       .help = "train the next-sentence head, too",
       .field = of_model<&M::next_sentence>(),
       .matters = "bert"},
      {.name = "norm_eps",
       .forms = {NumberForm{0, kNormEpsBelow}},
       .help = "added to the variance by the norms",
       .field = of_model<&M::norm_eps>(),
       .fallback = "bert 1e-12; t5, vit 1e-06; else 1e-05"},
      {.name = "rope_base",
       .forms = {NumberForm{kLeastRotaryBase, kRotaryBaseBelow}},
       .help = "base of the rotary angles",
       .field = of_model<&M::rope_base>(),
       .matters = "llama"},
      {.name = "scaled_attention",
       .forms = {FlagForm{}},
       .help = "scores are divided by sqrt(head_dim); false: gpt only",
       .field = of_model<&M::scaled_attention>(),
       .matters = kText},
      {.name = "layer_scaled_attention",
       .forms = {FlagForm{}},
       .help = "scores are divided by the layer's number, too",
       .field = of_model<&M::layer_scaled_attention>(),
       .matters = "gpt"},
      {.name = "attention_window",
       .forms = {kSizeOrNone},
       .help = "tokens that a token attends to; 0: all. Below seq_len not in this version",
       .field = of_model<&M::attention_window>(),
       .matters = kText},
      {.name = "image_size",
       .forms = {kSize},
       .help = "height and width of images",
       .field = of_model<&M::image_size>(),
       .fallback = "224",
       .matters = kImages},
      {.name = "patch_size",
       .forms = {kSize},
       .help = "height and width of patches, each of which is a token",
       .field = of_model<&M::patch_size>(),
       .fallback = "16; swin 4",
       .matters = "vit, swin"},
      {.name = "window_size",
       .forms = {kSize},
       .help = "height and width, in patches, of the windows within which patches attend",
       .field = of_model<&M::window_size>(),
       .fallback = "7",
       .matters = "swin"},
      {.name = "channels",
       .forms = {kSize},
       .help = "channels of images",
       .field = of_model<&M::channels>(),
       .fallback = "3",
       .matters = kImages},
      {.name = "classes",
       .forms = {kSize},
       .help = "classes that images are told apart by; unet: their pixels",
       .field = of_model<&M::classes>(),
       .fallback = "1000; unet 2",
       .matters = kImages},
      {.name = "depth",
       .forms = {kSize},
       .help = "the number in the network's name: resnet 18, 34, 50, 101, 152; vgg 11, 13, 16, 19; "
               "densenet 121, 169, 201; unet: how often images are halved",
       .field = of_model<&M::depth>(),
       .fallback = "required without a preset",
       .matters = "resnet, vgg, densenet, unet"},
      {.name = "width_factor",
       .forms = {kSize},
       .help = "times the channels of every layer",
       .field = of_model<&M::width_factor>(),
       .fallback = "1",
       .matters = "resnet"},
      {.name = "batch_norm",
       .forms = {WordForm{kBatchNormWords}},
       .help = "over which samples batch norms take mean and variance: those of a microbatch on "
               "one replica, or on all",
       .field = of_model<&M::batch_norm>(),
       .matters = "resnet, densenet, onnx"},
      {.name = "onnx",
       .forms = {TextForm{}},
       .help = "a file of a model that torch.onnx.export wrote; the first dim of its inputs is the "
               "batch",
       .field = of_model<&M::onnx_file>(),
       .fallback = "required for family onnx",
       .matters = "onnx"},
      {.name = "axes",
       .forms = {EntriesForm{"axis", "^.+$", kSize, "model_axes"}},
       .help = "sizes of the dims that the file leaves open, by their names there; the batch is "
               "training.microbatch",
       .fallback = "none",
       .matters = "onnx"},
      {.name = "loss",
       .forms = {WordForm{kImportedLossWords}},
       .help = "of the file's first output",
       .field = of_model<&M::loss>(),
       .matters = "onnx"},
      {.name = "weights",
       .forms = {FlagForm{}},
       .help = "training starts with the weights in the file",
       .field = of_model<&M::load_weights>(),
       .matters = "onnx"},
      {.name = "layer_pattern",
       .forms = {TextForm{}},
       .help = "modules that are layers, * for each number in their paths: encoder.layers.*",
       .field = of_model<&M::layer_pattern>(),
       .fallback = "the numbered modules that hold most parameters",
       .matters = "onnx"},
  };
  return keys;
}

}  // namespace trainyard
