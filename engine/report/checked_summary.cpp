#include "engine/report/checked_summary.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/error.h"
#include "engine/report/json_position.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// Links come by the thousand in large clusters; the page names the busiest.
constexpr std::size_t kMaxLinks = 200;
constexpr std::size_t kMaxBoundaries = 200;
constexpr std::size_t kMaxSources = 2000;
constexpr std::size_t kMaxPipelineRanks = 256;

class Checker {
 public:
  explicit Checker(const std::string& path) : path_(path) {}

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    throw ConfigError(path_ + ": " + key + ": " + problem);
  }

  const Json& number(const Json& from, const std::string& key, const std::string& in = "") const {
    return checked(from, key, in, "a number", [](const Json& v) { return v.is_number(); });
  }
  const Json& text(const Json& from, const std::string& key, const std::string& in = "") const {
    return checked(from, key, in, "a text", [](const Json& v) { return v.is_string(); });
  }
  const Json& truth(const Json& from, const std::string& key, const std::string& in = "") const {
    return checked(from, key, in, "true or false", [](const Json& v) { return v.is_boolean(); });
  }
  const Json& object(const Json& from, const std::string& key, const std::string& in = "") const {
    return checked(from, key, in, "an object", [](const Json& v) { return v.is_object(); });
  }
  const Json& list(const Json& from, const std::string& key, const std::string& in = "") const {
    return checked(from, key, in, "a list", [](const Json& v) { return v.is_array(); });
  }
  /// A number, or null where the run has none.
  const Json& number_or_null(const Json& from, const std::string& key) const {
    return checked(from, key, "", "a number or null",
                   [](const Json& v) { return v.is_number() || v.is_null(); });
  }

 private:
  template <typename Fits>
  const Json& checked(const Json& from, const std::string& key, const std::string& in,
                      const char* expected, const Fits& fits) const {
    const std::string name = in.empty() ? key : in + "." + key;
    const auto found = from.find(key);
    if (found == from.end()) fail(name, "missing");
    if (!fits(*found))
      fail(name, std::string("expected ") + expected + ", got " + found->dump().substr(0, 40));
    return *found;
  }

  const std::string& path_;
};

Json checked_time(const Checker& check, const Json& time, const std::string& in) {
  if (!time.is_object()) check.fail(in, "expected an object");
  Json out;
  for (const char* key : {"compute", "optimizer", "host", "bubble"})
    out[key] = check.number(time, key, in);
  out["exposed_communication"] = Json::object();
  const Json& exposed = check.object(time, "exposed_communication", in);
  for (const auto& [kind, seconds] : exposed.items()) {
    out["exposed_communication"][kind] = check.number(exposed, kind, in + ".exposed_communication");
  }
  return out;
}

Json checked_sources(const Checker& check, const Json& sources) {
  Json out = Json::array();
  for (const Json& entry : check.list(sources, "entries", "sources")) {
    if (!entry.is_object()) check.fail("sources.entries", "expected objects");
    if (out.size() == kMaxSources) break;
    Json one;
    for (const char* key : {"name", "kind", "used_for", "note"})
      one[key] = check.text(entry, key, "sources.entries");
    out.push_back(one);
  }
  return out;
}

/// [low, high] of seconds, and what leaves them so far apart.
void take_interval(const Checker& check, const Json& summary, Json& out) {
  if (!summary.contains("iteration_time_interval_s")) return;
  const Json& interval = check.list(summary, "iteration_time_interval_s");
  const bool two = interval.size() == 2 && interval[0].is_number() && interval[1].is_number();
  if (!two) check.fail("iteration_time_interval_s", "expected two numbers");
  out["iteration_time_interval_s"] = interval;
  out["measure_next"] = Json::array();
  for (const Json& one : check.list(summary, "measure_next")) {
    if (!one.is_object()) check.fail("measure_next", "expected objects");
    out["measure_next"].push_back({{"entry", check.text(one, "entry", "measure_next")},
                                   {"effect_s", check.number(one, "effect_s", "measure_next")},
                                   {"share", check.number(one, "share", "measure_next")}});
  }
}

