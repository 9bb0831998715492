// `partition: search-pipeline`: how many stages a model has, where they begin, the replicas of
// each, microbatches and recomputation with which a step takes least.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/units.h"

namespace trainyard {

enum class ShapeRecompute : std::uint8_t {
  kAsSaid,  // by the study
  kNone,
  kStageAware,  // fewer layers on later stages, as memory allows
  kFull         // each stage from its inputs
};

struct PipelineShape {
  std::vector<std::int64_t> begins;  // the piece that each stage but the first begins with
  std::vector<int> replicas;         // [stage]
  std::int64_t microbatches = 1;
  ShapeRecompute recompute = ShapeRecompute::kNone;
  friend std::strong_ordering operator<=>(const PipelineShape&, const PipelineShape&) = default;
};

/// What no step of a shape takes less than; 0: none is known.
using BoundShape = std::function<Seconds(const PipelineShape&)>;

/// What may be chosen; what is given stays as starts have it.
struct ShapeSpace {
  std::int64_t pieces = 1;  // of the model, which no cut divides
  int devices = 1;          // replicas of all stages
  std::int64_t batch = 1;   // sequences of a step
  bool stages = true, replicas = true, microbatches = true;
  std::vector<ShapeRecompute> recompute;
  std::vector<PipelineShape> starts;
  BoundShape bound = [](const PipelineShape&) { return 0; };
  std::vector<Seconds> work;  // [piece] of a sample, by which devices and cuts move together;
                              // empty: each by itself
  int budget = 600;           // evaluations, those of the starts among them
};

/// A step's seconds; nullopt: there is no Program, or it does not fit.
using EvaluateShape = std::function<std::optional<Seconds>(const PipelineShape&)>;

struct SearchedShape {
  PipelineShape shape;
  Seconds step = 0;
  int evaluations = 0;
  int ruled_out = 0;       // shapes of which the bound said enough
  bool all_tried = false;  // every shape whose microbatches are a power of 2, and the starts
  bool spent = false;
  std::vector<std::optional<Seconds>> starts;  // [start] its step, if it was evaluated
  /// The fastest with each choice of replicas, microbatches and recomputation, the fastest first.
  std::vector<std::pair<Seconds, PipelineShape>> best_of_degrees;
};

/// The shape of the shortest step. All there are where the budget has room for them; else from each
/// start in turn, the fastest first, moves as long as they help: cuts by ever smaller steps, a
/// device or half of a stage's from one stage to another, by themselves and with cuts that give
/// each stage work by its devices, stages merged and split, twice and half as many microbatches,
/// other recomputation. Never slower than a start; deterministic. Infeasible: nothing that was
/// tried has a step.
std::variant<SearchedShape, Infeasible> search_shapes(const ShapeSpace& space,
                                                      const EvaluateShape& evaluate);

}  // namespace trainyard
