#include "study/study_writer.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/cluster/peer_access.h"
#include "engine/recompute/checkpoint_groups.h"
#include "study/study_keys.h"
#include "study/study_origin.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// Text as YAML reads it back: bare where it is plainly a word, else in double quotes.
/// Text that a key may also say as a number goes through ResolvedText::line().
std::string yaml_text(std::string_view text) {
  const std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
  const bool bare = !text.empty() && text.find_first_not_of(plain) == std::string::npos &&
                    text.front() != '-' && text.front() != '.' && text != "null" &&
                    text != "Null" && text != "NULL" && reads_as_text(text);
  if (bare) return std::string(text);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string shown = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      shown += "\\x";
      shown += kHex[byte >> 4];
      shown += kHex[byte & 15];
    } else {
      shown += c;
    }
  }
  return shown + "\"";
}

/// In the largest unit in which the number is short and exact.
std::string bandwidth_text(BytesPerSecond value) {
  for (const std::string_view unit : {"GB/s", "MB/s"}) {
    const double factor = unit == "GB/s" ? 1e9 : 1e6;
    const std::string number = number_text(value / factor);
    if (number.size() <= 6 && value >= factor && parse_number(number).value() * factor == value) {
      return number + " " + std::string(unit);
    }
  }
  return number_text(value) + " B/s";
}

std::string duration_text(Seconds value) {
  const std::string number = number_text(value * 1e6);
  if (number.size() <= 6 && value > 0 && parse_number(number).value() / 1e6 == value) {
    return number + " us";
  }
  return number_text(value) + " s";
}

std::string bool_text(bool value) { return value ? "true" : "false"; }

class ResolvedText {
 public:
  explicit ResolvedText(const Study& study) : study_(study) {
    text_ = "# " + printable(study.file) +
            " with every default filled in. It is a study itself and means the same.\n";
  }

  void open(const std::string& key) {
    indent();
    text_ += key + ":\n";
    path_.push_back(key);
  }
  void close() { path_.pop_back(); }

  /// `yaml` is written as it is.
  void line(const std::string& key, const std::string& yaml) {
    indent();
    text_ += key + ": " + yaml + "  # " + to_string(origin(key)) + "\n";
  }
  void text(const std::string& key, std::string_view value) { line(key, yaml_text(value)); }
  void integer(const std::string& key, std::int64_t value) { line(key, std::to_string(value)); }
  void number(const std::string& key, double value) { line(key, number_text(value)); }
  void flag(const std::string& key, bool value) { line(key, bool_text(value)); }

  using Rules = std::vector<std::pair<std::string_view, std::function<void()>>>;
  /// Every key of a table: by the rule that names it, else its field. A key with neither is not
  /// written.
  void keys(const KeyTable& table, const Rules& rules = {}) {
    for (const StudyKey& key : table) {
      const auto rule = std::find_if(rules.begin(), rules.end(),
                                     [&](const auto& entry) { return entry.first == key.name; });
      if (rule != rules.end())
        rule->second();
      else if (key.field)
        field(key);
    }
  }
  void map(const std::string& name, const KeyTable& table, const Rules& rules = {}) {
    open(name);
    keys(table, rules);
    close();
  }

  std::string take() { return std::move(text_); }

 private:
  void indent() { text_ += std::string(2 * path_.size(), ' '); }

  void field(const StudyKey& key) {
    const auto* word = std::get_if<WordForm>(&key.forms.front());
    const std::string name(key.name);
    std::visit(
        [&](const auto& value) {
          using T = std::remove_cvref_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::int64_t>)
            integer(name, value);
          else if constexpr (std::is_same_v<T, double>)
            number(name, value);
          else if constexpr (std::is_same_v<T, bool>)
            flag(name, value);
          else
            text(name, value);
        },
        key.field.get(study_, word != nullptr ? word->words : Words{}));
  }

  Origin origin(const std::string& key) const {
    std::string path;
    for (const std::string& part : path_) path += part + ".";
    const auto own = study_.origins.find(path + key);
    return own != study_.origins.end() ? own->second : default_origin();
  }

  const Study& study_;
  std::string text_;
  std::vector<std::string> path_;
};

