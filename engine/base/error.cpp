#include "engine/base/error.h"

#include <cstdio>
#include <cstdlib>

#include "engine/base/plain_text.h"

namespace trainyard {

namespace {

std::string with_place(const SourcePos& pos, const std::string& key_path,
                       const std::string& problem) {
  std::string text = to_string(pos);
  if (!text.empty()) text += ": ";
  if (!key_path.empty()) text += key_path + ": ";
  return plain_text(text + problem);
}

}  // namespace

std::string to_string(const SourcePos& pos) {
  if (pos.line <= 0) return pos.file;
  return pos.file + ":" + std::to_string(pos.line) + ":" + std::to_string(pos.column);
}

ConfigError::ConfigError(const std::string& problem)
    : std::runtime_error(plain_text(problem)),
      problem_(problem) {}

ConfigError::ConfigError(const SourcePos& pos, const std::string& key_path,
                         const std::string& problem)
    : std::runtime_error(with_place(pos, key_path, problem)),
      where_(pos),
      problem_(problem),
      key_path_(key_path) {}

ConfigError::ConfigError(const std::vector<ConfigError>& mistakes) : ConfigError(mistakes.front()) {
  for (const ConfigError& mistake : mistakes) {
    if (&mistake == &mistakes.front()) continue;
    others_.push_back({mistake.what(), mistake.where()});
    others_.insert(others_.end(), mistake.others_.begin(), mistake.others_.end());
  }
}

ConfigError ConfigError::about(const std::string& key_path) const {
  ConfigError error = *this;
  error.key_path_ = key_path;
  return error;
}

ConfigError ConfigError::about_unknown_key(const std::string& map) const {
  ConfigError error = about(map);
  error.unknown_key_ = true;
  return error;
}

void check(bool condition, const char* what, const char* file, int line) {
  if (!condition) bug(what, file, line);
}

void bug(const std::string& what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: trainyard bug: %s\n", file, line, what.c_str());
  std::abort();
}

}  // namespace trainyard
