#include "study/study_writer.h"

#include <sstream>
#include <string_view>
#include <vector>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/cluster/peer_access.h"
#include "engine/recompute/checkpoint_groups.h"
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

  std::string take() { return std::move(text_); }

 private:
  void indent() { text_ += std::string(2 * path_.size(), ' '); }

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

void write_model(ResolvedText& out, const ModelConfig& model) {
  out.open("model");
  out.text("name", model.name);
  out.text("family", to_string(model.family));
  out.integer("layers", model.layers);
  out.integer("decoder_layers", model.decoder_layers);
  out.integer("hidden", model.hidden);
  out.integer("heads", model.heads);
  out.integer("kv_heads", model.kv_heads);
  out.integer("head_dim", model.head_dim);
  out.integer("ffn", model.ffn);
  out.integer("vocab", model.vocab);
  out.integer("pad_vocab_to", model.pad_vocab_to);
  out.integer("seq_len", model.seq_len);
  out.integer("decoder_seq_len", model.decoder_seq_len);
  out.integer("max_positions", model.max_positions);
  out.integer("token_types", model.token_types);
  out.integer("relative_buckets", model.relative_buckets);
  out.text("activation", to_string(model.activation));
  out.flag("tied_embeddings", model.tied_embeddings);
  out.flag("linear_bias", model.linear_bias);
  out.flag("qkv_bias", model.qkv_bias);
  out.flag("next_sentence", model.next_sentence);
  out.number("norm_eps", model.norm_eps);
  out.number("rope_base", model.rope_base);
  out.flag("scaled_attention", model.scaled_attention);
  out.flag("layer_scaled_attention", model.layer_scaled_attention);
  out.integer("attention_window", model.attention_window);
  out.close();
}

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

/// Of one curve: those of a link may come from different places.
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

void write_cluster(ResolvedText& out, const Cluster& cluster) {
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
  out.open("parallel");
  out.integer("tensor", parallel.tensor);
  out.integer("pipeline", parallel.pipeline);
  out.integer("data", parallel.data);
  out.integer("virtual_stages", parallel.virtual_stages);
  out.integer("context", parallel.context);
  out.integer("expert", parallel.expert);
  out.flag("sequence_parallel", parallel.sequence_parallel);
  out.open("zero");
  out.integer("stage", parallel.zero.stage);
  if (parallel.zero.stage > 0)
    out.text("by", kZeroByWords[static_cast<std::size_t>(parallel.zero.by)]);
  out.close();
  out.text("placement", parallel.placement);
  out.flag("scatter_gather", parallel.scatter_gather);
  out.text("tensor_method", parallel.tensor_method);
  out.text("tensor_overlap", parallel.tensor_overlap);
  if (parallel.d2d_buffer > 0) out.line("d2d_buffer", std::to_string(parallel.d2d_buffer) + " B");
  out.close();
}

void write_microbatch(ResolvedText& out, const TrainingConfig& training) {
  if (training.microbatches.empty()) return out.integer("microbatch", training.microbatch);
  std::string sizes;
  for (const std::int64_t size : training.microbatches)
    sizes += (sizes.empty() ? "[" : ", ") + std::to_string(size);
  out.line("microbatch", sizes + "]");
}

void write_training(ResolvedText& out, const TrainingConfig& training) {
  out.open("training");
  out.integer("global_batch", training.global_batch);
  write_microbatch(out, training);
  out.text("precision", to_string(training.precision));
  out.text("optimizer", kOptimizerWords[static_cast<std::size_t>(training.optimizer)]);
  out.flag("flash_attention", training.flash_attention == FlashAttention::kOn);
  out.text("grad_dtype", to_string(training.grad_dtype));
  out.number("clip_norm", training.clip_norm);
  out.integer("bucket_elements", training.bucket_elements);
  out.number("dropout", training.dropout);
  out.text("kernels", kKernelWords[static_cast<std::size_t>(training.kernels)]);
  out.integer("steps", training.steps);
  out.open("lr");
  out.number("peak", training.lr.peak);
  out.text("schedule", training.lr.schedule);
  out.integer("warmup", training.lr.warmup);
  out.close();
  out.line("betas",
           "[" + number_text(training.betas[0]) + ", " + number_text(training.betas[1]) + "]");
  out.number("eps", training.eps);
  out.number("weight_decay", training.weight_decay);
  out.integer("seed", training.seed);
  out.line("loss_scale", training.loss_scale);
  out.number("timeout_s", training.timeout_s);
  out.flag("cpu_offload", training.cpu_offload);
  out.flag("compiled", training.compiled);
  out.flag("async_tp", training.async_tp);
  out.close();
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
  write_model(out, study.model);
  write_cluster(out, study.cluster);
  write_parallel(out, study.parallel);
  write_training(out, study.training);
  write_partition(out, study.partition);
  write_schedule(out, study.schedule);
  write_recompute(out, study.recompute);
  out.open("offload");
  out.flag("activations", study.offload.activations);
  if (study.offload.activations) out.integer("horizon", study.offload.horizon);
  out.close();
  out.open("framework");
  out.text("name", study.framework.name);
  if (!study.framework.version.empty()) {
    out.text("version", study.framework.version);
  }
  out.close();
  out.open("data");
  out.text("path", study.data.path);
  out.text("format", study.data.format);
  out.flag("shuffle", study.data.shuffle);
  out.close();
  out.open("checkpoint");
  out.integer("every", study.checkpoint.every);
  out.integer("keep", study.checkpoint.keep);
  out.close();
  out.text("fidelity", study.fidelity);
  return out.take();
}

}  // namespace trainyard