template <typename Map, typename Entry>
std::string map_text(const Map& map, const Entry& entry) {
  std::string text;
  for (const auto& [key, value] : map) text += (text.empty() ? "" : ", ") + entry(key, value);
  return "{" + text + "}";
}

std::string beyond_text(const std::map<Bytes, double>& efficiencies) {
  return map_text(efficiencies, [](Bytes size, double efficiency) {
    return std::to_string(size) + " B: " + number_text(efficiency);
  });
}

/// Writes sources of one curve: those of a link may come from different places.
void write_sources(ResolvedText& out, const LinkCurve& curve) {
  if (!curve.provenance.note.empty()) {
    out.text("source", curve.provenance.note);
    out.text("provenance", curve.provenance.kind);
  }
  if (curve.provenance.interval > 0) out.number("interval", curve.provenance.interval);
  if (curve.measured_to > 0) {
    out.line("measured", "{from: " + std::to_string(curve.measured_from) +
                             " B, to: " + std::to_string(curve.measured_to) + " B}");
  }
}

void write_curve(ResolvedText& out, const std::string& key, const LinkCurve& curve) {
  out.open(key);
  out.line("startup", duration_text(curve.startup));
  out.line("latency", duration_text(curve.latency));
  out.number("efficiency", curve.efficiency);
  out.line("half_size", std::to_string(curve.half_size) + " B");
  if (curve.rank_latency > 0) out.line("rank_latency", duration_text(curve.rank_latency));
  if (!curve.efficiency_by_ranks.empty()) {
    out.line("efficiency_by_ranks",
             map_text(curve.efficiency_by_ranks, [](std::int64_t ranks, double efficiency) {
               return std::to_string(ranks) + ": " + number_text(efficiency);
             }));
  }
  if (!curve.efficiency_beyond.empty())
    out.line("efficiency_beyond", beyond_text(curve.efficiency_beyond));
  if (!curve.by_ranks.empty()) {
    out.line("by_ranks",
             map_text(curve.by_ranks, [](std::int64_t ranks, const LinkCurve::Group& group) {
               return std::to_string(ranks) + ": {startup: " + duration_text(group.startup) +
                      ", efficiency: " + number_text(group.efficiency) +
                      (group.efficiency_beyond.empty()
                           ? "}"
                           : ", efficiency_beyond: " + beyond_text(group.efficiency_beyond) + "}");
             }));
  }
  write_sources(out, curve);
  out.close();
}

void write_link(ResolvedText& out, const std::string& key, const LinkClass& link) {
  out.open(key);
  out.text("kind", link.kind);
  out.line("bandwidth", bandwidth_text(link.bandwidth));
  write_curve(out, "collective", link.collective);
  write_curve(out, "point_to_point", link.point_to_point);
  if (link.in_switch) write_curve(out, "in_switch", *link.in_switch);
  if (!link.by_kind.empty()) {
    out.open("by_kind");
    for (const auto& [kind, curve] : link.by_kind) write_curve(out, kind, curve);
    out.close();
  }
  out.text("name", link.name);
  out.text("source", link.source);
  out.text("provenance", link.provenance);
  out.close();
}

void write_host(ResolvedText& out, const HostMemory& host) {
  out.open("host");
  out.integer("sockets", host.sockets);
  if (host.memory > 0) out.line("memory", bandwidth_text(host.memory));
  if (host.link > 0) out.line("link", bandwidth_text(host.link));
  out.close();
}

