// The small studies that tests/oracle/train.py trains with PyTorch, and we with our own Program.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct OracleStudy {
  std::string name;  // of its file in tests/golden/training/
  std::string yaml;
  std::string sgd_rate, adamw_rate;
};

const std::vector<OracleStudy>& oracle_studies();

inline constexpr int kOracleSteps = 20;
/// Of LoopbackOptions. Five times the usual deviation lets layers of 32 to 64 features pass on
/// about what they get, as 0.02 does with layers of thousands.
inline constexpr float kOracleNoise = 0.1F;

/// How a study is trained, as --set.
struct OracleTraining {
  std::string name;
  std::vector<std::string> sets;
};

/// Both from the same weights. "sgd": what is learnt is linear in the gradient, so that any error
/// of it shows in the losses. "adamw": clipping, moments and weight decay.
std::vector<OracleTraining> oracle_trainings(const OracleStudy& study);

}  // namespace trainyard
