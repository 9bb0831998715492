// Which planner splits a plan's layers (parallel.tensor_method), and what it is told.
#pragma once

#include <memory>
#include <utility>
#include <variant>

#include "engine/base/error.h"
#include "engine/passes/sharding.h"
#include "engine/plan/plan.h"

namespace trainyard {

/// A planner, and what it is told: a struct of its own, with a mesh, the axes of replicas, and ==.
class MethodPlan {
 public:
  template <class Told>
  MethodPlan(Told told, std::variant<PlannedGraph, Infeasible> (*planner)(Graph, const Told&))
      : told_(std::make_shared<const ToldPlanner<Told>>(std::move(told), planner)) {}

  const DeviceMesh& mesh() const { return told_->mesh(); }
  const Axes& data() const { return told_->data(); }
  std::variant<PlannedGraph, Infeasible> plan(Graph graph) const {
    return told_->plan(std::move(graph));
  }
  /// What it is told, of a planner that takes such; else nullptr.
  template <class Told>
  const Told* told() const {
    const auto* same = dynamic_cast<const ToldPlanner<Told>*>(told_.get());
    return same == nullptr ? nullptr : &same->told;
  }
  friend bool operator==(const MethodPlan& a, const MethodPlan& b) {
    return a.told_->is_equal(*b.told_);
  }

 private:
  struct AnyPlanner {
    virtual ~AnyPlanner() = default;
    virtual const DeviceMesh& mesh() const = 0;
    virtual const Axes& data() const = 0;
    virtual std::variant<PlannedGraph, Infeasible> plan(Graph graph) const = 0;
    virtual bool is_equal(const AnyPlanner& other) const = 0;
  };

  template <class Told>
  struct ToldPlanner final : AnyPlanner {
    using Planner = std::variant<PlannedGraph, Infeasible> (*)(Graph, const Told&);
    ToldPlanner(Told all, Planner by) : told(std::move(all)), planner(by) {}

    const DeviceMesh& mesh() const override { return told.mesh; }
    const Axes& data() const override { return told.data; }
    std::variant<PlannedGraph, Infeasible> plan(Graph graph) const override {
      return planner(std::move(graph), told);
    }
    bool is_equal(const AnyPlanner& other) const override {
      const auto* same = dynamic_cast<const ToldPlanner*>(&other);
      return same != nullptr && planner == same->planner && told == same->told;
    }

    Told told;
    Planner planner;
  };

  std::shared_ptr<const AnyPlanner> told_;
};

/// A mesh that atp leaves without a second axis is Megatron's. Its mesh has been chosen. A tensor
/// group of one rank is Megatron's, whatever the method.
MethodPlan method_plan(const ParallelConfig& parallel);

}  // namespace trainyard
