#include "engine/passes/method_ways.h"

#include <utility>

#include "engine/passes/tensor_methods.h"
#include "engine/plan/tensor_overlap.h"

namespace trainyard {

namespace {

/// Samples of a rank of smp with which a tensor group has those of the study's microbatch; 0: the
/// study's own number.
std::int64_t samples_of_rank(const TensorMethod& method, const ComparedPlan& of) {
  const Plan& plan = of.plan;
  const TrainingConfig& training = plan.training;
  const std::int64_t ranks = plan.parallel.tensor, microbatch = training.microbatch;
  const bool own = of.said == method.name || plan.parallel.smp.prescaled_batch;
  if (own || !training.microbatches.empty() || !plan.partition.replicas.empty()) return 0;
  const bool met = training.global_batch % (microbatch * ranks * plan.parallel.data) == 0;
  return met || microbatch % ranks != 0 ? 0 : microbatch / ranks;
}

}  // namespace

std::vector<MethodWay> way_as_said(const TensorMethod& method, const ComparedPlan& of) {
  const std::string name(method.name);
  return {{name, {}, of.said == name ? "" : name}};
}

std::vector<MethodWay> way_of_auto(const TensorMethod& method, const ComparedPlan& of) {
  if (of.plan.parallel.split_table.empty()) return {};
  return way_as_said(method, of);
}

std::vector<MethodWay> ways_of_atp(const TensorMethod& method, const ComparedPlan& of) {
  const ParallelConfig& parallel = of.plan.parallel;
  const std::string name(method.name);
  // What a study says of it is not said of the others.
  const std::string chunks =
      of.says_chunks
          ? ", chunks: " + std::to_string(parse_tensor_overlap(parallel.tensor_overlap).chunks)
          : "";
  std::vector<MethodWay> out;
  for (int second = 2; second <= parallel.tensor; ++second) {
    if (parallel.tensor % second != 0) continue;
    const std::vector<int> mesh = {parallel.tensor / second, second};
    out.push_back({name, mesh, "{name: " + name + ", mesh: " + mesh_text(mesh) + chunks + "}"});
  }
  return out;
}

std::vector<MethodWay> ways_of_smp(const TensorMethod& method, const ComparedPlan& of) {
  const std::string name(method.name);
  const std::string batch = of.plan.parallel.smp.prescaled_batch ? "true" : "false";
  std::vector<MethodWay> out;
  for (const std::string mode : {"memory", "speed"}) {
    out.push_back({name + " " + mode,
                   {},
                   "{name: " + name + ", optimize: " + mode + ", prescaled_batch: " + batch + "}",
                   samples_of_rank(method, of)});
  }
  return out;
}

std::vector<MethodWay> way_of_form(const TensorMethod& method, const ComparedPlan& of) {
  const auto mesh = method.form->mesh_of(of.plan.parallel.tensor);
  if (!mesh) return {};
  const std::string name(method.name);
  return {{name, *mesh, name}};
}

}  // namespace trainyard
