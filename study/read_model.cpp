// The `model:` block: a preset or file by name, numbers written out, or a preset with some of its
// numbers replaced.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/plan/plan_limits.h"
#include "models/onnx/onnx_model.h"
#include "study/family_keys.h"
#include "study/study_keys.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

ModelConfig load_model(const Study& study, const YamlNode& node, const StudyResolvers& resolvers) {
  const std::string name = node.as_text();
  if (!is_path(name)) {
    refuse_path(node, "of a model is a Hugging Face config.json or an .onnx file");
    std::optional<ModelConfig> model = resolvers.model_preset(name);
    if (!model)
      model = resolvers.model_preset(known_name(name, resolvers, StudyResolvers::Names::kModels));
    if (!model) fail_unknown_name(node, "model", name, resolvers, StudyResolvers::Names::kModels);
    return *model;
  }
  if (name.ends_with(".onnx")) {
    return read_named_file(study, node,
                           [&](const std::string& path) { return resolvers.onnx_file(path, {}); });
  }
  if (!name.ends_with(".json"))
    node.fail("a file of a model is a Hugging Face config.json or an .onnx file, got " +
              in_quotes(name));
  return read_named_file(study, node, resolvers.model_file);
}

bool is_of_family(const ModelConfig& model, std::string_view key) {
  return belongs_to(*find_key(model_keys(), key), model.family);
}

/// Looks at a key that means nothing to the family; check_family_keys() refuses it.
void leave_out(Section& section, std::string_view key) { section.given(key); }

/// A number of the model that follows from others unless said. nullopt: it does not follow.
struct DependentNumber {
  std::string key;
  std::int64_t ModelConfig::*field;
  std::optional<std::int64_t> (*rule)(const ModelConfig&);
  std::string note;
};

std::optional<std::int64_t> even_head_dim(const ModelConfig& m) {
  if (m.heads == 0 || m.hidden % m.heads != 0) return std::nullopt;
  return m.hidden / m.heads;
}

/// Llama: 8/3 of the hidden size, which makes three matrices as large as two of 4 x hidden, rounded
/// up to a multiple of 256 (Touvron et al., arXiv:2302.13971, section 2.2, and its released code).
std::optional<std::int64_t> usual_ffn(const ModelConfig& m) {
  if (m.family != Family::kLlama) return 4 * m.hidden;
  return (8 * m.hidden / 3 + 255) / 256 * 256;
}

std::optional<std::int64_t> usual_positions(const ModelConfig& m) {
  if (m.family == Family::kGpt)
    return m.positions == Positions::kLearned ? m.seq_len + m.position_offset : 0;
  if (m.family == Family::kBert) return std::max<std::int64_t>(512, m.seq_len);
  return 0;
}

const std::vector<DependentNumber>& dependent_numbers() {
  using M = ModelConfig;
  static const std::vector<DependentNumber> numbers = {
      {"kv_heads", &M::kv_heads, [](const M& m) { return std::optional(m.heads); }, "heads"},
      {"head_dim", &M::head_dim, even_head_dim, "hidden / heads"},
      {"ffn", &M::ffn, usual_ffn, "4 x hidden; llama 8/3 x hidden, up to a multiple of 256"},
      {"decoder_layers", &M::decoder_layers,
       [](const M& m) { return std::optional(m.family == Family::kT5 ? m.layers : 0); },
       "layers for t5, else 0"},
      {"decoder_seq_len", &M::decoder_seq_len,
       [](const M& m) { return std::optional(m.family == Family::kT5 ? m.seq_len : 0); },
       "seq_len for t5, else 0"},
      {"max_positions", &M::max_positions, usual_positions,
       "seq_len + position_offset for gpt with learned positions; the larger of 512 and seq_len "
       "for bert; else 0"},
      {"token_types", &M::token_types,
       [](const M& m) { return std::optional<std::int64_t>(m.family == Family::kBert ? 2 : 0); },
       "2 for bert, else 0"},
      {"relative_buckets", &M::relative_buckets,
       [](const M& m) { return std::optional<std::int64_t>(m.family == Family::kT5 ? 32 : 0); },
       "32 for t5, else 0"},
  };
  return numbers;
}

