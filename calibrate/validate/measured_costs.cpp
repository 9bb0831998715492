#include "calibrate/validate/measured_costs.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "engine/exec/lists/exposed_kinds.h"

namespace trainyard {

namespace {

class Samples {
 public:
  void add(Seconds seconds) {
    sum_ += seconds;
    ++count_;
  }
  std::optional<Seconds> mean() const {
    if (count_ == 0) return std::nullopt;
    return sum_ / static_cast<double>(count_);
  }

 private:
  double sum_ = 0;
  std::size_t count_ = 0;
};

using SamplesPerOp = Indexed<SegmentId, std::vector<Samples>>;

SamplesPerOp samples_per_op(const Program& program) {
  SamplesPerOp out;
  for (const Segment& segment : program.segments) out.emplace_back(segment.ops.size());
  return out;
}

MeasuredCosts::PerOp means(const SamplesPerOp& samples) {
  MeasuredCosts::PerOp out;
  for (const auto& segment : samples) {
    auto& of = out.emplace_back();
    for (const Samples& op : segment) of.push_back(op.mean());
  }
  return out;
}

const ProgramOp& op_of(const Program& program, const TraceRow& row) {
  return program.segments[row.segment].ops[row.op];
}

/// What decides how long an op takes: kind, part, attributes, and extents and type of each operand.
using OpLikeness = std::tuple<OpKind, OpPart, AttrId, std::vector<std::int64_t>>;

OpLikeness likeness(const Program& program, const ProgramOp& op) {
  std::vector<std::int64_t> operands;
  for (const Operands* list : {&op.reads, &op.writes, &op.accumulates}) {
    operands.push_back(-1);  // ends a list; no extent is negative
    for (const Operand& operand : *list) {
      const Value& value = program.values[operand.value];
      operands.push_back(static_cast<std::int64_t>(value.dtype));
      operands.push_back(static_cast<std::int64_t>(value.dims.size()));
      for (const Dim& dim : value.dims) operands.push_back(dim.expected);
    }
  }
  return {op.kind, op.part, op.attrs, std::move(operands)};
}

}  // namespace

std::vector<Seconds> host_times(const Program& program, const std::vector<TraceRow>& rows,
                                bool host_computes) {
  std::vector<Seconds> out(rows.size(), 0);
  if (!host_computes) {
    for (std::size_t i = 1; i < rows.size(); ++i)
      out[i - 1] = std::max(0.0, rows[i].issued - rows[i - 1].issued);
    return out;
  }
  Seconds free_since = rows.empty() ? 0 : rows.front().issued;  // main has done its work so far
  Seconds carried = 0;  // of ops that main does not run itself
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const ProgramOp& op = op_of(program, rows[i]);
    carried += std::max(0.0, rows[i].issued - free_since);
    const bool frees = op.kind == OpKind::kFree;
    const bool main = is_compute(op.stream);  // what the host computes is in its turn, too
    // A free may have to wait for other streams: that is not the host's doing.
    if (frees) carried += std::max(0.0, rows[i].end - rows[i].start);
    free_since = main ? rows[i].end : rows[i].issued;
    if (!main || frees) continue;
    out[i] = carried;
    carried = 0;
  }
  return out;
}

MeasuredCosts measure_costs(const Program& program, const Lanes& lanes, const RunMeasurement& run,
                            bool messages) {
  MeasuredCosts out;
  out.host_computes = run.device == "cpu";
  SamplesPerOp kernel = samples_per_op(program), host = samples_per_op(program);
  Indexed<MessageId, Samples> message(lanes.messages.size());
  for (const std::size_t s : middle_steps(run)) {
    const MeasuredStep& step = run.steps[s];
    for (const RankTrace& rank : step.ranks) {
      const std::vector<Seconds> before = host_times(program, rank.rows, out.host_computes);
      for (std::size_t i = 0; i < rank.rows.size(); ++i) {
        const TraceRow& row = rank.rows[i];
        const ProgramOp& op = op_of(program, row);
        const bool runs = is_compute(op.stream) && op.kind != OpKind::kFree;
        const auto segment = row.segment;
        if (runs) kernel[segment][row.op].add(row.end - row.start);
        host[segment][row.op].add(before[i]);
      }
    }
    if (messages) {
      for (const Meeting& meeting : find_meetings(program, lanes, step.ranks)) {
        message[meeting.message].add(duration(meeting, step.ranks));
      }
    }
  }
  out.kernel = means(kernel);
  out.host = means(host);
  for (const Samples& one : message) out.message.push_back(one.mean());
  return out;
}

