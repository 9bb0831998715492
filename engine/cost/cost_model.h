// Seconds of kernels, from a hardware profile and a software profile; collective_time.h has those
// of communication. Pure arithmetic over plain data; every figure used is noted in a SourceLog, so
// that an answer can say what it rests on.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/cluster/cluster.h"
#include "engine/cost/hardware_profile.h"
#include "engine/cost/software_profile.h"
#include "engine/graph/kernel_work.h"

namespace trainyard {

/// A profile entry that a result rests on.
struct SourceEntry {
  std::string name;      // "a100-sxm-80g.matmul"
  std::string kind;      // measured | fitted | datasheet | derived
  std::string used_for;  // "linear layers"
  std::string note;
  bool extrapolated = false;  // used outside of what was measured
};

/// The profile entries used so far. An entry is known by its address, so that noting it again costs
/// a few compares; profiles and clusters must outlive the log.
class SourceLog {
 public:
  /// The entry called `owner`.`entry`.
  void use(const Provenance& provenance, std::string_view owner, std::string_view entry,
           std::string_view used_for);
  /// The same for a curve without a provenance of its own: its class of links has one.
  void use(const LinkClass& link, const LinkCurve& curve, std::string_view entry,
           std::string_view used_for);

  /// What another log has had, for results that are used again.
  void use(const std::vector<SourceEntry>& entries);

  /// What was used of this entry lies outside of what was measured. After use().
  void extrapolate(const Provenance& provenance);

  std::vector<SourceEntry> entries() const;  // in the order of their names, each once

 private:
  struct Use {
    const void* id;  // null: of another log
    SourceEntry entry;
  };
  bool knows(const void* id) const;
  std::vector<Use> uses_;
};

/// Notes the number of that name, where the profile says where it comes from.
void use_number(std::string_view name, std::string_view used_for, const SoftwareProfile& software,
                SourceLog& log);

/// Seconds of one kernel on a device of this profile at `speed`, a factor on its compute rate (its
/// memory keeps its bandwidth). A kernel whose form was measured on the device takes what its curve
/// says, whatever lies outside of the measured range noted in the log; for the others the forms are
/// beside the curves in hardware_profile.h; a GEMM in fp32 runs at the fp32 rate, not tf32's.
Seconds kernel_time(const KernelWork& work, const HardwareProfile& hardware,
                    const SoftwareProfile& software, double speed, SourceLog& log);

/// The profile entry that decides a kernel's time, and how uncertain that leaves it.
struct KernelUncertainty {
  std::string entry;    // "my.kernels.linear fp32 fp32 -> fp32", "my.matmul"
  double interval = 0;  // half of the time's 90 % interval, over it, the common part of all kernels
                        // out; 0: not said
};
KernelUncertainty kernel_uncertainty(const KernelWork& work, const HardwareProfile& hardware,
                                     const SoftwareProfile& software);

/// Seconds that a backward op takes longer because the framework copies or casts the `elements`
/// gradients that it has just accumulated: SoftwareProfile::gradient_traffic bytes each, streamed.
Seconds gradient_copy_time(std::int64_t elements, const HardwareProfile& hardware,
                           const SoftwareProfile& software, SourceLog& log);

/// Seconds in which the host updates `parameters` of one of `ranks` ranks of its node, which share
/// its cores evenly: parameters / (HostMemory::update_rate / ranks). The rate is above 0.
Seconds host_update_time(std::int64_t parameters, std::int64_t ranks, const Cluster& cluster,
                         SourceLog& log);

/// Seconds per byte of the kernel that adds up the pieces of a reduce-scatter that came from all
/// ranks one by one, beside the products that made them: SoftwareProfile::runs_async_tensor;
/// else 0 (torch/distributed/_symmetric_memory, _fused_matmul_reduce_scatter).
double piece_sum_rate(const HardwareProfile& hardware, const SoftwareProfile& software,
                      SourceLog& log);

}  // namespace trainyard
