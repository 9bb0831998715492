#include "study/framework_profile.h"

#include <optional>
#include <string>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "engine/schedule/schedule_names.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

constexpr auto kSoftware = StudyResolvers::Names::kSoftware;

std::string framework_text(const FrameworkConfig& framework) {
  return framework.name + (framework.version.empty() ? "" : " " + framework.version);
}

/// "megatron-lm-current" is version current of megatron-lm, "megatron-lm" its usual one.
std::optional<SoftwareProfile> find_like(const std::string& like, const StudyResolvers& resolvers) {
  if (auto usual = resolvers.software(known_name(like, resolvers, kSoftware), "")) return usual;
  for (std::size_t end = like.rfind('-'); end != std::string::npos && end > 0;
       end = like.rfind('-', end - 1)) {
    const std::string name = known_name(like.substr(0, end), resolvers, kSoftware);
    if (auto found = resolvers.software(name, like.substr(end + 1))) return found;
  }
  return std::nullopt;
}

void check_like(Study& study, const StudyResolvers& resolvers) {
  const FrameworkConfig& framework = study.framework;
  if (resolvers.software(framework.name, ""))
    fail_at(study, "framework.like", framework.name + " has a profile of its own; leave like out");
  if (framework.year != 0)
    fail_at(study, "framework.year",
            "settles the version of a framework that has a profile; with like, name the version "
            "there, such as megatron-lm-2022");
  const auto found = find_like(framework.like, resolvers);
  if (!found) {
    fail_at(study, "framework.like",
            "no software profile is named " + in_quotes(framework.like) +
                known_names(framework.like, resolvers, kSoftware));
  }
  study.warnings.push_back(
      "framework " + framework_text(framework) +
      " has no profile: what it fuses, keeps and overlaps is taken for that of " + found->name +
      (found->version.empty() ? "" : " " + found->version));
}

void choose(Study& study, const std::string& version, const std::string& rule) {
  study.framework.version = version;
  study.origins["framework.version"] = derived_origin(rule);
}

/// The code of the time when such runs were made.
void choose_megatron(Study& study, const HardwareProfile& hardware) {
  if (const std::int64_t year = study.framework.year; year != 0)
    return choose(study, year < 2022 ? "2021" : year < 2024 ? "2022" : "current", "framework.year");
  const bool hopper = hardware.architecture == "hopper" || hardware.architecture == "blackwell";
  const bool current = hopper || study.training.flash_attention == FlashAttention::kOn;
  const ScheduleName* schedule = find_schedule(study.schedule.method);
  const bool later = study.parallel.sequence_parallel ||
                     study.recompute.method == RecomputeConfig::Method::kSelective ||
                     (schedule != nullptr && schedule->splits_backward);
  choose(study,
         current ? "current"
         : later ? "2022"
                 : "2021",
         "H100 or newer, or flash attention: current; sequence parallel, selective recompute or a "
         "split backward: 2022; else 2021");
}

/// Published runs of FSDP are of its first form; who writes a study means the one of today.
void choose_fsdp(Study& study) {
  if (const std::int64_t year = study.framework.year; year != 0)
    return choose(study, year < 2024 ? "2023" : "2024", "framework.year");
  choose(study, is_said(study, "cluster.gpu") ? "2023" : "2024", "a case: 2023; else 2024, FSDP2");
}

/// torch.compile is a version of its own where its profile says what that changes.
void choose_compiled(Study& study, const StudyResolvers& resolvers) {
  const TrainingConfig& training = study.training;
  const bool fp8 = training.fp8.on() && !is_said(study, "training.compiled");
  if (!training.compiled && !training.async_tp && !fp8) return;
  const bool later = study.framework.year >= 2025;
  const std::string version = later ? "compiled-2025" : "compiled";
  const auto compiled = resolvers.software(study.framework.name, version);
  if (!compiled) return;
  const std::string year = later ? "framework.year, " : "";
  if (training.compiled) return choose(study, version, year + "training.compiled");
  if (training.async_tp && compiled->async_tensor)
    return choose(study, version, year + "training.async_tp: a pass of torch.compile");
  if (fp8) choose(study, version, year + "fp8, whose casts torch.compile fuses (docs/float8.md)");
}

