// One study under several methods of tensor parallelism, side by side: what `simulate
// --compare-tensor-methods` answers. docs/contract.md, section 3.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/units.h"
#include "engine/exec/trace.h"
#include "engine/program/program.h"
#include "report/summary.h"

namespace trainyard {

struct MethodRow {
  std::string method;           // "megatron", "atp"
  std::vector<int> mesh;        // of atp, and of methods made for meshes
  std::int64_t microbatch = 0;  // 0: the study's
  std::string refused;          // why there is no Program; else empty, and what follows holds
  Seconds iteration_time = 0;   // of a step
  double tflops_per_gpu = 0;    // of the model
  Bytes peak_memory = 0;        // of the pipeline rank with the most
  bool fits = true;
  double exposed_communication = 0;     // share of the step
  std::map<std::string, double> bytes;  // by group, as collective_bytes()
  std::string bound_by;                 // the largest part of a rank's time: "all_reduce:tp1"
  double bound_share = 0;               // of the step
  std::optional<LinkLoad> link;         // the busiest; none: the executor has no network
  std::string digest;                   // of the Program
};

/// Bytes that a rank receives in a step, by the group of the collective ("tp", "tp1"): of n ranks
/// (n - 1) / n of what is gathered, scattered or exchanged, twice that of what is all-reduced. Of
/// unlike pipeline ranks the most.
std::map<std::string, double> collective_bytes(const Program& program);

MethodRow method_row(const std::string& method, const std::vector<int>& mesh,
                     const Summary& summary, const Program& program);

/// A line per method, the fastest first; then the refused ones with their reasons.
std::string method_table_text(const std::vector<MethodRow>& rows);
/// {study, methods: [...]}, in the order of the rows.
std::string method_table_json(const std::string& study, const std::vector<MethodRow>& rows);

}  // namespace trainyard
