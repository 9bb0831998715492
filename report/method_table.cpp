#include "report/method_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "engine/base/format.h"
#include "engine/base/readable.h"
#include "engine/exec/op_work.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

std::string name_of(const MethodRow& row) {
  std::string name = row.method;
  if (!row.mesh.empty()) {
    std::string mesh;
    for (const int ranks : row.mesh) mesh += (mesh.empty() ? "" : ", ") + std::to_string(ranks);
    name += " [" + mesh + "]";
  }
  if (row.microbatch > 0) name += ", microbatch " + std::to_string(row.microbatch);
  return name;
}

double received_bytes(const Program& program, const ProgramOp& op) {
  if (!is_collective(op.kind) || op.group == kNoIndex) return 0;
  const auto ranks = static_cast<double>(group_size(program.mesh, program.groups[op.group].axes));
  double whole = 0;
  for (const Operand& operand : op.writes)
    whole += static_cast<double>(size_in_bytes(program.values[operand.value]));
  const double share = (ranks - 1) / ranks;
  switch (op.kind) {
    case OpKind::kAllReduce: return 2 * share * whole;
    case OpKind::kAllGather:
    case OpKind::kReduceScatter:
    case OpKind::kAllToAll: return share * static_cast<double>(message_bytes(program, op));
    default: return ranks > 1 ? whole : 0;
  }
}

/// The largest part of a rank's step.
std::pair<std::string, Seconds> largest_part(const TimeClasses& time) {
  std::pair<std::string, Seconds> most = {"compute", time.compute};
  const auto offer = [&](const std::string& name, Seconds seconds) {
    if (seconds > most.second) most = {name, seconds};
  };
  offer("optimizer", time.optimizer);
  offer("host", time.host);
  offer("bubble", time.bubble);
  for (const auto& [kind, seconds] : time.exposed) offer(kind, seconds);
  return most;
}

std::string bytes_words(const std::map<std::string, double>& bytes) {
  std::string text;
  for (const auto& [group, received] : bytes)
    text += (text.empty() ? "" : ", ") + group + " " + bytes_text(received);
  return text.empty() ? "none" : text;
}

Json row_json(const MethodRow& row) {
  Json out = {{"method", row.method},
              {"mesh", row.mesh.empty() ? Json(nullptr) : Json(row.mesh)},
              {"microbatch", row.microbatch == 0 ? Json(nullptr) : Json(row.microbatch)},
              {"refused", row.refused.empty() ? Json(nullptr) : Json(row.refused)}};
  if (!row.refused.empty()) return out;
  out["iteration_time_s"] = row.iteration_time;
  out["tflops_per_gpu"] = row.tflops_per_gpu;
  out["peak_memory_bytes"] = row.peak_memory;
  out["fits"] = row.fits;
  out["exposed_communication_fraction"] = row.exposed_communication;
  out["bytes"] = Json::object();
  for (const auto& [group, received] : row.bytes) out["bytes"][group] = received;
  out["bound_by"] = row.bound_by;
  out["bound_share"] = row.bound_share;
  out["link"] = nullptr;
  if (row.link)
    out["link"] = {{"name", row.link->name},
                   {"busy_fraction", row.link->busy_fraction},
                   {"bytes", row.link->bytes}};
  out["program_digest"] = row.digest;
  return out;
}

}  // namespace

std::map<std::string, double> collective_bytes(const Program& program) {
  Indexed<SegmentId, std::map<std::string, double>> of_segments;
  for (const Segment& segment : program.segments) {
    auto& own = of_segments[of_segments.add({})];
    for (const ProgramOp& op : segment.ops) {
      const double received = received_bytes(program, op);
      if (received > 0) own[program.groups[op.group].name] += received;
    }
  }
  std::map<std::string, double> most;
  for (const RankClass& ranks : program.body) {
    std::map<std::string, double> all;
    const auto add = [&](SegmentId segment) {
      for (const auto& [group, received] : of_segments[segment]) all[group] += received;
    };
    for (const Call& call : ranks.calls) {
      add(call.segment);
      for (const auto& [before, segment] : call.inside) add(segment);
    }
    for (const auto& [group, received] : all) most[group] = std::max(most[group], received);
  }
  return most;
}

MethodRow method_row(const std::string& method, const std::vector<int>& mesh,
                     const Summary& summary, const Program& program) {
  MethodRow row;
  row.method = method;
  row.mesh = mesh;
  row.iteration_time = summary.iteration_time;
  row.tflops_per_gpu = summary.tflops_per_gpu;
  for (const MemoryPeak& peak : summary.peak_memory)
    row.peak_memory = std::max(row.peak_memory, peak.total);
  row.fits = summary.fits;
  row.exposed_communication = summary.exposed_communication_fraction;
  row.bytes = collective_bytes(program);
  const auto [name, seconds] = largest_part(summary.time);
  row.bound_by = name;
  row.bound_share = summary.iteration_time > 0 ? seconds / summary.iteration_time : 0;
  if (!summary.links.empty()) row.link = summary.links.front();
  row.digest = summary.program_digest;
  return row;
}

std::string method_table_text(const std::vector<MethodRow>& rows) {
  std::vector<const MethodRow*> timed;
  for (const MethodRow& row : rows) {
    if (row.refused.empty()) timed.push_back(&row);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const MethodRow* a, const MethodRow* b) {
    return a->iteration_time < b->iteration_time;
  });
  int width = 16;
  for (const MethodRow* row : timed)
    width = std::max(width, static_cast<int>(name_of(*row).size()));
  std::string text;
  if (!timed.empty())
    text += format("  %-*s %12s %14s %12s %8s  %s\n", width, "method", "step", "of the model",
                   "memory", "exposed", "most of a rank's time");
  for (const MethodRow* row : timed) {
    text +=
        format("  %-*s %12s %14s %12s %6.1f %%  %s %.1f %%%s\n", width, name_of(*row).c_str(),
               duration_text(row->iteration_time).c_str(),
               flop_rate_text(row->tflops_per_gpu * 1e12).c_str(),
               bytes_text(row->peak_memory).c_str(), row->exposed_communication * 100,
               row->bound_by.c_str(), row->bound_share * 100, row->fits ? "" : "; does not fit");
  }
  if (!timed.empty()) text += "\n  bytes that a rank receives in a step, and the busiest link\n";
  for (const MethodRow* row : timed) {
    text += format("  %-*s %s", width, name_of(*row).c_str(), bytes_words(row->bytes).c_str());
    if (row->link)
      text += format("; %s busy %.1f %%", row->link->name.c_str(), row->link->busy_fraction * 100);
    text += "\n";
  }
  for (const MethodRow& row : rows) {
    if (!row.refused.empty()) text += "\n  " + name_of(row) + ": " + row.refused + "\n";
  }
  return text;
}

std::string method_table_json(const std::string& study, const std::vector<MethodRow>& rows) {
  Json out = {{"study", study}, {"methods", Json::array()}};
  for (const MethodRow& row : rows) out["methods"].push_back(row_json(row));
  return out.dump(2) + "\n";
}

}  // namespace trainyard
