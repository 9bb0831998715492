#include "study/study_words.h"

#include <vector>

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

}  // namespace trainyard
