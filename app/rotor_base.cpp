#include "app/rotor_base.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
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

/// [stage] what its forwards and backwards take of one microbatch, of that which waits least for
/// other ranks.
Numbered<ActionDurations> durations_of(const Program& program, const Trace& trace, int stages) {
  using Call = std::tuple<SegmentId, Microbatch, std::int32_t>;  // the last: its step
  std::map<Call, std::pair<Seconds, Seconds>> calls;             // from, to
  for (const RankTrace& rank : trace.ranks) {
    for (const TraceRow& row : rank.rows) {
      if (program.segments[row.segment].stage < 0) continue;
      const auto place = calls.try_emplace({row.segment, row.mb, row.step}, row.start, row.end);
      auto& [from, to] = place.first->second;
      from = std::min(from, row.start);
      to = std::max(to, row.end);
    }
  }
  std::map<SegmentId, Seconds> shortest;
  for (const auto& [call, time] : calls) {
    Seconds& least = shortest.try_emplace(std::get<SegmentId>(call), kForever).first->second;
    least = std::min(least, time.second - time.first);
  }
  Numbered<ActionDurations> out(stages, ActionDurations{0, 0, 0, 0, 0});
  for (const auto& [id, took] : shortest) {
    const Segment& segment = program.segments[id];
    ActionDurations& of_stage = out[segment.stage];
    if (segment.phase == Phase::kForward) of_stage.forward += took;
    if (segment.phase == Phase::kBackward) of_stage.backward += took;
    if (segment.phase == Phase::kBackwardInput) of_stage.input += took;
    if (segment.phase == Phase::kBackwardWeight) of_stage.weight += took;
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
  out.step = trace.period;
  out.durations = durations_of(program, trace, out.training.num_stages);
  const auto ends = forward_ends(program, trace, out.training.num_stages);
  const double factor = fixed_memory(prepared.software, study.training.precision).activation_factor;
  for (std::int32_t stage = 0; stage < out.training.num_stages; ++stage)
    out.chains.push_back(stage_chain(out.training, out.groups, stage, ends[stage], factor));
  return out;
}

}  // namespace trainyard
