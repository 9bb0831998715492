// Defaults that depend on several parts of the study. Each says its rule in the study's origins.
#include <algorithm>
#include <optional>
#include <string>

#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/passes/tensor_methods.h"
#include "engine/plan/plan_limits.h"
#include "study/attention.h"
#include "study/data_kinds.h"
#include "study/framework_profile.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

double usual_dropout(const ModelConfig& model) {
  if (model.family == Family::kVgg) return 0.5;
  // GPT-NeoX, Falcon and MPT were trained without.
  if (model.family == Family::kGpt && model.positions != Positions::kLearned) return 0;
  return has_dropout(model.family) && is_of_text(model.family) ? 0.1 : 0;
}

/// What the framework does where the study does not say it, and what the devices can do.
void resolve_fp8(Study& study, const HardwareProfile& hardware, const SoftwareProfile& software) {
  Fp8Config& fp8 = study.training.fp8;
  if (!fp8.on()) return;
  if (!is_said(study, "training.precision.recipe")) {
    fp8.recipe = software.fp8_recipe;
    study.origins["training.precision.recipe"] = default_origin(study.framework.name + "'s");
  }
  const bool gathers = software.fp8_gathers && fp8.whole();
  if (is_said(study, "training.precision.gather")) {
    // A resolved study says what the framework does by itself.
    if (fp8.gathers && !gathers && !study.parallel.sequence_parallel &&
        !tensor_method(study.parallel.tensor_method).splits_by_cost)
      study.warnings.emplace_back(
          "training.precision.gather is not used: without parallel.sequence_parallel nothing is "
          "gathered in front of FP8 products");
  } else {
    fp8.gathers = gathers;
    study.origins["training.precision.gather"] = default_origin(
        fp8.whole() ? study.framework.name + "'s" : "scales of rows and blocks are not gathered");
  }
  fp8.fuses_amax = software.fuses_amax;
  fp8.transposes = hardware.architecture == "hopper";
  if (const auto reason = unsupported(hardware, DType::kFp8)) {
    fp8.obstacle = *reason;
  } else if (fp8.recipe == Fp8Recipe::kMx && hardware.architecture == "hopper") {
    fp8.obstacle = hardware.name + " has no products with a scale for every 32 elements";
  }
}

void resolve_training(Study& study, const HardwareProfile& hardware,
                      const SoftwareProfile& software) {
  TrainingConfig& training = study.training;
  resolve_fp8(study, hardware, software);
  if (!is_said(study, "training.kernels")) {
    training.kernels = hardware.architecture == "cpu" ? KernelSet::kCpu : KernelSet::kCuda;
    study.origins["training.kernels"] = derived_origin("the cluster's devices");
  }
  if (!is_said(study, "training.dropout")) {
    training.dropout = usual_dropout(study.model);
    study.origins["training.dropout"] =
        default_origin("0.1 for gpt with learned positions, bert, t5; 0.5 for vgg; else 0");
  }
  if (is_said(study, "training.grad_dtype")) return;
  const std::optional<DType> of_framework = gradient_dtype(software, training.precision);
  training.grad_dtype = of_framework.value_or(DType::kFp32);
  std::string rule = of_framework ? study.framework.name + "'s" : "";
  if (training.precision == DType::kFp64) {
    training.grad_dtype = DType::kFp64;
    rule = "fp64 with precision fp64";
  }
  study.origins["training.grad_dtype"] = default_origin(rule);
}

/// Why no flash kernel computes this study's attention; empty: one does.
std::string flash_obstacle(const Study& study) {
  if (study.model.relative_buckets > 0) return "no flash kernel takes a trained attention bias";
  const Positions positions = study.model.positions;
  if (positions == Positions::kAlibi || positions == Positions::kScaledAlibi)
    return "no flash kernel of this version takes ALiBi's distances";
  if (study.model.score_cap > 0) return "no flash kernel of this version caps scores";
  if (study.training.kernels == KernelSet::kCuda && study.training.precision == DType::kFp64) {
    return "no flash kernel of the cuda set takes fp64";
  }
  if (study.training.kernels == KernelSet::kCpu && study.training.dropout > 0) {
    return "the CPU's flash kernel has no attention dropout";
  }
  return "";
}

