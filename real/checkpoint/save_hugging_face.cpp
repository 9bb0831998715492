#include "real/checkpoint/save_hugging_face.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/indexed.h"
#include "models/model.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/hugging_face_names.h"
#include "real/checkpoint/safetensors.h"

namespace trainyard {

namespace {

using Weights = std::vector<HuggingFaceWeight>;

constexpr std::int64_t kBufferElements = std::int64_t{1} << 24U;

const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::kFp64: return "float64";
    case DType::kFp32: return "float32";
    case DType::kFp16: return "float16";
    case DType::kBf16: return "bfloat16";
    default: bug("weights are of a floating-point type");
  }
}

const char* activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return "gelu";
    case Activation::kGeluTanh: return "gelu_new";
    case Activation::kRelu: return "relu";
    case Activation::kSwiglu: return "gated-silu";
    case Activation::kGeglu: return "gated-gelu";
  }
  bug("an activation without a name");
}

void describe_gpt2(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"GPT2LMHeadModel"}},
               {"model_type", "gpt2"},
               {"n_layer", c.layers},
               {"n_embd", c.hidden},
               {"n_head", c.heads},
               {"n_inner", c.ffn},
               {"n_positions", c.max_positions},
               {"activation_function", activation_name(c.activation)},
               {"layer_norm_epsilon", c.norm_eps},
               {"scale_attn_weights", c.scaled_attention},
               {"scale_attn_by_inverse_layer_idx", c.layer_scaled_attention}});
  if (c.vocab <= 50256) {  // the default, which has to be one of the tokens
    json["bos_token_id"] = nullptr;
    json["eos_token_id"] = nullptr;
  }
}

void describe_bert(const ModelConfig& c, bool is_roberta, nlohmann::json& json) {
  const char* architecture = is_roberta        ? "RobertaForMaskedLM"
                             : c.next_sentence ? "BertForPreTraining"
                                               : "BertForMaskedLM";
  json.update({{"architectures", {architecture}},
               {"model_type", is_roberta ? "roberta" : "bert"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"intermediate_size", c.ffn},
               {"max_position_embeddings", c.max_positions},
               {"type_vocab_size", c.token_types},
               {"hidden_act", activation_name(c.activation)},
               {"layer_norm_eps", c.norm_eps},
               {"pad_token_id", is_roberta ? 1 : 0}});
}

void describe_t5(const ModelConfig& c, nlohmann::json& json) {
  json.update({{"architectures", {"T5ForConditionalGeneration"}},
               {"model_type", "t5"},
               {"num_layers", c.layers},
               {"num_decoder_layers", c.decoder_layers},
               {"d_model", c.hidden},
               {"num_heads", c.heads},
               {"d_kv", c.head_dim},
               {"d_ff", c.ffn},
               {"n_positions", std::max(c.seq_len, c.decoder_seq_len)},
               {"relative_attention_num_buckets", c.relative_buckets},
               {"feed_forward_proj", activation_name(c.activation)},
               {"layer_norm_epsilon", c.norm_eps},
               {"is_encoder_decoder", true},
               {"decoder_start_token_id", 0}});
}