/// Numbers that the user replaced in a preset carry those along that followed from them there.
void read_dependent_number(Section& section, ModelConfig& model, const ModelConfig& base,
                           bool has_base, const DependentNumber& number) {
  if (!is_of_family(model, number.key)) return leave_out(section, number.key);
  // Its heads are as wide as is said: how many there are follows.
  if (model.family == Family::kMamba2) return section.integer(number.key, model.*number.field);
  if (const auto node = section.given(number.key)) {
    model.*number.field = section.integer_of(*node, number.key);
    return;
  }
  // What they follow from is not known.
  if (section.draft().has_mistake_in("model")) return;
  const bool followed = !has_base || number.rule(base) == base.*number.field;
  if (!followed) return;
  const std::optional<std::int64_t> value = number.rule(model);
  if (!value) {
    fail_at(section.study(), "model.heads",
            std::to_string(model.heads) + " heads do not divide hidden " +
                std::to_string(model.hidden) +
                "; say model.head_dim, or take a number of heads that does");
  }
  if (has_base && model.*number.field == *value) return;
  model.*number.field = *value;
  section.study().origins[section.key_path(number.key)] =
      has_base ? derived_origin(number.note) : default_origin(number.note);
}

struct FamilyHabits {
  Activation activation;
  bool tied_embeddings;
  bool linear_bias;
  double norm_eps;
};

FamilyHabits habits(Family family) {
  switch (family) {
    case Family::kGpt:
    case Family::kBert:
      return {Activation::kGelu, true, true, family == Family::kGpt ? 1e-5 : 1e-12};
    case Family::kT5: return {Activation::kRelu, true, false, 1e-6};
    case Family::kLlama: return {Activation::kSwiglu, false, false, 1e-5};
    case Family::kVit: return {Activation::kGelu, false, true, 1e-6};
    case Family::kSwin: return {Activation::kGelu, false, true, 1e-5};
    case Family::kMamba2: return {Activation::kGelu, true, false, 1e-5};
    case Family::kClip: return {Activation::kGelu, false, true, 1e-5};
    case Family::kResnet:
    case Family::kVgg:
    case Family::kDensenet:
    case Family::kUnet:
    case Family::kNcf:
    case Family::kOnnx: return {Activation::kRelu, false, true, 1e-5};
  }
  return {};
}

/// ImageNet's images.
void take_image_habits(ModelConfig& model) {
  const bool clip = model.family == Family::kClip;
  if (!is_of_images(model.family) && !clip) return;
  model.image_size = 224;
  model.channels = 3;
  if (!clip) model.classes = 1000;
  if (clip || model.family == Family::kVit) model.patch_size = 16;
  if (model.family == Family::kSwin) model.patch_size = 4, model.window_size = 7;
  if (model.family == Family::kUnet) model.classes = 2;
  if (model.family == Family::kResnet) model.width_factor = 1;
}

/// state-spaces/mamba's.
void take_mamba2_habits(ModelConfig& model) {
  if (model.family != Family::kMamba2) return;
  model.head_dim = 64;
  model.groups = 1;
  model.state_size = 128;
  model.conv_width = 4;
  model.expand = 2;
  model.chunk_size = 256;
}

void take_habits(ModelConfig& model) {
  const FamilyHabits usual = habits(model.family);
  model.activation = usual.activation;
  model.tied_embeddings = usual.tied_embeddings;
  model.linear_bias = usual.linear_bias;
  model.norm_eps = usual.norm_eps;
  take_image_habits(model);
  take_mamba2_habits(model);
}

