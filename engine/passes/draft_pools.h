// Pools of slots of a Program being made. Microbatches of all sizes share them; slots are as large
// as the largest needs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "engine/program/program.h"

namespace trainyard {

class DraftPools {
 public:
  /// `shared`: microbatches of another size may have made some.
  DraftPools(Program& program, bool shared) : program_(program), shared_(shared) {}

  PoolId named(const std::string& name, Space space);
  /// What a stage copies to its host: tensors of one size share a pool.
  PoolId host(std::int32_t stage, Bytes bytes);

 private:
  Program& program_;
  bool shared_;
  std::map<std::pair<std::int32_t, Bytes>, PoolId> host_;  // by stage and size
};

}  // namespace trainyard
