#include "engine/passes/tensor_methods.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/passes/plan_atp.h"
#include "engine/passes/plan_atp_ranks.h"
#include "engine/passes/plan_auto.h"
#include "engine/passes/plan_cube.h"
#include "engine/passes/plan_map.h"
#include "engine/passes/plan_map_ranks.h"
#include "engine/passes/plan_megatron.h"
#include "engine/passes/plan_smp.h"
#include "engine/passes/plan_summa.h"
#include "engine/plan/plan_limits.h"

namespace trainyard {

namespace {

constexpr const char* kSplits = "splits the layers of";

constexpr Family kTransformers[] = {Family::kGpt, Family::kBert, Family::kLlama, Family::kT5,
                                    Family::kVit};
constexpr Family kAtpFamilies[] = {Family::kGpt, Family::kBert, Family::kLlama,
                                   Family::kT5,  Family::kVit,  Family::kClip};
constexpr Family kAutoFamilies[] = {Family::kGpt, Family::kBert, Family::kLlama, Family::kT5,
                                    Family::kVit, Family::kSwin, Family::kClip};
constexpr Family kSmpFamilies[] = {Family::kGpt, Family::kBert, Family::kLlama,
                                   Family::kT5,  Family::kVit,  Family::kNcf};

constexpr const char* kEveryLayer = "splits every layer; leave it out, or write megatron";

constexpr NotBeside kNotAtp[] = {{Beside::kContext}, {Beside::kModules, kEveryLayer}};

constexpr NotBeside kNotSmp[] = {
    {Beside::kNamedAxes, "has one axis"},
    {Beside::kSequenceParallel, "splits samples and features, not the sequence; write false"},
    {Beside::kContext},
    {Beside::kOverlap,
     "gives ranks samples of their own, and chunks of a microbatch would lie on some of them; "
     "write none"},
    {Beside::kSharding},
    {Beside::kReplicas},
    {Beside::kFp8}};

constexpr NotBeside kNotMap[] = {
    {Beside::kSequenceParallel, "splits sequences where that costs least; write false"},
    {Beside::kContext,
     "splits sequences where that costs least, and has attention read whole ones; write 1"},
    {Beside::kModules,
     "chooses for all ops; leave it out, or fix ops by tensor_method: {name: map, ops: {...}}"},
    {Beside::kOverlap,
     "may split the batch over any of its axes, and chunks of a microbatch would lie on some of "
     "their ranks; write none"}};

constexpr NotBeside kNotOfForm[] = {
    {Beside::kSequenceParallel, "splits samples and features, not the sequence; write false"},
    {Beside::kContext},
    {Beside::kModules, kEveryLayer},
    {Beside::kOverlap},
    {Beside::kSharding},
    {Beside::kReplicas},
    {Beside::kFp8}};

constexpr std::string_view kAtpKeys[] = {"mesh", "measured", "chunks"};
constexpr std::string_view kAutoKeys[] = {"table"};
constexpr std::string_view kSmpKeys[] = {"optimize", "prescaled_batch"};
constexpr std::string_view kMapKeys[] = {"mesh", "memory_budget", "ops"};
constexpr const char* kOneAxis = "has one axis";
constexpr int kMostSaidAxes = static_cast<int>(kMaxTensorAxes);

MethodPlan told_megatron(const ParallelConfig& parallel) {
  return {megatron_plan(parallel), plan_megatron};
}

MethodPlan told_auto(const ParallelConfig& parallel) {
  return {AutoPlan{megatron_plan(parallel), parallel.split_table}, plan_auto};
}

MethodPlan told_atp(const ParallelConfig& parallel) {
  if (const auto plan = atp_plan(parallel)) return {*plan, plan_atp};
  return told_megatron(parallel);
}

MethodPlan told_smp(const ParallelConfig& parallel) {
  const MegatronPlan megatron = megatron_plan(parallel);
  return {
      SmpPlan{megatron.mesh, megatron.data, megatron.tensor, parallel.smp, parallel.tensor_modules},
      plan_smp};
}

bool smp_brings_samples(const ParallelConfig& parallel) { return !parallel.smp.prescaled_batch; }

MethodPlan told_map(const ParallelConfig& parallel) { return {map_plan(parallel), plan_map}; }

template <auto planner>
MethodPlan told_form(const ParallelConfig& parallel) {
  const MegatronPlan megatron = megatron_plan(parallel);
  return {MeshMethodPlan{megatron.mesh, megatron.data, megatron.tensor}, planner};
}

/// Those that are made for meshes of a form.
template <auto planner>
constexpr TensorMethod method_of(std::string_view name, const MeshForm& form) {
  return {.name = name,
          .does = kSplits,
          .families = kTransformers,
          .refused = kNotOfForm,
          .form = &form,
          .plan_of = told_form<planner>,
          .has_mesh = "has the mesh that parallel.tensor says",
          .ways = way_of_form,
          .arrange = arrange_mesh_form,
          .check = check_mesh_form};
}

const std::array<TensorMethod, 8> kMethods = {
    {{.name = "megatron",
      .does = kSplits,
      .divides = Divides::kWidths,
      .plan_of = told_megatron,
      .has_mesh = kOneAxis,
      .ways = way_as_said,
      .unlike_degrees = true,
      .peers = megatron_peers},
     {.name = "auto",
      .does = "has a table for",
      .families = kAutoFamilies,
      .divides = Divides::kWidths,
      .plan_of = told_auto,
      .keys = kAutoKeys,
      .has_mesh = kOneAxis,
      .ways = way_of_auto},
     {.name = "atp",
      .does = kSplits,
      .families = kAtpFamilies,
      .refused = kNotAtp,
      .divides = Divides::kHeads,
      .plan_of = told_atp,
      .keys = kAtpKeys,
      .said_axes = {2, 2},
      .ways = ways_of_atp,
      .arrange = arrange_atp,
      .check = check_atp,
      .choose_mesh = choose_atp_mesh,
      .peers = atp_peers},
     {.name = "smp",
      .does = "distributes modules of",
      .families = kSmpFamilies,
      .refused = kNotSmp,
      .divides = Divides::kWidths,
      .plan_of = told_smp,
      .keys = kSmpKeys,
      .has_mesh = kOneAxis,
      .ways = ways_of_smp,
      .check = check_smp,
      .own_samples = smp_brings_samples,
      .divides_alike = true,
      .peers = smp_peers},
     method_of<plan_summa>("summa-2d", kSquareMeshes),
     method_of<plan_summa>("summa-2.5d", kLayeredMeshes),
     method_of<plan_cube>("3d", kCubeMeshes),
     {.name = "map",
      .does = kSplits,
      .refused = kNotMap,
      .plan_of = told_map,
      .keys = kMapKeys,
      .said_axes = {1, kMostSaidAxes},
      .has_mesh = "takes its mesh from the cluster's links",
      .ways = way_as_said,
      .arrange = arrange_map,
      .check = check_map,
      .choose_mesh = choose_map_mesh,
      .splits_by_cost = true,
      .reads_pairs = true}}};

}  // namespace

std::span<const TensorMethod> tensor_methods() { return kMethods; }

bool has_family(const TensorMethod& method, Family family) {
  const auto& families = method.families;
  return families.empty() || std::find(families.begin(), families.end(), family) != families.end();
}

bool takes_key(const TensorMethod& method, std::string_view key) {
  return std::find(method.keys.begin(), method.keys.end(), key) != method.keys.end();
}

const TensorMethod& tensor_method(std::string_view name) {
  const auto* const row =
      std::find_if(kMethods.begin(), kMethods.end(),
                   [&](const TensorMethod& method) { return method.name == name; });
  check(row != kMethods.end(), "studies have methods of the table");
  return *row;
}

MethodPlan method_plan(const ParallelConfig& parallel) {
  return parallel.tensor > 1 ? tensor_method(parallel.tensor_method).plan_of(parallel)
                             : told_megatron(parallel);
}

}  // namespace trainyard
