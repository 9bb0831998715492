#include "app/rotor_base.h"

#include <optional>
#include <string>
#include <utility>

#include "app/analytic_step.h"
#include "engine/planner/stage_chain.h"
#include "study/compile_study.h"

namespace trainyard {

namespace {

/// The name of a value without the size of the microbatches that it is of.
std::string tensor_name(const std::string& name) {
  const std::size_t at = name.rfind('@');
  const bool sized = at != std::string::npos && name.size() > 3 && name.ends_with("seq");
  return sized ? name.substr(0, at) : name;
}

/// [stage] when ops of one forward have ended, from its begin on.
Numbered<EndTimes> forward_ends(const Program& program, const Trace& trace, int stages) {
  Numbered<EndTimes> out(stages);
  Numbered<std::optional<std::pair<Microbatch, Seconds>>> call(stages);
  for (const RankTrace& rank : trace.ranks) {
    for (const TraceRow& row : rank.rows) {
      const Segment& segment = program.segments[row.segment];
      if (segment.phase != Phase::kForward || segment.stage < 0) continue;
      auto& first = call[segment.stage];
      if (!first) first.emplace(row.mb, row.start);
      if (first->first != row.mb) continue;
      const ProgramOp& op = segment.ops[row.op];
      for (const Operand& write : op.writes)
        out[segment.stage][tensor_name(program.values[write.value].name)] = row.end - first->second;
    }
  }
  return out;
}

}  // namespace

std::variant<RotorBase, Infeasible> make_rotor_base(const Prepared& prepared, const Study& study,
                                                    Keeps keeps) {
  Study none = study;
  none.recompute = {};
  if (keeps == Keeps::kAllButCores) none.recompute.method = RecomputeConfig::Method::kSelective;
  RotorBase out;
  CompileOptions options;
  bool seen = false;
  options.behind_pass = [&](const std::string& pass, PassResult result) {
    if (pass != "recompute" || std::exchange(seen, true)) return;
    out.training = *std::get<TrainingGraph*>(result);
  };
  const auto compiled = compile(prepared.model, none, prepared.software, out.log, options);
  if (const auto* reason = std::get_if<Infeasible>(&compiled)) return *reason;
  const auto& program = std::get<Program>(compiled);
  out.groups = chain_groups(out.training);
  out.whole = peaks_of(prepared, none, program);
  const Trace trace = step_of(prepared, none, program, true);
  const auto ends = forward_ends(program, trace, out.training.num_stages);
  const double factor = fixed_memory(prepared.software, study.training.precision).activation_factor;
  for (std::int32_t stage = 0; stage < out.training.num_stages; ++stage)
    out.chains.push_back(stage_chain(out.training, out.groups, stage, ends[stage], factor));
  return out;
}

}  // namespace trainyard
