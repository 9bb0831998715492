// Whether what lies in the memory of the hosts goes with the plan: activations between forward and
// backward, the optimizer's state, parameters.
#include <cmath>
#include <optional>
#include <string>

#include "engine/base/user_text.h"
#include "study/attention.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

// DeepSpeed's CPU-Adam updates 10 billion parameters in 2.57 s on the 48 cores of a DGX-2's two
// Xeon 8168 (Ren et al., ZeRO-Offload, USENIX ATC 2021, arXiv:2101.06840, table 4).
constexpr double kCpuAdamRate = 10e9 / 2.57;  // parameters/s
constexpr std::int64_t kCpuAdamCores = 48;

void require_host_link(const Study& study, const StudyResolvers& resolvers,
                       const std::string& key) {
  const std::optional<HardwareProfile> hardware = resolvers.hardware(study.cluster.device);
  if (hardware && hardware->host_link.bandwidth <= 0) {
    fail_at(study, key,
            "the profile of " + study.cluster.device +
                " has no host_link, the rate of copies to the host");
  }
}

/// Whether the study says where the optimizer's state lies: by a word, or in a map.
bool says_state(const Study& study) {
  return is_said(study, "parallel.zero.offload.optimizer") ||
         (is_said(study, "parallel.zero.offload") && !study.parallel.zero.offloads_parameters());
}

/// Both keys say the same; the one that is said counts.
void settle_words(Study& study) {
  constexpr const char* kFlag = "training.cpu_offload";
  constexpr const char* kWord = "parallel.zero.offload";
  ZeroConfig& zero = study.parallel.zero;
  bool& flag = study.training.cpu_offload;
  if (flag == zero.offloads_state()) return;
  if (is_said(study, kFlag) && says_state(study)) {
    fail_at(study, kFlag,
            std::string(flag ? "true" : "false") + " is another word for parallel.zero.offload: " +
                (flag ? "optimizer" : "none") + ", which says otherwise; leave one of them out");
  }
  if (flag) {
    zero.offload.optimizer = ZeroConfig::Place::kHost;
    if (!is_said(study, kWord)) study.origins[kWord] = derived_origin("training.cpu_offload");
  } else {
    flag = true;
    study.origins[kFlag] = derived_origin("parallel.zero.offload");
  }
}

void check_host_state(const Study& study, const std::string& key) {
  const ZeroConfig& zero = study.parallel.zero;
  const auto refuse = [&](bool wrong, const std::string& problem) {
    if (wrong) fail_at(study, key, problem);
  };
  refuse(zero.stage == 0,
         "the host updates what ZeRO divides, and parallel.zero.stage is 0; write stage 1, 2 or 3");
  refuse(zero.by == ZeroConfig::By::kParameter,
         "the host updates shards, and with parallel.zero.by: parameter replicas own whole "
         "parameters; write by: shard");
  refuse(study.schedule.post_validation,
         "schedule.post_validation corrects an update in the next step from gradients on the "
         "device; leave one of them out");
}

void check_host_parameters(const Study& study, const std::string& key) {
  if (study.schedule.post_validation && study.parallel.pipeline > 1) {
    fail_at(study, key,
            "schedule.post_validation corrects an update in the next step from weights on the "
            "device; leave one of them out");
  }
  const int stage = study.parallel.zero.stage;
  if (stage == 3) return;
  fail_at(
      study, key,
      "parameters are fetched from the host as they are gathered, and with parallel.zero.stage " +
          std::to_string(stage) + " they are always there; write stage: 3");
}

void require_drives(const Study& study) {
  const ZeroConfig::Offload& offload = study.parallel.zero.offload;
  if (!study.parallel.zero.uses_nvme() || study.cluster.nvme.drives > 0) return;
  const bool state = offload.optimizer == ZeroConfig::Place::kNvme;
  fail_at(study, std::string("parallel.zero.offload.") + (state ? "optimizer" : "parameters"),
          "the nodes of " + study.cluster.name +
              " have no NVMe drives that it says; write host, or cluster.nvme: {read: 6.5 GB/s, "
              "write: 3 GB/s, drives: 4}, of one drive");
}

