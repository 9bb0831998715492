#include "engine/validate/measured_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/mapped_file.h"
#include "engine/program/no_ops.h"
#include "engine/program/program_text.h"
#include "engine/report/json_position.h"
#include "engine/validate/error_stats.h"

namespace trainyard {

namespace {

constexpr double kNanosecond = 1e-9;
constexpr int kVersion = 2;
constexpr int kVersionOfAllRows = 1;  // instructions that did nothing have times there

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

bool follows(const MeasuredRun& run, std::size_t i) {
  const MeasuredStep& step = run.steps[i];
  return i > 0 && step.step == run.steps[i - 1].step + 1 && !step.after_checkpoint && !step.after_void;
}

/// Of one rank and step: per row its issue after the one before, then its start and its end after
/// that. `all`: what the rank issues; null where it has no row.
nlohmann::json packed_times(const std::vector<TraceRow>& rows, const std::vector<TraceRow>& all, Seconds origin) {
  auto out = nlohmann::json::array();
  std::int64_t before = 0;
  const auto ticks = [&](Seconds at) { return std::llround((at - origin) / kNanosecond); };
  std::size_t next = 0;
  for (const TraceRow& place : all) {
    if (next == rows.size() || rows[next].segment != place.segment || rows[next].mb != place.mb || rows[next].op != place.op) {
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

std::size_t list_of(const Program& program, std::int64_t rank) {
  const auto axis = static_cast<std::size_t>(Axis::kPp);
  const std::int64_t size = program.mesh.size[axis];
  return size == 1 ? 0 : static_cast<std::size_t>(rank / program.placement.stride[axis] % size);
}

class Reader {
 public:
  Reader(const std::string& path, const Program& program) : path_(path), program_(program) {
    for (const RankClass& list : program.body) rows_.push_back(issued_rows(program, list));
  }

  MeasuredRun read(const nlohmann::json& root) {
    version_ = integer(root, "version");
    if (version_ < kVersionOfAllRows || version_ > kVersion)
      fail("version", "this version reads up to " + std::to_string(kVersion));
    MeasuredRun run;
    run.program_digest = text(root, "program_digest");
    if (run.program_digest != program_digest(program_)) {
      fail("program_digest", "the run in this folder had another Program than its program.txt");
    }
    run.device = text(root, "device");
    run.cores = integer(root, "cores");
    run.ranks_on_machine = integer(root, "ranks_on_machine");
    run.threads_per_rank = integer(root, "threads_per_rank");
    for (const auto& step : list(root, "steps")) run.steps.push_back(read_step(step));
    if (run.steps.empty()) fail("steps", "none was recorded");
    return run;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    throw ConfigError(path_ + ": " + key + ": " + problem);
  }
  const nlohmann::json& member(const nlohmann::json& of, const char* key) const {
    if (!of.is_object() || !of.contains(key)) fail(key, "missing");
    return of.at(key);
  }
  std::int64_t integer(const nlohmann::json& of, const char* key) const {
    const auto& value = member(of, key);
    if (!value.is_number_integer()) fail(key, "expected a whole number");
    return value.get<std::int64_t>();
  }
  std::string text(const nlohmann::json& of, const char* key) const {
    const auto& value = member(of, key);
    if (!value.is_string()) fail(key, "expected a text");
    return value.get<std::string>();
  }
  bool flag(const nlohmann::json& of, const char* key) const {
    const auto& value = member(of, key);
    if (!value.is_boolean()) fail(key, "expected true or false");
    return value.get<bool>();
  }
  const nlohmann::json& list(const nlohmann::json& of, const char* key) const {
    const auto& value = member(of, key);
    if (!value.is_array()) fail(key, "expected a list");
    return value;
  }

  MeasuredStep read_step(const nlohmann::json& from) const {
    MeasuredStep step;
    step.step = integer(from, "step");
    step.after_checkpoint = flag(from, "after_checkpoint");
    // Earlier versions say after_checkpoint of these, too.
    step.after_void = from.contains("after_void") && flag(from, "after_void");
    const auto& ranks = list(from, "times");
    if (static_cast<std::int64_t>(ranks.size()) != program_.mesh.num_ranks()) {
      fail("times", "has " + std::to_string(ranks.size()) + " ranks, the Program has " +
                        std::to_string(program_.mesh.num_ranks()));
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      step.ranks.push_back(read_rank(ranks[r], static_cast<std::int64_t>(r)));
    }
    return step;
  }

  RankTrace read_rank(const nlohmann::json& times, std::int64_t number) const {
    RankTrace rank;
    rank.rank = number;
    rank.list = list_of(program_, number);
    const std::vector<TraceRow>& all = rows_[rank.list];
    if (!times.is_array() || times.size() != 3 * all.size()) {
      fail("times", "rank " + std::to_string(number) + " issues " +
                        std::to_string(all.size()) +
                        " instructions a step; the file has not three times of each");
    }
    std::int64_t issued = 0;
    const auto tick = [&](std::size_t i) {
      if (!times[i].is_number_integer()) fail("times", "expected whole numbers");
      return times[i].get<std::int64_t>();
    };
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (version_ > kVersionOfAllRows && times[3 * i].is_null()) continue;
      issued += tick(3 * i);
      const ProgramOp& op = program_.segments[static_cast<std::size_t>(all[i].segment)].ops[all[i].op];
      if (does_nothing(program_, op, number)) continue;
      TraceRow& row = rank.rows.emplace_back(all[i]);
      row.issued = static_cast<double>(issued) * kNanosecond;
      row.start = row.ready = static_cast<double>(issued + tick(3 * i + 1)) * kNanosecond;
      row.end = static_cast<double>(issued + tick(3 * i + 2)) * kNanosecond;
    }
    return rank;
  }

  const std::string& path_;
  const Program& program_;
  std::int64_t version_ = kVersion;
  std::vector<std::vector<TraceRow>> rows_;  // [list]
};

}  // namespace

Seconds step_time(const MeasuredRun& run, std::size_t i) {
  const MeasuredStep& step = run.steps[i];
  return latest_end(step) - (follows(run, i) ? latest_end(run.steps[i - 1]) : first_issue(step));
}

std::vector<std::size_t> timed_steps(const MeasuredRun& run) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (follows(run, i)) out.push_back(i);
  }
  for (std::size_t i = 0; out.empty() && i < run.steps.size(); ++i) out.push_back(i);
  return out;
}

std::vector<std::size_t> middle_steps(const MeasuredRun& run) {
  std::vector<std::size_t> steps = timed_steps(run);
  std::stable_sort(steps.begin(), steps.end(), [&](std::size_t a, std::size_t b) {
    return step_time(run, a) < step_time(run, b);
  });
  const auto quarter = static_cast<std::ptrdiff_t>(steps.size() / 4);
  steps.erase(steps.end() - quarter, steps.end());
  steps.erase(steps.begin(), steps.begin() + quarter);
  return steps;
}

Seconds median_step_time(const MeasuredRun& run) {
  std::vector<double> times;
  for (const std::size_t i : timed_steps(run)) times.push_back(step_time(run, i));
  return quantile(std::move(times), 0.5);
}

std::size_t median_step(const MeasuredRun& run) {
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
    if (program.segments[static_cast<std::size_t>(call.segment)].phase == Phase::kCorrect) continue;
    const auto ops = static_cast<std::uint32_t>(
        program.segments[static_cast<std::size_t>(call.segment)].ops.size());
    for (std::uint32_t k = 0; k <= ops; ++k) {
      for (const auto& [at, inner] : call.inside) {
        if (at != k) continue;
        const auto inner_ops = program.segments[static_cast<std::size_t>(inner)].ops.size();
        for (std::uint32_t i = 0; i < inner_ops; ++i) add(inner, -1, i);
      }
      if (k < ops) add(call.segment, call.mb[0], k);
    }
  }
  return out;
}

bool oversubscribed(const MeasuredRun& run) {
  return run.device == "cpu" && run.ranks_on_machine > run.cores;
}

void write_measured_run(const MeasuredRun& run, const Program& program,
                        const std::function<void(std::string_view)>& sink) {
  nlohmann::ordered_json head;
  head["version"] = kVersion;
  head["program_digest"] = run.program_digest;
  head["device"] = run.device;
  head["cores"] = run.cores;
  head["ranks_on_machine"] = run.ranks_on_machine;
  head["threads_per_rank"] = run.threads_per_rank;
  head["times_are"] =
      "ns per instruction, in issue order: issued after the one before; start, end after issued; null: it did nothing";
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
      sink((r == 0 ? "" : ",\n") + packed_times(step.ranks[r].rows, issued[step.ranks[r].list], origin).dump());
    }
    sink("]}");
  }
  sink("\n]}\n");
}

MeasuredRun read_measured_run(const std::string& path, const Program& program) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  nlohmann::json root;
  try {
    root = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw_bad_json(path, text, error.byte, error.what());
  }
  return Reader(path, program).read(root);
}

}  // namespace trainyard
