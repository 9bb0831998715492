#include "engine/program/verify.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/error.h"
#include "engine/program/communication_order.h"
#include "engine/program/pool_uses.h"
#include "engine/program/program_form.h"
#include "engine/program/value_lifetimes.h"
#include "engine/program/verify_specs.h"
#include "engine/program/violation.h"

namespace trainyard {

/// Checks of one Program.
class ProgramVerifier::Checks {
 public:
  explicit Checks(const Program& program) : program_(&program), stages_(stage_axis(program.mesh)) {}

  void run_all() {
    if (const auto problem = find_malformed(*program_)) fail(*problem);
    check_specs(*program_);
    lifetimes_.emplace(*program_);
    for (const ValueId id : program_->values.keys()) {
      root_.push_back(storage_root(*program_, id));
    }
    find_marked_ops();
    check_lists();
  }

  void run_on_lists(const Program& program) {
    program_ = &program;
    if (const auto problem = find_malformed_but_ops(program)) fail(*problem);
    check_lists();
  }

 private:
  void check_lists() {
    for (const RankClass& list : program_->body) {
      lifetimes_->check(*program_, list);
      check_inside(list);
      check_reductions(list);
    }
    check_documents();
    check_pools();
    check_communication();
  }

  const Value& value(ValueId id) const { return program_->values[id]; }
  ValueId root(ValueId id) const { return root_[id]; }
  const Segment& segment(SegmentId id) const { return program_->segments[id]; }

  /// What is issued inside a call may only write what the rest of the call leaves alone.
  void check_inside(const RankClass& list) {
    for (const Call& call : list.calls) {
      if (call.inside.empty()) continue;
      taken_.resize(program_->values.size());
      for (const auto& [at, inner] : call.inside) {
        for (const ProgramOp& op : segment(inner).ops) {
          for (const auto* operands : {&op.writes, &op.accumulates}) {
            for (const Operand& operand : *operands) take(root(operand.value), at, inner);
          }
        }
      }
      const Segment& s = segment(call.segment);
      for (std::size_t k = call.inside.front().first; k < s.ops.size(); ++k) {
        for (const auto* operands : {&s.ops[k].reads, &s.ops[k].writes, &s.ops[k].accumulates}) {
          for (const Operand& operand : *operands) {
            const Taken& taken = taken_[root(operand.value)];
            if (taken.by == kNoIndex || k < taken.from) continue;
            fail(class_name(program_->mesh, list.ranks), ": ", s.name, " op ", std::to_string(k),
                 " uses ", value(operand.value).name, ", which ", segment(taken.by).name,
                 " inside it has taken over");
          }
        }
      }
      for (const ValueId storage : taken_ids_) taken_[storage] = Taken{};
      taken_ids_.clear();
    }
  }

  void take(ValueId storage, std::uint32_t from, SegmentId by) {
    Taken& taken = taken_[storage];
    if (taken.by != kNoIndex) return;
    taken = {from, by};
    taken_ids_.push_back(storage);
  }

  /// Elements of a storage.
  struct Range {
    std::int64_t begin = 0, end = 0;
  };

  /// A rank's own shard lies somewhere in what it is a shard of: all of that.
  Range range_of(ValueId id) const {
    Range range{0, num_elements(value(id).dims)};
    for (; value(id).alias; id = value(id).alias->in) {
      if (value(id).alias->own_shard != kNoIndex) {
        range.begin = 0;
        range.end = num_elements(value(value(id).alias->in).dims);
        continue;
      }
      range.begin += value(id).alias->offset;
      range.end += value(id).alias->offset;
    }
    return range;
  }

  /// Sums up a gradient over ranks.
  bool reduces_gradient(const ProgramOp& op) const {
    if (op.kind != OpKind::kAllReduce && op.kind != OpKind::kReduceScatter &&
        op.kind != OpKind::kReduce)
      return false;
    return is_gradient(root(op.reads[0].value));
  }

