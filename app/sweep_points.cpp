#include "app/sweep_points.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "app/analytic_step.h"
#include "app/prepare.h"
#include "app/resolve_by_cost.h"
#include "app/simulation.h"
#include "engine/plan/graph_source.h"
#include "study/compile_study.h"
#include "study/framework_profile.h"
#include "study/recompute_modules.h"
#include "study/split_modules.h"
#include "system/data_root.h"
#include "system/run_points.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// A row, and whether its error is one of the whole sweep.
struct Outcome {
  SweepPoint point;
  bool unknown_key = false;
};

Json to_json(const Outcome& outcome) {
  const SweepPoint& p = outcome.point;
  return Json::array({p.status, p.reason, p.warnings, p.iteration_time, p.tokens_per_s,
                      p.tflops_per_gpu, p.mfu, p.cost_per_million_tokens, p.peak_memory, p.may_fit,
                      p.bubble_fraction, p.exposed_communication_fraction, p.num_ranks,
                      p.program_digest, outcome.unknown_key});
}

Outcome from_json(const Json& json) {
  Outcome outcome;
  SweepPoint& p = outcome.point;
  std::size_t at = 0;
  const auto next = [&](auto& value) { json.at(at++).get_to(value); };
  next(p.status);
  next(p.reason);
  next(p.warnings);
  next(p.iteration_time);
  next(p.tokens_per_s);
  next(p.tflops_per_gpu);
  next(p.mfu);
  next(p.cost_per_million_tokens);
  next(p.peak_memory);
  next(p.may_fit);
  next(p.bubble_fraction);
  next(p.exposed_communication_fraction);
  next(p.num_ranks);
  next(p.program_digest);
  next(outcome.unknown_key);
  return outcome;
}

/// Runs points one after another and keeps what the next one may need again: the graph of an equal
/// model, and what the Compiler keeps.
class PointRunner {
 public:
  explicit PointRunner(const SweepJob& job)
      : job_(job),
        resolvers_(make_resolvers(data_root(), warnings_)) {}

  Outcome run(std::int64_t index) {
    Outcome outcome;
    SweepPoint& point = outcome.point;
    try {
      warnings_.clear();
      YamlNode document = job_.study.copy();
      put_point(job_.sweep, index, document);
      time(read_study_node(std::move(document), job_.sets, resolvers_), point);
    } catch (const ConfigError& error) {
      refuse(point, PointStatus::kRefused, error.what());
      outcome.unknown_key = error.unknown_key();
    } catch (const PlanError& error) {
      refuse(point, PointStatus::kNoProgram, error.what());
    } catch (const BackendError& error) {
      refuse(point, PointStatus::kFailed, error.what());
    }
    return outcome;
  }

 private:
  static void refuse(SweepPoint& point, PointStatus status, const std::string& reason) {
    point.status = status;
    point.reason = reason;
  }

  void time(Study study, SweepPoint& point) {
    study.warnings.insert(study.warnings.end(), warnings_.begin(), warnings_.end());
    prepare(std::move(study));
    point.warnings = prepared_.study.warnings;
    PassLog log;
    const auto compiled =
        compile(compiler_, prepared_.model, prepared_.study, prepared_.software, log);
    if (const auto* infeasible = std::get_if<Infeasible>(&compiled)) {
      return refuse(point, PointStatus::kNoProgram,
                    plan_error(prepared_.study, *infeasible).what());
    }
    RunOptions options;
    options.record_rows = false;
    const Summary summary =
        timer_.time(prepared_, *std::get<const Program*>(compiled), compiler_.segments(), options)
            .summary;
    point.warnings = summary.warnings;
    point.iteration_time = summary.iteration_time;
    point.tokens_per_s = summary.tokens_per_s;
    point.tflops_per_gpu = summary.tflops_per_gpu;
    point.mfu = summary.mfu;
    if (summary.cost) point.cost_per_million_tokens = summary.cost->per_million_tokens;
    point.peak_memory = largest_peak(summary.peak_memory);
    point.may_fit = summary.may_fit;
    point.bubble_fraction = summary.bubble_fraction;
    point.exposed_communication_fraction = summary.exposed_communication_fraction;
    point.num_ranks = summary.num_ranks;
    point.program_digest = summary.program_digest;
    if (!summary.fits) refuse(point, PointStatus::kMisfit, explain_worst_misfit(summary));
  }

