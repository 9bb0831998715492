// Checks across the parts of a study. Every message says the values involved and, where one can be
// computed, a value that would work.
#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/nearest_that_do.h"
#include "engine/base/user_text.h"
#include "engine/passes/tensor_methods.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/plan/plan_limits.h"
#include "study/attention.h"
#include "study/compile_study.h"
#include "study/framework_profile.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/unaligned_sizes.h"

namespace trainyard {

namespace {

/// Whether ranks may have pieces of unlike size: under a sharding of the study's own that goes over
/// the method of studies that name none (engine/passes/plan_splits.h).
bool takes_uneven_pieces(const Study& study) {
  return !study.sharding.empty() && study.parallel.tensor_method == ParallelConfig{}.tensor_method;
}

/// The model's numbers that all ranks of tensor parallelism divide, with their keys.
std::vector<std::pair<std::string, std::int64_t>> divided_by_tensor(const Study& study) {
  const ModelConfig& model = study.model;
  std::vector<std::pair<std::string, std::int64_t>> numbers = {
      {"heads", model.heads}, {"kv_heads", model.kv_heads}, {"image_heads", model.image_heads}};
  if (tensor_method(study.parallel.tensor_method).divides == Divides::kHeads) return numbers;
  const bool uneven = takes_uneven_pieces(study);
  if (!uneven) numbers.insert(numbers.begin() + 2, {"ffn", model.ffn});
  // What writes and reads states is a group's: ranks have whole ones, as in mamba_ssm and Megatron.
  // Those of one group do all the same, but for what a sharding says.
  if (model.family == Family::kMamba2 && (model.groups > 1 || study.sharding.empty()))
    numbers.emplace_back("groups", model.groups);
  if (study.parallel.sequence_parallel && !uneven) {
    numbers.emplace_back("seq_len", model.seq_len);
    if (model.decoder_seq_len > 0) numbers.emplace_back("decoder_seq_len", model.decoder_seq_len);
  }
  return numbers;
}

void check_tensor(const Study& study) {
  // Map splits what divides, and leaves the rest whole; others have checks of their own.
  const TensorMethod& method = tensor_method(study.parallel.tensor_method);
  if (method.divides == Divides::kNothing) return;
  const std::int64_t tensor = study.parallel.tensor;
  const Family family = study.model.family;
  const bool splits_none =
      has_batch_norm(family) || family == Family::kUnet || family == Family::kNcf;
  // A method that has families of its own is asked for them.
  if (tensor > 1 && splits_none && study.sharding.empty() && method.families.empty()) {
    fail_at(study, "parallel.tensor",
            "tensor parallelism splits no operator of family " + std::string(to_string(family)) +
                ": all ranks would do the same; write 1, or say a sharding");
  }
  if (study.parallel.sequence_parallel && family == Family::kClip) {
    fail_at(study, "parallel.sequence_parallel",
            "texts and images of family clip are sequences of different lengths, and an image has "
            "a class token beside its patches; write false");
  }
  if (study.parallel.sequence_parallel && family == Family::kSwin) {
    fail_at(study, "parallel.sequence_parallel",
            "between blocks of family swin lie images, of which windows are cut, no sequences; "
            "write false");
  }
  if (!has_family(method, family)) return;  // which check_tensor_method() says
  std::int64_t common = 0;
  for (const auto& [key, number] : divided_by_tensor(study)) common = std::gcd(common, number);
  for (const auto& [key, number] : divided_by_tensor(study)) {
    // Where modules are chosen, which numbers are divided is the planner's to know.
    if (number % tensor == 0 || !study.parallel.tensor_modules.empty()) continue;
    const std::string remedy = nearest_that_do(tensor, std::min<std::int64_t>(common, kMaxRanks),
                                               [&](std::int64_t d) { return common % d == 0; });
    fail_at(study, "parallel.tensor",
            with_remedy(std::to_string(tensor) + " ranks do not divide " + key + " " +
                            std::to_string(number),
                        remedy));
  }
  const std::int64_t padded = study.model.pad_vocab_to;
  const bool divides = padded % tensor == 0 || takes_uneven_pieces(study);
  if (padded < study.model.vocab || !divides) {
    const std::int64_t least = (study.model.vocab + tensor - 1) / tensor * tensor;
    fail_at(study, "model.pad_vocab_to",
            std::to_string(padded) + " is not a multiple of tensor(" + std::to_string(tensor) +
                ") that holds vocab " + std::to_string(study.model.vocab) + "; " +
                std::to_string(least) + " is");
  }
}

void warn_of_recompute(Study& study) {
  if (study.recompute.method != RecomputeConfig::Method::kSelective ||
      !study.recompute.modules.empty())
    return;
  if (!may_attend(study.model)) {
    study.warnings.push_back("recompute: selective changes nothing: family " +
                             std::string(to_string(study.model.family)) +
                             " has no attention, whose scores it recomputes");
  } else if (study.training.flash_attention == FlashAttention::kOn) {
    study.warnings.emplace_back(
        "recompute: selective changes nothing with flash attention, which keeps no scores to "
        "recompute");
  }
}

/// Whether a step looks at the norm of its gradients.
bool takes_norm(const Study& study, const StudyResolvers& resolvers) {
  const TrainingConfig& training = study.training;
  if (training.clip_norm > 0 || training.precision == DType::kFp16) return true;
  return software_of(study, resolvers).always_norm;
}

void warn_of_post_validation(Study& study, const StudyResolvers& resolvers) {
  if (!study.schedule.post_validation) return;
  const std::string unused = "schedule.post_validation is not used: ";
  if (study.parallel.pipeline == 1) {
    study.warnings.push_back(
        unused + "pipeline is 1, and the one rank has the whole norm before it updates");
    return;
  }
  if (!takes_norm(study, resolvers)) {
    study.warnings.push_back(unused + "training.clip_norm is 0, and " + study.framework.name +
                             " then takes no norm of the gradients");
    return;
  }
  study.warnings.push_back(
      "schedule.post_validation: times assume that every validation succeeds; one that finds a "
      "clipped norm, or one that "
      "is not finite, makes the next step run twice");
}

/// What transfers have a buffer for: tensors of GPUs on their way between pipeline ranks.
void check_d2d_buffer(Study& study, const StudyResolvers& resolvers) {
  const std::optional<HardwareProfile> hardware = resolvers.hardware(study.cluster.device);
  study.cluster.of_cpus = hardware && hardware->architecture == "cpu";
  if (study.parallel.d2d_buffer == 0) return;
  if (study.parallel.pipeline == 1) {
    study.warnings.emplace_back(
        "parallel.d2d_buffer is not used: pipeline is 1, and nothing is sent between stages");
  } else if (study.cluster.of_cpus) {
    study.warnings.push_back("parallel.d2d_buffer is not used: the devices (" +
                             study.cluster.device +
                             ") are CPUs, whose tensors go from host to host as they are");
  } else if (hardware && hardware->host_link.bandwidth <= 0) {
    fail_at(study, "parallel.d2d_buffer",
            "what finds no place in it goes by the host, and the profile of " +
                study.cluster.device + " has no host_link, the rate of copies to the host");
  }
}

void check_positions(const Study& study) {
  const ModelConfig& model = study.model;
  const std::int64_t used = model.seq_len + model.position_offset;
  if (model.max_positions == 0 || used <= model.max_positions) return;
  const std::string offset =
      model.position_offset > 0 ? " from " + std::to_string(model.position_offset) + " on" : "";
  fail_at(study, "model.seq_len",
          std::to_string(model.seq_len) + offset + " is longer than the " +
              std::to_string(model.max_positions) +
              " positions of the model; say model.max_positions: " + std::to_string(used) +
              " to enlarge their table");
}

void check_dropout(const Study& study) {
  if (has_dropout(study.model.family) || study.training.dropout == 0) return;
  fail_at(study, "training.dropout",
          "family " + std::string(to_string(study.model.family)) +
              " has no dropout; write 0, or leave the key out");
}

/// Who says other positions is to blame, not the rows of a table that went with the usual ones.
void blame_positions(const Study& study, const std::string& key) {
  const ModelConfig& model = study.model;
  const bool of_table = key == "max_positions" || key == "position_offset";
  if (!of_table || model.positions == Positions::kLearned || !is_said(study, "model.positions"))
    return;
  const std::int64_t rows = key == "max_positions" ? model.max_positions : model.position_offset;
  fail_at(study, "model.positions",
          "only learned positions have a table, and model." + key + " is " + std::to_string(rows) +
              "; write learned, or model." + key + ": 0, too");
}

void check_model(const Study& study, const StudyResolvers& resolvers) {
  if (!resolvers.model_problem) return;
  if (const auto problem = resolvers.model_problem(study.model)) {
    blame_positions(study, problem->key);
    fail_at(study, "model." + problem->key, problem->text);
  }
}

/// Whether the devices have FP8 is a question to the plan: Fp8Config::obstacle.
void check_fp8(Study& study, const HardwareProfile& hardware) {
  const Fp8Config& fp8 = study.training.fp8;
  if (study.schedule.post_validation)
    fail_at(study, "schedule.post_validation", "does not go with precision fp8 in this version");
  if (fp8.gathers && !fp8.whole())
    fail_at(study, "training.precision.gather",
            "fp8 goes with the recipes tensorwise and delayed: scales of rows and blocks are not "
            "gathered in this version; write bf16");
  if (product_type(hardware, DType::kFp8) != DType::kFp8)
    study.warnings.push_back("training.precision: " + hardware.name +
                             " has no FP8: it is emulated by casts, and products are of fp32");
}

void check_precision(Study& study, const StudyResolvers& resolvers) {
  const std::optional<HardwareProfile> hardware = resolvers.hardware(study.cluster.device);
  if (hardware && study.training.fp8.on()) check_fp8(study, *hardware);
}

/// A type that the devices do not multiply is no mistake in what is written: the plan cannot run on
/// them. Said before anything is planned by what products take.
void check_products(const Study& study, const StudyResolvers& resolvers) {
  const Fp8Config& fp8 = study.training.fp8;
  if (fp8.on() && !fp8.obstacle.empty())
    throw plan_error(study, {fp8.obstacle, "training.precision"});
  const std::optional<HardwareProfile> hardware = resolvers.hardware(study.cluster.device);
  if (!hardware || fp8.on() || hardware->peak.empty() ||
      hardware->peak.contains(study.training.precision))
    return;
  std::vector<std::string> known;
  for (const auto& [type, rate] : hardware->peak) known.emplace_back(to_string(type));
  throw plan_error(study, {study.cluster.device + " has no products in " +
                               std::string(to_string(study.training.precision)) + "; it has " +
                               join_words(known),
                           "training.precision"});
}

/// AdamW's state is of the weights' type, or of fp32 where that has 16 bits.
void check_gradients(const Study& study) {
  const TrainingConfig& training = study.training;
  const bool double_weights = training.precision == DType::kFp64,
             double_gradients = training.grad_dtype == DType::kFp64;
  if (training.optimizer != Optimizer::kAdamW || double_weights == double_gradients) return;
  fail_at(study, "training.grad_dtype",
          "AdamW updates " + std::string(to_string(training.precision)) +
              " weights with gradients of " +
              (double_weights ? "fp64 only" : "fp32, fp16 or bf16") + ", got " +
              std::string(to_string(training.grad_dtype)));
}

/// The model on these devices, divided by tensor and pipeline. Defaults are known.
void check_model_fits(StudyDraft& draft, const StudyResolvers& resolvers) {
  const bool model_read = !draft.has_mistake_in("model");
  draft.rule({"model", "training.microbatch"}, [&] { check_tensor_sizes(draft); });
  if (model_read) {
    draft.attempt([&] { check_positions(draft); });
    draft.attempt([&] { check_model(draft, resolvers); });
  }
  draft.rule({"model.family", "training.dropout"}, [&] { check_dropout(draft); });
  draft.rule({"model", "data"}, [&] { check_data(draft); });
  draft.rule({"cluster", "training.precision"}, [&] { check_precision(draft, resolvers); });
  draft.rule({"training.precision", "training.grad_dtype", "training.optimizer"},
             [&] { check_gradients(draft); });
  draft.rule({"model", "parallel.tensor", "parallel.sequence_parallel"},
             [&] { check_tensor(draft); });
  draft.rule({"model", "data", "parallel", "training.precision", "partition", "sharding"},
             [&] { check_tensor_method(draft); });
  draft.rule({"model", "parallel", "training.flash_attention", "training.dropout", "partition",
              "sharding"},
             [&] { check_context(draft); });
  draft.rule({"model", "data", "parallel", "training.flash_attention", "training.dropout",
              "partition", "sharding"},
             [&] { check_documents(draft); });
  draft.rule({"schedule", "recompute", "parallel.pipeline", "parallel.virtual_stages"}, [&] {
    if (draft.schedule.file.empty()) check_schedule(draft);
    if (!draft.schedule.rows.empty()) check_schedule_rows(draft);
  });
  draft.rule(
      {"model", "recompute", "schedule", "parallel", "partition", "offload", "training.precision"},
      [&] { check_recompute(draft); });
  draft.rule({"partition", "model", "parallel.pipeline", "parallel.virtual_stages"},
             [&] { check_partition(draft); });
  draft.rule({"model", "cluster", "parallel.tensor", "training"},
             [&] { warn_of_unaligned_sizes(draft, resolvers); });
  warn_of_recompute(draft);
  warn_of_post_validation(draft, resolvers);
  draft.rule({"parallel.d2d_buffer", "parallel.pipeline", "cluster"},
             [&] { check_d2d_buffer(draft, resolvers); });
  if (!draft.has_mistake_in("offload")) {
    draft.rule({"recompute", "training.flash_attention"}, [&] { check_offload(draft); });
    draft.rule({"cluster"}, [&] { check_host_link(draft, resolvers); });
  }
  draft.rule({"parallel.zero", "training.cpu_offload", "schedule.post_validation", "cluster"},
             [&] { resolve_host_state(draft, resolvers); });
}

}  // namespace

void check_rules(StudyDraft& draft, const StudyResolvers& resolvers) {
  if (!draft.rule({"partition", "parallel.pipeline", "parallel.virtual_stages"},
                  [&] { resolve_pipeline_ranks(draft); }) ||
      !draft.rule({"parallel", "schedule"}, [&] { resolve_replicas(draft); }))
    return;
  const bool resolved = draft.rule(
      {"model", "cluster", "framework", "recompute", "schedule", "partition", "parallel.tensor",
       "parallel.pipeline", "parallel.virtual_stages", "parallel.sequence_parallel",
       "parallel.placement", "parallel.scatter_gather", "training.precision", "training.kernels",
       "training.dropout", "training.flash_attention", "training.grad_dtype"},
      [&] { resolve_defaults(draft, resolvers); });
  if (resolved) check_model_fits(draft, resolvers);
  check_batch_fits(draft, resolved);
  if (!resolved || !draft.mistakes.empty()) return;
  check_products(draft, resolvers);
  warn_of_single_ranks(draft, resolvers);
  draft.attempt([&] { choose_tensor_mesh(draft); });
}

}  // namespace trainyard