/// The busiest first; of those that are equally busy the one that comes first.
void take_links(const Checker& check, const Json& summary, Json& out) {
  if (!summary.contains("links")) return;
  std::vector<Json> links;
  for (const Json& link : check.list(summary, "links")) {
    if (!link.is_object()) check.fail("links", "expected objects");
    Json one;
    one["name"] = check.text(link, "name", "links");
    for (const char* key : {"bytes", "busy_fraction", "shared_s"})
      one[key] = check.number(link, key, "links");
    for (const char* key : {"multiplicity", "capacity_bytes_per_s"})
      if (link.contains(key)) one[key] = check.number(link, key, "links");
    links.push_back(one);
  }
  std::stable_sort(links.begin(), links.end(), [](const Json& a, const Json& b) {
    return a["busy_fraction"].get<double>() > b["busy_fraction"].get<double>();
  });
  out["num_links"] = links.size();
  if (summary.contains("links_left_out")) {
    out["num_links"] = static_cast<double>(links.size()) + check.number(summary, "links_left_out").get<double>();
  }
  if (links.size() > kMaxLinks) links.resize(kMaxLinks);
  out["links"] = links;
}

/// Boundaries with the most by the hosts first, the others as they come; buffers of the first ranks.
void take_transfers(const Checker& check, const Json& summary, Json& out) {
  const std::string in = "pipeline_transfers";
  if (!summary.contains(in)) return;
  const Json& transfers = check.object(summary, in);
  std::vector<Json> boundaries;
  double direct = 0, by_host = 0;
  for (const Json& boundary : check.list(transfers, "boundaries", in)) {
    if (!boundary.is_object()) check.fail(in + ".boundaries", "expected objects");
    Json one;
    for (const char* key : {"from", "to", "direct", "by_host"}) one[key] = check.number(boundary, key, in + ".boundaries");
    one["reason"] = check.text(boundary, "reason", in + ".boundaries");
    direct += one["direct"].get<double>();
    by_host += one["by_host"].get<double>();
    boundaries.push_back(std::move(one));
  }
  std::stable_sort(boundaries.begin(), boundaries.end(), [](const Json& a, const Json& b) {
    return a["by_host"].get<double>() > b["by_host"].get<double>();
  });
  Json& shown = out[in];
  shown["num_boundaries"] = boundaries.size();
  shown["direct"] = direct;
  shown["by_host"] = by_host;
  if (boundaries.size() > kMaxBoundaries) boundaries.resize(kMaxBoundaries);
  shown["boundaries"] = boundaries;
  shown["buffers"] = Json::array();
  for (const Json& buffer : check.list(transfers, "buffers", in)) {
    if (!buffer.is_object()) check.fail(in + ".buffers", "expected objects");
    if (shown["buffers"].size() == kMaxBoundaries) break;
    Json one;
    for (const char* key : {"rank", "bytes", "slots", "slot_bytes", "used"}) one[key] = check.number(buffer, key, in + ".buffers");
    one["use"] = check.text(buffer, "use", in + ".buffers");
    shown["buffers"].push_back(std::move(one));
  }
}

/// Evenly spaced pipeline ranks of a long pipeline, and the one that `matters` most.
template <typename Matters>
std::vector<std::size_t> shown_ranks(const Json& list, const Matters& matters) {
  std::vector<std::size_t> shown;
  std::size_t most = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (matters(list[i]) > matters(list[most])) most = i;
  }
  const std::size_t count = std::min(list.size(), kMaxPipelineRanks);
  for (std::size_t i = 0; i < count; ++i)
    shown.push_back(count == 1 ? 0 : i * (list.size() - 1) / (count - 1));
  if (!list.empty() && !std::binary_search(shown.begin(), shown.end(), most)) {
    shown.insert(std::lower_bound(shown.begin(), shown.end(), most), most);
  }
  return shown;
}