void describe_llama(const ModelConfig& c, bool is_qwen2, nlohmann::json& json) {
  json.update({{"architectures", {is_qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
               {"model_type", is_qwen2 ? "qwen2" : "llama"},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_dim},
               {"intermediate_size", c.ffn},
               {"max_position_embeddings", c.seq_len},
               {"hidden_act", "silu"},
               {"rms_norm_eps", c.norm_eps},
               {"rope_theta", c.rope_base}});
  if (is_qwen2) return;
  json["attention_bias"] = c.linear_bias;
  json["mlp_bias"] = c.linear_bias;
}

std::vector<std::byte> read_rectangle(const Checkpoint& checkpoint, const HuggingFaceWeight& weight,
                                      DType dtype, std::size_t dim, std::int64_t begin,
                                      std::int64_t count) {
  std::vector<std::int64_t> start(weight.shape.size(), 0);
  std::vector<std::int64_t> extent = weight.shape;
  start[dim] = begin;
  extent[dim] = count;
  const Piece piece = rectangle(weight.ours, dtype, weight.shape, start, extent);
  std::vector<std::byte> bytes(static_cast<std::size_t>(num_bytes(piece)));
  checkpoint.read(piece, bytes);
  return bytes;
}

/// The weights that one tensor of theirs stacks, one behind the other.
void write_rows(const Checkpoint& checkpoint, std::span<const HuggingFaceWeight> stack, DType dtype,
                SafetensorsWriter& writer) {
  for (const HuggingFaceWeight& weight : stack) {
    const std::int64_t rows = weight.shape.front();
    const std::int64_t width = product(weight.shape) / rows;
    const std::int64_t at_once = std::max<std::int64_t>(1, kBufferElements / width);
    for (std::int64_t r = 0; r < rows; r += at_once) {
      writer.append(read_rectangle(checkpoint, weight, dtype, 0, r, std::min(at_once, rows - r)));
    }
  }
}

/// The same for a tensor [in, rows]: a few columns of ours at a time become rows.
void write_columns(const Checkpoint& checkpoint, std::span<const HuggingFaceWeight> stack,
                   DType dtype, SafetensorsWriter& writer) {
  const std::int64_t width = stack.front().shape[1];
  const std::int64_t rows = stack.front().rows;
  const std::int64_t at_once = std::clamp<std::int64_t>(kBufferElements / rows, 1, width);
  const std::int64_t size = size_in_bytes(dtype);
  Numbered<std::byte> out(at_once * rows * size);
  for (std::int64_t begin = 0; begin < width; begin += at_once) {
    const std::int64_t columns = std::min(at_once, width - begin);
    for (const HuggingFaceWeight& weight : stack) {
      const std::vector<std::byte> in =
          read_rectangle(checkpoint, weight, dtype, 1, begin, columns);
      for (std::int64_t r = 0; r < weight.shape[0]; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t to = c * rows + weight.first_row + r;
          std::copy_n(in.data() + (r * columns + c) * size, size, out.data() + to * size);
        }
      }
    }
    writer.append(std::span(out).first(static_cast<std::size_t>(columns * rows * size)));
  }
}

void write_weights(const Checkpoint& checkpoint, const Weights& weights, DType dtype,
                   const std::string& path, const std::string& written_by) {
  std::vector<std::span<const HuggingFaceWeight>> stacks;  // one for each tensor of theirs
  std::vector<SafetensorsEntry> entries;
  for (std::size_t i = 0; i < weights.size();) {
    std::size_t end = i;
    while (end < weights.size() && weights[end].theirs == weights[i].theirs) ++end;
    stacks.emplace_back(weights.data() + i, end - i);
    std::vector<std::int64_t> shape = weights[i].shape;
    shape.front() = weights[i].rows;
    if (weights[i].transposed) std::swap(shape[0], shape[1]);
    entries.push_back({weights[i].theirs, dtype, shape});
    i = end;
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!written_by.empty()) metadata["written_by"] = written_by;
  SafetensorsWriter writer(path, entries, metadata);
  for (const auto& stack : stacks) {
    if (stack.front().transposed) {
      write_columns(checkpoint, stack, dtype, writer);
    } else {
      write_rows(checkpoint, stack, dtype, writer);
    }
  }
  writer.finish();
}

}  // namespace

std::string hugging_face_config(const ModelConfig& config, DType dtype) {
  nlohmann::json json = {{"vocab_size", config.vocab},
                         {"tie_word_embeddings", config.tied_embeddings},
                         {"torch_dtype", torch_name(dtype)}};
  const HuggingFaceType type = hugging_face_type(config);
  switch (type) {
    case HuggingFaceType::kGpt2: describe_gpt2(config, json); break;
    case HuggingFaceType::kBert:
    case HuggingFaceType::kRoberta:
      describe_bert(config, type == HuggingFaceType::kRoberta, json);
      break;
    case HuggingFaceType::kT5: describe_t5(config, json); break;
    case HuggingFaceType::kLlama:
    case HuggingFaceType::kQwen2:
      describe_llama(config, type == HuggingFaceType::kQwen2, json);
      break;
  }
  return json.dump(2) + "\n";
}

void save_hugging_face(const Checkpoint& checkpoint, const ModelConfig& config,
                       const std::string& folder, DType dtype, const std::string& written_by) {
  const std::string text = hugging_face_config(config, dtype);
  const Weights weights = hugging_face_weights(hugging_face_type(config), build_model(config, {}));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BackendError(folder + ": cannot create: " + error.message());
  const std::filesystem::path path = folder;
  write_weights(checkpoint, weights, dtype, (path / "model.safetensors").string(), written_by);
  OutputFile file((path / "config.json").string());
  file.append(std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace trainyard
