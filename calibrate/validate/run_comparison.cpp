#include "calibrate/validate/run_comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "calibrate/validate/error_stats.h"
#include "calibrate/validate/measured_costs.h"
#include "engine/exec/lists/exposed_kinds.h"
#include "engine/exec/op_work.h"
#include "engine/exec/times/meetings.h"
#include "report/row_classes.h"

namespace trainyard {

namespace {

/// Fewer say little: the first step on a machine that does other things too.
constexpr std::size_t kFewSteps = 3;

class Comparer {
 public:
  explicit Comparer(const RunInputs& in)
      : in_(in),
        lanes_(find_lanes(in.program)),
        exposed_(exposed_kinds(in.program, lanes_)),
        middle_(middle_steps(in.measured)),
        median_(in.measured.steps[median_step(in.measured)]) {}

  RunComparison run() {
    out_.program_digest = in_.measured.program_digest;
    out_.device = in_.measured.device;
    out_.num_ranks = in_.program.mesh.num_ranks();
    out_.cores = in_.measured.cores;
    out_.threads_per_rank = in_.measured.threads_per_rank;
    out_.oversubscribed = oversubscribed(in_.measured);
    compare_steps();
    compare_kinds();
    find_effects();
    compare_ops();
    compare_ranks();
    compare_streams();
    compare_links();
    warn();
    return std::move(out_);
  }

 private:
  const ProgramOp& op_of(const TraceRow& row) const {
    return in_.program.segments[row.segment].ops[row.op];
  }
  std::string kind_of(const TraceRow& row) const {
    return cost_kind(in_.program, lanes_, exposed_, row.segment, row.op);
  }

  void compare_steps() {
    out_.predicted = in_.predicted.period;
    std::vector<double> times;
    for (const std::size_t i : timed_steps(in_.measured))
      times.push_back(step_time(in_.measured, i));
    out_.num_steps = times.size();
    out_.measured = quantile(times, 0.5);
    out_.measured_low = quantile(times, 0.1);
    out_.measured_high = quantile(times, 0.9);
  }

  /// By kind, the sum over all rows of a step. Communication runs from when all its members are
  /// ready.
  std::map<std::string, Seconds> totals(const std::vector<RankTrace>& ranks, bool measured) const {
    std::map<std::string, Seconds> out;
    for (const RankTrace& rank : ranks) {
      for (const TraceRow& row : rank.rows) {
        const ProgramOp& op = op_of(row);
        if (moves_data(op.kind) || op.kind == OpKind::kFree) continue;
        out[kind_of(row)] += row.end - row.start;
      }
      if (!measured) continue;
      for (const Seconds host : host_times(in_.program, rank.rows, in_.measured.device == "cpu")) {
        out[std::string(kHostKind)] += host;
      }
    }
    for (const Meeting& meeting : find_meetings(in_.program, lanes_, ranks)) {
      const RowRef& first = meeting.members.front();
      out[kind_of(ranks[first.rank].rows[first.row])] +=
          duration(meeting, ranks) * static_cast<double>(meeting.members.size());
    }
    return out;
  }

  /// What measured host times are held against: of a host that computes itself, where main waits
  /// for it; else all launches.
  Seconds predicted_host() const {
    Seconds sum = 0;
    for (const RankTrace& rank : in_.predicted.ranks) {
      if (in_.measured.device == "cpu") {
        sum += rank.time.host;
        continue;
      }
      for (const TraceRow& row : rank.rows) {
        sum += in_.costs.ops.at(1.0)[row.segment][row.op].launch;
      }
    }
    return sum;
  }

  void compare_kinds() {
    std::map<std::string, KindComparison> kinds;
    const double ranks = static_cast<double>(out_.num_ranks);
    for (const RankTrace& rank : median_.ranks) {
      for (const TraceRow& row : rank.rows) {
        const std::string name = kind_of(row);
        if (name == kHostKind) continue;
        KindComparison& kind = kinds[name];
        kind.communication = moves_data(op_of(row).kind);
        kind.count += 1 / ranks;
      }
    }
    kinds[std::string(kHostKind)];
    for (const auto& [name, seconds] : totals(in_.predicted.ranks, false))
      kinds[name].predicted += seconds / ranks;
    kinds[std::string(kHostKind)].predicted = predicted_host() / ranks;
    for (const std::size_t i : middle_) {
      for (const auto& [name, seconds] : totals(in_.measured.steps[i].ranks, true)) {
        kinds[name].measured += seconds / ranks / static_cast<double>(middle_.size());
      }
    }
    for (auto& [name, kind] : kinds) {
      kind.kind = name;
      out_.kinds.push_back(kind);
    }
  }