void read_activation(Section& section, ModelConfig& model) {
  if (const auto node = section.given("activation")) {
    model.activation = static_cast<Activation>(read_word(*node, "activation", kActivationWords));
  } else {
    section.study().origins.emplace("model.activation", default_origin("the family's"));
  }
}

void read_required_number(Section& section, std::string_view key, std::int64_t& value) {
  if (value == 0) section.required(key);  // the preset does not say it
  section.integer(key, value);
}

void read_family(Section& section, ModelConfig& model, bool has_base) {
  if (!has_base) section.required("family");
  const auto node = section.given("family");
  if (!node) return;
  const auto family = static_cast<Family>(read_word(*node, "family", kFamilyWords));
  if (has_base && family != model.family) {
    node->fail("the preset's family is " + std::string(to_string(model.family)) +
               "; leave this key out");
  }
  model.family = family;
  if (family == Family::kOnnx && model.onnx == nullptr)
    node->fail("say model.onnx: the file of the model");
}

void record_preset(Study& study, const YamlNode& node) {
  const std::string name = node.as_string();
  Origin origin{is_path(name) ? Origin::Kind::kFile : Origin::Kind::kPreset, node.pos(), name};
  if (!node.set_by().empty()) origin = origin_of(node);
  for (const StudyKey& key : model_keys()) {
    if (key.name != "preset" && key.name != "pad_vocab_to")
      study.origins["model." + std::string(key.name)] = origin;
  }
}

/// A model of an ONNX file, and what the study says of it.
void read_onnx_model(Section& section, const YamlNode& file, const StudyResolvers& resolvers) {
  Study& study = section.study();
  if (file.as_string().empty()) file.fail("expected the file of a model, got nothing");
  std::map<std::string, std::int64_t> axes;
  section.read_given("axes", [&](const YamlNode& node) {
    for (const std::string& axis : node.keys()) {
      axes[axis] = node.at(axis).as_integer(1, kMaxModelNumber);
      study.origins["model.axes." + axis] = origin_of(node.at(axis));
    }
  });
  try {
    study.model = resolvers.onnx_file(path_from_study(study, file.as_string()), axes);
  } catch (const ConfigError& error) {
    const std::string path = "model.axes.";
    if (!error.key_path().starts_with(path)) file.fail(error.what());
    section.node()->at("axes").at(error.key_path().substr(path.size())).fail(error.problem());
  }
  study.origins["model.onnx"] = {Origin::Kind::kFile, file.pos(), file.as_string()};
  Section::Rules rules = {
      {"onnx", [] {}},
      {"axes", [] {}},
      {"loss", [&] { read_losses(section, study.model); }},
      {"buffers",
       [&] {
         section.read_given("buffers", [&](const YamlNode& node) {
           std::vector<std::string> buffers;
           for (const YamlNode& item : node.items()) buffers.push_back(item.as_string());
           if (buffers.empty()) node.fail("expected names of tensors, got nothing");
           study.model.onnx = resolvers.onnx_buffers(study.model.onnx, buffers);
         });
       }},
      {"family", [&] {
         const auto node = section.given("family");
         if (node && read_word(*node, "family", kFamilyWords) != static_cast<int>(Family::kOnnx))
           node->fail("a model with model.onnx is of family onnx; leave this key out");
       }}};
  for (const StudyKey& key : model_keys()) {
    if (!belongs_to(key, Family::kOnnx))
      rules.emplace_back(key.name, [&section, &key] { section.given(key.name); });
  }
  section.read_all(rules);
}

