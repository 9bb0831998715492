// The small studies that tests/oracle/train.py trains with PyTorch, and we with our own Program.
#pragma once

#include <string>
#include <vector>

namespace trainyard {

struct OracleStudy {
  std::string name;  // of its file in tests/golden/training/
  std::string yaml;
  std::string sgd_rate, adamw_rate;
  bool plain = false;  // not of transformers: tests/oracle/plain_models.py has it, by our names
};

const std::vector<OracleStudy>& oracle_studies();

inline constexpr int kOracleSteps = 20;
/// LoopbackOptions' noise. Five times the usual deviation lets layers of 32 to 64 features pass on
/// about what they get, as 0.02 does with layers of thousands.
inline constexpr float kOracleNoise = 0.1F;

/// How a study is trained, as --set.
struct OracleTraining {
  std::string name;
  std::vector<std::string> sets;
};

/// Both from the same weights. "sgd": what is learnt is linear in the gradient, so that any error
/// of it shows in the losses. "adamw": clipping, moments, weight decay and a learning rate that
/// rises and falls.
std::vector<OracleTraining> oracle_trainings(const OracleStudy& study);

/// In which types of 16 bits it is trained, too, by tests/oracle/train_16_bit.py: one study of each
/// kind of block, of which t5-gated is so steep that its gradients overflow in fp16. No T5 in bf16:
/// after these 20 steps PyTorch's own is up to 16 % of the way from PyTorch's fp32.
std::vector<std::string> short_precisions(const OracleStudy& study);

}  // namespace trainyard
