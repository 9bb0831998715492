#include "report/checked_summary.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/json_fields.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// Links come by the thousand in large clusters; the page names the busiest.
constexpr std::size_t kMaxLinks = 200;
constexpr std::size_t kMaxBoundaries = 200;
constexpr std::size_t kMaxLayerRows = 200;
constexpr std::size_t kMaxSources = 2000;
constexpr std::size_t kMaxStages = 256;
constexpr std::size_t kMaxModules = 1000;
constexpr std::size_t kMaxCrossings = 12;
constexpr std::size_t kMaxPipelineRanks = 256;

const Json& number(const JsonFields& from, const std::string& key) {
  from.number(key);
  return *from.find(key);
}

/// A number, or null where the run has none.
const Json& number_or_null(const JsonFields& from, const std::string& key) {
  const Json* value = from.find(key);
  return value != nullptr && value->is_null() ? *value : number(from, key);
}

void take_numbers(const JsonFields& from, std::initializer_list<const char*> keys, Json& out) {
  for (const char* key : keys) out[key] = number(from, key);
}

void take_texts(const JsonFields& from, std::initializer_list<const char*> keys, Json& out) {
  for (const char* key : keys) out[key] = from.text(key);
}

std::vector<JsonFields> items(const JsonFields& from, const std::string& key) {
  std::vector<JsonFields> out;
  for (std::size_t i = 0; i < from.list(key).size(); ++i) out.push_back(from.item(key, i));
  return out;
}

Json checked_time(const JsonFields& time) {
  Json out;
  take_numbers(time, {"compute", "optimizer", "host", "bubble"}, out);
  out["exposed_communication"] = Json::object();
  const JsonFields exposed = time.object("exposed_communication");
  for (const auto& [kind, seconds] : exposed.json().items()) {
    out["exposed_communication"][kind] = number(exposed, kind);
  }
  return out;
}

Json checked_sources(const JsonFields& sources) {
  Json out = Json::array();
  for (const JsonFields& entry : items(sources, "entries")) {
    if (out.size() == kMaxSources) break;
    take_texts(entry, {"name", "kind", "used_for", "note"}, out.emplace_back());
  }
  return out;
}

/// [low, high] of seconds, and what leaves them so far apart.
void take_interval(const JsonFields& summary, Json& out) {
  if (!summary.has("iteration_time_interval_s")) return;
  const Json& interval = summary.list("iteration_time_interval_s");
  const bool two = interval.size() == 2 && interval[0].is_number() && interval[1].is_number();
  if (!two) summary.fail("iteration_time_interval_s", "expected two numbers");
  out["iteration_time_interval_s"] = interval;
  out["measure_next"] = Json::array();
  for (const JsonFields& one : items(summary, "measure_next")) {
    Json& next = out["measure_next"].emplace_back();
    take_texts(one, {"entry"}, next);
    take_numbers(one, {"effect_s", "share"}, next);
  }
}

/// The busiest first; of those that are equally busy the one that comes first.
void take_links(const JsonFields& summary, Json& out) {
  if (!summary.has("links")) return;
  std::vector<Json> links;
  for (const JsonFields& link : items(summary, "links")) {
    Json& one = links.emplace_back();
    take_texts(link, {"name"}, one);
    take_numbers(link, {"bytes", "busy_fraction", "shared_s"}, one);
    for (const char* key : {"multiplicity", "capacity_bytes_per_s"})
      if (link.has(key)) one[key] = number(link, key);
  }
  std::stable_sort(links.begin(), links.end(), [](const Json& a, const Json& b) {
    return a["busy_fraction"].get<double>() > b["busy_fraction"].get<double>();
  });
  out["num_links"] = links.size();
  if (summary.has("links_left_out")) {
    out["num_links"] = static_cast<double>(links.size()) + summary.number("links_left_out");
  }
  if (links.size() > kMaxLinks) links.resize(kMaxLinks);
  out["links"] = links;
}

/// Boundaries with the most host-staged first, the others as they come; buffers of the first
/// ranks.
void take_transfers(const JsonFields& summary, Json& out) {
  const std::string key = "pipeline_transfers";
  if (!summary.has(key)) return;
  const JsonFields transfers = summary.object(key);
  std::vector<Json> boundaries;
  double direct = 0, by_host = 0;
  for (const JsonFields& boundary : items(transfers, "boundaries")) {
    Json& one = boundaries.emplace_back();
    take_numbers(boundary, {"from", "to", "direct", "by_host"}, one);
    take_texts(boundary, {"reason"}, one);
    direct += one["direct"].get<double>();
    by_host += one["by_host"].get<double>();
  }
  std::stable_sort(boundaries.begin(), boundaries.end(), [](const Json& a, const Json& b) {
    return a["by_host"].get<double>() > b["by_host"].get<double>();
  });
  Json& shown = out[key];
  shown["num_boundaries"] = boundaries.size();
  shown["direct"] = direct;
  shown["by_host"] = by_host;
  if (boundaries.size() > kMaxBoundaries) boundaries.resize(kMaxBoundaries);
  shown["boundaries"] = boundaries;
  shown["buffers"] = Json::array();
  for (const JsonFields& buffer : items(transfers, "buffers")) {
    if (shown["buffers"].size() == kMaxBoundaries) break;
    Json& one = shown["buffers"].emplace_back();
    take_numbers(buffer, {"rank", "bytes", "slots", "slot_bytes", "used"}, one);
    take_texts(buffer, {"use"}, one);
  }
}