/// Nothing has to be known where the devices are CPUs, which update as always.
void resolve_update_rate(Study& study) {
  HostMemory& host = study.cluster.host;
  if (study.cluster.of_cpus) return;
  const std::int64_t cores = host.cores > 0 ? host.cores : kCpuAdamCores;
  const double rate =
      std::round(kCpuAdamRate * static_cast<double>(cores) / static_cast<double>(kCpuAdamCores));
  const bool given = host.update_rate > 0;
  if (given && host.update_rate != rate) return;  // a resolved study writes the rule's number
  host.update_rate = rate;
  const std::string rule =
      "CPU-Adam's 10 billion parameters in 2.57 s on 48 cores, on " + std::to_string(cores);
  host.update_provenance = {"derived", rule + " (Ren et al. 2021, arXiv:2101.06840, table 4)"};
  if (!given) study.origins["cluster.host.update_rate"] = default_origin(rule);
}

/// What replaces a preset's number that nothing asks for.
void warn_of_unused_host(Study& study) {
  // What a study says of a cluster of its own describes it.
  if (!is_said(study, "cluster.preset")) return;
  const ZeroConfig& zero = study.parallel.zero;
  const auto warn = [&](bool used, const std::string& key, const std::string& why) {
    const std::string path = "cluster.host." + key;
    if (!used && is_said(study, path)) study.warnings.push_back(path + " is not used: " + why);
  };
  warn(study.offload.activations || zero.offloads_state() || zero.offloads_parameters(), "capacity",
       "nothing is offloaded");
  const bool updates = zero.offloads_state() && !study.cluster.of_cpus;
  for (const char* const key : {"cores", "update_rate"})
    warn(updates, key, "no host updates parameters for its devices");
  bool said = false;
  for (const char* const key : {"read", "write", "drives", "capacity"})
    said = said || is_said(study, std::string("cluster.nvme.") + key);
  if (said && !zero.uses_nvme())
    study.warnings.emplace_back("cluster.nvme is not used: nothing lies on drives");
}

}  // namespace

/// What is copied to the host is what recomputation keeps.
void check_offload(const Study& study) {
  if (!study.offload.activations) return;
  const char* const key = "offload.activations";
  if (study.recompute.method == RecomputeConfig::Method::kNone) {
    fail_at(study, key,
            "copies what recomputation keeps, and recompute is none; write recompute: full");
  }
  if (study.recompute.method == RecomputeConfig::Method::kByOp ||
      !study.recompute.modules.empty()) {
    fail_at(study, key,
            "copies the inputs of recomputed layers, and recomputation that keeps more of a layer "
            "is not copied in this version; write recompute: full");
  }
  if (study.recompute.method == RecomputeConfig::Method::kSelective &&
      (study.training.flash_attention == FlashAttention::kOn || !may_attend(study.model))) {
    fail_at(
        study, key,
        std::string("copies what recomputation keeps, and recompute: selective keeps nothing ") +
            (may_attend(study.model) ? "for flash attention" : "without attention") +
            "; write recompute: full");
  }
}

void check_host_link(const Study& study, const StudyResolvers& resolvers) {
  if (study.offload.activations) require_host_link(study, resolvers, "offload.activations");
}

void resolve_host_state(Study& study, const StudyResolvers& resolvers) {
  settle_words(study);
  warn_of_unused_host(study);
  const ZeroConfig& zero = study.parallel.zero;
  if (!zero.offloads_state() && !zero.offloads_parameters()) return;
  const char* const key =
      is_said(study, "parallel.zero.offload") ? "parallel.zero.offload" : "training.cpu_offload";
  if (zero.offloads_state()) check_host_state(study, key);
  if (zero.offloads_parameters()) check_host_parameters(study, key);
  require_host_link(study, resolvers, key);
  require_drives(study);
  if (zero.offloads_state()) resolve_update_rate(study);
}

}  // namespace trainyard
