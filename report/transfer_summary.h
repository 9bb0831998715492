// Which ways pipeline transfers take with `parallel.d2d_buffer`, and why: what `compile` and
// `simulate` say of them.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "study/study.h"

namespace trainyard {

struct TransferSummary {
  /// What one pipeline rank sends another in a step: each rank of it to the one in its place.
  struct Boundary {
    std::int32_t from = 0, to = 0;
    std::int64_t direct = 0, by_host = 0;  // tensors
    std::string reason;                    // of those host-staged; empty: there are none
  };
  /// A persistent buffer of each rank at a pipeline coordinate.
  struct Buffer {
    std::int32_t rank = 0;
    bool receives = true;  // else it is sent from
    Bytes bytes = 0, slot_bytes = 0;
    std::int64_t slots = 0;  // that fit
    int used = 0;            // most at once, in issue order
  };
  std::vector<Boundary> boundaries;
  std::vector<Buffer> buffers;
};

/// nullopt: the study has no buffer for transfers, or no use for one.
std::optional<TransferSummary> summarise_transfers(const Program& program, const Study& study);

/// Lines of the terminal, indented by two spaces.
std::string transfers_text(const TransferSummary& transfers);
nlohmann::ordered_json transfers_json(const TransferSummary& transfers);

}  // namespace trainyard