void write_fabric(ResolvedText& out, const Fabric& fabric) {
  out.open("fabric");
  out.text("kind", fabric.kind);
  const bool torus = fabric.kind == "torus", dragonfly = fabric.kind == "dragonfly";
  if (!torus) out.line("leaf", std::to_string(fabric.nodes_per_leaf) + " nodes");
  if (!torus && !dragonfly) out.number("oversubscription", fabric.oversubscription);
  if (fabric.kind == "fat-tree" && fabric.leaves_per_pod > 0) {
    out.integer("pod", fabric.leaves_per_pod);
    out.number("pod_oversubscription", fabric.pod_oversubscription);
  }
  if (torus) {
    std::string sizes;
    for (const std::int64_t size : fabric.dimensions)
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    out.line("dimensions", "[" + sizes + "]");
  }
  if (dragonfly) out.integer("group", fabric.routers_per_group);
  if (torus || dragonfly) out.line("link", bandwidth_text(fabric.link));
  if (dragonfly) out.line("global_link", bandwidth_text(fabric.global_link));
  out.close();
}

void write_cluster(ResolvedText& out, const Cluster& cluster, double price) {
  out.open("cluster");
  out.text("name", cluster.name);
  out.text("device", cluster.device);
  out.integer("nodes", cluster.num_nodes);
  out.integer("devices_per_node", cluster.devices_per_node);
  out.integer("devices", cluster.num_devices);
  write_link(out, "intra", cluster.intra);
  write_link(out, "inter", cluster.inter);
  out.integer("nics", cluster.num_nics());
  out.open("pcie");
  out.integer("switches", cluster.pcie.switches);
  if (cluster.pcie.switches > 0) out.line("uplink", bandwidth_text(cluster.pcie.uplink));
  out.close();
  out.line("p2p", cluster.p2p ? "on" : "off");
  if (cluster.inter.kind != "none") out.line("rdma", has_rdma(cluster) ? "on" : "off");
  if (cluster.host.sockets > 1 || cluster.host.memory > 0 || !cluster.p2p)
    write_host(out, cluster.host);
  write_fabric(out, cluster.fabric);
  std::string speed;
  for (const auto& [device, factor] : cluster.speed) {
    speed += (speed.empty() ? "" : ", ") + std::to_string(device) + ": " + number_text(factor);
  }
  out.line("speed", "{" + speed + "}");
  if (price > 0) out.number("price", price);
  out.open("collectives");
  for (const std::string_view collective : kCollectives) {
    const auto chosen = cluster.collectives.find(std::string(collective));
    out.text(std::string(collective),
             chosen != cluster.collectives.end() ? chosen->second : "auto");
  }
  out.close();
  out.close();
}

void write_parallel(ResolvedText& out, const ParallelConfig& parallel) {
  out.map("parallel", parallel_keys(),
          {{"zero",
            [&] {
              out.open("zero");
              out.integer("stage", parallel.zero.stage);
              if (parallel.zero.stage > 0)
                out.text("by", kZeroByWords[static_cast<std::size_t>(parallel.zero.by)]);
              out.close();
            }},
           {"d2d_buffer", [&] {
              if (parallel.d2d_buffer > 0)
                out.line("d2d_buffer", std::to_string(parallel.d2d_buffer) + " B");
            }}});
}

void write_microbatch(ResolvedText& out, const TrainingConfig& training) {
  if (training.microbatches.empty()) return out.integer("microbatch", training.microbatch);
  std::string sizes;
  for (const std::int64_t size : training.microbatches)
    sizes += (sizes.empty() ? "[" : ", ") + std::to_string(size);
  out.line("microbatch", sizes + "]");
}

void write_training(ResolvedText& out, const TrainingConfig& training) {
  out.map("training", training_keys(),
          {{"microbatch", [&] { write_microbatch(out, training); }},
           {"flash_attention",
            [&] { out.flag("flash_attention", training.flash_attention == FlashAttention::kOn); }},
           {"lr", [&] { out.map("lr", learning_rate_keys()); }},
           {"betas",
            [&] {
              out.line("betas", "[" + number_text(training.betas[0]) + ", " +
                                    number_text(training.betas[1]) + "]");
            }},
           {"loss_scale", [&] { out.line("loss_scale", training.loss_scale); }}});
}

