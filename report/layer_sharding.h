// How one layer is split over its ranks: what `compile` says of every tensor of its forward, which
// collectives move them, how many bytes, and what for.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace trainyard {

struct LayerSharding {
  /// A tensor that an op of the layer makes, or a parameter that it reads.
  struct Row {
    std::string op;      // "linear"; of a parameter "parameter"
    std::string tensor;  // without the path that the layer's modules have in common
    std::string spec;    // spec_text.h
    Bytes bytes = 0;     // of a rank: of a microbatch's tensor, or of the parameter
    std::string group;   // of a collective
    std::string why;     // of a collective, and of what enters a tensor
  };
  /// What rows are moved over.
  struct Group {
    std::string name;
    std::int64_t ranks = 0;
    std::string link;         // that all such groups at once, a ring each, load most
    BytesPerSecond each = 0;  // what it then carries for each ring, one direction, nominal
  };
  struct Axis {
    std::string name;
    std::int64_t ranks = 0;
  };
  std::int32_t layer = 0;
  std::string path;  // "decoder.layers.0."
  std::vector<Row> rows;
  std::vector<Axis> mesh;     // along which a layer's ranks differ: not its stages
  std::vector<Group> groups;  // layer_links.h; empty: not asked for
};

/// `model` says which modules are the layer's. Rows of the first layer whose forward is in the
/// Program, in the order of its ops.
LayerSharding layer_sharding(const Program& program, const Graph& model);

/// A title, and a line per row, indented by two spaces.
std::string layer_sharding_text(const LayerSharding& layer);
nlohmann::ordered_json layer_sharding_json(const LayerSharding& layer);

}  // namespace trainyard
