#include "study/compile_study.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/readable.h"
#include "engine/memory/memory.h"
#include "engine/program/rank_places.h"
#include "study/study_origin.h"

namespace trainyard {

namespace {

/// Messages between hosts of one node take as long as its memory makes them.
void require_host_memory(const Study& study, const Program& program) {
  if (study.cluster.host.memory > 0) return;
  const PipelineLinks links = pipeline_links(study.cluster, study);
  const auto pair = by_host_in_node(program, links);
  if (!pair) return;
  const bool full = links.between(pair->first, pair->second).obstacle.empty();
  fail_at(study, "parallel.d2d_buffer",
          "pipeline ranks " + std::to_string(pair->first) + " and " + std::to_string(pair->second) +
              " send by the host within a node" +
              std::string(full ? " where the buffer is full" : "") +
              ", whose memory bandwidth is not said; write cluster.host: {memory: 100 GB/s}, of "
              "one socket" +
              std::string(full ? ", or a larger buffer" : ""));
}

/// What is offloaded on the ranks of one node lies in that node's memory, and on its drives.
std::optional<Infeasible> host_obstacle(const Study& study, const Program& program) {
  const Cluster& cluster = study.cluster;
  const Bytes host = cluster.host.capacity, nvme = cluster.nvme.capacity * cluster.nvme.drives;
  const ZeroConfig& zero = study.parallel.zero;
  const bool offloads =
      study.offload.activations || zero.offloads_state() || zero.offloads_parameters();
  if ((host == 0 && nvme == 0) || !offloads) return std::nullopt;
  const std::vector<MemoryPeak> peaks = memory_peaks(program, {});
  const auto most_of = [&](Bytes MemoryPeak::*there) {
    Numbered<Bytes> needed(cluster.num_nodes, 0);
    for (std::int64_t rank = 0; rank < program.mesh.num_ranks(); ++rank)
      needed[rank / cluster.devices_per_node] += peaks[list_of(program, rank)].*there;
    return *std::max_element(needed.begin(), needed.end());
  };
  const Bytes in_memory = most_of(&MemoryPeak::host);
  if (host > 0 && in_memory > host) {
    return Infeasible{"what is offloaded needs " + bytes_text(in_memory) +
                          " of a node's memory, which has " + bytes_text(host),
                      "cluster.host.capacity"};
  }
  const Bytes on_drives = most_of(&MemoryPeak::nvme);
  if (nvme == 0 || on_drives <= nvme) return std::nullopt;
  return Infeasible{"what is offloaded needs " + bytes_text(on_drives) + " of a node's " +
                        std::to_string(cluster.nvme.drives) + " drives, which have " +
                        bytes_text(nvme) + " together",
                    "cluster.nvme.capacity"};
}

}  // namespace

ProgramInputs program_inputs(const Study& study) {
  return {study, pipeline_links(study.cluster, study)};
}

std::variant<const Program*, Infeasible> compile(Compiler& compiler, const Graph& model,
                                                 const Study& study,
                                                 const SoftwareProfile& software, PassLog& log,
                                                 const CompileOptions& options) {
  auto compiled = compiler.compile(model, program_inputs(study), software, log, options);
  if (const auto* program = std::get_if<const Program*>(&compiled)) {
    require_host_memory(study, **program);
    if (auto obstacle = host_obstacle(study, **program)) return *std::move(obstacle);
  }
  return compiled;
}

std::variant<Program, Infeasible> compile(const Graph& model, const Study& study,
                                          const SoftwareProfile& software, PassLog& log,
                                          const CompileOptions& options) {
  Compiler compiler;
  auto compiled = compile(compiler, model, study, software, log, options);
  if (auto* reason = std::get_if<Infeasible>(&compiled)) return std::move(*reason);
  return compiler.take();
}

PlanError plan_error(const Study& study, const Infeasible& infeasible) {
  const std::string problem = "the plan cannot run: " + infeasible.reason;
  const ConfigError placed = infeasible.key.empty()
                                 ? ConfigError(SourcePos{study.file}, "", problem)
                                 : error_at(study, infeasible.key, problem);
  return PlanError(placed.what(), placed.where());
}

}  // namespace trainyard
