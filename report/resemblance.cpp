#include "report/resemblance.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "engine/base/format.h"
#include "engine/base/plain_text.h"
#include "engine/base/readable.h"
#include "study/device_capacity.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFrameworkFeature = 0, kModelFeature = 2;
static_assert(kRunFeatures[kFrameworkFeature] == "framework" &&
              kRunFeatures[kModelFeature] == "model");

std::string device_words(const std::string& device) {
  // A profile that calibrate wrote is named by its file.
  return kind_of_device(device.ends_with(".yaml") ? std::filesystem::path(device).stem().string()
                                                  : device);
}

const char* used(bool uses) { return uses ? "yes" : "no"; }

/// What an imported model reads: sequences of ids that it looks up, images, or neither alone.
const char* imported_kind(const Graph& model) {
  std::set<TensorId> ids;
  bool images = false, tokens = false;
  for (const TensorId id : model.tensors.keys()) {
    const Tensor& tensor = model.tensors[id];
    if (tensor.role != TensorRole::kInput || model.constants.contains(tensor.name)) continue;
    const bool sequence = tensor.shape.size() > 1 && tensor.shape[1] > 1;
    if (!is_integer(tensor.dtype))
      images |= tensor.shape.size() == 4;  // samples, channels, rows, columns
    else if (sequence && tensor.name.find("position") == std::string::npos)
      ids.insert(id);
  }
  for (const Op& op : model.ops) {
    const auto reads = [&](TensorId id) { return ids.contains(id); };
    if (std::none_of(op.inputs.begin(), op.inputs.end(), reads)) continue;
    tokens |= op.kind == OpKind::kEmbedding;
    for (const TensorId made : op.outputs) {
      if (is_integer(model.tensors[made].dtype)) ids.insert(made);
    }
  }
  return tokens == images ? "other" : tokens ? "text" : "images";
}

const char* kind_of_model(const ModelConfig& config, const Graph& model) {
  if (config.family == Family::kOnnx) return imported_kind(model);
  return is_of_text(config.family) ? "text" : is_of_images(config.family) ? "images" : "other";
}

std::vector<std::size_t> differing(const RunFeatures& a, const RunFeatures& b) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) out.push_back(i);
  }
  return out;
}

RunGroup group_of(const std::vector<const ScoredCase*>& runs) {
  RunGroup group;
  for (const ScoredCase* run : runs) {
    group.ids.push_back(run->id);
    group.mean_abs_percent += std::abs(run->error_percent) / static_cast<double>(runs.size());
  }
  return group;
}

Json group_json(const RunGroup& group) {
  return {{"runs", group.ids.size()},
          {"mean_abs_percent", group.ids.empty() ? Json() : Json(group.mean_abs_percent)},
          {"ids", group.ids}};
}

std::string ids_text(const std::vector<std::string>& ids) {
  constexpr std::size_t kMostShown = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMostShown, ids.size()); ++i)
    text += (i > 0 ? ", " : "") + plain_text(ids[i]);
  if (ids.size() > kMostShown) text += " and " + std::to_string(ids.size() - kMostShown) + " more";
  return text;
}

std::string off_text(const RunGroup& group) {
  const bool one = group.ids.size() == 1;
  return format("whose step time%s predicted %.1f %% off%s: ", one ? " is" : "s are",
                group.mean_abs_percent, one ? "" : " in the mean") +
         ids_text(group.ids);
}

}  // namespace

RunFeatures features_of(const Study& study, const Graph& model) {
  const ParallelConfig& parallel = study.parallel;
  const FrameworkConfig& framework = study.framework;
  return {framework.name + (framework.version.empty() ? "" : " " + framework.version),
          device_words(study.cluster.device),
          kind_of_model(study.model, model),
          used(parallel.tensor > 1),
          used(parallel.pipeline > 1),
          used(parallel.context.degree > 1),
          std::to_string(parallel.zero.stage),
          std::string(kRecomputeWords[study.recompute.method]),
          study.training.fp8.on() ? "fp8" : std::string(to_string(study.training.precision)),
          used(study.training.flash_attention == FlashAttention::kOn)};
}

Resemblance find_resemblance(const RunFeatures& features, const std::vector<ScoredCase>& runs,
                             const std::string& id) {
  std::map<RunFeatures, std::vector<const ScoredCase*>> by_features;
  for (const ScoredCase& run : runs) {
    const bool like = run.features[kModelFeature] == features[kModelFeature];
    if (like && (id.empty() || run.id != id)) by_features[run.features].push_back(&run);
  }
  Resemblance out;
  if (const auto alike = by_features.find(features); alike != by_features.end()) {
    out.alike = group_of(alike->second);
    return out;
  }
  // The fewest differences, the same framework, the most runs.
  const auto rank = [&](const auto& group) {
    return std::tuple(differing(features, group.first).size(),
                      group.first[kFrameworkFeature] != features[kFrameworkFeature],
                      -std::ssize(group.second));
  };
  const auto nearest =
      std::min_element(by_features.begin(), by_features.end(),
                       [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  if (nearest == by_features.end()) return out;
  out.nearest = group_of(nearest->second);
  for (const std::size_t i : differing(features, nearest->first))
    out.differs.push_back({kRunFeatures[i], features[i], nearest->first[i]});
  return out;
}

Json resemblance_json(const Resemblance& resemblance) {
  Json out = group_json(resemblance.alike);
  if (resemblance.nearest.ids.empty()) return out;
  out["nearest"] = group_json(resemblance.nearest);
  out["nearest"]["differs"] = Json::array();
  for (const Resemblance::Difference& one : resemblance.differs) {
    out["nearest"]["differs"].push_back(
        {{"feature", one.feature}, {"study", one.study}, {"runs", one.runs}});
  }
  return out;
}

std::string resemblance_text(const Resemblance& resemblance) {
  const auto count = [](const RunGroup& group) {
    return plural(static_cast<std::int64_t>(group.ids.size()), "published run");
  };
  if (!resemblance.alike.ids.empty())
    return "resembles " + count(resemblance.alike) + ", " + off_text(resemblance.alike);
  if (resemblance.nearest.ids.empty())
    return "there are no published runs of such models to compare it with";
  std::string text = "resembles no published run; nearest " +
                     std::string(resemblance.nearest.ids.size() == 1 ? "is " : "are ") +
                     count(resemblance.nearest) + ", " + off_text(resemblance.nearest) +
                     "\n    there ";
  bool first = true;
  for (const Resemblance::Difference& one : resemblance.differs) {
    text += (first ? "" : ", ") + std::string(one.feature) + " is " + plain_text(one.runs) +
            ", not " + plain_text(one.study);
    first = false;
  }
  return text;
}

}  // namespace trainyard
