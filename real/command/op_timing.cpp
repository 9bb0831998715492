#include "real/command/op_timing.h"

#include <cstdio>
#include <utility>

#include "app/prepare.h"
#include "calibrate/validate/measured_costs.h"
#include "engine/exec/channels/lanes.h"
#include "real/command/emulated_rank.h"
#include "real/cuda/cuda.h"
#include "study/study_origin.h"
#include "study/study_writer.h"
#include "system/data_root.h"

namespace trainyard {

namespace {

void check_device(const Study& study, const std::string& asked) {
  const std::string own = kernels_word(study);
  if (!asked.empty() && asked != own) {
    fail_at(study, "partition.times",
            "emulate times the study's own kernels, which are for " + own + ", and --device says " +
                asked);
  }
  if (own == "cuda" && num_cuda_devices() == 0) {
    fail_at(study, "partition.times",
            "emulate times the study's own kernels, and this process sees no GPU (" +
                why_no_cuda() + ")");
  }
}

OpTimes times_of(const Program& program, const RunMeasurement& run) {
  const MeasuredCosts measured = measure_costs(program, find_lanes(program), run, false);
  OpTimes out;
  for (const SegmentId s : program.segments.keys()) {
    const std::vector<ProgramOp>& ops = program.segments[s].ops;
    for (std::size_t k = 0; k < ops.size(); ++k) {
      if (measured.kernel[s][k]) out.add(kernel_text(program, ops[k]), *measured.kernel[s][k]);
    }
  }
  return out;
}

}  // namespace

OpTimes OpTiming::time(const Study& one_stage) {
  check_device(one_stage, device_);
  Study study = one_stage;
  study.data = {};
  study.data.path = "synthetic";
  Study alike = study;
  alike.origins.clear();  // who says a value changes no time
  const auto [known, is_new] = known_.try_emplace(resolved_study_text(alike), OpTimes{});
  if (!is_new) return known->second;
  std::fprintf(stderr, "ops of microbatches of %lld are timed on %s\n",
               static_cast<long long>(one_stage.training.microbatch),
               kernels_word(one_stage).c_str());
  std::vector<std::string> warnings;
  const TrainingPlan plan =
      plan_of(prepare_study(std::move(study), make_resolvers(data_root(), warnings)));
  // As ranks of the plan will have them.
  use_threads(threads_, one_stage, one_stage.cluster.num_devices);
  check_memory(plan, 0);
  known->second = times_of(plan.program, emulate_rank(plan, 0, steps_).recorded);
  // As OpTimer takes them: what was measured first counts.
  for (const auto& [kernel, seconds] : known->second.all()) {
    if (!all_.find(kernel)) all_.add(kernel, seconds);
  }
  return known->second;
}

}  // namespace trainyard
