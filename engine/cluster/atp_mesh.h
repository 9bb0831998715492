// Which mesh of two axes tensor parallelism takes: ATP's choice by the hierarchical communication
// matrix (Cheng et al. 2023, arXiv:2301.08658, sections 3.3 to 3.5).
//
//   T = 2 L b s h (w / (d1 B2) + 2 / (d2 B1))                                            (Eq. 2)
//   B1' = min over the levels that the first axis crosses, / d2;  B2' = min over the second's (Eq.
//   3) B = d / (2 (d - 1)) B'                                                                 (Eq.
//   4)
//
// w: how many times h query, key and value and the MLP's first linear make together, 3 + 4 of GPT.
// A level counts with min(group, what goes from a unit to the others that one group of ranks has):
// between x (n - 1) of n units that are joined alike, else the sum of the point-to-point matrix, of
// the unit that has the least; two units that are not joined have the widest path by way of others.
// A term of an axis of one rank is 0.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/cluster/communication_matrix.h"
#include "engine/plan/plan.h"

namespace trainyard {

enum class AtpEquations : std::uint8_t {
  /// As printed. The division by d2 is left out where the matrix has one level: links of a device
  /// are its own there, as section 5.4 has it.
  kPaper,
  /// Backward has smaller all-reduces, 5 h of w + 2 h (those of what linears read); and a level's
  /// links are shared by as many groups as have ranks in one unit of it.
  kExact
};

/// Widths of a layer that T is made of.
struct AtpLayers {
  double qkv = 3, mlp = 4;  // outputs of the two column-first linears, in h
  double attended = 1;      // inputs of the row-first ones, in h
  double hidden_mlp = 4;
};

struct AtpMesh {
  int d1 = 1, d2 = 1;
  BytesPerSecond b1_links = 0, b2_links = 0;  // B1', B2'; 0: an axis of one rank, or measured
  BytesPerSecond b1 = 0, b2 = 0;              // of all-reduces; 0: an axis of one rank
  double relative = 0;  // T / (2 L b s h): seconds per element, where bandwidths are elements/s
  double gathers = 0;   // the same of the gathers around attention's core, which T leaves out
};

/// Every mesh of `ranks`, the one with the largest first axis first. `devices`: where the ranks
/// lie, in their order. Meshes of `measured` have its bandwidths; without a matrix they alone are
/// answered.
std::vector<AtpMesh> atp_meshes(const CommunicationMatrix& matrix,
                                const std::vector<std::int64_t>& devices,
                                const std::vector<MeasuredMesh>& measured, AtpEquations equations,
                                const AtpLayers& layers = {});

/// The one of the least T; of equal ones the first. `meshes` is not empty.
const AtpMesh& best_of(const std::vector<AtpMesh>& meshes);

}  // namespace trainyard
