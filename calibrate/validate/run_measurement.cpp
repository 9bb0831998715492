#include "calibrate/validate/run_measurement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "calibrate/validate/error_stats.h"
#include "engine/base/error.h"
#include "engine/base/json_fields.h"
#include "engine/base/mapped_file.h"
#include "engine/plan/plan_limits.h"
#include "engine/program/no_ops.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"

namespace trainyard {

namespace {

constexpr double kNanosecond = 1e-9;
constexpr int kVersion = 2;
constexpr int kVersionOfAllRows = 1;  // instructions that did nothing have times there
constexpr std::int64_t kMostTicks = 31'536'000'000'000'000;  // a year of nanoseconds

Seconds latest_end(const MeasuredStep& step) {
  Seconds latest = -std::numeric_limits<double>::infinity();
  for (const RankTrace& rank : step.ranks) {
    for (const TraceRow& row : rank.rows) latest = std::max(latest, row.end);
  }
  return latest;
}

Seconds first_issue(const MeasuredStep& step) {
  Seconds first = std::numeric_limits<double>::infinity();
  for (const RankTrace& rank : step.ranks) {
    if (!rank.rows.empty()) first = std::min(first, rank.rows.front().issued);
  }
  return first;
}

bool follows(const RunMeasurement& run, std::size_t i) {
  const MeasuredStep& step = run.steps[i];
  return i > 0 && step.step == run.steps[i - 1].step + 1 && !step.after_checkpoint &&
         !step.after_void;
}

/// Times of a rank in one step: per row its issue after the one before, then its start and its end
/// after that. `all`: what the rank issues; null where it has no row.
nlohmann::json packed_times(const std::vector<TraceRow>& rows, const std::vector<TraceRow>& all,
                            Seconds origin) {
  auto out = nlohmann::json::array();
  std::int64_t before = 0;
  const auto ticks = [&](Seconds at) { return std::llround((at - origin) / kNanosecond); };
  std::size_t next = 0;
  for (const TraceRow& place : all) {
    if (next == rows.size() || rows[next].segment != place.segment || rows[next].mb != place.mb ||
        rows[next].op != place.op) {
      for (int i = 0; i < 3; ++i) out.push_back(nullptr);
      continue;
    }
    const TraceRow& row = rows[next++];
    const std::int64_t issued = ticks(row.issued);
    out.push_back(issued - before);
    out.push_back(ticks(row.start) - issued);
    out.push_back(ticks(row.end) - issued);
    before = issued;
  }
  check(next == rows.size(), "rows are of what the rank issues, in that order");
  return out;
}

constexpr bool within(std::int64_t ticks) { return -kMostTicks <= ticks && ticks <= kMostTicks; }

/// Reads what write_run_measurement() wrote.
class Reader {
 public:
  Reader(const JsonFile& file, const Program& program) : file_(file), program_(program) {
    for (const RankClass& list : program.body) rows_.push_back(issued_rows(program, list));
  }

  RunMeasurement read() {
    const JsonFields root(file_);
    version_ = root.integer("version");
    if (version_ < kVersionOfAllRows || version_ > kVersion) {
      root.fail("version", "this version reads up to " + std::to_string(kVersion));
    }
    RunMeasurement run;
    run.program_digest = root.text("program_digest");
    if (run.program_digest != program_digest(program_)) {
      root.fail("program_digest",
                "the run in this folder had another Program than its program.txt");
    }
    run.device = root.text("device");
    run.cores = root.integer("cores", 0, kMaxRanks);
    run.ranks_on_machine = root.integer("ranks_on_machine", 1, kMaxRanks);
    run.threads_per_rank = root.integer("threads_per_rank", 1, kMaxRanks);
    for (std::size_t i = 0; i < root.list("steps").size(); ++i) {
      const JsonFields from = root.item("steps", i);
      MeasuredStep step = read_step(from);
      if (!run.steps.empty() && step.step <= run.steps.back().step) {
        from.fail("step", "does not come behind " + std::to_string(run.steps.back().step));
      }
      run.steps.push_back(std::move(step));
      if (const Seconds time = trainyard::step_time(run, i); !(time > 0)) {
        from.fail("times", "the step ends before the one before it");
      }
    }
    if (run.steps.empty()) root.fail("steps", "none was recorded");
    return run;
  }

 private:
  MeasuredStep read_step(const JsonFields& from) const {
    MeasuredStep step;
    step.step = from.integer("step", 1, kMaxSteps);
    step.after_checkpoint = from.boolean("after_checkpoint");
    // Earlier versions say after_checkpoint of these, too.
    step.after_void = from.has("after_void") && from.boolean("after_void");
    const auto& ranks = from.list("times");
    if (static_cast<std::int64_t>(ranks.size()) != program_.mesh.num_ranks()) {
      from.fail("times", "has " + std::to_string(ranks.size()) + " ranks, the Program has " +
                             std::to_string(program_.mesh.num_ranks()));
    }
    JsonPath path = from.path("times");
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      path.emplace_back(r);
      step.ranks.push_back(read_rank(ranks[r], path, static_cast<std::int64_t>(r)));
      path.pop_back();
    }
    return step;
  }

