// The ways in which a method of tensor parallelism is compared with others (simulate
// --compare-tensor-methods).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/plan.h"

namespace trainyard {

struct TensorMethod;

struct MethodWay {
  std::string name;
  std::vector<int> mesh;        // empty: that of the plan
  std::string value;            // of parallel.tensor_method; empty: the study's own
  std::int64_t microbatch = 0;  // 0: the study's
};

/// What is compared, and what its study says of the method that it names.
struct ComparedPlan {
  const Plan& plan;
  std::string_view said = {};  // that method; empty: none
  bool says_chunks = false;    // among the keys of the method
};

/// As the study says it, if it names the method; else by its name alone.
std::vector<MethodWay> way_as_said(const TensorMethod& method, const ComparedPlan& of);
/// None without a table of the study's own: then it is megatron.
std::vector<MethodWay> way_of_auto(const TensorMethod& method, const ComparedPlan& of);
/// On every mesh of two axes of which the second has several ranks: on N x 1 it is megatron.
std::vector<MethodWay> ways_of_atp(const TensorMethod& method, const ComparedPlan& of);
/// For memory and for speed, with as many samples in a tensor group as the study's microbatch has
/// where its own number would make more of them than a step has.
std::vector<MethodWay> ways_of_smp(const TensorMethod& method, const ComparedPlan& of);
/// On the mesh of its form, where there is one of so many ranks.
std::vector<MethodWay> way_of_form(const TensorMethod& method, const ComparedPlan& of);

}  // namespace trainyard