void write_partition(ResolvedText& out, const PartitionConfig& partition) {
  if (partition.method == "cuts") {
    std::string cuts;
    for (const std::int64_t cut : partition.cuts) {
      cuts += (cuts.empty() ? "" : ", ") + std::to_string(cut);
    }
    out.line("partition", "[" + cuts + "]");
    return;
  }
  out.line("partition", "{method: " + partition.method + ", ends: " + bool_text(partition.ends) +
                            ", uneven: " + bool_text(partition.uneven) + "}");
}

/// A line of a CSV each, as a list of texts.
std::string rows_text(const std::string& rows) {
  std::string text;
  std::istringstream lines(rows);
  for (std::string line; std::getline(lines, line);)
    text += (text.empty() ? "[" : ", ") + ("\"" + line + "\"");
  return text + "]";
}

void write_schedule(ResolvedText& out, const ScheduleConfig& schedule) {
  const bool parameters = !schedule.rows.empty() || schedule.microbatch_group != 0 ||
                          schedule.memory_limit != 0 || schedule.active_microbatches != 0 ||
                          schedule.mode != "dynamic" || schedule.post_validation;
  if (!parameters) return out.text("schedule", schedule.method);
  out.open("schedule");
  if (!schedule.file.empty()) {
    out.text("file", schedule.file);
  } else {
    out.text("method", schedule.method);
    if (schedule.microbatch_group != 0) out.integer("microbatch_group", schedule.microbatch_group);
    if (schedule.memory_limit != 0) out.integer("memory_limit", schedule.memory_limit);
    if (schedule.active_microbatches != 0)
      out.integer("active_microbatches", schedule.active_microbatches);
    if (schedule.mode != "dynamic") out.text("mode", schedule.mode);
  }
  if (schedule.post_validation) out.flag("post_validation", true);
  if (!schedule.rows.empty()) out.line("rows", rows_text(schedule.rows));
  out.close();
}

void write_recompute(ResolvedText& out, const RecomputeConfig& recompute) {
  using Method = RecomputeConfig::Method;
  const std::string_view method = kRecomputeWords[static_cast<std::size_t>(recompute.method)];
  const bool details = recompute.method == Method::kStageAware ||
                       recompute.method == Method::kGroup ||
                       recompute.unit != RecomputeConfig::Unit::kLayer;
  if (!details) return out.text("recompute", method);
  out.open("recompute");
  out.text("method", method);
  if (recompute.method != Method::kFull) out.text("strategy", strategy_of_group(recompute.group));
  if (recompute.method == Method::kStageAware)
    out.line("first", recompute.first ? number_text(*recompute.first) : "auto");
  out.text("unit", kRecomputeUnitWords[static_cast<std::size_t>(recompute.unit)]);
  out.close();
}

}  // namespace

std::string resolved_study_text(const Study& study) {
  ResolvedText out(study);
  out.map("model", model_keys());
  write_cluster(out, study.cluster, study.price);
  write_parallel(out, study.parallel);
  write_training(out, study.training);
  write_partition(out, study.partition);
  write_schedule(out, study.schedule);
  write_recompute(out, study.recompute);
  out.map("offload", offload_keys(), {{"horizon", [&] {
                                         if (study.offload.activations)
                                           out.integer("horizon", study.offload.horizon);
                                       }}});
  out.map("framework", framework_keys(), {{"version", [&] {
                                             if (!study.framework.version.empty())
                                               out.text("version", study.framework.version);
                                           }}});
  out.map("data", data_keys());
  out.map("checkpoint", checkpoint_keys());
  out.text("fidelity", study.fidelity);
  return out.take();
}

}  // namespace trainyard