  void prepare(Study study) {
    GraphSource source = graph_source(study);
    if (graph_source_ == source) {
      prepared_.hardware =
          on_ranks(resolvers_.hardware(study.cluster.device).value(), ranks_of_node(study));
      check_recompute_modules(study, prepared_.model);
      check_gathered_modules(study, prepared_.model);
      prepared_.software = software_of(study, resolvers_);
      prepared_.study = std::move(study);
      resolve_by_cost(prepared_);
      return;
    }
    graph_source_.reset();
    prepared_ = prepare_study(std::move(study), resolvers_);
    graph_source_ = std::move(source);
  }

  const SweepJob& job_;
  std::vector<std::string> warnings_;
  StudyResolvers resolvers_;
  std::optional<GraphSource> graph_source_;  // of prepared_.model
  Prepared prepared_;
  Compiler compiler_;
  StepTimer timer_;
};

/// Whether all keys of an axis are among `paths`, or below one that ends in a dot.
bool is_among(const SweepAxis& axis, const std::vector<std::string_view>& paths) {
  return std::all_of(axis.keys.begin(), axis.keys.end(), [&](const SweepKey& key) {
    return std::any_of(paths.begin(), paths.end(), [&](std::string_view path) {
      return path.ends_with('.') ? key.path.starts_with(path) : key.path == path;
    });
  });
}

/// Points in groups that one process runs in a row: those whose training graph is the same, and
/// among them, one behind the other, those that the Compiler makes from the same segments. It finds
/// out for itself what it has; this order is only what makes it find much.
std::vector<std::vector<std::int64_t>> groups_of_points(const Sweep& sweep) {
  const std::vector<std::string_view> outside_segments = {
      "cluster", "cluster.", "fidelity", "schedule", "training.global_batch", "parallel.data"};
  std::vector<std::string_view> outside_graph = outside_segments;
  outside_graph.insert(outside_graph.end(),
                       {"parallel.zero", "parallel.zero.", "training.clip_norm",
                        "training.bucket_elements", "training.optimizer"});
  struct Place {
    std::int64_t group = 0, segments = 0;
  };
  Numbered<Place> places(1);  // [point], as the axes come
  std::int64_t num_groups = 1;
  for (const SweepAxis& axis : sweep.axes) {
    const bool same_graph = is_among(axis, outside_graph);
    const bool same_segments = is_among(axis, outside_segments);
    Numbered<Place> next;
    for (const Place& place : places) {
      for (std::int64_t i = 0; i < axis.size(); ++i) {
        next.push_back({same_graph ? place.group : place.group * axis.size() + i,
                        same_segments ? place.segments : place.segments * axis.size() + i});
      }
    }
    places = std::move(next);
    if (!same_graph) num_groups *= axis.size();
  }
  Numbered<std::vector<std::int64_t>> groups(num_groups);
  for (const std::int64_t point : places.keys()) groups[places[point].group].push_back(point);
  for (auto& group : groups) {
    std::stable_sort(group.begin(), group.end(), [&](std::int64_t a, std::int64_t b) {
      return places[a].segments < places[b].segments;
    });
  }
  return groups;
}

/// Splits groups where there are too few of them to keep `jobs` processes busy.
void spread(std::vector<std::vector<std::int64_t>>& groups, int jobs) {
  constexpr std::int64_t kGroupsPerJob = 8;
  if (std::ssize(groups) >= kGroupsPerJob * jobs) return;
  std::vector<std::vector<std::int64_t>> single;
  for (const auto& group : groups) {
    for (const std::int64_t point : group) single.push_back({point});
  }
  groups = std::move(single);
}