void add_measured(MeasuredCosts& to, const MeasuredCosts& more) {
  for (const SegmentId s : to.kernel.keys()) {
    for (std::size_t k = 0; k < to.kernel[s].size(); ++k) {
      if (more.kernel[s][k]) to.kernel[s][k] = more.kernel[s][k];
      if (more.host[s][k]) to.host[s][k] = more.host[s][k];
    }
  }
}

MeasuredCosts spread_to_like_ops(const Program& program, MeasuredCosts measured,
                                 const OpCosts& predicted) {
  using Kind = std::pair<OpKind, OpPart>;
  std::map<OpLikeness, std::pair<Samples, Samples>> alike;  // kernel, host
  std::map<Kind, std::pair<Seconds, Seconds>> of_kind;      // measured, predicted
  const auto each_op = [&](const auto& visit) {
    for (const SegmentId s : program.segments.keys()) {
      const std::vector<ProgramOp>& ops = program.segments[s].ops;
      for (std::size_t k = 0; k < ops.size(); ++k) {
        visit(ops[k], measured.kernel[s][k], measured.host[s][k], predicted[s][k].kernel);
      }
    }
  };
  each_op([&](const ProgramOp& op, const auto& kernel, const auto& host, Seconds guess) {
    if (kernel) alike[likeness(program, op)].first.add(*kernel);
    if (host) alike[likeness(program, op)].second.add(*host);
    if (!kernel) return;
    auto& [seconds, guesses] = of_kind[{op.kind, op.part}];
    seconds += *kernel;
    guesses += guess;
  });
  each_op([&](const ProgramOp& op, auto& kernel, auto& host, Seconds guess) {
    if (const auto same = alike.find(likeness(program, op)); same != alike.end()) {
      if (!kernel) kernel = same->second.first.mean();
      if (!host) host = same->second.second.mean();
    }
    const auto kind = of_kind.find({op.kind, op.part});
    if (kernel || kind == of_kind.end() || kind->second.second <= 0) return;
    kernel = guess * kind->second.first / kind->second.second;
  });
  return measured;
}

std::string cost_kind(const Program& program, const Lanes& lanes,
                      const Numbered<std::string>& exposed, SegmentId segment, std::uint32_t op) {
  const MessageId message = lanes.of_op[segment][op];
  if (message != kNoIndex) return exposed[std::int64_t{2} * message.number()];
  const ProgramOp& of = program.segments[segment].ops[op];
  if (of.kind == OpKind::kFree) return std::string(kHostKind);
  return op_name(of.kind, of.part);
}

Costs replace_costs(Costs costs, const Program& program, const MeasuredCosts& measured,
                    const std::function<bool(const std::string& kind)>& chosen) {
  const Lanes lanes = find_lanes(program);
  const Numbered<std::string> exposed = exposed_kinds(program, lanes);
  const bool host = chosen(std::string(kHostKind));
  for (auto& [speed, segments] : costs.ops) {
    for (const SegmentId s : segments.keys()) {
      for (std::uint32_t k = 0; k < segments[s].size(); ++k) {
        OpCost& cost = segments[s][k];
        const std::optional<Seconds>& kernel = measured.kernel[s][k];
        const std::optional<Seconds>& before = measured.host[s][k];
        if (kernel && chosen(cost_kind(program, lanes, exposed, s, k))) cost.kernel = *kernel;
        if (!host || !before) continue;
        // Where one thread does both nothing is issued ahead: what an op costs the host delays
        // main.
        cost.launch = measured.host_computes ? 0 : *before;
        if (measured.host_computes) cost.kernel += *before;
      }
    }
  }
  costs.messages.resize(lanes.messages.size());
  for (const MessageId m : measured.message.keys()) {
    if (measured.message[m] && chosen(exposed[std::int64_t{2} * m.number()]))
      costs.messages[m] = measured.message[m];
  }
  return costs;
}

}  // namespace trainyard