  /// Whether it is a gradient of the whole step; with post-validation it stays until the next one.
  bool is_gradient(ValueId storage) const {
    const Scope scope = value(storage).scope;
    return value(storage).memory == MemoryClass::kGradient &&
           (scope == Scope::kStep || scope == Scope::kPersistent);
  }
  bool touches_gradients(const ProgramOp& op) const {
    const auto of_gradient = [&](const Operand& operand) {
      return is_gradient(root(operand.value));
    };
    const auto& operands = op.kind == OpKind::kFree ? op.reads : op.accumulates;
    return reduces_gradient(op) || std::any_of(operands.begin(), operands.end(), of_gradient);
  }

  /// What a rank adds to a gradient after it has been summed over the ranks, the others do not get.
  void check_reductions(const RankClass& list) const {
    std::unordered_map<ValueId, std::vector<std::pair<Range, SegmentId>>> reduced;  // by storage
    const auto look_at = [&](SegmentId id, Microbatch mb, std::size_t k) {
      const ProgramOp& op = segment(id).ops[k];
      if (op.kind == OpKind::kFree) {
        for (const Operand& operand : op.reads) reduced.erase(root(operand.value));
        return;
      }
      for (const Operand& operand : op.accumulates)
        check_addition(list, id, mb, op, operand, reduced);
      if (reduces_gradient(op))
        reduced[root(op.reads[0].value)].emplace_back(range_of(op.reads[0].value), id);
    };
    for (const Call& call : list.calls) {
      const bool any = !reduced.empty() || has_reduction_[call.segment] ||
                       std::any_of(call.inside.begin(), call.inside.end(),
                                   [&](const auto& inner) { return has_reduction_[inner.second]; });
      if (any)
        visit_call(call, gradient_ops_, look_at);  // most calls come before the first reduction
    }
  }

  template <typename Reduced>
  void check_addition(const RankClass& list, SegmentId id, Microbatch mb, const ProgramOp& op,
                      const Operand& operand, const Reduced& reduced) const {
    const auto of = reduced.find(root(operand.value));
    if (of == reduced.end()) return;
    const Range added = range_of(operand.value);
    for (const auto& [range, by] : of->second) {
      if (added.begin >= range.end || range.begin >= added.end) continue;
      fail(class_name(program_->mesh, list.ranks), ": ", segment(id).name,
           mb >= 0 ? std::to_string(mb) : "", ": ", op_name(op.kind, op.part), " adds to ",
           value(operand.value).name, ", which ", segment(by).name, " has reduced");
    }
  }

  /// Things to look at in a segment, with the op at which they happen, ascending.
  template <typename Item>
  using ByOp = std::vector<std::pair<std::size_t, Item>>;

  /// Calls visit(segment, microbatch, item) for the items of a call, in issue order.
  template <typename Item, typename Visit>
  static void visit_call(const Call& call, const Indexed<SegmentId, ByOp<Item>>& items,
                         const Visit& visit) {
    const auto& own = items[call.segment];
    auto next = own.begin();
    for (const auto& [at, inner] : call.inside) {
      for (; next != own.end() && next->first < at; ++next)
        visit(call.segment, call.mb[0], next->second);
      for (const auto& [k, item] : items[inner]) visit(inner, -1, item);
    }
    for (; next != own.end(); ++next) visit(call.segment, call.mb[0], next->second);
  }
  template <typename Item, typename Visit>
  static void in_issue_order(const RankClass& list, const Indexed<SegmentId, ByOp<Item>>& items,
                             const Visit& visit) {
    for (const Call& call : list.calls) visit_call(call, items, visit);
  }

