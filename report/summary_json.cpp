// summary.json: the keys that scripts rely on.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/summary.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

Json memory_json(const MemoryPeak& peak) {
  return {{"total", peak.total},
          {"parameters", peak.parameters},
          {"gathered_parameters", peak.gathered_parameters},
          {"prefetched_parameters", peak.prefetched_parameters},
          {"gradients", peak.gradients},
          {"optimizer_state", peak.optimizer_state},
          {"activations", peak.activations},
          {"buffers", peak.buffers},
          {"instant", peak.instant}};
}

Json sources_json(const std::vector<SourceEntry>& sources) {
  Json out = {
      {"measured", 0}, {"fitted", 0}, {"datasheet", 0}, {"derived", 0}, {"extrapolated", 0}};
  Json entries = Json::array();
  for (const SourceEntry& entry : sources) {
    out[entry.kind] = out.value(entry.kind, 0) + 1;
    entries.push_back({{"name", entry.name},
                       {"kind", entry.kind},
                       {"used_for", entry.used_for},
                       {"note", entry.note}});
    if (!entry.extrapolated) continue;
    entries.back()["extrapolated"] = true;
    out["extrapolated"] = out["extrapolated"].get<int>() + 1;
  }
  out["entries"] = entries;
  return out;
}

Json link_json(const LinkLoad& link) {
  return {{"name", link.name},
          {"multiplicity", link.multiplicity},
          {"capacity_bytes_per_s", link.capacity},
          {"bytes", link.bytes},
          {"busy_fraction", link.busy_fraction},
          {"shared_s", link.shared}};
}

/// iteration_time_interval_s, measure_next, op_kinds
void add_interval(const TimeInterval& interval, Json& out) {
  out["iteration_time_interval_s"] = {interval.low, interval.high};
  out["measure_next"] = Json::array();
  for (const Contribution& one : interval.next) {
    out["measure_next"].push_back(
        {{"entry", one.entry}, {"effect_s", one.effect}, {"share", one.share}});
  }
  out["op_kinds"] = Json::array();
  for (const KindTime& kind : interval.kinds) {
    out["op_kinds"].push_back(
        {{"kind", kind.kind},
         {"count", kind.count},
         {"time_s", kind.time},
         {"interval_s",
          {kind.time * (1 - std::min(1.0, kind.interval)), kind.time * (1 + kind.interval)}}});
  }
}

}  // namespace

Json time_json(const TimeClasses& time) {
  Json exposed = Json::object();
  for (const auto& [kind, seconds] : time.exposed) exposed[kind] = seconds;
  return {{"compute", time.compute},
          {"optimizer", time.optimizer},
          {"exposed_communication", exposed},
          {"host", time.host},
          {"bubble", time.bubble}};
}

std::string summary_json(const Summary& summary, Seconds wall) {
  Json out;
  out["study"] = summary.study;
  out["iteration_time_s"] = summary.iteration_time;
  if (summary.interval) add_interval(*summary.interval, out);
  out["samples_per_s"] = summary.samples_per_s;
  out["tokens_per_s"] = summary.tokens_per_s;
  if (summary.cost) {
    out["cost"] = {{"price", summary.cost->price},
                   {"devices", summary.cost->devices},
                   {"per_step", summary.cost->per_step},
                   {"per_million_tokens", summary.cost->per_million_tokens}};
  }
  out["model_flop"] = summary.model_flop;
  out["tflops_per_gpu"] = summary.tflops_per_gpu;
  out["mfu"] = summary.mfu;
  out["hardware_tflops_per_gpu"] = summary.hardware_tflops_per_gpu;
  out["time"] = time_json(summary.time);
  out["time_by_pipeline_rank"] = Json::array();
  for (const TimeClasses& time : summary.time_by_pipeline_rank) {
    out["time_by_pipeline_rank"].push_back(time_json(time));
  }
  out["bubble_fraction"] = summary.bubble_fraction;
  out["exposed_communication_fraction"] = summary.exposed_communication_fraction;
  out["peak_memory_bytes"] = Json::array();
  for (const MemoryPeak& peak : summary.peak_memory)
    out["peak_memory_bytes"].push_back(memory_json(peak));
  // Only where something is kept there.
  const auto add_elsewhere = [&](const char* key, Bytes MemoryPeak::*bytes) {
    if (std::none_of(summary.peak_memory.begin(), summary.peak_memory.end(),
                     [&](const MemoryPeak& m) { return m.*bytes > 0; }))
      return;
    out[key] = Json::array();
    for (const MemoryPeak& peak : summary.peak_memory) out[key].push_back(peak.*bytes);
  };
  add_elsewhere("host_memory_bytes", &MemoryPeak::host);
  add_elsewhere("nvme_bytes", &MemoryPeak::nvme);
  if (std::any_of(summary.peak_memory.begin(), summary.peak_memory.end(),
                  [](const MemoryPeak& m) { return m.cached > 0; })) {
    out["cached_memory_bytes"] = Json::array();
    for (const MemoryPeak& peak : summary.peak_memory) {
      out["cached_memory_bytes"].push_back(cached_within(peak, summary.memory_capacity));
    }
  }
  out["memory_capacity_bytes"] = summary.memory_capacity;
  out["memory_headroom_bytes"] = summary.memory_headroom;
  if (summary.transfers) out["pipeline_transfers"] = transfers_json(*summary.transfers);
  out["fits"] = summary.fits;
  out["memory_error"] = summary.memory_error;
  out["may_fit"] = summary.may_fit;
  out["num_ranks"] = summary.num_ranks;
  out["num_events"] = summary.num_events;
  out["wall_s"] = wall;
  out["program_digest"] = summary.program_digest;
  if (summary.partition) add_json(*summary.partition, out);
  if (summary.layer) out["layer_sharding"] = layer_sharding_json(*summary.layer);
  out["num_parameters"] = {{"base", summary.num_parameters.base},
                           {"with_head", summary.num_parameters.with_head}};
  if (!summary.links.empty()) {
    // One entry per link class; unfolded there may be thousands, and the busiest say it all.
    constexpr std::size_t kMostLinks = 256;
    out["links"] = Json::array();
    for (std::size_t i = 0; i < std::min(kMostLinks, summary.links.size()); ++i) {
      out["links"].push_back(link_json(summary.links[i]));
    }
    out["links_left_out"] = summary.links.size() - out["links"].size();
    out["worst_link"] = summary.links.front().name;
  }
  if (summary.resembles) out["resembles"] = resemblance_json(*summary.resembles);
  out["warnings"] = summary.warnings;
  out["sources"] = sources_json(summary.sources);
  return out.dump(2) + "\n";
}

}  // namespace trainyard
