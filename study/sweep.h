// The `sweep:` block of a study: keys with the values that each takes in turn.
//
//   sweep:
//     parallel.tensor: [1, 2, 4, 8]                        # a list of any values, maps too
//     cluster.nodes: {from: 16, to: 128, times: 2}         # 16, 32, 64, 128
//     training.dropout: {from: 0, to: 0.3, step: 0.1}      # 0, 0.1, 0.2, 0.3
//     together:                                            # these go in step: one axis of two
//     points
//       - {parallel.pipeline: [8, 16], training.microbatch: [2, 1]}
//
// A point takes one value of every axis. Points count as nested loops over the axes as they are
// written, the last one innermost.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "study/yaml_reader.h"

namespace trainyard {

inline constexpr std::int64_t kMaxSweepPoints = 1'000'000;

struct SweepKey {
  std::string path;  // "parallel.tensor"
  SourcePos pos;     // of the key, not of its values
  std::vector<YamlNode> values;
};

/// Keys that take their i-th values together; most axes have one.
struct SweepAxis {
  std::vector<SweepKey> keys;  // not empty; all with equally many values
  std::int64_t size() const { return static_cast<std::int64_t>(keys.front().values.size()); }
};

struct Sweep {
  std::vector<SweepAxis> axes;  // at least one

  std::int64_t num_points() const;
  std::vector<const SweepKey*> keys() const;  // of all axes, as written
  /// The value that each of keys() has in `point`, < num_points().
  std::vector<const YamlNode*> values(std::int64_t point) const;
};

/// Reads the value of the study's key `sweep`. Which keys a study has is not known here: the reader
/// of the study refuses the others, at the place that is recorded for them.
Sweep read_sweep(const YamlNode& block);

/// Takes out the keys that an option --set `path=value` replaces; answers which they were. An axis
/// without keys goes.
std::vector<std::string> drop_replaced(Sweep& sweep, const std::string& assignment);

/// `study` with the values of `point` put in.
void put_point(const Sweep& sweep, std::int64_t point, YamlNode& study);

}  // namespace trainyard
