// Whether what ZeRO divides goes with the plan, and what it leaves to the plan.
#include <numeric>
#include <string>

#include "engine/base/nearest_that_do.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

/// Neighbours are the ranks that share their sequences, and replicas beside them.
void check_reshard(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (!parallel.zero.reshards_to_some()) return;
  const int ranks = parallel.zero.reshard_after_forward, context = parallel.context.degree;
  const int shards = parallel.shards();
  const std::string number = std::to_string(ranks);
  const auto refuse = [&](bool wrong, const std::string& problem) {
    if (wrong) fail_at(study, "parallel.zero.reshard_after_forward", problem);
  };
  refuse(ranks == shards, "all " + number + " ranks divide the parameters anyway; write true");
  refuse(shards % ranks != 0, "groups of " + number + " ranks do not divide the " +
                                  std::to_string(shards) + " that divide the parameters");
  refuse(ranks % context != 0,
         "groups of " + number + " ranks do not hold the " + std::to_string(context) +
             " that share a sequence (parallel.context); write a multiple of " +
             std::to_string(context));
}

/// The replicas of each pipeline rank are as many groups, and those of each group as many times
/// some neighbours.
void check_beside_replicas(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const int groups = parallel.zero.replicate, context = parallel.context.degree;
  int common = 0;  // divisor
  for (const int replicas : parallel.replicas) common = std::gcd(common, replicas);
  const auto check = [&](const std::string& key, std::int64_t said, const std::string& problem,
                         const std::string& otherwise, const auto& works) {
    if (works(said)) return;
    const std::string nearest = nearest_that_do(said, std::int64_t{parallel.data} * context,
                                                [&](std::int64_t n) { return n > 1 && works(n); });
    fail_at(study, "parallel.zero." + key,
            problem + "; " + (nearest.empty() ? otherwise : nearest));
  };
  const std::string each = " of each pipeline rank (partition.replicas)";
  if (groups > 1) {
    check("replicate", groups,
          common % groups != 0
              ? std::to_string(groups) + " groups do not divide the replicas" + each
              : "leaves one replica in each group" + each + ", which has nobody to divide with",
          "leave it out", [&](std::int64_t n) { return common % n == 0 && n < parallel.data; });
  }
  if (!parallel.zero.reshards_to_some()) return;
  const int ranks = parallel.zero.reshard_after_forward;
  check("reshard_after_forward", ranks,
        "groups of " + std::to_string(ranks) +
            " ranks do not divide those that divide the "
            "parameters" +
            each,
        "write true or false",
        [&](std::int64_t n) { return n % context == 0 && common / groups % (n / context) == 0; });
}

/// Groups of replicas are alike, and have several ranks each.
void check_groups(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const int groups = parallel.zero.replicate;
  const auto divides = [&](std::int64_t n) { return parallel.data % n == 0; };
  const auto works = [&](std::int64_t n) { return divides(n) && n < parallel.gradient_ranks(); };
  if (groups == 1 || works(groups)) return;
  const std::string nearest =
      nearest_that_do(groups, parallel.data, [&](std::int64_t n) { return n > 1 && works(n); });
  fail_at(study, "parallel.zero.replicate",
          (divides(groups) ? "leaves one replica in each group, which has nobody to divide with; "
                           : std::to_string(groups) + " groups do not divide parallel.data " +
                                 std::to_string(parallel.data) + "; ") +
              (nearest.empty() ? "leave it out" : nearest));
}

}  // namespace

void resolve_zero(Study& study) {
  ZeroConfig& zero = study.parallel.zero;
  if (zero.stage == 0) zero.replicate = 1;  // a warning said that there is nothing to divide
  if (zero.stage < 2) {
    // Whole gradients are reduced once in a step, but where stage 0 says otherwise.
    const bool said = zero.stage == 0 && is_said(study, "parallel.zero.reduce");
    if (!said) zero.reduce = ZeroConfig::Reduce::kEach;
    zero.reduce_dtype.reset();
    zero.reduces_whole_each = said && zero.reduce == ZeroConfig::Reduce::kEach;
  } else if (zero.stage == 2 && study.parallel.pipeline > 1 &&
             !is_said(study, "parallel.zero.reduce")) {
    zero.reduce = ZeroConfig::Reduce::kLast;
    study.origins["parallel.zero.reduce"] =
        derived_origin("stage 2 in a pipeline reduces once a step");
  }
}

void check_zero(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const ZeroConfig& zero = parallel.zero;
  const bool by_parameter = zero.by == ZeroConfig::By::kParameter;
  const std::string stage = "stage " + std::to_string(zero.stage);
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& problem) {
    if (wrong) fail_at(study, key, problem);
  };
  refuse(zero.stage > 1 && by_parameter, "parallel.zero.by",
         "parameter is of stage 1: " + stage + " divides gradients, too; write shard");
  refuse(
      zero.replicate > 1 && by_parameter, "parallel.zero.replicate",
      "groups of replicas divide shards, not whole parameters; leave it out, or write by: shard");
  if (!parallel.replicas.empty()) check_beside_replicas(study);
  check_groups(study);
  check_reshard(study);
  const bool double_gradients = study.training.grad_dtype == DType::kFp64;
  refuse(zero.stage > 0 && double_gradients && zero.reduce_dtype.has_value(),
         "parallel.zero.reduce_dtype",
         "gradients add up in fp64, and are reduced so; leave it out");
}

void check_fp8_gathers(Study& study) {
  ZeroConfig& zero = study.parallel.zero;
  const Fp8Config& fp8 = study.training.fp8;
  const std::string key = "parallel.zero.gather_dtype";
  if (!zero.gathers_fp8) {
    if (zero.precomputes_scales)
      study.warnings.emplace_back(
          "parallel.zero.precompute_scales is not used: nothing is gathered in 8 bits (" + key +
          ")");
    return;
  }
  const auto refuse = [&](bool wrong, const std::string& problem) {
    if (wrong) fail_at(study, key, problem);
  };
  refuse(zero.stage < 3, "fp8 is of stage 3: stage " + std::to_string(zero.stage) +
                             " gathers no parameters; leave it out, or write stage: 3");
  refuse(!fp8.on(), "fp8 is of weights that FP8 products read; write training.precision: fp8");
  refuse(fp8.recipe != Fp8Recipe::kTensorwise,
         "fp8 goes with recipe tensorwise, by the largest element of a whole weight; write bf16, "
         "or training.precision: {type: fp8, recipe: tensorwise}");
  refuse(zero.reshards_to_some(),
         "fp8 goes with reshard_after_forward true or false in this version, not with pieces of "
         "what is gathered");
  refuse(zero.offloads_parameters(),
         "fp8 casts shards on the device; write bf16 beside parallel.zero.offload: parameters");
  if (study.parallel.shards() == 1)
    study.warnings.push_back(key + " is not used: one rank has all of each parameter");
}

}  // namespace trainyard
