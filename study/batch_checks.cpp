// Whether the devices, the links between them and the batch suit the degrees.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "engine/plan/microbatch_sizes.h"
#include "engine/plan/plan_limits.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

/// Chunks of a microbatch's samples compute while what the others have computed is reduced. Whether
/// they divide it the compiler says (passes/split_batch.h).
void check_tensor_overlap(const Study& study) {
  const std::string& overlap = study.parallel.tensor_overlap;
  if (overlap == "none") return;
  const std::string key = "parallel.tensor_overlap";
  if (study.parallel.tensor < 2) {
    fail_at(study, key,
            overlap + " hides the all-reduces of tensor parallelism, and tensor is 1; write none");
  }
  if (study.model.family == Family::kSwin || study.model.family == Family::kClip)
    fail_at(study, key,
            overlap + " divides samples, which are the first dim of a tensor; in family " +
                std::string(to_string(study.model.family)) +
                " they are not everywhere: write none");
}

/// Microbatches that are listed one by one.
void check_listed_batch(const Study& study) {
  const std::vector<std::int64_t>& sizes = study.training.microbatches;
  const std::int64_t each = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  const std::int64_t batch = study.training.global_batch, data = study.batch_replicas();
  if (each * data == batch) return;
  if (!study.partition.replicas.empty()) {
    fail_at(study, "training.microbatch",
            "lists " + std::to_string(each) + " sequences, not training.global_batch " +
                std::to_string(batch) + "; with partition.replicas a microbatch is of all of them");
  }
  fail_at(study, "training.microbatch",
          "lists " + std::to_string(each) + " sequences, and data(" + std::to_string(data) +
              ") replicas of them are " + std::to_string(each * data) +
              ", not training.global_batch " + std::to_string(batch) +
              (batch % data == 0 ? "; " + std::to_string(batch / data) + " sequences are"
                                 : "; global_batch " + std::to_string(each * data) + " is"));
}

void check_batch(const Study& study) {
  const TrainingConfig& training = study.training;
  if (!training.microbatches.empty()) return check_listed_batch(study);
  const std::string degrees =
      (study.partition.replicas.empty() ? "data(" + std::to_string(study.parallel.data) + ") * "
                                        : "") +
      (study.parallel.batch_ranks() > 1 ? "tensor(" + std::to_string(study.parallel.tensor) + ") * "
                                        : "") +
      "microbatch(" + std::to_string(training.microbatch) + ")";
  const std::int64_t samples = training.microbatch * study.batch_replicas();
  const std::int64_t batch = training.global_batch;
  if (batch % samples != 0) {
    const std::int64_t above = (batch / samples + 1) * samples;
    const std::string remedy = batch < samples ? std::to_string(above) + " is"
                                               : std::to_string(above - samples) + " and " +
                                                     std::to_string(above) + " are";
    fail_at(study, "training.global_batch",
            std::to_string(batch) + " is not a multiple of " + degrees + " = " +
                std::to_string(samples) + "; " + remedy);
  }
  if (study.num_microbatches() > kMaxMicrobatches) {
    fail_at(study, "training.global_batch",
            std::to_string(batch) + " sequences over " + degrees + " are " +
                std::to_string(study.num_microbatches()) + " microbatches; at most " +
                std::to_string(kMaxMicrobatches) + " are allowed");
  }
}

/// Whatever replica has samples of a microbatch has whole groups of those that are told apart.
void check_contrast(const Study& study) {
  const std::int64_t group = study.model.contrast;
  if (group == 0) return;
  std::int64_t replicas = 1;
  for (const int of_rank : study.parallel.replicas)
    replicas = std::lcm<std::int64_t>(replicas, of_rank);
  for (const std::int64_t samples : microbatch_sizes(study.training)) {
    if (samples % (group * replicas) == 0) continue;
    const std::string over = replicas > 1 ? " over " + std::to_string(replicas) + " replicas" : "";
    fail_at(study, "training.microbatch",
            plural(samples, "sample") + over + " cannot be put in groups of " +
                std::to_string(group) + " (model.contrast); a multiple of " +
                std::to_string(group * replicas) + " can");
  }
}

/// Ranks that have to talk need links: inside a node, and between nodes.
void check_links(StudyDraft& draft) {
  const Cluster& cluster = draft.cluster;
  const std::int64_t ranks = draft.parallel.num_ranks();
  const auto need = [&](const char* key, const LinkClass& link, const std::string& where) {
    if (link.bandwidth > 0) return;
    draft.attempt([&] {
      fail_at(draft, is_said(draft, key) ? key : "cluster",
              "the plan's " + std::to_string(ranks) + " ranks talk " + where +
                  ", but the links there are '" + link.kind + "'; name links with a bandwidth");
    });
  };
  if (std::min(ranks, cluster.devices_per_node) > 1)
    need("cluster.intra", cluster.intra, "inside a node");
  if (ranks > cluster.devices_per_node) need("cluster.inter", cluster.inter, "between nodes");
}

}  // namespace

void check_batch_fits(StudyDraft& draft, bool resolved) {
  const bool divided =
      draft.rule({"cluster", "parallel.tensor", "parallel.pipeline", "parallel.data"},
                 [&] { resolve_data_parallel(draft); });
  if (!divided) return;
  draft.rule({"cluster", "parallel.data"}, [&] { check_links(draft); });
  draft.rule({"parallel", "partition", "schedule"}, [&] {
    resolve_zero(draft);
    check_zero(draft);
  });
  if (resolved)
    draft.rule({"parallel", "partition", "training.precision", "framework"},
               [&] { check_fp8_gathers(draft); });
  draft.rule({"parallel.tensor_overlap", "parallel.tensor"}, [&] { check_tensor_overlap(draft); });
  draft.rule({"model.contrast", "training.microbatch", "partition"},
             [&] { check_contrast(draft); });
  const bool whole = draft.rule({"training.global_batch", "training.microbatch", "parallel.data"},
                                [&] { check_batch(draft); });
  // What reduces behind the last microbatch keeps whole gradients until then; the only one need
  // not.
  if (whole && draft.num_microbatches() == 1) {
    draft.parallel.zero.reduce = ZeroConfig::Reduce::kEach;
    draft.parallel.zero.reduces_whole_each = false;
  }
  if (!whole || !resolved) return;
  draft.rule({"schedule", "parallel.pipeline", "parallel.virtual_stages"}, [&] {
    if (!draft.schedule.rows.empty()) return check_schedule_row_microbatches(draft);
    draft.schedule.microbatch_group == 0 ? check_schedule_microbatches(draft)
                                         : check_microbatch_group(draft);
  });
}

}  // namespace trainyard
