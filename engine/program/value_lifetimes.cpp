#include "engine/program/value_lifetimes.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "engine/program/program_form.h"
#include "engine/program/violation.h"

namespace trainyard {

namespace {

const Value& value(const Program& program, ValueId id) { return program.values[id]; }

}  // namespace

/// Values from outside count as written at the start.
class ValueLifetimes::SegmentWalk {
 public:
  SegmentWalk(ValueLifetimes& of, const Program& program, SegmentId id)
      : of_(of),
        program_(program),
        id_(id),
        segment_(program.segments[id]) {}

  void run() {
    for (const ProgramOp& op : segment_.ops) {
      if (op.kind == OpKind::kFree) {
        for (const Operand& operand : op.reads) free_storage(operand);
        continue;
      }
      for (const Operand& operand : op.reads) read(op, operand);
      for (const Operand& operand : op.accumulates) read(op, operand);
      if (op.guard) read(op, *op.guard);
      for (const Operand& operand : op.writes) write(op, operand);
    }
    for (const Operand& of : seen_) {
      if (outlives_call(of.value)) continue;
      if (state(of) != State::kFreed)
        fail("segment ", segment_.name, ": ", name(of.value), " is never freed");
      of_.signature_[of.value].clear();
    }
  }

 private:
  const std::string& name(ValueId v) const { return value(program_, v).name; }
  bool outlives_call(ValueId v) const { return value(program_, v).scope != Scope::kLocal; }

  /// Slot of the microbatch whose value a segment's call uses; 0 where it is of none.
  std::size_t slot_of(const Operand& of) const {
    return value(program_, of.value).scope == Scope::kMicrobatch ? of.slot : 0;
  }
  State& state(const Operand& of) { return of_.state_[slot_of(of)][of.value]; }

  Use& use(const Operand& of) {
    auto& list = of_.signature_[of.value];
    const auto slot = static_cast<std::uint8_t>(slot_of(of));
    for (auto known = list.rbegin(); known != list.rend() && known->segment == id_; ++known) {
      if (known->slot == slot) return known->use;
    }
    list.push_back({id_, slot, Use{}});
    state(of) = State::kUnwritten;
    seen_.push_back(of);
    return list.back().use;
  }

  void read(const ProgramOp& op, const Operand& operand) {
    const ValueId v = operand.value;
    const Operand anchor = {of_.anchor_[v], operand.slot};
    Use& u = use(anchor);
    State& now = state(anchor);
    if (now == State::kFreed) {
      fail("segment ", segment_.name, ": ", op_name(op.kind, op.part), " reads ", name(v),
           " after it was freed");
    }
    if (now == State::kWritten) return;
    if (!outlives_call(anchor.value)) {
      fail("segment ", segment_.name, ": ", op_name(op.kind, op.part), " reads ", name(v),
           ", which nothing has written");
    }
    u.needs_written = true;
    now = State::kWritten;
  }

  void write(const ProgramOp& op, const Operand& operand) {
    Use& u = use(operand);
    State& now = state(operand);
    const bool persistent = value(program_, operand.value).scope == Scope::kPersistent;
    if (now != State::kUnwritten && !persistent) {
      fail("segment ", segment_.name, ": ", op_name(op.kind, op.part), " writes ",
           name(operand.value), " a second time");
    }
    now = State::kWritten;
    u.writes = true;
  }

  void free_storage(const Operand& freed) {
    const ValueId root = freed.value;
    if (storage_root(program_, root) != root)
      fail("segment ", segment_.name, ": frees ", name(root), ", a view");
    if (value(program_, root).scope == Scope::kPersistent) {
      fail("segment ", segment_.name, ": frees ", name(root), ", which is persistent");
    }
    for (ValueId member = of_.family_[root]; member != kNoIndex;
         member = of_.next_anchor_[member]) {
      const Operand of = {member, freed.slot};
      Use& u = use(of);
      State& now = state(of);
      if (now == State::kFreed) fail("segment ", segment_.name, ": frees ", name(root), " twice");
      // A join has read its parts; which there are, may differ by list.
      if (now == State::kUnwritten && outlives_call(member) && !of_.joined_[member])
        u.needs_written = true;
      now = State::kFreed;
      u.frees = true;
    }
  }