/// All but the preset, over what it says.
void read_numbers(Section& section, ModelConfig& model, bool has_base) {
  const ModelConfig base = model;
  const bool biases_agree = !has_base || base.qkv_bias == base.linear_bias;
  Section::Rules rules = {{"family",
                           [&] {
                             read_family(section, model, has_base);
                             if (!has_base) take_habits(model);
                           }},
                          {"activation", [&] { read_activation(section, model); }},
                          {"qkv_bias",
                           [&] {
                             if (biases_agree) model.qkv_bias = model.linear_bias;
                             section.boolean("qkv_bias", model.qkv_bias);
                           }},
                          {"pad_vocab_to", [&] {
                             if (const auto padded = section.given("pad_vocab_to"))
                               model.pad_vocab_to = section.integer_of(*padded, "pad_vocab_to");
                           }}};
  using Required = std::pair<const char*, std::int64_t ModelConfig::*>;
  for (const auto& [key, field] :
       {Required{"layers", &ModelConfig::layers}, Required{"hidden", &ModelConfig::hidden},
        Required{"heads", &ModelConfig::heads}, Required{"vocab", &ModelConfig::vocab},
        Required{"seq_len", &ModelConfig::seq_len}, Required{"depth", &ModelConfig::depth},
        Required{"users", &ModelConfig::users}, Required{"items", &ModelConfig::items},
        Required{"image_layers", &ModelConfig::image_layers},
        Required{"image_hidden", &ModelConfig::image_hidden},
        Required{"image_heads", &ModelConfig::image_heads},
        Required{"projection_dim", &ModelConfig::projection_dim},
        Required{"contrast", &ModelConfig::contrast}}) {
    rules.emplace_back(key, [&, key = key, field = field] {
      if (!is_of_family(model, key)) return leave_out(section, key);
      read_required_number(section, key, model.*field);
    });
  }
  for (const char* key : {"axes", "buffers"})
    rules.emplace_back(key, [&section, key] { leave_out(section, key); });
  for (const DependentNumber& number : dependent_numbers()) {
    rules.emplace_back(number.key,
                       [&] { read_dependent_number(section, model, base, has_base, number); });
  }
  section.read_all(rules);
}

/// A model written out that has the numbers of a preset is called so. How long sequences are is the
/// study's.
void name_by_numbers(Study& study, const StudyResolvers& resolvers) {
  ModelConfig& model = study.model;
  if (model.name != ModelConfig{}.name || !resolvers.names) return;
  for (const std::string& name : resolvers.names(StudyResolvers::Names::kModels)) {
    std::optional<ModelConfig> preset = resolvers.model_preset(name);
    if (!preset) continue;
    preset->name = model.name;
    for (const auto field : {&ModelConfig::seq_len, &ModelConfig::decoder_seq_len,
                             &ModelConfig::max_positions, &ModelConfig::pad_vocab_to})
      (*preset).*field = model.*field;
    if (*preset != model) continue;
    model.name = name;
    study.origins["model.name"] = derived_origin("the preset with these numbers");
    return;
  }
}

}  // namespace

void read_model(Section& root, const StudyResolvers& resolvers) {
  Study& study = root.study();
  const YamlNode node = root.required("model");
  ModelConfig& model = study.model;
  if (node.is_scalar()) {
    model = load_model(study, node, resolvers);
    record_preset(study, node);
    if (model.seq_len == 0) node.fail("does not say seq_len; write {preset: ..., seq_len: ...}");
    return;
  }

  Section section(root.draft(), "model", node, model_keys());
  section.refuse_unknown();
  if (const auto file = section.given("onnx")) {
    read_onnx_model(section, *file, resolvers);
    section.finish();
    root.draft().rule({"model.family"}, [&] { check_family_keys(root.draft(), node); });
    return;
  }
  const std::optional<YamlNode> preset = section.given("preset");
  if (preset) {
    model = load_model(study, *preset, resolvers);
    record_preset(study, *preset);
  }
  read_numbers(section, model, preset.has_value());
  section.finish();
  root.draft().rule({"model.family"}, [&] { check_family_keys(root.draft(), node); });
  root.draft().rule({"model"}, [&] {
    set_image_numbers(model);
    name_by_numbers(study, resolvers);
  });
}

}  // namespace trainyard