  /// Kernels by what they are, wherever they stand in the step.
  void compare_ops() {
    using Key =
        std::tuple<KernelForm, std::int64_t, std::int64_t, std::int64_t, std::int64_t, Bytes>;
    std::map<Key, OpComparison> ops;
    std::map<Key, std::vector<Seconds>> times;
    OpWork work_of(in_.program);
    const std::vector<std::size_t> timed = timed_steps(in_.measured);
    for (const std::size_t i : timed) {
      for (const RankTrace& rank : in_.measured.steps[i].ranks) {
        for (const TraceRow& row : rank.rows) {
          const ProgramOp& op = op_of(row);
          if (moves_data(op.kind)) continue;
          const KernelWork work = work_of(op);
          if (work.cls == KernelClass::kNone) continue;
          const Key key{work.form, work.m, work.n, work.k, work.batch, work.bytes};
          OpComparison& one = ops[key];
          one.work = work;
          one.count += 1 / static_cast<double>(timed.size());
          one.predicted = in_.costs.ops.at(1.0)[row.segment][row.op].kernel;
          if (in_.uncertainty != nullptr)
            one.interval = in_.uncertainty->interval(row.segment, row.op);
          times[key].push_back(row.end - row.start);
        }
      }
    }
    for (auto& [key, one] : ops) {
      one.measured = quantile(times[key], 0.5);
      out_.ops.push_back(one);
    }
    std::stable_sort(out_.ops.begin(), out_.ops.end(),
                     [](const OpComparison& a, const OpComparison& b) {
                       return a.count * a.measured > b.count * b.measured;
                     });
  }

  void find_effects() {
    const MeasuredCosts measured = measure_costs(in_.program, lanes_, in_.measured, true);
    for (KindComparison& kind : out_.kinds) {
      const auto only = [&](const std::string& name) { return name == kind.kind; };
      kind.effect =
          in_.step_time(replace_costs(in_.costs, in_.program, measured, only)) - out_.predicted;
    }
    Costs all =
        replace_costs(in_.costs, in_.program, measured, [](const std::string&) { return true; });
    all.slowdown = {};  // what ops cost each other is in their measured times
    out_.with_measured = in_.step_time(all);
    std::stable_sort(out_.kinds.begin(), out_.kinds.end(),
                     [](const KindComparison& a, const KindComparison& b) {
                       return std::abs(a.effect) > std::abs(b.effect);
                     });
  }

  /// The time between two steps is the host's.
  void compare_ranks() {
    Trace trace;
    trace.ranks = median_.ranks;
    join_communication(in_.program, trace.ranks);
    out_.timeline = make_timeline(in_.program, std::move(trace), {});
    Trace simulated;
    simulated.ranks = in_.predicted.ranks;
    out_.simulated = make_timeline(in_.program, std::move(simulated), {});
    const Ticks end = out_.timeline.end();
    const Seconds whole = step_time(in_.measured, median_step(in_.measured));
    for (const TimelineRank& rank : out_.timeline.ranks) {
      RankComparison one;
      one.rank = rank.rank;
      one.measured = classes_of_rows(out_.timeline, rank, end);
      one.measured.host += std::max(0.0, whole - static_cast<double>(end) / kTicksPerSecond);
      for (const RankTrace& predicted : in_.predicted.ranks) {
        if (predicted.rank == rank.rank) one.predicted = predicted.time;
      }
      out_.ranks.push_back(one);
    }
  }

  void compare_streams() {
    std::map<std::pair<std::int64_t, StreamId>, StreamComparison> streams;
    const auto add = [&](std::vector<RankTrace> ranks, Seconds StreamComparison::*side) {
      join_communication(in_.program, ranks);
      for (const RankTrace& rank : ranks) {
        for (const TraceRow& row : rank.rows) {
          StreamComparison& one = streams[{rank.rank, op_of(row).stream}];
          one.rank = rank.rank;
          one.stream = op_of(row).stream;
          one.*side += row.end - row.start;
        }
      }
    };
    add(in_.predicted.ranks, &StreamComparison::predicted);
    add(median_.ranks, &StreamComparison::measured);
    for (const auto& [key, stream] : streams) out_.streams.push_back(stream);
  }