  ValueLifetimes& of_;
  const Program& program_;
  SegmentId id_;
  const Segment& segment_;
  std::vector<Operand> seen_;
};

ValueLifetimes::ValueLifetimes(const Program& program) {
  find_anchors(program);
  for (const SegmentId id : program.segments.keys()) SegmentWalk(*this, program, id).run();
  group_values(program);
}

/// The anchor of a value is what has to be written to make it readable: itself, or the storage that
/// it is a view of.
void ValueLifetimes::find_anchors(const Program& program) {
  const std::size_t num_values = program.values.size();
  Indexed<ValueId, bool> written(num_values, false);
  joined_.assign(num_values, false);
  for (const Segment& s : program.segments) {
    for (const ProgramOp& op : s.ops) {
      for (const Operand& operand : op.writes) written[operand.value] = true;
      if (op.kind != OpKind::kJoin) continue;
      for (const Operand& part : op.reads) joined_[part.value] = true;
    }
  }
  anchor_.resize(num_values);
  family_.assign(num_values, kNoIndex);
  next_anchor_.assign(num_values, kNoIndex);
  for (std::size_t i = num_values; i-- > 0;) {  // each family is told from its first on
    const ValueId v(i);
    ValueId at = v;
    while (!written[at] && value(program, at).alias) at = value(program, at).alias->in;
    anchor_[v] = at;
    if (at == v) next_anchor_[v] = std::exchange(family_[storage_root(program, v)], v);
  }
  for (auto& of_slot : state_) of_slot.assign(num_values, State::kUnwritten);
  signature_.resize(num_values);
}

/// Values with the same scope and the same uses by the same segments share one token.
void ValueLifetimes::group_values(const Program& program) {
  std::map<std::pair<Scope, std::vector<std::tuple<SegmentId, std::uint8_t, int>>>, std::size_t>
      tokens;
  uses_.resize(program.segments.size());
  for (const ValueId v : signature_.keys()) {
    const auto& uses = signature_[v];
    const Scope scope = program.values[v].scope;
    if (uses.empty() || scope == Scope::kPersistent) continue;
    std::vector<std::tuple<SegmentId, std::uint8_t, int>> key;
    for (const auto& [s, slot, u] : uses)
      key.emplace_back(s, slot, u.needs_written + 2 * u.writes + 4 * u.frees);
    const auto [it, fresh] = tokens.emplace(std::pair(scope, std::move(key)), tokens.size());
    if (!fresh) continue;
    tokens_.push_back({v, scope == Scope::kMicrobatch});
    for (const auto& [s, slot, u] : uses) uses_[s].push_back({it->second, slot, u});
  }
  instances_.resize(tokens_.size());
}

void ValueLifetimes::check(const Program& program, const RankClass& list) {
  for (const Call& call : list.calls) {
    apply(program, list, call.segment, call.mb);
    for (const auto& [at, inner] : call.inside) apply(program, list, inner, {-1, -1});
  }
  std::vector<std::size_t> touched = std::exchange(touched_, {});
  std::sort(touched.begin(), touched.end());
  for (const std::size_t token : touched) {
    const Numbered<State> instances = std::exchange(instances_[token], {});
    for (std::size_t i = 0; i < instances.size(); ++i) {
      if (instances[i] != State::kWritten) continue;
      fail(class_name(program.mesh, list.ranks), ": ",
           value(program, tokens_[token].representative).name,
           instances.size() > 1 ? " of microbatch " + std::to_string(i) : std::string(),
           " is never freed");
    }
  }
}

void ValueLifetimes::apply(const Program& program, const RankClass& list, SegmentId id,
                           const std::array<Microbatch, 2>& mbs) {
  const int microbatches = std::max(1, program.num_microbatches);
  for (const auto& [token, slot, u] : uses_[id]) {
    const Microbatch mb = mbs[slot];
    const auto [representative, per_microbatch] = tokens_[token];
    auto& instances = instances_[token];
    if (instances.empty()) {
      instances.assign(per_microbatch ? microbatches : 1, State::kUnwritten);
      touched_.push_back(token);
    }
    State& now = instances[per_microbatch ? mb : 0];
    const auto where = [&, of = representative] {
      return class_name(program.mesh, list.ranks) + ": " + program.segments[id].name +
             (mb >= 0 ? std::to_string(mb) : "") + ": " + value(program, of).name;
    };
    if (u.needs_written && now != State::kWritten) {
      fail(where(),
           now == State::kFreed ? " is used after it was freed" : " is used before it is written");
    }
    if (u.writes && !u.needs_written && now != State::kUnwritten)
      fail(where(), " is written a second time");
    if (u.writes) now = State::kWritten;
    if (u.frees) now = State::kFreed;
  }
}

std::optional<std::string> find_violation_of_segments(const Program& program) {
  if (auto problem = find_malformed_segments(program)) return problem;
  try {
    const ValueLifetimes of_segments(program);
  } catch (const Violation& violation) {
    return violation.what();
  }
  return std::nullopt;
}

}  // namespace trainyard