/// docs/contract.md section 2, row `training.flash_attention`.
void resolve_flash_attention(Study& study, const SoftwareProfile& software) {
  FlashAttention& flash = study.training.flash_attention;
  if (!may_attend(study.model)) {
    const std::string rule =
        "family " + std::string(to_string(study.model.family)) + " has no attention";
    if (flash == FlashAttention::kOn)
      study.warnings.push_back("training.flash_attention is not used: " + rule);
    flash = FlashAttention::kOff;
    study.origins["training.flash_attention"] = derived_origin(rule);
    return;
  }
  const std::string obstacle = flash_obstacle(study);
  if (flash == FlashAttention::kOn && !obstacle.empty()) {
    fail_at(study, "training.flash_attention", obstacle + "; write auto or false");
  }
  if (flash != FlashAttention::kAuto) return;
  std::string rule = "auto: the kernels support it";
  flash = FlashAttention::kOn;
  if (!software.flash_attention) {
    flash = FlashAttention::kOff;
    rule = "auto: " + study.framework.name + " " + study.framework.version + " has none";
  }
  if (!obstacle.empty()) {
    flash = FlashAttention::kOff;
    rule = "auto: " + obstacle;
  }
  study.origins["training.flash_attention"] = derived_origin(rule);
}

/// What a profile says is of the orders of work that its framework has.
void warn_of_schedule(Study& study, const SoftwareProfile& software) {
  const std::string& method = study.schedule.method;
  if (method == "file" || study.parallel.pipeline == 1 || software.has_schedule(method)) return;
  const std::string version = study.framework.version.empty() ? "" : " " + study.framework.version;
  study.warnings.push_back(
      "framework " + study.framework.name + version + " has no schedule " + method + ", only " +
      join_words(software.schedules) + ": its kernels and waits are taken for those of a " +
      study.framework.name + " that had it (" + software.provenance.at("schedules").note + ")");
}

std::string degrees_text(const ParallelConfig& parallel, bool with_data) {
  std::string text = "pp(" + std::to_string(parallel.pipeline) + ")";
  if (!parallel.replicas.empty()) {
    text = "replicas(";
    for (const int replicas : parallel.replicas)
      text += (text.back() == '(' ? "" : " + ") + std::to_string(replicas);
    text += ")";
  } else if (with_data) {
    text += " * dp(" + std::to_string(parallel.data) + ")";
  }
  if (parallel.context.degree > 1) text += " * cp(" + std::to_string(parallel.context.degree) + ")";
  return text + " * tp(" + std::to_string(parallel.tensor) + ")";
}

[[noreturn]] void fail_too_many_ranks(const Study& study, const std::string& key,
                                      const std::string& ranks_text, std::int64_t num_ranks) {
  const Cluster& cluster = study.cluster;
  const std::int64_t nodes = (num_ranks + cluster.devices_per_node - 1) / cluster.devices_per_node;
  const std::string enough =
      cluster.name == kLocalCluster
          ? "{preset: local, ranks: " + std::to_string(num_ranks) + "} has room"
          : std::to_string(nodes) + " nodes have room";
  fail_at(study, key,
          ranks_text + " = " + std::to_string(num_ranks) + " ranks, but cluster at " +
              to_string(place_of(study, "cluster")) + " has " +
              std::to_string(cluster.num_devices) + " devices; " + enough);
}

/// A published case does not say how its layers were divided: the first way that works.
void resolve_case_partition(Study& study) {
  const bool is_case = is_said(study, "cluster.gpu");
  if (!is_case || is_said(study, "partition")) return;
  const std::int64_t layers = num_layers(study.model);
  const std::int64_t stages = study.num_stages();
  if (layers % stages == 0) {
    study.origins["partition"] = derived_origin("a case: the stages divide the layers");
  } else if ((layers + 2) % stages == 0) {
    study.partition.ends = true;
    study.origins["partition"] =
        derived_origin("a case: the stages divide the layers, embedding and head counted");
  } else {
    study.partition.uneven = true;
    study.origins["partition"] =
        derived_origin("a case: the stages do not divide the layers, the last takes the rest");
  }
}

/// Whether the ranks have the devices that they need; some may be left.
void check_devices(Study& study, const std::string& key) {
  const std::int64_t ranks = study.parallel.num_ranks(), devices = study.cluster.num_devices;
  const std::string words = degrees_text(study.parallel, true);
  if (ranks > devices) fail_too_many_ranks(study, key, words, ranks);
  if (ranks == devices) return;
  study.warnings.push_back(words + " = " + std::to_string(ranks) + " ranks leave " +
                           std::to_string(devices - ranks) + " of " + std::to_string(devices) +
                           " devices idle");
}

}  // namespace