/// The rows of one layer: of other models than this version's a layer may have any number.
void take_layer(const JsonFields& summary, Json& out) {
  const std::string key = "layer_sharding";
  if (!summary.has(key)) return;
  const JsonFields layer = summary.object(key);
  Json& shown = out[key];
  take_numbers(layer, {"layer"}, shown);
  take_texts(layer, {"path"}, shown);
  shown["num_tensors"] = layer.list("tensors").size();
  shown["tensors"] = Json::array();
  for (const JsonFields& row : items(layer, "tensors")) {
    if (shown["tensors"].size() == kMaxLayerRows) break;
    Json& one = shown["tensors"].emplace_back();
    take_texts(row, {"op", "tensor", "spec"}, one);
    take_numbers(row, {"bytes"}, one);
    for (const char* optional : {"group", "why"})
      if (row.has(optional)) take_texts(row, {optional}, one);
  }
  // Runs of earlier versions have neither.
  const auto take = [&](const char* list, std::initializer_list<const char*> texts,
                        std::initializer_list<const char*> numbers) {
    if (!layer.has(list)) return;
    shown[list] = Json::array();
    for (const JsonFields& row : items(layer, list)) {
      if (shown[list].size() == kMaxLayerRows) break;
      Json& one = shown[list].emplace_back();
      take_texts(row, texts, one);
      take_numbers(row, numbers, one);
    }
  };
  take("mesh", {"axis"}, {"ranks"});
  take("groups", {"name", "link"}, {"ranks", "bytes_per_s"});
}

/// A list of whole numbers.
Json take_list(const JsonFields& from, const std::string& key) {
  for (const Json& number : from.list(key)) {
    if (!number.is_number_integer())
      from.fail(key, "expected whole numbers, got " + shorten(number));
  }
  return *from.find(key);
}

/// Stages and modules. Runs of earlier versions have neither.
void take_partition(const JsonFields& summary, Json& out) {
  if (!summary.has("partition") || !summary.has("stages")) return;
  const JsonFields partition = summary.object("partition");
  Json& shown = out["partition"];
  take_texts(partition, {"chosen"}, shown);
  shown["num_stages"] = summary.list("stages").size();
  shown["stages"] = Json::array();
  for (const JsonFields& stage : items(summary, "stages")) {
    if (shown["stages"].size() == kMaxStages) break;
    Json& one = shown["stages"].emplace_back();
    take_texts(stage, {"what"}, one);
    take_numbers(stage,
                 {"pipeline_rank", "replicas", "forward_s", "backward_s", "parameters_bytes",
                  "activations_bytes"},
                 one);
    one["num_received"] = stage.list("receives").size();
    one["receives"] = Json::array();
    double bytes = 0;
    for (const JsonFields& crossing : items(stage, "receives")) {
      bytes += crossing.number("bytes");
      if (one["receives"].size() == kMaxCrossings) continue;
      Json& value = one["receives"].emplace_back();
      take_texts(crossing, {"value"}, value);
      take_numbers(crossing, {"bytes", "from"}, value);
    }
    one["received_bytes"] = bytes;
  }
  shown["num_modules"] = partition.list("modules").size();
  shown["modules"] = Json::array();
  for (const JsonFields& module : items(partition, "modules")) {
    if (shown["modules"].size() == kMaxModules) break;
    Json& one = shown["modules"].emplace_back();
    take_texts(module, {"path"}, one);
    if (module.has("last")) take_texts(module, {"last"}, one);
    take_numbers(
        module, {"depth", "forward_s", "backward_s", "parameters_bytes", "activations_bytes"}, one);
    one["stages"] = take_list(module, "stages");
  }
  if (!summary.has("planned")) return;
  shown["planned"] = Json::array();
  for (const Json& line : summary.list("planned")) {
    if (!line.is_string()) summary.fail("planned", "expected strings, got " + shorten(line));
    if (shown["planned"].size() < kMaxModules) shown["planned"].push_back(line);
  }
}

/// {runs, mean_abs_percent, ids}: of many runs the first ids.
Json checked_runs(const JsonFields& group) {
  Json out;
  take_numbers(group, {"runs"}, out);
  out["mean_abs_percent"] = number_or_null(group, "mean_abs_percent");
  out["ids"] = Json::array();
  for (const Json& id : group.list("ids")) {
    if (!id.is_string()) group.fail("ids", "expected strings, got " + shorten(id));
    if (out["ids"].size() < kMaxSources) out["ids"].push_back(id);
  }
  return out;
}

