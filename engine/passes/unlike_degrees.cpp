#include "engine/passes/unlike_degrees.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "engine/passes/join_degrees.h"
#include "engine/passes/pass_watch.h"
#include "engine/passes/tensor_methods.h"
#include "engine/program/verify.h"
#include "engine/sharding/uneven_pieces.h"

namespace trainyard {

namespace {

std::optional<std::string> degrees_obstacle(const ProgramInputs& in,
                                            const std::vector<int>& degrees) {
  const ParallelConfig& parallel = in.plan.parallel;
  if (std::ssize(degrees) != parallel.pipeline)
    return std::to_string(degrees.size()) + " tensor degrees for " +
           std::to_string(parallel.pipeline) + " pipeline ranks";
  const int least = *std::min_element(degrees.begin(), degrees.end());
  if (least < 1) return "a tensor degree below 1";
  const auto beside = [](const char* what) {
    return std::string("unlike tensor degrees do not go with ") + what;
  };
  if (!parallel.replicas.empty())
    return beside("unlike numbers of replicas: a mesh has one axis of unlike sizes");
  if (!parallel.sizes_of_tensor_axes().empty()) return beside("several tensor axes");
  if (!tensor_method(parallel.tensor_method).unlike_degrees)
    return beside(("method " + parallel.tensor_method).c_str());
  if (!in.plan.sharding.empty() && least == 1)
    return beside("a sharding of the study's own where one of them is 1, and has no axis to name");
  if (!in.links.empty()) return beside("transfers through buffers");
  return std::nullopt;
}

}  // namespace

std::variant<Program, Infeasible> compile_unlike_degrees(
    const Graph& model, const ProgramInputs& in, const std::vector<int>& degrees,
    const SoftwareProfile& software, PassLog& log, const CompileOptions& options) {
  if (const auto problem = degrees_obstacle(in, degrees)) return Infeasible{*problem, {}};
  std::map<int, Program> of_degree;
  for (const int degree : degrees) {
    if (of_degree.contains(degree)) continue;
    ProgramInputs own = in;
    own.plan.parallel.tensor = degree;
    // What ranks of one do not divide.
    if (degree == 1) {
      own.plan.parallel.sequence_parallel = false;
      own.plan.parallel.scatter_gather = false;
    }
    auto compiled = compile(model, own, software, log, options);
    if (auto* reason = std::get_if<Infeasible>(&compiled)) return std::move(*reason);
    const auto& made = std::get<Program>(compiled);
    for (const SpecId id : made.specs.keys()) {
      if (is_uneven(made.specs[id], made.mesh)) {
        return Infeasible{"unlike tensor degrees do not go with numbers that ranks do not divide",
                          {}};
      }
    }
    of_degree.emplace(degree, std::get<Program>(std::move(compiled)));
  }
  if (of_degree.size() == 1) return std::move(of_degree.begin()->second);
  Numbered<const Program*> of_rank;
  for (const int degree : degrees) of_rank.push_back(&of_degree.at(degree));
  PassWatch watch(options, log);
  auto joined = watch.time("degrees", [&] { return join_degrees(of_rank); });
  if (const auto* program = std::get_if<Program>(&joined))
    PassWatch::require_sound("degrees", find_violation(*program).value_or(""));
  return joined;
}

}  // namespace trainyard
