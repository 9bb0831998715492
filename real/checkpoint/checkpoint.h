// Reading checkpoints, under whatever layout the reader has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "real/checkpoint/checkpoint_info.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

/// Path of the newest complete checkpoint in `folder`, by step; nullopt: there is none.
std::optional<std::string> latest_complete(const std::string& folder);

enum class Verify : std::uint8_t {
  kChecksums,  // reads every byte once: for one rank of a run
  kStructure   // headers and sizes only: for the others
};

struct CheckpointTensor {
  DType dtype = DType::kFp32;
  std::vector<std::int64_t> shape;
};

/// An open checkpoint: `folder`/step-00000100, or a copy of one under another name. Everything that
/// is wrong with it is found on opening: ConfigError with the file and the reason. Reading is safe
/// from many threads.
class Checkpoint {
 public:
  static Checkpoint open(const std::string& path, Verify verify);
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;
  ~Checkpoint();

  const std::string& path() const;
  const CheckpointInfo& info() const;
  const std::map<std::string, CheckpointTensor>& tensors() const;

  /// Fills `out` with the elements of `wanted`, in wanted.dtype, from whatever pieces hold them.
  /// ConfigError where the checkpoint has no such tensor, or one of another shape or kind of type.
  void read(const Piece& wanted, std::span<std::byte> out) const;

 private:
  struct Parts;
  explicit Checkpoint(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainyard
