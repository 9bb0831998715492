#include "real/command/run_answer.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/base/format.h"
#include "engine/base/plain_text.h"
#include "engine/base/readable.h"
#include "report/summary.h"
#include "system/files.h"
#include "system/terminal.h"

namespace trainyard {

namespace {

nlohmann::json or_null(const std::optional<double>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

nlohmann::ordered_json answer_json(const TrainingPlan& plan, const RankTrainer& trainer,
                                   const RunTotals& totals) {
  const Prepared& prepared = plan.prepared;
  const auto steps = static_cast<double>(totals.steps);
  nlohmann::ordered_json json;
  json["study"] = prepared.study.file;
  json["steps"] = trainer.steps_done();
  json["loss"] = or_null(totals.loss);
  json["best_loss"] = or_null(totals.best_loss);
  json["tokens_per_s"] =
      totals.steps > 0 ? tokens_per_step(prepared.study) * steps / totals.seconds : 0.0;
  json["iteration_time_s"] = nullptr;
  if (totals.steps > 0) {
    const double step = totals.seconds / steps;
    json["iteration_time_s"] = step;
    json["tflops_per_gpu"] = model_flop_per_step(prepared.study, prepared.model) / step /
                             static_cast<double>(plan.num_ranks) / 1e12;
    json["mfu"] = model_flop_utilisation(prepared.study, prepared.model, prepared.hardware, step);
  }
  if (prepared.study.schedule.post_validation) json["repeated_steps"] = trainer.repeated();
  if (prepared.study.training.precision == DType::kFp16) json["skipped_steps"] = totals.skipped;
  json["num_ranks"] = plan.num_ranks;
  json["program_digest"] = plan.digest;
  json["out"] = plan.out;
  return json;
}

std::string answer_text(const TrainingPlan& plan, const RankTrainer& trainer,
                        const RunTotals& totals, const nlohmann::ordered_json& json) {
  std::string text =
      format("%s in %s: loss %s, %.0f %s\n", plural(trainer.steps_done(), "step").c_str(),
             plain_text(plan.out).c_str(),
             totals.loss ? std::to_string(*totals.loss).c_str() : "not trained further",
             json["tokens_per_s"].get<double>(),
             std::string(speed_unit(plan.prepared.study.model.family)).c_str());
  if (totals.steps > 0) {
    text +=
        format("%s of the model per rank, MFU %.1f %% of the peak in profile %s\n",
               flop_rate_text(json["tflops_per_gpu"].get<double>() * 1e12).c_str(),
               100 * json["mfu"].get<double>(), plain_text(plan.prepared.hardware.name).c_str());
  }
  if (json.contains("repeated_steps")) {
    text += format("steps run again, behind one that was clipped or not finite: %lld\n",
                   static_cast<long long>(trainer.repeated()));
  }
  if (totals.skipped > 0) {
    text +=
        format("steps without an update, since their scaled gradients overflowed: %lld of %lld\n",
               static_cast<long long>(totals.skipped), static_cast<long long>(totals.steps));
  }
  return text + "program " + plan.digest + "\n";
}

}  // namespace

double tokens_per_step(const Study& study) {
  return static_cast<double>(study.training.global_batch) *
         static_cast<double>(tokens_per_sample(study.model));
}

void write_answer(const TrainingPlan& plan, bool as_json, const RankTrainer& trainer,
                  const RunTotals& totals) {
  const nlohmann::ordered_json json = answer_json(plan, trainer, totals);
  // A run that had no step left keeps what its steps came to.
  const std::string file = plan.out + "/summary.json";
  if (totals.steps > 0 || !std::filesystem::exists(file)) write_file(file, json.dump(2) + "\n");
  if (as_json)
    print_answer(json.dump(2) + "\n");
  else
    print_text(answer_text(plan, trainer, totals, json));
}

}  // namespace trainyard
