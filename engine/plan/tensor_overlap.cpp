#include "engine/plan/tensor_overlap.h"

#include <algorithm>
#include <string_view>

#include "engine/base/error.h"
#include "engine/base/indexed.h"

namespace trainyard {

namespace {

constexpr IndexedArray<TensorOverlap::Scope, std::string_view, 4> kScopes = {
    "none", "linear", "block", "across-blocks"};

}  // namespace

std::string to_string(const TensorOverlap& overlap) {
  std::string text(kScopes[overlap.scope]);
  if (overlap == TensorOverlap{overlap.scope}) return text;
  text += ' ';
  text += std::to_string(overlap.chunks);
  return text;
}

TensorOverlap parse_tensor_overlap(const std::string& text) {
  const std::size_t space = text.find(' ');
  const auto scope = std::find(kScopes.begin(), kScopes.end(), text.substr(0, space));
  check(scope != kScopes.end(), "the reader has read the scope");
  TensorOverlap overlap{static_cast<TensorOverlap::Scope>(scope - kScopes.begin())};
  if (space != std::string::npos) overlap.chunks = std::stoi(text.substr(space + 1));
  return overlap;
}

}  // namespace trainyard
