#include "engine/plan/model_config.h"

namespace trainyard {

std::string_view to_string(Family family) {
  switch (family) {
    case Family::kGpt: return "gpt";
    case Family::kBert: return "bert";
    case Family::kT5: return "t5";
    case Family::kLlama: return "llama";
  }
  return "?";
}

std::string_view to_string(Activation activation) {
  switch (activation) {
    case Activation::kGelu: return "gelu";
    case Activation::kGeluTanh: return "gelu-tanh";
    case Activation::kRelu: return "relu";
    case Activation::kSwiglu: return "swiglu";
    case Activation::kGeglu: return "geglu";
  }
  return "?";
}

}  // namespace trainyard
