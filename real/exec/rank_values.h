// The tensors of a rank: which storage a value of the Program has at this moment, as far as the
// host has issued the step, and where aliases lie in it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "real/exec/device.h"
#include "real/exec/drive_files.h"
#include "real/kernels/kernel.h"
#include "real/parameters/rank_coordinates.h"
#include "real/torch.h"

namespace trainyard {

/// Extents of a value, as LibTorch takes them.
std::vector<std::int64_t> shape_of(const Value& value);

class RankValues {
 public:
  /// `drives`: the folder of files for what lies on NVMe; empty: temporary ones.
  RankValues(const Program& program, const Coordinate& at, Device& device, std::string drives = {});

  /// Allocates the pools that any of `written`, what the rank's list writes, is given a slot of; a
  /// slot is as large as the largest of them. Not within a step: what a slot lies in may have been
  /// freed by an op that the slot's first user does not wait for.
  void make_pools(const std::vector<ValueId>& written);
  /// The tensor of a value that has been written; `mb` where it is of a microbatch.
  at::Tensor& tensor(ValueId value, Microbatch mb);
  /// The storage that `value` is about to be written into, undefined where the kernel brings its
  /// own: slots of pools, aliases and what other streams than main write have theirs.
  at::Tensor prepare(ValueId value, Microbatch mb);
  void adopt(ValueId value, Microbatch mb, at::Tensor tensor);
  /// Gives back the storage of the value and of all that lie in it.
  void free(ValueId value, Microbatch mb);

  /// How storage of the value is allocated: on the device, or in the host's memory, pinned where
  /// the device is another, so that copies run beside the host.
  at::TensorOptions options_of(const Value& value) const {
    const at::TensorOptions type(to_torch(value.dtype));
    return value.space == Space::kHost ? type.pinned_memory(!on_cpu()) : type.device(where());
  }

  /// A persistent value at the start, as one dim: zeros where it lies.
  at::Tensor zeros(ValueId value);

  ValueId root(ValueId value) const { return roots_[value]; }
  /// Bytes of live values, as the Program counts them: storage roots, and pools whole. Of a GPU
  /// those in its own memory; of a CPU all that is not in files.
  std::int64_t live_bytes() const { return live_bytes_; }

 private:
  struct Instance {
    at::Tensor tensor;
    int slot = -1;
  };
  Instance& instance(ValueId value, Microbatch mb);
  at::TensorOptions options(at::ScalarType type) const {
    return at::TensorOptions(type).device(where());
  }
  /// Whether live_bytes() counts it.
  bool is_counted(Space space) const {
    return space == Space::kDevice || (space == Space::kHost && on_cpu());
  }
  at::Device where() const { return device_.where(); }
  bool on_cpu() const { return where().is_cpu(); }
  at::TensorOptions host_options(at::ScalarType type) const {
    return at::TensorOptions(type).pinned_memory(!on_cpu());
  }
  at::Tensor allocate(ValueId value, Microbatch mb);
  at::Tensor view_of(ValueId value, Microbatch mb);

  struct PoolStorage {
    Numbered<at::Tensor> slots;
    at::Tensor rest;       // of a persistent buffer: what its slots leave
    std::deque<int> free;  // in the order in which they were given back
  };

  const Program& program_;
  Coordinate at_;
  Device& device_;
  std::string drive_folder_;
  std::unique_ptr<DriveFiles> drives_;  // made with the first value that lies there
  Indexed<ValueId, ValueId> roots_;
  Indexed<ValueId, bool> beside_main_;  // of roots: another stream than main may write first
  Indexed<ValueId, std::vector<ValueId>> lies_in_;  // of roots: values whose storage it is
  Indexed<ValueId, Numbered<Instance>> instances_;  // [microbatch], or one
  Indexed<PoolId, PoolStorage> pools_;
  std::int64_t live_bytes_ = 0;
};

}  // namespace trainyard
