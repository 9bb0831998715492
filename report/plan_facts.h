// What study.resolved.yaml says of a plan, in a few lines that a person reads first.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct PlanFact {
  std::string name;   // "parallel"
  std::string value;  // "tensor 8, pipeline 8, data 16"
};

/// Throws ConfigError where `yaml` is not YAML, or a key that it has is not of its type. A key that
/// it does not have is left out.
std::vector<PlanFact> plan_facts(const std::string& yaml, const std::string& path);

/// Words that a page says of the study in `yaml`.
struct PlanWords {
  std::string device;  // device_word()
  bool of_images = false;
  std::string speed_unit;  // speed_unit() of its model's family; not known: that of text
};
PlanWords plan_words(const std::string& yaml, const std::string& path);

}  // namespace trainyard
