#include "study/study_writer.h"

#include <sstream>
#include <string_view>

#include "engine/base/format.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/passes/tensor_methods.h"
#include "engine/recompute/checkpoint_groups.h"
#include "models/onnx/onnx_model.h"
#include "study/resolved_text.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// "tp0 tp1" as the items of a list.
std::string comma_separated(std::string words) {
  for (std::size_t at = 0; (at = words.find(' ', at)) != std::string::npos; at += 2)
    words.insert(at, ",");
  return words;
}

/// Patterns of names; no line where there are none.
void write_patterns(ResolvedText& out, const std::string& key,
                    const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  std::string list;
  for (const std::string& one : patterns) list += (list.empty() ? "[" : ", ") + yaml_text(one);
  out.line(key, list + "]");
}

/// The keys that say something of the family.
void write_model(ResolvedText& out, const ModelConfig& model) {
  ResolvedText::Rules left_out;
  const Family family = model.family;
  left_out.emplace_back("axes", [&] {
    if (family != Family::kOnnx) return;
    if (model.axes.empty()) return;
    out.open("axes");
    for (const auto& [name, size] : model.axes) out.integer(yaml_text(name), size);
    out.close();
  });
  if (!model.losses.empty()) {
    left_out.emplace_back("loss", [&] {
      out.open("loss");
      for (const auto& [output, loss] : model.losses) {
        out.open(output);
        out.text("kind", kImportedLossWords.begin()[static_cast<int>(loss.kind)]);
        out.number("weight", loss.weight);
        out.text("divisor", kLossDivisorWords.begin()[static_cast<int>(loss.divisor)]);
        out.close();
      }
      out.close();
    });
  }
  left_out.emplace_back("buffers", [&] {
    if (model.onnx != nullptr) write_patterns(out, "buffers", model.onnx->buffers);
  });
  for (const StudyKey& key : model_keys()) {
    if (!belongs_to(key, family) && key.name != "axes" && key.name != "buffers")
      left_out.emplace_back(key.name, [] {});
  }
  out.map("model", model_keys(), left_out);
}

/// A degree, or its axes.
void write_tensor(ResolvedText& out, const ParallelConfig& parallel) {
  if (parallel.tensor_axes.empty()) return out.integer("tensor", parallel.tensor);
  std::string axes;
  for (std::size_t i = 0; i < parallel.tensor_axes.size(); ++i)
    axes += format("%stp%zu: %d", i == 0 ? "{" : ", ", i, parallel.tensor_axes[i]);
  out.line("tensor", axes + "}");
}

/// `sharding:`, or a map like it.
void write_sharding(ResolvedText& out, const std::string& key,
                    const std::vector<GivenSharding>& sharding) {
  if (sharding.empty()) return;
  out.open(key);
  for (const GivenSharding& given : sharding) {
    out.open(given.modules);
    for (const auto& [name, spec] : given.specs) out.text(name, spec);
    if (!given.strategy.empty()) {
      std::string uses;
      for (const auto& [index, axes] : given.strategy)
        uses += (uses.empty() ? "" : ", ") + index + ": [" + comma_separated(axes) + "]";
      out.line("strategy", "{" + uses + "}");
    }
    out.close();
  }
  out.close();
}

/// A word, or with its settings: measured bandwidths have had their use when the mesh was chosen.
void write_tensor_method(ResolvedText& out, const ParallelConfig& parallel) {
  const bool optimizes = takes_key(tensor_method(parallel.tensor_method), "optimize");
  if (parallel.tensor_mesh.empty() && parallel.split_table.empty() && !optimizes)
    return out.text("tensor_method", parallel.tensor_method);
  out.open("tensor_method");
  out.text("name", parallel.tensor_method);
  if (!parallel.tensor_mesh.empty()) {
    std::string mesh;
    for (const int ranks : parallel.tensor_mesh)
      mesh += (mesh.empty() ? "[" : ", ") + std::to_string(ranks);
    out.line("mesh", mesh + "]");
  }
  if (!parallel.split_table.empty()) {
    out.open("table");
    for (const SplitRule& rule : parallel.split_table) {
      out.open(rule.modules);
      out.integer("dim", rule.dim);
      out.text("collective", kSplitCollectiveWords[rule.collective]);
      out.close();
    }
    out.close();
  }
  if (optimizes) {
    out.text("optimize", kOptimizeWords[parallel.smp.optimize]);
    out.flag("prescaled_batch", parallel.smp.prescaled_batch);
  }
  if (parallel.tensor_memory > 0)
    out.text("memory_budget", std::to_string(parallel.tensor_memory) + " B");
  write_sharding(out, "ops", parallel.tensor_ops);
  out.close();
}

