// Planner: tensor parallelism in three dimensions, as a sharding (Bian et al. 2021,
// arXiv:2105.14450), on a mesh [p, p, p] of axes x, y, z.
//
//   activations  samples over x and y, features over z: 1 / p^3 each
//   weights      used with outputs over y and inputs over z; stored with the inputs over x, too
//   a product    what it reads is gathered along y, its weight along x, and its summands are
//                reduce-scattered along z: samples are then over x and z, features over y, so that
//                the next product does the same with y and z in each other's place. Backward
//                gathers and reduce-scatters the other way round
//   a table      is a product of words over y: gathered along x, reduce-scattered along y
//   attention    heads over y, samples over x and z: nothing moves
//   norms        moments of rows are added up along the axis of features
//
// Biases, norms and relative biases are alike along the axes that do not cut them, and their
// gradients are added up once per step.
#pragma once

#include "engine/passes/mesh_forms.h"

namespace trainyard {

/// Infeasible, at parallel.tensor, where a dimension does not divide.
std::variant<PlannedGraph, Infeasible> plan_cube(Graph graph, const MeshMethodPlan& plan);

}  // namespace trainyard
