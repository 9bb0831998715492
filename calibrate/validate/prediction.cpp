#include "calibrate/validate/prediction.h"

#include <nlohmann/json.hpp>

namespace trainyard {

double memory_of(const Prediction& prediction, std::optional<MemoryKind> kind) {
  switch (kind.value_or(MemoryKind::kDriver)) {
    case MemoryKind::kAllocated: return prediction.allocated_gib;
    case MemoryKind::kReserved: return prediction.reserved_gib;
    case MemoryKind::kDriver: break;
  }
  return prediction.peak_memory_gib;
}

std::string to_text(const Prediction& p) {
  const nlohmann::json out = {{"skipped", p.skipped},
                              {"cause", p.cause},
                              {"reason", p.reason},
                              {"framework", p.framework},
                              {"framework_version", p.framework_version},
                              {"device", p.device},
                              {"num_gpus", p.num_gpus},
                              {"time", p.time},
                              {"iteration_time", p.iteration_time},
                              {"features", p.features},
                              {"memory", p.peak_memory_gib},
                              {"reserved", p.reserved_gib},
                              {"allocated", p.allocated_gib},
                              {"fits", p.fits},
                              {"memory_error", p.memory_error},
                              {"may_fit", p.may_fit},
                              {"warnings", p.warnings}};
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Prediction prediction_from_text(const std::string& text) {
  const nlohmann::json in = nlohmann::json::parse(text);
  Prediction p;
  p.skipped = in.at("skipped");
  p.cause = in.at("cause");
  p.reason = in.at("reason");
  p.framework = in.at("framework");
  p.framework_version = in.at("framework_version");
  p.device = in.at("device");
  p.num_gpus = in.at("num_gpus");
  p.iteration_time = in.at("iteration_time");
  in.at("features").get_to(p.features);
  p.peak_memory_gib = in.at("memory");
  p.reserved_gib = in.at("reserved");
  p.allocated_gib = in.at("allocated");
  p.fits = in.at("fits");
  p.memory_error = in.at("memory_error");
  p.may_fit = in.at("may_fit");
  in.at("time").get_to<std::array<Seconds, kNumIngredients>>(p.time);
  p.warnings = in.at("warnings").get<std::vector<std::string>>();
  return p;
}

}  // namespace trainyard