void choose_version(Study& study, const HardwareProfile& hardware,
                    const StudyResolvers& resolvers) {
  const FrameworkConfig& framework = study.framework;
  if (!framework.version.empty()) return;
  if (framework.name == "megatron-lm") return choose_megatron(study, hardware);
  if (framework.name == "pytorch-fsdp") return choose_fsdp(study);
  if (framework.year != 0 && framework.name != "torchtitan")
    fail_at(study, "framework.year",
            "settles the version of megatron-lm, pytorch-fsdp and torchtitan; " + framework.name +
                " has no versions by year");
  choose_compiled(study, resolvers);
}

/// What the study asks for and the profile does not know.
void warn_of_unused(Study& study, const SoftwareProfile& software) {
  const TrainingConfig& training = study.training;
  const auto without_effect = [&](const std::string& key, const std::string& what) {
    study.warnings.push_back("training." + key + " has no effect: no profile says what " + what +
                             " changes in " + framework_text(study.framework));
  };
  if (training.compiled && !software.version.starts_with("compiled"))
    without_effect("compiled", "torch.compile");
  if (training.async_tp && !software.async_tensor)
    without_effect("async_tp", "asynchronous tensor parallelism");
}

std::optional<SoftwareProfile> find_profile(const FrameworkConfig& framework,
                                            const StudyResolvers& resolvers) {
  return framework.like.empty() ? resolvers.software(framework.name, framework.version)
                                : find_like(framework.like, resolvers);
}

}  // namespace

SoftwareProfile software_of(const Study& study, const StudyResolvers& resolvers) {
  std::optional<SoftwareProfile> software = find_profile(study.framework, resolvers);
  check(software.has_value(), "the reader has looked the profile up");
  // What a module server records once it does not ask again (static and fast mode).
  if (study.partition.method != "smp" || study.schedule.mode != "dynamic")
    software->request_us = software->metadata_us = 0;
  // It is of CUDA and NCCL, and a CPU has neither.
  if (study.cluster.of_cpus) software->context_gib = 0;
  software->runs_async_tensor =
      study.training.async_tp && software->async_tensor && study.parallel.tensor > 1;
  return *software;
}

/// `megatron-lm-2021`, as `trainyard list frameworks` calls a profile, is version 2021 of
/// megatron-lm.
void read_version_in_name(Study& study, const StudyResolvers& resolvers) {
  FrameworkConfig& framework = study.framework;
  if (!framework.like.empty() || resolvers.software(framework.name, "")) return;
  const auto named = find_like(framework.name, resolvers);
  if (!named) return;
  framework.name = named->name;
  // A version or a year beside the name is an option's or a sweep's.
  if (framework.version.empty() && framework.year == 0)
    choose(study, named->version, "framework.name");
}

SoftwareProfile resolve_framework(Study& study, const HardwareProfile& hardware,
                                  const StudyResolvers& resolvers) {
  FrameworkConfig& framework = study.framework;
  if (!resolvers.software(framework.name, framework.version))
    framework.name = known_name(framework.name, resolvers, kSoftware);
  read_version_in_name(study, resolvers);
  if (!framework.like.empty()) {
    check_like(study, resolvers);
  } else {
    choose_version(study, hardware, resolvers);
    const auto found = find_profile(framework, resolvers);
    if (!found) {
      if (resolvers.software(framework.name, ""))
        fail_at(study, "framework.version",
                framework.name + " has no profile of version " + in_quotes(framework.version) +
                    "; `trainyard list frameworks` has those that there are");
      fail_at(study, "framework.name",
              "no software profile is named " + in_quotes(framework.name) +
                  known_names(framework.name, resolvers, kSoftware) +
                  "; for other software write {name: " + framework.name +
                  ", like: megatron-lm-current}, or torchtitan-eager for kernels of plain PyTorch");
    }
    if (framework.version.empty() && !found->version.empty()) {
      framework.version = found->version;
      study.origins["framework.version"] = default_origin();
    }
  }
  SoftwareProfile software = software_of(study, resolvers);
  warn_of_unused(study, software);
  if (software.bucket_elements > 0 && !is_said(study, "training.bucket_elements")) {
    study.training.bucket_elements = software.bucket_elements;
    study.origins["training.bucket_elements"] = derived_origin(software.name + "'s");
  }
  RecomputeConfig& recompute = study.recompute;
  if (software.selective_by_op && recompute.method == RecomputeConfig::Method::kSelective &&
      recompute.modules.empty()) {
    recompute.method = RecomputeConfig::Method::kByOp;
    study.origins["recompute"] = derived_origin(software.name + "'s selective is by op");
  }
  return software;
}

}  // namespace trainyard
