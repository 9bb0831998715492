// Planner: tensor parallelism in two dimensions, and with layers of it, as a sharding (Xu et al.
// 2021, arXiv:2104.05343, Optimus; Wang et al. 2021, arXiv:2105.14500, Tesseract), by the SUMMA
// algorithm of van de Geijn and Watts 1997.
//
//   activations  samples over the rows of the mesh, features over its columns
//   weights      outputs over the columns, inputs over the rows: 1 / q^2 each
//   a product    what it reads is gathered along a row of the mesh, its weight along a column; in
//                backward both again, and both gradients are reduce-scattered back. SUMMA takes q
//                steps of a panel each: the same bytes, in 1 / q of the memory
//   a table      words over the columns, features over the rows, gathered along a column; what was
//                found is reduce-scattered over features along a row
//   attention    heads over the columns, samples over the rows: nothing moves
//   norms        moments of rows are added up over the columns
//   layers       of 2.5-D have samples of their own, and the same weights
//
// Biases and norms are alike along rows, relative biases too; their gradients are added up once per
// step. The mesh is [q, q], or [d, q, q].
#pragma once

#include "engine/passes/mesh_forms.h"

namespace trainyard {

/// Infeasible, at parallel.tensor, where a dimension does not divide.
std::variant<PlannedGraph, Infeasible> plan_summa(Graph graph, const MeshMethodPlan& plan);

}  // namespace trainyard
