// The strategy of one op that takes the least redistribution, from what its operands and results
// are stored as.
#pragma once

#include <optional>
#include <variant>
#include <vector>

#include "engine/passes/sharding.h"
#include "engine/sharding/redistribution.h"

namespace trainyard {

struct StoredOperand {
  std::optional<TensorSpec> spec;  // nullopt: a parameter, stored as it is used here
  bool as_stored = false;          // a parameter that is used as it is stored, or not at all
};

struct StoredResult {
  std::optional<TensorSpec> spec;  // nullopt: as it is made; summands as it is wanted, or added up
  std::vector<TensorSpec> wanted;  // by readers whose strategies stand, each once
};

struct OpQuestion {
  const Op& op;
  std::vector<StoredOperand> operands;
  std::vector<StoredResult> results;
  const Strategy& base;             // whose use of late axes stays
  const Strategy* given = nullptr;  // the one that it is, if that is said
};

struct OpChoice {
  Strategy strategy;
  std::vector<TensorSpec> operands;  // as they are stored
  std::vector<TensorSpec> results;
};

class StrategyChooser {
 public:
  /// Both live as long as it does, and their axes stay.
  StrategyChooser(const Graph& graph, const Sharding& sharding);

  /// The cheapest of all strategies over the early axes, forward and backward, on links of unit
  /// cost; then the one that splits more of the work; then fewer collectives; then the first.
  std::variant<OpChoice, Infeasible> choose(const OpQuestion& question, const IndexSpace& space);

 private:
  struct Rated {
    OpChoice choice;
    double cost = 0;
    std::int64_t ranks = 1;  // that share the work
    int collectives = 0;
  };
  std::optional<Rated> rate(const OpQuestion& question, const IndexSpace& space,
                            const Strategy& strategy);
  bool rate_operand(const OpQuestion& question, std::size_t which, TensorSpec used, Rated& rated);
  bool add_move(TensorId tensor, const TensorSpec& from, const TensorSpec& to, Rated& rated);
  TensorSpec stored_result(const StoredResult& result, const TensorSpec& made) const;
  std::optional<TensorSpec> bias_behind(const Op& op, const TensorSpec& sum) const;
  bool divides(TensorId tensor, const TensorSpec& spec) const;
  bool is_parameter(TensorId tensor) const;
  std::string reason_against(const OpQuestion& question) const;

  const Graph& graph_;
  const Sharding& sharding_;
  DeviceMesh early_mesh_;
  RedistributionCache moves_;
  double most_ = 0;  // cost of the best strategy so far: what costs more need not be known
  // How a parameter of the op at hand that is used as it is stored might have been.
  TensorId unsuited_;
  std::vector<TensorSpec> suited_;
  std::string refused_;
};

}  // namespace trainyard