/// Runs of earlier versions have none.
void take_resembles(const JsonFields& summary, Json& out) {
  const std::string key = "resembles";
  if (!summary.has(key)) return;
  const JsonFields resembles = summary.object(key);
  out[key] = checked_runs(resembles);
  if (!resembles.has("nearest")) return;
  const JsonFields nearest = resembles.object("nearest");
  Json& shown = out[key]["nearest"] = checked_runs(nearest);
  shown["differs"] = Json::array();
  for (const JsonFields& one : items(nearest, "differs"))
    take_texts(one, {"feature", "study", "runs"}, shown["differs"].emplace_back());
}

/// Evenly spaced pipeline ranks of a long pipeline, and the one that needs most memory.
std::vector<std::size_t> shown_ranks(const std::vector<JsonFields>& peaks) {
  std::vector<std::size_t> shown;
  std::size_t most = 0;
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    if (peaks[i].number("total") > peaks[most].number("total")) most = i;
  }
  const std::size_t count = std::min(peaks.size(), kMaxPipelineRanks);
  for (std::size_t i = 0; i < count; ++i)
    shown.push_back(count == 1 ? 0 : i * (peaks.size() - 1) / (count - 1));
  if (!peaks.empty() && !std::binary_search(shown.begin(), shown.end(), most)) {
    shown.insert(std::lower_bound(shown.begin(), shown.end(), most), most);
  }
  return shown;
}

/// [{pipeline_rank, time, peak}]
Json pipeline_ranks(const JsonFields& summary) {
  const std::vector<JsonFields> times = items(summary, "time_by_pipeline_rank");
  const std::vector<JsonFields> peaks = items(summary, "peak_memory_bytes");
  if (times.size() != peaks.size()) {
    summary.fail("peak_memory_bytes",
                 "expected as many as time_by_pipeline_rank has, " + std::to_string(times.size()));
  }
  Json checked = Json::array();
  for (const JsonFields& peak : peaks) {
    Json& one = checked.emplace_back();
    take_numbers(peak,
                 {"total", "parameters", "gradients", "optimizer_state", "activations", "buffers"},
                 one);
    take_texts(peak, {"instant"}, one);
  }
  Json out = Json::array();
  for (const std::size_t r : shown_ranks(peaks)) {
    out.push_back({{"pipeline_rank", r}, {"time", checked_time(times[r])}, {"peak", checked[r]}});
  }
  return out;
}

Json simulated(const JsonFields& summary) {
  Json out;
  out["kind"] = "simulated";
  take_texts(summary, {"study"}, out);
  take_numbers(
      summary,
      {"iteration_time_s", "samples_per_s", "tokens_per_s", "model_flop", "tflops_per_gpu", "mfu",
       "hardware_tflops_per_gpu", "bubble_fraction", "exposed_communication_fraction",
       "memory_capacity_bytes", "num_ranks", "num_events"},
      out);
  if (summary.has("cost")) {
    const JsonFields cost = summary.object("cost");
    take_numbers(cost, {"price", "devices", "per_step", "per_million_tokens"}, out["cost"]);
  }
  out["time"] = checked_time(summary.object("time"));
  out["pipeline"] = pipeline_ranks(summary);
  out["num_pipeline_ranks"] = summary.list("peak_memory_bytes").size();
  out["fits"] = summary.boolean("fits");
  // Runs of earlier versions have neither.
  if (summary.has("may_fit")) {
    out["may_fit"] = summary.boolean("may_fit");
    take_numbers(summary, {"memory_error"}, out);
  }
  take_texts(summary, {"program_digest"}, out);
  out["num_parameters"] = number(summary.object("num_parameters"), "with_head");
  out["warnings"] = Json::array();
  for (const Json& warning : summary.list("warnings")) {
    if (!warning.is_string()) summary.fail("warnings", "expected strings, got " + shorten(warning));
    out["warnings"].push_back(warning);
  }
  out["sources"] = checked_sources(summary.object("sources"));
  take_interval(summary, out);
  take_links(summary, out);
  take_transfers(summary, out);
  take_partition(summary, out);
  take_layer(summary, out);
  take_resembles(summary, out);
  return out;
}

Json trained(const JsonFields& summary) {
  Json out;
  out["kind"] = "trained";
  if (summary.has("study")) take_texts(summary, {"study"}, out);
  take_numbers(summary, {"steps", "tokens_per_s", "num_ranks"}, out);
  for (const char* key : {"loss", "best_loss", "iteration_time_s"})
    out[key] = number_or_null(summary, key);
  take_texts(summary, {"program_digest"}, out);
  return out;
}

}  // namespace

Json checked_summary(const std::string& text, const std::string& path) {
  const JsonFile file(text, path);
  const JsonFields summary(file);
  return summary.has("steps") ? trained(summary) : simulated(summary);
}

}  // namespace trainyard
