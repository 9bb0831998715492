// What a plan says of a model's sharding (Plan::sharding), found in its graph: which tensors the
// entries of each module pattern mean, and the specs that they give, with the axes that they leave
// to the method.
//
//   weight, bias     the parameter of that name, as it is stored
//   input, input.N   the N-th tensor that the module's ops read from outside it, as it is stored
//   output           the first tensor that ops outside it read
//   strategy         how the module's own ops that have the named indices use axes
//
// A pattern matches paths of modules, those of inner modules' parents among them. The pattern with
// the most literal characters wins.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// What is wrong with an entry: a mistake of the study, not of the plan.
struct GivenMistake {
  std::string key;  // of the study: "sharding.*.mlp.fc1.weight"
  std::string problem;
};

struct GivenTensor {
  TensorId tensor;
  TensorSpec spec;  // of all axes, in normal form
  std::string key;
};

struct GivenStrategy {
  OpId op;
  Strategy strategy;  // of all axes
  std::string key;
};

struct FoundSharding {
  std::vector<GivenTensor> tensors;  // ascending
  std::vector<GivenStrategy> ops;    // ascending
  /// What was given with every axis named, where all tensors of an entry have the same spec.
  std::vector<GivenSharding> whole;
};

/// `base`: the method's sharding, whose specs stand for the axes that nothing is said of.
std::variant<FoundSharding, std::vector<GivenMistake>> find_given(
    const PlannedGraph& base, const std::vector<GivenSharding>& given);

}  // namespace trainyard
