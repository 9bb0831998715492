// The mesh of a plan: what its degrees of parallelism are called, and which ranks they are. The one
// place that names the axes of Programs that are made from plans.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/partition/stage_partition.h"
#include "engine/plan/plan.h"
#include "engine/program/program.h"
#include "engine/sharding/device_mesh.h"

namespace trainyard {

/// Axes pp (the stages), dp, cp and tp, of those that have more than one rank. Where groups of
/// replicas each divide what ZeRO divides, or what is gathered is resharded to some of them, dp is
/// several axes: dp0 tells the groups apart, the last one the members of a group of neighbours.
DeviceMesh mesh_of(const ParallelConfig& parallel);

/// The same as graphs see it: their specs depend on which axes there are, not on how many ranks the
/// late ones and the stages have.
DeviceMesh graph_mesh_of(const ParallelConfig& parallel);

/// The same plan with no more replicas, and groups of them, than graphs and segments tell apart.
ParallelConfig with_few_replicas(ParallelConfig parallel);

/// The axes of a plan's mesh along which replicas differ.
Axes data_axes(const DeviceMesh& mesh);

/// Those along which ranks share sequences.
Axes context_axes(const DeviceMesh& mesh);
/// Both: ranks along them have the same parameters, and add up their gradients.
Axes gradient_axes(const DeviceMesh& mesh);

/// Over which ranks transfers between stages are cut.
ScatterGather scatter_gather_of(const ParallelConfig& parallel);

/// "DPT" and the like -> strides, rightmost letter fastest. D, P, C, E, T stand for the axes of dp,
/// pp, cp, ep, tp, all in their order; missing ones stand left of T. "stages" is PDT and "flat"
/// DPT, as place_replicas() has them where all pipeline ranks have as many.
Placement make_placement(const DeviceMesh& mesh, std::string_view letters);

/// The device of each rank of the first tensor group, before placement moves anything else.
std::vector<std::int64_t> devices_of_tensor_group(const ParallelConfig& parallel);

/// The ranks of each rank of a mesh with replicas of their own number, in the mesh's order.
///   stages  one pipeline rank behind the other
///   flat    RaNNC's: with g the greatest common divisor of the numbers of replicas, g rounds of
///           replicas / g of each pipeline rank: [4, 4] on ranks 0 2 4 6 and 1 3 5 7
std::vector<std::int64_t> place_replicas(const DeviceMesh& mesh, std::string_view placement);

/// Gives a Program the placement that a plan asks for.
void place(Program& program, const ParallelConfig& parallel);

/// Gives a new Program its mesh, and the groups and transfers that all its passes know, in this
/// order; there are no transfers without several pipeline ranks, and between those with replicas of
/// their own number only what transfer_by() makes.
void lay_out(Program& program, const ParallelConfig& parallel);
inline constexpr GroupId kTensorGroup = GroupId(0);
inline constexpr GroupId kDataGroup = GroupId(1);  // over gradient_axes()
/// The group over these axes, made where there is none yet; named as the mesh names the list
/// ("tp"), else by its axes ("tp1.tp0").
GroupId group_over(Program& program, const Axes& axes);
/// The replicas that divide what ZeRO divides, and those that have the same part of it; none: there
/// is one such group.
GroupId shard_group(Program& program, const ParallelConfig& parallel);
GroupId replicate_group(Program& program, const ParallelConfig& parallel);
/// The neighbours among which parameters lie from forward to backward; none: those that divide
/// them, or nobody.
GroupId reshard_group(Program& program, const ParallelConfig& parallel);
inline constexpr TransferId kToNext = TransferId(0);
inline constexpr TransferId kToPrevious = TransferId(1);
/// To the pipeline rank so much higher, made where there is none yet. `pairs`: Transfer::pairs.
using ReplicaPairs = std::vector<std::pair<std::int32_t, std::int32_t>>;
TransferId transfer_by(Program& program, std::int32_t offset, const ReplicaPairs& pairs = {});

}  // namespace trainyard
