// Which modules SageMaker's tensor parallelism replaces by distributed ones, and why not the others
// (Karakus et al. 2021, arXiv:2111.05972, section 5.2). From the model down, a module is replaced
// if
//   (1) there is a distributed one: of a linear layer, of an embedding, and of attention, MLPs,
//       layers, stacks of them and the whole transformer, if nothing else in it has weights
//   (2) parallel.tensor_modules chooses it
//   (3) none that it lies in is replaced
//   (4) it shares no weight with a module outside
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace trainyard {

enum class SmpKind : std::uint8_t {
  kNone,  // not replaced: every rank computes its own samples
  kLinear,
  kEmbedding,
  kTransformer
};
std::string_view to_string(SmpKind kind);  // "transformer"

struct SmpModule {
  std::string path;               // "" is the model
  SmpKind kind = SmpKind::kNone;  // as what it is replaced
  int broken = 0;                 // the rule that it breaks; 0: it is replaced
  std::string reason;             // why it is not
  std::string replaced = {};      // rule 3: the module that it lies in
};

struct SmpModules {
  std::vector<SmpModule> modules;  // with weights of their own or inside, in order of execution
  /// [op]: index into `modules` of the replaced one that it belongs to; -1: none. Of a linear or an
  /// embedding it is the op alone that does.
  Indexed<OpId, int> of_op;
};

SmpModules smp_modules(const Graph& graph, const std::vector<std::string>& patterns);

}  // namespace trainyard
