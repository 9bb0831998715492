// `recompute: {method: stage-aware, first: auto}`: the largest share that the devices have memory
// for.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/base/units.h"

namespace trainyard {

/// What a plan whose stage 0 keeps a certain share needs.
struct EvaluatedShare {
  Numbered<int> units;   // layers, or sublayers, of each stage: PassLog's
  std::size_t rank = 0;  // pipeline rank with the largest peak
  Bytes peak = 0;
};

/// For a share of stage 0; nullopt: the plan has no Program.
using EvaluateShare = std::function<std::optional<EvaluatedShare>(double first)>;

struct ShareChoice {
  double first = 0;
  std::string reason;  // "auto: the largest share that fits, ..."
};

/// The largest share with which every rank's peak is within `capacity`, of those behind which a
/// stage keeps one layer (or sublayer) more. Peaks do not fall as the share rises (a layer that is
/// kept takes its activations for every microbatch in flight, one that is recomputed for fewer), so
/// the largest is found by bisection. 0 where not even that fits, or where there is no Program.
ShareChoice search_recompute(const EvaluateShare& evaluate, Bytes capacity,
                             bool shifted_critical_path);

}  // namespace trainyard
