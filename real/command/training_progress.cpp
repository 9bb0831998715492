#include "real/command/training_progress.h"

#include <cmath>
#include <cstdio>

#include "engine/base/plain_text.h"
#include "engine/base/readable.h"
#include "real/command/run_answer.h"

namespace trainyard {

void say_what_runs(const TrainingPlan& plan, const RankEnvironment& environment,
                   const Samples& samples, std::int64_t steps_done) {
  std::fprintf(stderr, "training on %s; %s (%s), program %.12s\n",
               plain_text(samples.description()).c_str(),
               plural(environment.world_size, "rank").c_str(), environment.launcher.c_str(),
               plan.digest.c_str());
  if (const auto best = samples.best_loss()) {
    std::fprintf(stderr, "the best possible loss on this data is %.4f %s\n", *best,
                 samples.loss_unit().c_str());
  }
  if (steps_done > 0)
    std::fprintf(stderr, "resumed after step %lld\n", static_cast<long long>(steps_done));
}

void TrainingProgress::show(const Study& study, const StepReport& report) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = report.step == study.training.steps;
  if (!last && report.step > 1 && now - shown_ < std::chrono::seconds(1)) return;
  shown_ = now;
  std::fprintf(stderr, "step %lld/%lld  loss %.4f  %.0f %s  norm %.3f  lr %.3g%s\n",
               static_cast<long long>(report.step), static_cast<long long>(study.training.steps),
               report.loss.value_or(NAN), tokens_per_step(study) / report.seconds,
               std::string(speed_unit(study.model.family)).c_str(), report.gradient_norm,
               report.learning_rate, report.updated ? "" : "  (overflow: no update)");
}

}  // namespace trainyard