  RankTrace read_rank(const nlohmann::ordered_json& times, JsonPath& path,
                      std::int64_t number) const {
    RankTrace rank;
    rank.rank = number;
    rank.list = list_of(program_, number);
    const std::vector<TraceRow>& all = rows_[rank.list];
    if (!times.is_array() || times.size() != 3 * all.size()) {
      file_.fail(path, "rank " + std::to_string(number) + " issues " + std::to_string(all.size()) +
                           " instructions a step; the file has not three times of each");
    }
    std::int64_t issued = 0;
    const auto tick = [&](std::size_t i) {
      const auto& value = times[i];
      const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > kMostTicks;
      if (value.is_number_integer() && !huge) {
        const auto ticks = value.get<std::int64_t>();
        // No sum of the file's times overflows.
        if (within(ticks) && within(issued + ticks)) return ticks;
      }
      path.emplace_back(i);
      file_.fail(path,
                 "expected a whole number of nanoseconds within a year, got " + shorten(value));
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (version_ > kVersionOfAllRows && times[3 * i].is_null()) continue;
      issued += tick(3 * i);
      const ProgramOp& op = program_.segments[all[i].segment].ops[all[i].op];
      if (does_nothing(program_, op, number)) continue;
      TraceRow& row = rank.rows.emplace_back(all[i]);
      row.issued = static_cast<double>(issued) * kNanosecond;
      row.start = row.ready = static_cast<double>(issued + tick(3 * i + 1)) * kNanosecond;
      row.end = static_cast<double>(issued + tick(3 * i + 2)) * kNanosecond;
      if (row.end >= row.start) continue;
      path.emplace_back(3 * i + 2);
      file_.fail(path, "the instruction ends before it starts");
    }
    return rank;
  }

  const JsonFile& file_;
  const Program& program_;
  std::int64_t version_ = kVersion;
  std::vector<std::vector<TraceRow>> rows_;  // [list]
};

}  // namespace

Seconds step_time(const RunMeasurement& run, std::size_t i) {
  const MeasuredStep& step = run.steps[i];
  return latest_end(step) - (follows(run, i) ? latest_end(run.steps[i - 1]) : first_issue(step));
}

std::vector<std::size_t> timed_steps(const RunMeasurement& run) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (follows(run, i)) out.push_back(i);
  }
  for (std::size_t i = 0; out.empty() && i < run.steps.size(); ++i) out.push_back(i);
  return out;
}

std::vector<std::size_t> middle_steps(const RunMeasurement& run) {
  std::vector<std::size_t> steps = timed_steps(run);
  std::stable_sort(steps.begin(), steps.end(), [&](std::size_t a, std::size_t b) {
    return step_time(run, a) < step_time(run, b);
  });
  const auto quarter = static_cast<std::ptrdiff_t>(steps.size() / 4);
  steps.erase(steps.end() - quarter, steps.end());
  steps.erase(steps.begin(), steps.begin() + quarter);
  return steps;
}

Seconds median_step_time(const RunMeasurement& run) {
  std::vector<double> times;
  for (const std::size_t i : timed_steps(run)) times.push_back(step_time(run, i));
  return quantile(std::move(times), 0.5);
}

std::size_t median_step(const RunMeasurement& run) {
  const Seconds median = median_step_time(run);
  const std::vector<std::size_t> steps = timed_steps(run);
  return *std::min_element(steps.begin(), steps.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(step_time(run, a) - median) < std::abs(step_time(run, b) - median);
  });
}

std::vector<TraceRow> issued_rows(const Program& program, const RankClass& list) {
  std::vector<TraceRow> out;
  const auto add = [&](SegmentId segment, Microbatch mb, std::uint32_t op) {
    TraceRow row;
    row.segment = segment;
    row.mb = mb;
    row.op = op;
    out.push_back(row);
  };
  for (const Call& call : list.calls) {
    if (program.segments[call.segment].phase == Phase::kCorrect) continue;
    const auto ops = static_cast<std::uint32_t>(program.segments[call.segment].ops.size());
    for (std::uint32_t k = 0; k <= ops; ++k) {
      for (const auto& [at, inner] : call.inside) {
        if (at != k) continue;
        const auto inner_ops = program.segments[inner].ops.size();
        for (std::uint32_t i = 0; i < inner_ops; ++i) add(inner, -1, i);
      }
      if (k < ops) add(call.segment, call.mb[0], k);
    }
  }
  return out;
}

bool oversubscribed(const RunMeasurement& run) {
  return run.device == "cpu" && run.ranks_on_machine > run.cores;
}

void write_run_measurement(const RunMeasurement& run, const Program& program,
                           const std::function<void(std::string_view)>& sink) {
  nlohmann::ordered_json head;
  head["version"] = kVersion;
  head["program_digest"] = run.program_digest;
  head["device"] = run.device;
  head["cores"] = run.cores;
  head["ranks_on_machine"] = run.ranks_on_machine;
  head["threads_per_rank"] = run.threads_per_rank;
  head["times_are"] =
      "ns per instruction, in issue order: issued after the one before; start, end after issued; "
      "null: it did nothing";
  std::string text = head.dump();
  text.back() = ',';
  sink(text + "\"steps\":[");
  std::vector<std::vector<TraceRow>> issued;  // [list]
  for (const RankClass& list : program.body) issued.push_back(issued_rows(program, list));
  Seconds origin = std::numeric_limits<double>::infinity();
  for (const MeasuredStep& step : run.steps) origin = std::min(origin, first_issue(step));
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const MeasuredStep& step = run.steps[i];
    sink(std::string(i == 0 ? "\n" : ",\n") + "{\"step\":" + std::to_string(step.step) +
         ",\"after_checkpoint\":" + (step.after_checkpoint ? "true" : "false") +
         (step.after_void ? ",\"after_void\":true" : "") + ",\"times\":[");
    for (std::size_t r = 0; r < step.ranks.size(); ++r) {
      sink((r == 0 ? "" : ",\n") +
           packed_times(step.ranks[r].rows, issued[step.ranks[r].list], origin).dump());
    }
    sink("]}");
  }
  sink("\n]}\n");
}

RunMeasurement read_run_measurement(const std::string& path, const Program& program) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  const JsonFile json(text, path);
  return Reader(json, program).read();
}

}  // namespace trainyard
