#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/schedule/schedule_names.h"
#include "study/free_parameters.h"
#include "study/profile_reader.h"
#include "study/study_section.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// A value with its provenance: {value: true, kind: ..., note: ...}, or the bare value, which then
/// rests on `basis`, the note for the whole file.
template <typename Read>
void read_entry(const YamlNode& root, std::string_view key, SoftwareProfile& profile, Read&& read) {
  const std::optional<YamlNode> found = root.find(key);
  if (!found) return;
  if (!found->is_map() || !found->has("value")) {
    read(*found);
    return;
  }
  profile.provenance.emplace(key, read_provenance(*found));
  read(found->at("value"));
  found->finish();
}

std::map<DType, DType> read_types_by_precision(const YamlNode& node) {
  std::map<DType, DType> types;
  for (const std::string& key : node.keys()) {
    const std::optional<DType> precision = parse_dtype(key);
    if (precision) types[*precision] = read_dtype(node.at(key));
  }
  node.finish();
  return types;
}

std::vector<std::string> read_schedules(const YamlNode& node) {
  std::vector<std::string> known;
  for (const ScheduleName& entry : schedule_names()) known.emplace_back(entry.name);
  std::vector<std::string> schedules;
  for (const YamlNode& item : node.items()) {
    const std::string name = item.as_string();
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      item.fail("unknown schedule " + in_quotes(name) + did_you_mean(name, known) +
                "; known: " + join_words(known));
    }
    schedules.push_back(name);
  }
  if (schedules.empty())
    node.fail("expected the schedules that the framework has; without this key it has all");
  return schedules;
}

void read_gradient_types(const YamlNode& node, SoftwareProfile& profile) {
  if (node.is_map()) {
    profile.grad_dtype_by_precision = read_types_by_precision(node);
  } else {
    profile.grad_dtype = read_dtype(node);
  }
}

}  // namespace

