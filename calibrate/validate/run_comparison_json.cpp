// summary.json and --json of validate --run.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "calibrate/validate/error_stats.h"
#include "calibrate/validate/run_comparison.h"
#include "engine/program/program_words.h"
#include "report/summary.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// Appends predicted_s, measured_s and error_percent (null where nothing was measured).
Json with_times(Json out, Seconds predicted, Seconds measured) {
  out["predicted_s"] = predicted;
  out["measured_s"] = measured;
  out["error_percent"] = measured > 0 ? Json(error_percent(predicted, measured)) : Json();
  return out;
}

Json explanation_json(const RunComparison& c) {
  Json out = Json::array();
  Seconds rest = c.with_measured - c.predicted;
  const auto add = [&](const std::string& what, Seconds effect) {
    const Seconds difference = c.measured - c.predicted;
    out.push_back({{"what", what},
                   {"effect_s", effect},
                   {"share", difference != 0 ? Json(effect / difference) : Json()}});
  };
  for (const KindComparison& kind : c.kinds) {
    add(kind.kind, kind.effect);
    rest -= kind.effect;
  }
  add("together", rest);
  add("rest", c.measured - c.with_measured);
  return out;
}

}  // namespace

nlohmann::ordered_json run_comparison_data(const RunComparison& c) {
  Json out;
  out["run"] = c.run;
  out["program_digest"] = c.program_digest;
  out["num_ranks"] = c.num_ranks;
  out["device"] = c.device;
  out["cores"] = c.cores;
  out["threads_per_rank"] = c.threads_per_rank;
  out["more_ranks_than_cores"] = c.oversubscribed;
  out["step_time"] = with_times(Json::object(), c.predicted, c.measured);
  if (c.interval) out["step_time"]["predicted_interval_s"] = {c.interval->low, c.interval->high};
  out["step_time"]["measured_p10_s"] = c.measured_low;
  out["step_time"]["measured_p90_s"] = c.measured_high;
  out["step_time"]["num_steps"] = c.num_steps;
  out["step_time"]["with_measured_times_s"] = c.with_measured;
  out["explanation"] = explanation_json(c);
  out["op_kinds"] = Json::array();
  for (const KindComparison& kind : c.kinds) {
    Json row = with_times(
        {{"kind", kind.kind}, {"communication", kind.communication}, {"count", kind.count}},
        kind.predicted, kind.measured);
    row["effect_s"] = kind.effect;
    out["op_kinds"].push_back(row);
  }
  out["ops"] = Json::array();
  std::size_t stated = 0, inside = 0;
  for (const OpComparison& op : c.ops) {
    Json row = with_times({{"form", to_string(op.work.form)},
                           {"shape", {op.work.m, op.work.n, op.work.k, op.work.batch}},
                           {"count", op.count}},
                          op.predicted, op.measured);
    if (op.interval > 0) {
      row["interval_s"] = {op.predicted * std::max(0.0, 1 - op.interval),
                           op.predicted * (1 + op.interval)};
      ++stated;
      inside += op.inside();
    }
    out["ops"].push_back(row);
  }
  if (stated > 0) out["intervals"] = {{"ops", stated}, {"inside", inside}};
  out["ranks"] = Json::array();
  for (const RankComparison& rank : c.ranks) {
    out["ranks"].push_back({{"rank", rank.rank},
                            {"predicted", time_json(rank.predicted)},
                            {"measured", time_json(rank.measured)}});
  }
  out["streams"] = Json::array();
  for (const StreamComparison& stream : c.streams) {
    out["streams"].push_back(
        with_times({{"rank", stream.rank}, {"stream", program_words::kStreams[stream.stream]}},
                   stream.predicted, stream.measured));
  }
  out["links"] = Json::array();
  for (const LinkComparison& link : c.links) {
    out["links"].push_back(with_times(
        {{"kind", link.kind}, {"ranks", link.ranks}, {"count", link.count}, {"bytes", link.bytes}},
        link.predicted, link.measured));
  }
  out["warnings"] = c.warnings;
  return out;
}

std::string run_comparison_json(const RunComparison& c) {
  return run_comparison_data(c).dump(2) + "\n";
}

}  // namespace trainyard