/// [{pipeline_rank, time, peak}]
Json pipeline_ranks(const Checker& check, const Json& summary) {
  const Json& times = check.list(summary, "time_by_pipeline_rank");
  const Json& peaks = check.list(summary, "peak_memory_bytes");
  if (times.size() != peaks.size()) {
    check.fail("peak_memory_bytes",
               "expected as many as time_by_pipeline_rank has, " + std::to_string(times.size()));
  }
  for (const Json& peak : peaks) {
    if (!peak.is_object()) check.fail("peak_memory_bytes", "expected objects");
    for (const char* key :
         {"total", "parameters", "gradients", "optimizer_state", "activations", "buffers"}) {
      check.number(peak, key, "peak_memory_bytes");
    }
    check.text(peak, "instant", "peak_memory_bytes");
  }
  Json out = Json::array();
  for (const std::size_t r :
       shown_ranks(peaks, [](const Json& peak) { return peak["total"].get<double>(); })) {
    Json peak;
    for (const char* key : {"total", "parameters", "gradients", "optimizer_state", "activations",
                            "buffers", "instant"}) {
      peak[key] = peaks[r][key];
    }
    out.push_back({{"pipeline_rank", r},
                   {"time", checked_time(check, times[r], "time_by_pipeline_rank")},
                   {"peak", peak}});
  }
  return out;
}

Json simulated(const Checker& check, const Json& summary) {
  Json out;
  out["kind"] = "simulated";
  out["study"] = check.text(summary, "study");
  for (const char* key :
       {"iteration_time_s", "samples_per_s", "tokens_per_s", "model_flop", "tflops_per_gpu", "mfu",
        "hardware_tflops_per_gpu", "bubble_fraction", "exposed_communication_fraction",
        "memory_capacity_bytes", "num_ranks", "num_events"}) {
    out[key] = check.number(summary, key);
  }
  out["time"] = checked_time(check, check.object(summary, "time"), "time");
  out["pipeline"] = pipeline_ranks(check, summary);
  out["num_pipeline_ranks"] = summary["peak_memory_bytes"].size();
  out["fits"] = check.truth(summary, "fits");
  // Runs of earlier versions have neither.
  if (summary.contains("may_fit")) {
    out["may_fit"] = check.truth(summary, "may_fit");
    out["memory_error"] = check.number(summary, "memory_error");
  }
  out["program_digest"] = check.text(summary, "program_digest");
  out["num_parameters"] =
      check.number(check.object(summary, "num_parameters"), "with_head", "num_parameters");
  out["warnings"] = Json::array();
  for (const Json& warning : check.list(summary, "warnings")) {
    if (!warning.is_string()) check.fail("warnings", "expected texts");
    out["warnings"].push_back(warning);
  }
  out["sources"] = checked_sources(check, check.object(summary, "sources"));
  take_interval(check, summary, out);
  take_links(check, summary, out);
  take_transfers(check, summary, out);
  return out;
}

Json trained(const Checker& check, const Json& summary) {
  Json out;
  out["kind"] = "trained";
  if (summary.contains("study")) out["study"] = check.text(summary, "study");
  for (const char* key : {"steps", "tokens_per_s", "num_ranks"})
    out[key] = check.number(summary, key);
  for (const char* key : {"loss", "best_loss", "iteration_time_s"})
    out[key] = check.number_or_null(summary, key);
  out["program_digest"] = check.text(summary, "program_digest");
  return out;
}

}  // namespace

Json checked_summary(const std::string& text, const std::string& path) {
  Json summary;
  try {
    summary = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw_bad_json(path, text, error.byte, error.what());
  } catch (const Json::out_of_range&) {
    throw ConfigError(path + ": has a number that is too large");
  }
  const Checker check(path);
  if (!summary.is_object()) throw ConfigError(path + ": expected an object");
  return summary.contains("steps") ? trained(check, summary) : simulated(check, summary);
}

}  // namespace trainyard
