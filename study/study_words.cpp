#include "study/study_words.h"

#include <vector>

#include "engine/cost/all_reduce_algorithm.h"
#include "engine/passes/tensor_methods.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

std::span<const std::string_view> schedule_words() {
  static const std::vector<std::string_view> kWords = [] {
    std::vector<std::string_view> words;
    for (const ScheduleName& entry : schedule_names()) words.push_back(entry.name);
    for (const ScheduleName& entry : schedule_names())
      if (!entry.short_name.empty()) words.push_back(entry.short_name);
    return words;
  }();
  return kWords;
}

std::span<const std::string_view> tensor_method_words() {
  static const std::vector<std::string_view> kWords = [] {
    std::vector<std::string_view> words;
    for (const TensorMethod& method : tensor_methods()) words.push_back(method.name);
    return words;
  }();
  return kWords;
}

std::span<const std::string_view> collective_words(std::string_view collective) {
  static constexpr std::array<std::string_view, 2> kAllToAll = {"auto", "pairwise"};
  static constexpr std::array<std::string_view, 2> kOthers = {"auto", "ring"};
  if (collective == "all_reduce") return all_reduce_words();
  if (collective == "all_to_all") return kAllToAll;
  return kOthers;
}

}  // namespace trainyard