  using LinkKey = std::pair<std::vector<std::int64_t>, std::string>;

  /// Sums of one step by the ranks that meet.
  std::map<LinkKey, LinkComparison> links_of(const std::vector<RankTrace>& ranks,
                                             Seconds LinkComparison::*side) const {
    std::map<LinkKey, LinkComparison> out;
    for (const Meeting& meeting : find_meetings(in_.program, lanes_, ranks)) {
      if (meeting.members.size() < 2) continue;
      std::vector<std::int64_t> members;
      for (const RowRef& member : meeting.members) members.push_back(ranks[member.rank].rank);
      const TraceRow& row = ranks[meeting.members.front().rank].rows[meeting.members.front().row];
      if (op_of(row).kind == OpKind::kRecv) std::reverse(members.begin(), members.end());
      LinkComparison& link = out[{members, kind_of(row)}];
      link.kind = kind_of(row);
      link.ranks = members;
      link.count += 1;
      link.bytes += static_cast<double>(lanes_.messages[meeting.message].bytes);
      link.*side += duration(meeting, ranks);
    }
    return out;
  }

  void compare_links() {
    auto links = links_of(in_.predicted.ranks, &LinkComparison::predicted);
    for (const std::size_t i : middle_) {
      for (const auto& [key, link] :
           links_of(in_.measured.steps[i].ranks, &LinkComparison::measured)) {
        links[key].measured += link.measured / static_cast<double>(middle_.size());
      }
    }
    for (const auto& [key, link] : links) out_.links.push_back(link);
  }

  void warn() {
    const auto number = [](auto n) { return std::to_string(n); };
    if (out_.oversubscribed) {
      out_.warnings.push_back(
          number(in_.measured.ranks_on_machine) + " ranks ran on " + number(out_.cores) +
          (out_.cores == 1 ? " core" : " cores") +
          ": the scheduler decided who waited, and the measured times are its choice too");
    }
    warn_of_few_steps();
    if (!in_.predicted.steady)
      out_.warnings.push_back("the simulated step had not settled to 1e-9");
  }

  /// Few steps, or none, whose time runs from the end of the one before: why, and what would have
  /// more.
  void warn_of_few_steps() {
    const std::vector<MeasuredStep>& steps = in_.measured.steps;
    if (steps.size() < kFewSteps) {
      out_.warnings.push_back("measured " + std::to_string(steps.size()) +
                              (steps.size() == 1 ? " step" : " steps") +
                              " only; train --steps 20 has 16");
      return;
    }
    // The first has none before it, whatever else is said of it.
    const auto count = [&](bool MeasuredStep::*is) {
      return static_cast<std::size_t>(std::count_if(steps.begin() + 1, steps.end(),
                                                    [is](const auto& step) { return step.*is; }));
    };
    const std::size_t again = count(&MeasuredStep::after_void),
                      saved = count(&MeasuredStep::after_checkpoint);
    const bool none = again + saved + 1 >= steps.size();
    if (!none && out_.num_steps >= kFewSteps) return;
    std::string text =
        none ? "no step has a time from the end of the one before, only from its own start"
             : "measured " + std::to_string(out_.num_steps) +
                   (out_.num_steps == 1 ? " step" : " steps") + " only";
    text += ": of " + std::to_string(steps.size()) + " that were recorded";
    if (again > 0) {
      text += ", " + std::to_string(again) +
              " ran twice, because the one before was clipped or not finite "
              "(schedule.post_validation); a larger "
              "training.clip_norm clips fewer";
    }
    if (saved > 0) {
      text += (again > 0 ? "; " : ", ") + std::to_string(saved) +
              " ran behind a checkpoint; a larger checkpoint.every writes fewer";
    }
    out_.warnings.push_back(std::move(text));
  }

  const RunInputs& in_;
  Lanes lanes_;
  Numbered<std::string> exposed_;
  std::vector<std::size_t> middle_;
  const MeasuredStep& median_;
  RunComparison out_;
};

}  // namespace

RunComparison compare_run(const RunInputs& in) { return Comparer(in).run(); }

}  // namespace trainyard