  /// What the checks of lists look at, of each segment.
  void find_marked_ops() {
    const auto& segments = program_->segments;
    gradient_ops_.resize(segments.size());
    has_reduction_.resize(segments.size(), false);
    pool_changes_.resize(segments.size());
    crossing_ = crossing_ops(*program_);
    for (const SegmentId s : segments.keys()) {
      const auto& ops = segments[s].ops;
      for (std::size_t k = 0; k < ops.size(); ++k) {
        if (touches_gradients(ops[k])) gradient_ops_[s].emplace_back(k, k);
        if (reduces_gradient(ops[k])) has_reduction_[s] = true;
        if (program_->pools.empty()) continue;
        if (const ValueId filled = slot_taken(*program_, ops, k); filled != kNoIndex)
          pool_changes_[s].emplace_back(k, std::pair(value(filled).pool, 1));
        if (ops[k].kind != OpKind::kFree) continue;
        for (const Operand& operand : ops[k].reads) {
          const Value& v = value(operand.value);
          if (v.pool != kNoIndex && !v.alias)
            pool_changes_[s].emplace_back(k, std::pair(v.pool, -1));
        }
      }
    }
  }

  void check_pools() const {
    if (program_->pools.empty()) return;
    for (const Value& v : program_->values) {
      if (v.pool == kNoIndex || v.alias) continue;
      const Pool& pool = program_->pools[v.pool];
      if (pool.buffer > 0 && pool.slots > 0 && size_in_bytes(v) > pool.buffer / pool.slots) {
        fail("pool ", pool.name, ": ", std::to_string(pool.slots), " slots for ", v.name,
             " are more than its buffer");
      }
    }
    for (const RankClass& list : program_->body) {
      std::map<PoolId, int> alive;
      in_issue_order(
          list, pool_changes_, [&](SegmentId id, Microbatch, const std::pair<PoolId, int>& change) {
            const Pool& pool = program_->pools[change.first];
            if ((alive[change.first] += change.second) <= pool.slots) return;
            fail(class_name(program_->mesh, list.ranks), ": ", segment(id).name, ": pool ",
                 pool.name, " has ", std::to_string(pool.slots), " slots, all in use");
          });
    }
  }

  void check_documents() const {
    if (program_->documents) return;
    for (const OpAttrs& attrs : program_->attrs) {
      if (attrs.documents)
        fail("attention that stays inside documents, of which the Program says nothing");
    }
  }

  void check_communication() const {
    check_communication_order(*program_, communications_of(*program_, crossing_));
  }

  const Program* program_;
  AxisId stages_;
  std::optional<ValueLifetimes> lifetimes_;
  Indexed<ValueId, ValueId> root_;
  struct Taken {
    std::uint32_t from = 0;   // op of the call
    SegmentId by = kNoIndex;  // kNoIndex: it is the call's
  };
  Indexed<ValueId, Taken> taken_;   // of storages, in the call being checked
  std::vector<ValueId> taken_ids_;  // with an entry there
  Indexed<SegmentId, ByOp<std::size_t>>
      gradient_ops_;                        // that add to gradients, reduce or free them
  Indexed<SegmentId, bool> has_reduction_;  // of a gradient
  CrossingOps crossing_;
  Indexed<SegmentId, ByOp<std::pair<PoolId, int>>> pool_changes_;
};

ProgramVerifier::ProgramVerifier() = default;
ProgramVerifier::~ProgramVerifier() = default;

std::optional<std::string> ProgramVerifier::find_violation_of_all(const Program& program) {
  auto checks = std::make_unique<Checks>(program);
  checks_.reset();
  try {
    checks->run_all();
  } catch (const Violation& violation) {
    return violation.what();
  }
  checks_ = std::move(checks);
  return std::nullopt;
}

std::optional<std::string> ProgramVerifier::find_violation_of_lists(const Program& program) {
  check(checks_ != nullptr, "a Program with these segments was verified before");
  try {
    checks_->run_on_lists(program);
  } catch (const Violation& violation) {
    checks_.reset();
    return violation.what();
  }
  return std::nullopt;
}

std::optional<std::string> find_violation(const Program& program) {
  return ProgramVerifier().find_violation_of_all(program);
}

}  // namespace trainyard