class RunningSweep {
 public:
  explicit RunningSweep(const SweepJob& job)
      : job_(job),
        runner_(job),
        outcomes_(job.sweep.num_points()) {
    for (Outcome& outcome : outcomes_) {
      outcome.point.status = PointStatus::kInterrupted;
      outcome.point.reason = "the sweep was interrupted before it had come to this point";
    }
  }

  SweepRows run() {
    const int jobs = job_.jobs > 0 ? job_.jobs : num_usable_cores();
    auto groups = groups_of_points(job_.sweep);
    spread(groups, jobs);
    // What brought a process down is one point's: the others of its group get a process of their
    // own.
    const std::vector<std::int64_t> lost = run_groups(groups, jobs, false);
    std::vector<std::vector<std::int64_t>> again;
    for (const std::int64_t point : lost) again.push_back({point});
    run_groups(again, jobs, true);

    SweepRows rows;
    rows.signal = signal_;
    std::vector<SweepPoint>& points = rows.points;
    for (std::size_t i = 0; i < outcomes_.size(); ++i) {
      if (outcomes_[i].unknown_key) rethrow(i);
      points.push_back(std::move(outcomes_[i].point));
      for (const YamlNode* value : job_.sweep.values(static_cast<std::int64_t>(i))) {
        points.back().values.push_back(value->flow_text());
      }
    }
    const bool one_reason = std::all_of(points.begin(), points.end(), [&](const SweepPoint& point) {
      return point.status == PointStatus::kRefused && point.reason == points.front().reason;
    });
    if (one_reason) rethrow(0);
    return rows;
  }

 private:
  /// Answers the points whose process ended; with `last`, these are rows that failed.
  std::vector<std::int64_t> run_groups(const std::vector<std::vector<std::int64_t>>& groups,
                                       int jobs, bool last) {
    if (signal_ != 0) return {};
    PointsOptions options;
    options.jobs = jobs;
    options.keep_finished = true;
    options.noun = groups.size() == outcomes_.size() ? "points" : "groups of points";
    const auto work = [&](std::size_t g) {
      Json rows = Json::array();
      for (const std::int64_t point : groups[g]) {
        if (told_to_stop()) break;
        rows.push_back(to_json(runner_.run(point)));
      }
      return rows.dump(-1, ' ', false, Json::error_handler_t::replace);
    };
    std::vector<PointAnswer> answers;
    try {
      answers = run_points(groups.size(), work, options);
    } catch (Interrupted& by) {
      signal_ = by.signal;
      answers = std::move(by.answers);
    }
    std::vector<std::int64_t> lost;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const PointAnswer& answer = answers[g];
      if (!answer.finished) continue;
      if (answer.failure.empty()) {
        const Json rows = Json::parse(answer.text);
        for (std::size_t i = 0; i < rows.size(); ++i) {
          outcomes_[groups[g][i]] = from_json(rows[i]);
        }
        continue;
      }
      for (const std::int64_t point : groups[g]) {
        lost.push_back(point);
        if (!last) continue;
        SweepPoint& row = outcomes_[point].point;
        row.status = PointStatus::kFailed;
        row.reason = answer.failure;
      }
    }
    return lost;
  }

  /// The point's error, with its place.
  [[noreturn]] void rethrow(std::size_t point) {
    YamlNode document = job_.study.copy();
    put_point(job_.sweep, static_cast<std::int64_t>(point), document);
    std::vector<std::string> warnings;
    const Study study =
        read_study_node(std::move(document), job_.sets, make_resolvers(data_root(), warnings));
    bug("a point was refused by its process and is taken here: " + study.file);
  }

  const SweepJob& job_;
  PointRunner runner_;
  Numbered<Outcome> outcomes_;
  int signal_ = 0;
};

}  // namespace

SweepRows run_sweep_points(const SweepJob& job) { return RunningSweep(job).run(); }

}  // namespace trainyard