SoftwareProfile read_software_profile(const YamlNode& node) {
  SoftwareProfile profile;
  profile.name = node.at("name").as_string();
  if (const auto version = node.find("version")) profile.version = version->as_string();
  profile.description = node.at("description").as_string();
  const YamlNode basis = node.at("basis");
  profile.provenance.emplace("description", read_provenance(basis));
  basis.finish();

  const auto flag = [&](std::string_view key, bool& value) {
    read_entry(node, key, profile, [&](const YamlNode& entry) { value = entry.as_bool(); });
  };
  flag("fused_bias_gelu", profile.fused_bias_gelu);
  flag("fused_bias_dropout_add", profile.fused_bias_dropout_add);
  flag("saves_dropout_mask", profile.saves_dropout_mask);
  flag("persistent_layer_norm", profile.persistent_layer_norm);
  flag("casts_logits", profile.casts_logits);
  flag("attention_transposes", profile.attention_transposes);
  flag("triangular_softmax", profile.triangular_softmax);
  flag("sums_bias_gradients", profile.sums_bias_gradients);
  flag("copies_split_gradients", profile.copies_split_gradients);
  flag("autocast_kernels", profile.autocast_kernels);
  flag("image_copies", profile.image_copies);
  flag("flash_attention", profile.flash_attention);
  flag("merges_blocks", profile.merges_blocks);
  flag("selective_by_op", profile.selective_by_op);
  flag("recompute_runs_all_ops", profile.recompute_runs_all_ops);
  flag("fused_gradient_accumulation", profile.fused_gradient_accumulation);
  flag("overlap_data_parallel", profile.overlap_data_parallel);
  flag("overlap_tensor_gradient", profile.overlap_tensor_gradient);
  flag("user_buffers", profile.user_buffers);
  flag("async_tensor", profile.async_tensor);
  flag("copies_moved_dims", profile.copies_moved_dims);
  flag("separate_projections", profile.separate_projections);
  flag("clip_reads_norm", profile.clip_reads_norm);
  flag("always_norm", profile.always_norm);
  read_entry(node, "flash_kernel", profile,
             [&](const YamlNode& entry) { profile.flash_kernel = entry.as_string(); });
  read_entry(node, "placement", profile,
             [&](const YamlNode& entry) { profile.placement = entry.as_string(); });
  read_entry(node, "grad_dtype", profile,
             [&](const YamlNode& entry) { read_gradient_types(entry, profile); });
  read_entry(node, "gradient_copies", profile, [&](const YamlNode& entry) {
    profile.gradient_copies = read_types_by_precision(entry);
  });
  read_entry(node, "step_gradient_copies", profile, [&](const YamlNode& entry) {
    profile.step_gradient_copies = read_types_by_precision(entry);
  });
  read_entry(node, "cached_weights", profile, [&](const YamlNode& entry) {
    profile.cached_weights = read_types_by_precision(entry);
  });
  constexpr double kMostBytes = 1000;  // per element
  read_entry(node, "update_traffic", profile, [&](const YamlNode& entry) {
    for (const std::string& key : entry.keys()) {
      const std::optional<DType> type = parse_dtype(key);
      if (type) profile.update_traffic[*type] = read_factor(entry, key, 0, kMostBytes);
    }
    entry.finish();
  });
  read_entry(node, "loss_traffic", profile, [&](const YamlNode& entry) {
    profile.loss_traffic.forward = read_factor(entry, "forward", 0, kMostBytes);
    profile.loss_traffic.backward = read_factor(entry, "backward", 0, kMostBytes);
    entry.finish();
  });
  read_entry(node, "fp8_recipe", profile, [&](const YamlNode& entry) {
    profile.fp8_recipe = static_cast<Fp8Recipe>(1 + read_word(entry, "recipe", kFp8RecipeWords));
  });
  flag("fp8_gathers", profile.fp8_gathers);
  read_entry(node, "fuses_amax", profile, [&](const YamlNode& entry) {
    profile.fuses_amax = static_cast<AmaxFusion>(read_word(entry, "fusion", kAmaxFusionWords));
  });
  flag("fp8_amax_of_replicas", profile.fp8_amax_of_replicas);
  if (const auto entry = node.find("schedules")) {
    profile.schedules = read_schedules(entry->at("value"));
    profile.provenance.emplace("schedules", read_provenance(*entry));
    entry->finish();
  }

  flag("synchronous_transfers", profile.synchronous_transfers);
  flag("timed_passes", profile.timed_passes);
  flag("streams_wait_where_split", profile.streams_wait_where_split);
  flag("streams_wait_where_interleaved", profile.streams_wait_where_interleaved);
  flag("scatter_gather", profile.scatter_gather);
  flag("expandable_segments", profile.expandable_segments);
  flag("per_parameter_shards", profile.per_parameter_shards);
  flag("reduces_weight_type", profile.reduces_weight_type);
  read_entry(node, "bucket_elements", profile, [&](const YamlNode& entry) {
    profile.bucket_elements =
        static_cast<std::int32_t>(entry.as_integer(1, std::numeric_limits<std::int32_t>::max()));
  });

  read_entry(node, "pads_vocabulary", profile, [&](const YamlNode& entry) {
    constexpr std::int64_t kMost = 65536;
    profile.pads_vocabulary = static_cast<std::int32_t>(entry.as_integer(1, kMost));
  });

  // Numbers always say where they come from.
  for (const SoftwareNumber& number : kSoftwareNumbers) {
    const auto entry = node.find(number.name);
    if (!entry) continue;
    profile.*number.value = read_factor(*entry, "value", profile.*number.value, number.most);
    profile.provenance.emplace(number.name, read_provenance(*entry));
    read_fit_range(*entry, profile.*number.value, number.most);
    entry->finish();
  }
  node.finish();
  return profile;
}

std::optional<SoftwareProfile> find_software_profile(const std::string& root,
                                                     const std::string& name,
                                                     const std::string& version) {
  const auto found =
      find_yaml(root + "/calibrate/software", version.empty() ? name : name + "-" + version);
  if (!found) return std::nullopt;
  SoftwareProfile profile = read_software_profile(found->root);
  if (profile.name != name) return std::nullopt;  // "megatron-lm-2021" is no framework's name
  return profile;
}

std::vector<NamedDescription> list_frameworks(const std::string& root) {
  return list_yaml(root + "/calibrate/software");
}

}  // namespace trainyard
