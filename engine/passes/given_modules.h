// The modules of a graph that patterns match, with the tensors that go in and out of them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/match_pattern.h"
#include "engine/graph/graph.h"
#include "engine/plan/plan.h"

namespace trainyard {

class GivenModules {
 public:
  struct Module {
    std::string path;
    std::vector<OpId> ops;  // of the module and of those inside it
    std::vector<OpId> own;  // of the module itself
  };

  explicit GivenModules(const Graph& graph);

  /// Those whose path the pattern matches, modules that only have modules inside among them.
  std::vector<const Module*> matched(std::string_view pattern) const;

  /// The N-th tensor that its ops read from outside, parameters left out; kNoIndex: there are
  /// fewer.
  TensorId input(const Module& module, std::size_t number) const;
  /// The first tensor that ops outside read; of the last module the loss.
  TensorId output(const Module& module) const;
  TensorId parameter(const Module& module, const std::string& name) const;
  /// What may be said of the module: "bias, weight, input and output".
  std::vector<std::string> names_of(const Module& module) const;
  /// Paths of modules with ops, of the first layer and of the ends.
  std::vector<std::string> some_paths() const;

  /// Each once, in order.
  const std::vector<OpId>& readers(TensorId tensor) const { return readers_[tensor]; }

 private:
  static bool holds(const Module& module, OpId op);

  const Graph& graph_;
  std::map<std::string, Module> modules_;
  std::unordered_map<std::string, TensorId> parameters_;  // by name
  Indexed<TensorId, std::vector<OpId>> readers_;
};

}  // namespace trainyard
