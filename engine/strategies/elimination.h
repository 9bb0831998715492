// Lower bounds of a strategy problem by eliminating its nodes one after the other.
//
// A node is eliminated by the least, over its strategies, of all that is known of it: its own cost,
// its edges, and what eliminated nodes left. What remains is a table over its neighbours. Memory
// costs `price` per unit, so that the least over all choices, less price x budget, bounds the cost
// of every choice within the budget from below (Lagrange). Where a table would be too large, what
// is known of the node is divided, and each part takes its own least: still a bound, no longer the
// best (Dechter and Rish, mini-buckets, J. ACM 2003). Layers repeat: a table that is filled from
// what another was is that one.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/strategies/strategy_problem.h"

namespace trainyard {

class Elimination {
 public:
  /// `most_entries`: of one table. O(nodes^2) to choose an order: always the node whose table is
  /// the smallest.
  Elimination(const StrategyProblem& problem, std::size_t most_entries);
  Elimination(const Elimination&) = delete;  // factors point into its own edges
  Elimination& operator=(const Elimination&) = delete;

  /// Whether no table had to be divided.
  bool exact() const { return exact_; }
  double entries() const { return entries_; }  // of all tables
  const std::vector<std::size_t>& order() const { return order_; }

  /// Fills the tables. The least of cost + price x memory over all choices, or less.
  double run(double price);

  /// The choice that the tables lead to: that with the least, where they are exact.
  Choice best() const;

  // With the tables of the last run(): nodes get strategies against the order, from the last. A
  // choice for the rest costs no less than what it has cost already and what tables of the rest
  // say.
  /// Of node `node`, once all behind it in order() have a strategy: own cost, edges to those behind
  /// it, and what tables say of those in front of it, by strategy.
  void costs_of(std::size_t node, const Choice& choice, std::vector<double>& out) const;
  /// What the node's own tables say of it and of all that is eliminated into it.
  double said_of(std::size_t node, const Choice& choice) const;

 private:
  /// A table over the node that is eliminated, outermost, and others, the last to be eliminated
  /// innermost.
  struct Factor {
    const double* table = nullptr;  // of an edge; nullptr: the message number `message`
    std::size_t message = 0;
    std::vector<std::size_t> scope;   // the others
    std::vector<std::size_t> stride;  // of each of them
    std::size_t step = 1;             // of the node itself
  };
  /// What one part of a node leaves: a table over `scope`.
  struct Message {
    std::size_t node = 0;
    std::vector<std::size_t> scope;
    std::vector<double> table;
    std::vector<Factor> factors;
    bool own_cost = false;  // the node's own cost is in this part
    std::size_t like = 0;   // whose table it has, of the last run(): its own, or an equal one's
  };

  void choose_order();
  void make_messages(std::size_t most_entries);
  Factor factor_over(const std::vector<std::size_t>& scope) const;
  const std::vector<double>& table_of(const Message& message) const {
    return messages_[message.like].table;
  }
  const double* table_of(const Factor& factor) const {
    return factor.table != nullptr ? factor.table : table_of(messages_[factor.message]).data();
  }
  void number_edges();
  std::string inputs_of(const Message& message, std::size_t own) const;
  void fill(Message& message, const std::vector<double>& own);
  double value(const Message& message, const Choice& choice) const;

  const StrategyProblem& problem_;
  std::vector<std::size_t> order_, place_;
  std::vector<std::vector<double>> edges_;                      // in the layout of factors
  std::unordered_map<const double*, std::size_t> edge_number_;  // of equal tables the same
  std::vector<Message> messages_;                               // in the order of their nodes
  std::vector<std::vector<std::size_t>> of_node_;               // [node] its messages
  std::vector<std::vector<double>> own_;  // [node][strategy] of the last run()
  bool exact_ = true;
  double entries_ = 0;
  std::vector<double> row_;  // for fill()
};

}  // namespace trainyard
