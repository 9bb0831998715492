#include "engine/base/mistakes.h"

#include <algorithm>
#include <utility>

namespace trainyard {

void Mistakes::attempt(const std::function<void()>& read) {
  try {
    read();
  } catch (const ConfigError& mistake) {
    found_.push_back(mistake);
  }
}

void Mistakes::settle() const {
  if (!found_.empty()) throw ConfigError(found_);
}

std::vector<Mistake> mistakes_in_order(const ConfigError& error) {
  std::vector<Mistake> mistakes = {{error.what(), error.where()}};
  mistakes.insert(mistakes.end(), error.others().begin(), error.others().end());
  std::stable_sort(mistakes.begin(), mistakes.end(), [](const Mistake& a, const Mistake& b) {
    return std::pair(a.where.line, a.where.column) < std::pair(b.where.line, b.where.column);
  });
  return mistakes;
}

}  // namespace trainyard
