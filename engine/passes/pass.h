// A pass as an entry of a table, and the walk over a table: what compile() is made of.
//
// A table holds the passes of one stretch of the compilation, all over one State: a staged graph, a
// training graph, a draft of a Program. An entry says all that a pass sees of the plan, its inputs,
// in one function. The pass is given them and nothing else of the plan, and who compiles one plan
// after another compares the same: so nothing that a pass looks at can be forgotten, and a pass
// sees a change as soon as its inputs have it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/cost/software_profile.h"
#include "engine/passes/call_successions.h"
#include "engine/passes/pair_segments.h"
#include "engine/passes/pass_log.h"
#include "engine/passes/training_graph.h"
#include "engine/passes/transfer_routes.h"
#include "engine/plan/plan.h"
#include "engine/schedule/stage_form.h"

namespace trainyard {

/// What inputs are made from: the plan, its links and its framework, and what its schedule asks
/// for.
struct PassSource {
  const Plan& plan;
  const PipelineLinks& links;
  const SoftwareProfile& software;
  Numbered<StageForm> forms;  // [stage]
  Numbered<double> kept;      // [stage]: of kept_shares()
  std::vector<StagePair> pairs;
  std::vector<CallSuccession> successions;  // where calls gather for the next one
};

/// What a pass is given beside its inputs. The first pass of all has among its inputs what decides
/// `model` and `software`; what the stretch before has left changes when one of its inputs does.
struct PassContext {
  const Graph& model;
  const SoftwareProfile& software;
  const std::vector<TrainingGraph>& trainings;  // one for each size of microbatch
  const CompileOptions& options;
};

/// An entry. `inputs` makes a tuple, as coarse as may be; `run` takes the State, the context and
/// what is in the tuple, and returns nothing, or where a plan may be at fault what is wrong with
/// it. `check` is cheap; it says what is wrong with the result, which is a bug of ours.
template <typename State, typename MakeInputs, typename Run>
struct Pass {
  using Inputs = std::invoke_result_t<MakeInputs, const PassSource&>;
  const char* name;
  bool (*applies)(const PassSource&);
  MakeInputs inputs;
  Run run;
  std::string (*check)(const State&);
};
template <typename State, typename MakeInputs, typename Run>
Pass(const char*, bool (*)(const PassSource&), MakeInputs, Run, std::string (*)(const State&))
    -> Pass<State, MakeInputs, Run>;

/// The inputs of each pass of a table; nullopt: it does not apply.
template <typename... Passes>
std::tuple<std::optional<typename Passes::Inputs>...> inputs_of(const std::tuple<Passes...>& table,
                                                                const PassSource& source) {
  const auto of = [&](const auto& pass) {
    return pass.applies(source) ? std::optional(pass.inputs(source)) : std::nullopt;
  };
  return std::apply([&](const Passes&... pass) { return std::tuple(of(pass)...); }, table);
}
template <typename Table>
using InputsOf = decltype(inputs_of(std::declval<const Table&>(), std::declval<PassSource>()));

/// Runs the passes of `table` that have inputs, one after the other, each by `watch`, until one
/// finds the plan at fault.
template <typename Table, typename State, typename Watch>
std::optional<Infeasible> walk(const Table& table, const InputsOf<Table>& inputs, State& state,
                               const PassContext& context, Watch& watch) {
  std::optional<Infeasible> infeasible;
  const auto goes_on = [&](const auto& pass, const auto& given) {
    if (!given) return true;
    infeasible = watch.run(pass.name, state, pass.check, [&] {
      return std::apply([&](const auto&... input) { return pass.run(state, context, input...); },
                        *given);
    });
    return !infeasible.has_value();
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (void)(goes_on(std::get<I>(table), std::get<I>(inputs)) && ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Table>>());
  return infeasible;
}

/// Puts what a pass has made in the place of what it was made of.
template <typename Made>
std::optional<Infeasible> put(std::variant<Made, Infeasible> made, Made& place) {
  if (auto* reason = std::get_if<Infeasible>(&made)) return std::move(*reason);
  place = std::move(std::get<Made>(made));
  return std::nullopt;
}

}  // namespace trainyard
