// Who must act decides the type of an error: the user (ConfigError, exit 2), the user's plan
// (Infeasible, exit 4), a library underneath (BackendError, exit 3), or we (check).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

/// A place in a text that the user wrote; lines and columns count from 1, 0 means unknown.
struct SourcePos {
  std::string file;
  int line = 0;
  int column = 0;
};

std::string to_string(const SourcePos& pos);  // "configs/gpt.yaml:9:3", or "configs/gpt.yaml"

/// What is wrong at a place of an input: a line of an answer.
struct Mistake {
  std::string what;
  SourcePos where;
};

/// The user wrote something wrong. what() is `file:line:column: key.path: problem`, one line of
/// plain_text().
class ConfigError : public std::runtime_error {
 public:
  ConfigError(const SourcePos& pos, const std::string& key_path, const std::string& problem);
  explicit ConfigError(const std::string& problem);
  /// Several mistakes in one input, at least one: what() is the first's.
  explicit ConfigError(const std::vector<ConfigError>& mistakes);

  const SourcePos& where() const { return where_; }
  const std::string& problem() const { return problem_; }  // what() without place and key path
  /// The key that is wrong or missing; of an unknown key, the map that has it.
  const std::string& key_path() const { return key_path_; }
  /// The key is one that no study has, wherever else the study's values might lead.
  bool unknown_key() const { return unknown_key_; }
  const std::vector<Mistake>& others() const { return others_; }  // as they were found

  ConfigError about(const std::string& key_path) const;         // with that key_path()
  ConfigError about_unknown_key(const std::string& map) const;  // of that map

 private:
  SourcePos where_;
  std::string problem_;
  std::string key_path_;
  bool unknown_key_ = false;
  std::vector<Mistake> others_;
};

/// A plan that is well written but cannot run: returned, never thrown, since planners expect it.
struct Infeasible {
  std::string reason;    // with the values involved and by how much
  std::string key = {};  // path of the plan's key that is to blame; empty: no single one is
};

/// The same where the plan is all that a command was given: what() is the reason, and where it has
/// a place.
class PlanError : public std::runtime_error {
 public:
  explicit PlanError(const std::string& reason, SourcePos where = {})
      : std::runtime_error(reason),
        where_(std::move(where)) {}

  const SourcePos& where() const { return where_; }

 private:
  SourcePos where_;
};

/// A library or device underneath refused: the call, the rank, and its own message.
class BackendError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Our own bug: aborts with the place and `what`. Not for anything that a user can cause.
/// (std::source_location would say it shorter, but clang 14, which runs the checks, lacks it.)
void check(bool condition, const char* what, const char* file = __builtin_FILE(),
           int line = __builtin_LINE());
[[noreturn]] void bug(const std::string& what, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE());

}  // namespace trainyard