void write_tensor_overlap(ResolvedText& out, const std::string& text) {
  const TensorOverlap overlap = parse_tensor_overlap(text);
  const std::string_view scope = kTensorOverlapWords[overlap.scope];
  if (overlap == TensorOverlap{overlap.scope}) return out.text("tensor_overlap", scope);
  out.open("tensor_overlap");
  out.text("scope", scope);
  out.integer("chunks", overlap.chunks);
  out.close();
}

void write_context(ResolvedText& out, const ContextConfig& context) {
  if (context.degree == 1) return out.integer("context", 1);
  out.open("context");
  out.integer("degree", context.degree);
  out.text("method", kContextMethodWords[context.method]);
  out.text("balance", kContextBalanceWords[context.balance]);
  out.close();
}

void write_parallel(ResolvedText& out, const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  out.map(
      "parallel", parallel_keys(),
      {{"tensor", [&] { write_tensor(out, parallel); }},
       {"data",
        [&] {
          if (study.partition.replicas.empty()) out.integer("data", parallel.data);
        }},
       {"tensor_method", [&] { write_tensor_method(out, parallel); }},
       {"tensor_modules", [&] { write_patterns(out, "tensor_modules", parallel.tensor_modules); }},
       {"tensor_overlap", [&] { write_tensor_overlap(out, parallel.tensor_overlap); }},
       {"context", [&] { write_context(out, parallel.context); }},
       {"zero", [&] { write_zero(out, parallel.zero); }},
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

void write_precision(ResolvedText& out, const TrainingConfig& training) {
  const Fp8Config& fp8 = training.fp8;
  if (!fp8.on()) return out.text("precision", to_string(training.precision));
  out.open("precision");
  out.text("type", to_string(DType::kFp8));
  out.text("recipe", kFp8RecipeWords[static_cast<std::size_t>(fp8.recipe) - 1]);
  out.text("gather", kFp8GatherWords[fp8.gathers ? 1 : 0]);
  out.close();
}

void write_training(ResolvedText& out, const TrainingConfig& training) {
  out.map("training", training_keys(),
          {{"microbatch", [&] { write_microbatch(out, training); }},
           {"precision", [&] { write_precision(out, training); }},
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

template <typename Numbers>
std::string list_text(const Numbers& numbers) {
  std::string text;
  for (const auto number : numbers) text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

/// From where modules lie the same stages follow.
void write_modules(ResolvedText& out, const PartitionConfig& partition) {
  std::string text =
      "{method: smp, routing: " + std::string(kRoutingWords[partition.routing]) + ", assign: {";
  for (const auto& [pattern, rank] : partition.assign) {
    if (text.back() != '{') text += ", ";
    text += yaml_text(pattern) + ": " + std::to_string(rank);
  }
  text += "}, default: " + std::to_string(partition.fallback);
  if (!partition.on.empty()) text += ", on: " + list_text(partition.on);
  out.line("partition", text + "}");
}

void write_partition(ResolvedText& out, const PartitionConfig& partition) {
  if (partition.method == "smp") return write_modules(out, partition);
  std::string more;
  if (!partition.replicas.empty()) more += ", replicas: " + list_text(partition.replicas);
  if (!partition.on.empty()) more += ", on: " + list_text(partition.on);
  if (partition.method != "cuts") {
    std::string details;
    if (partition.method == "uniform")
      details = ", ends: " + bool_text(partition.ends) + ", uneven: " + bool_text(partition.uneven);
    if (partition.method == "search") {
      details = ", budget: " + number_text(partition.budget) + " s";
    } else if (partition.method == "autopipe") {
      details = ", shards: " + std::string(kShardWords[partition.shards]);
      if (partition.bound > 0) details += ", bound: " + std::to_string(partition.bound);
    } else if (partition.chooses_cuts()) {
      details = ", between: " + std::string(kBetweenWords[partition.between]);
    }
    out.line("partition", "{method: " + partition.method + details + more + "}");
    return;
  }
  std::string cuts;
  for (const StageCut& cut : partition.cuts) {
    cuts += (cuts.empty() ? "[" : ", ") +
            (cut.at.empty() ? std::to_string(cut.layer) : yaml_text(cut.at));
  }
  cuts += cuts.empty() ? "[]" : "]";
  out.line("partition", more.empty() ? cuts : "{cuts: " + cuts + more + "}");
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

/// ["*.mlp", "layernorm"].
std::string list_text(const std::vector<std::string>& texts) {
  std::string text;
  for (const std::string& one : texts) text += (text.empty() ? "" : ", ") + in_quotes(one);
  return "[" + text + "]";
}

void write_recompute(ResolvedText& out, const RecomputeConfig& recompute) {
  using Method = RecomputeConfig::Method;
  const std::string_view method = kRecomputeWords[recompute.method];
  const bool details =
      recompute.method == Method::kStageAware || recompute.method == Method::kGroup ||
      recompute.unit != RecomputeConfig::Unit::kLayer || recompute.every > 1 || recompute.ends ||
      !recompute.modules.empty() || recompute.memory_budget > 0 || !recompute.sequences.empty();
  if (!details) return out.text("recompute", method);
  out.open("recompute");
  out.text("method", method);
  if (!recompute.modules.empty()) {
    out.line("modules", list_text(recompute.modules));
    return out.close();
  }
  if (recompute.method == Method::kRotor) {
    if (recompute.memory_budget > 0)
      out.text("memory_budget", std::to_string(recompute.memory_budget) + " B");
    std::string sequences;
    for (const std::string& one : recompute.sequences)
      sequences += (sequences.empty() ? "\"" : ", \"") + one + "\"";
    if (!sequences.empty()) out.line("sequences", "[" + sequences + "]");
    return out.close();
  }
  if (recompute.method != Method::kFull) out.text("strategy", strategy_of_group(recompute.group));
  if (recompute.method == Method::kStageAware)
    out.line("first", recompute.first ? number_text(*recompute.first) : "auto");
  out.text("unit", kRecomputeUnitWords[recompute.unit]);
  if (recompute.every > 1) out.integer("every", recompute.every);
  if (recompute.ends) out.flag("ends", true);
  out.close();
}

void write_framework(ResolvedText& out, const FrameworkConfig& framework) {
  out.map("framework", framework_keys(),
          {{"version",
            [&] {
              if (!framework.version.empty()) out.text("version", framework.version);
            }},
           {"like",
            [&] {
              if (!framework.like.empty()) out.text("like", framework.like);
            }},
           {"year", [] {}}});  // it has settled the version
}

ResolvedText resolved(const Study& study) {
  ResolvedText out(study);
  write_model(out, study.model);
  write_cluster(out, study);
  write_parallel(out, study);
  write_sharding(out, "sharding", study.sharding);
  write_training(out, study.training);
  write_partition(out, study.partition);
  write_schedule(out, study.schedule);
  write_recompute(out, study.recompute);
  out.map("offload", offload_keys(), {{"horizon", [&] {
                                         if (study.offload.activations)
                                           out.integer("horizon", study.offload.horizon);
                                       }}});
  write_framework(out, study.framework);
  write_data(out, study.data, study.documents);
  out.map("checkpoint", checkpoint_keys());
  out.text("fidelity", study.fidelity);
  return out;
}

}  // namespace

std::string resolved_study_text(const Study& study) { return resolved(study).take(); }

ResolvedValues resolved_values(const Study& study) { return resolved(study).take_values(); }

}  // namespace trainyard