void resolve_data_parallel(Study& study) {
  ParallelConfig& parallel = study.parallel;
  const std::int64_t num_devices = study.cluster.num_devices;
  if (!parallel.replicas.empty()) return check_devices(study, "partition.replicas");
  const std::int64_t data = std::max(parallel.data, 1);
  const bool given = parallel.data > 0;
  if (product_exceeds(kMaxRanks,
                      {parallel.tensor, parallel.pipeline, parallel.context.degree, data})) {
    fail_at(study, "parallel", degrees_text(parallel, given) + " is more than 2^20 ranks");
  }
  const std::int64_t replica =
      std::int64_t{parallel.tensor} * parallel.pipeline * parallel.context.degree;
  if (!given) {
    if (replica > num_devices) {
      fail_too_many_ranks(study, "parallel", degrees_text(parallel, false), replica);
    }
    if (num_devices % replica != 0) {
      const std::int64_t whole = num_devices / replica;
      fail_at(study, "parallel",
              degrees_text(parallel, false) + " = " + std::to_string(replica) +
                  " ranks do not divide the " + std::to_string(num_devices) +
                  " devices of cluster at " + to_string(place_of(study, "cluster")) + "; data: " +
                  std::to_string(whole) + " uses " + std::to_string(whole * replica) + " of them");
    }
    parallel.data = static_cast<int>(num_devices / replica);
    study.origins["parallel.data"] = default_origin("devices / (tensor x pipeline x context)");
    return;
  }
  check_devices(study, "parallel");
}

std::string known_names(const std::string& name, const StudyResolvers& resolvers,
                        StudyResolvers::Names which) {
  if (!resolvers.names) return "";
  const std::vector<std::string> known = resolvers.names(which);
  return did_you_mean(name, known) + "; known: " + join_words(known);
}

std::string known_name(const std::string& name, const StudyResolvers& resolvers,
                       StudyResolvers::Names which) {
  if (!resolvers.names) return name;
  const std::string known = known_name(name, resolvers.names(which));
  return known.empty() ? name : known;
}

void fail_unknown_name(const YamlNode& node, const std::string& noun, const std::string& name,
                       const StudyResolvers& resolvers, StudyResolvers::Names which) {
  node.fail("unknown " + noun + " " + in_quotes(name) + known_names(name, resolvers, which));
}

void resolve_defaults(Study& study, const StudyResolvers& resolvers) {
  const std::optional<HardwareProfile> hardware = resolvers.hardware(study.cluster.device);
  check(hardware.has_value(), "read_cluster() found the profile of the cluster's device");
  const SoftwareProfile software = resolve_framework(study, *hardware, resolvers);
  resolve_training(study, *hardware, software);
  resolve_flash_attention(study, software);
  if (study.parallel.placement.empty()) {
    study.parallel.placement = full_placement(software.placement);
    study.origins["parallel.placement"] = default_origin(study.framework.name + "'s");
  }
  if (!is_said(study, "parallel.scatter_gather") && !software.scatter_gather) {
    study.parallel.scatter_gather = false;
    study.origins["parallel.scatter_gather"] = default_origin(study.framework.name + "'s");
  }
  ZeroConfig& zero = study.parallel.zero;
  if (zero.stage >= 3 && !is_said(study, "parallel.zero.layout")) {
    if (software.per_parameter_shards && zero.by == ZeroConfig::By::kShard)
      zero.by = ZeroConfig::By::kRows;
    study.origins["parallel.zero.layout"] = default_origin(study.framework.name + "'s");
  }
  if (zero.stage >= 2 && software.reduces_weight_type &&
      !is_said(study, "parallel.zero.reduce_dtype") && !is_said(study, "training.grad_dtype") &&
      size_in_bytes(study.training.precision) < size_in_bytes(study.training.grad_dtype)) {
    zero.reduce_dtype = study.training.precision;
    study.origins["parallel.zero.reduce_dtype"] = default_origin(study.framework.name + "'s");
  }
  if (zero.stage >= 3 && study.parallel.pipeline > 1 && software.per_parameter_shards &&
      !is_said(study, "parallel.zero.reduce")) {
    zero.reduce = ZeroConfig::Reduce::kLast;
    study.origins["parallel.zero.reduce"] = default_origin(
        study.framework.name + "'s: PyTorch's pipelines reduce behind the last microbatch");
  }
  warn_of_schedule(study, software);
  resolve_virtual_stages(study);
  resolve_case_partition(study);
  if (const auto kinds = data_kinds(study.model.family);
      study.data.kind.empty() && kinds.size() == 1) {
    study.data.kind = kinds.front();
    study.origins["data.kind"] = default_origin("the family's");
  }
  if (study.model.pad_vocab_to == 0 && study.model.vocab > 0) {
    const std::int64_t multiple = std::int64_t{study.parallel.tensor} * software.pads_vocabulary;
    study.model.pad_vocab_to = (study.model.vocab + multiple - 1) / multiple * multiple;
    study.origins["model.pad_vocab_to"] =
        software.pads_vocabulary == 1
            ? default_origin("vocab, up to a multiple of tensor")
            : default_origin(study.framework.name + "'s: vocab, up to a multiple of " +
                             std::to_string(software.pads_vocabulary) + " x tensor");
  }
}

}  // namespace trainyard
