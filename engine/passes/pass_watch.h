// What happens around every pass: its time is taken, its result checked.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <type_traits>

#include "engine/base/error.h"
#include "engine/partition/stage_partition.h"
#include "engine/passes/pass_log.h"
#include "engine/passes/program_draft.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

class PassWatch {
 public:
  /// Both outlive this; the log takes an entry for every pass.
  PassWatch(const CompileOptions& options, PassLog& log) : options_(options), log_(log) {}

  /// What `pass` returns.
  template <typename Pass>
  auto time(const std::string& name, const Pass& pass) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = pass();
    log_.entries.push_back({name, since(begin)});
    return result;
  }

  /// What a pass over `state` says of the plan; nullopt: it has done its work, and the result is
  /// sound. Aborts where it is not. `check`: nullptr where something else looks at the result.
  template <typename State, typename Pass>
  std::optional<Infeasible> run(const std::string& name, State& state,
                                std::type_identity_t<std::string (*)(const State&)> check,
                                const Pass& pass) {
    auto infeasible = time(name, [&]() -> std::optional<Infeasible> {
      if constexpr (std::is_void_v<std::invoke_result_t<Pass>>) {
        pass();
        return std::nullopt;
      } else {
        return pass();
      }
    });
    if (infeasible) return infeasible;
    if (options_.behind_pass) options_.behind_pass(name, &state);
    if (check != nullptr) require_sound(name, check(state));
    if (options_.verify) require_sound(name, full_violation(state));
    return std::nullopt;
  }

  static void require_sound(const std::string& name, const std::string& problem) {
    if (!problem.empty()) bug("after pass " + name + ": " + problem);
  }

 private:
  static Seconds since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // The checks of graphs look at all that there is to look at.
  static std::string full_violation(const StagedGraph&) { return {}; }
  static std::string full_violation(const TrainingGraph&) { return {}; }
  static std::string full_violation(const ProgramDraft& draft);

  const CompileOptions& options_;
  PassLog& log_;
};

}  // namespace trainyard
