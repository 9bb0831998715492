// What the walker asks of a device is what the Program says: the ops in issue order on their
// streams, the calls of each communicator, and between streams exactly the order that the rules of
// the Program demand (engine/program's README, start and memory): no wait is missing, none is too
// much. Checked twice: against the rules, written here anew and without any thrift, and against the
// memory that the ops touched.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/program/rank_places.h"
#include "real/parameters/rank_coordinates.h"
#include "tests/real/recorded_run.h"

namespace trainyard::recorded_streams_test {

namespace {

/// [stream]: how many of its ops have ended before an op starts, itself included.
using Ended = std::array<std::size_t, kNumStreams>;

void join(Ended& into, const Ended& other) {
  for (std::size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], other[s]);
}

/// By the recorded streams and events.
std::vector<Ended> recorded_order(const RecordedRank& rank) {
  std::vector<Ended> launches;
  std::array<Ended, kNumStreams> streams{};
  std::map<std::int32_t, Ended> events;
  for (const StreamCall& call : rank.streams) {
    const auto s = static_cast<std::size_t>(call.stream);
    if (call.kind == StreamCall::kLaunch) {
      ++streams[s][s];
      launches.push_back(streams[s]);
    } else if (call.kind == StreamCall::kRecord) {
      events[call.event] = streams[s];
    } else {
      REQUIRE(events.count(call.event) == 1);  // waited for only after it was recorded
      join(streams[s], events[call.event]);
    }
  }
  return launches;
}

struct Issued {
  const ProgramOp* op;
  std::array<Microbatch, 2> mb;
  std::size_t call, in_segment;  // the first op of its run of a segment, for `after`
};

std::vector<Issued> issued_ops(const Program& program, const RankClass& list) {
  std::vector<Issued> out;
  for (std::size_t c = 0; c < list.calls.size(); ++c) {
    const Call& call = list.calls[c];
    const auto& ops = program.segments[call.segment].ops;
    for (std::size_t i = 0; i <= ops.size(); ++i) {
      for (const auto& [place, segment] : call.inside) {
        if (place != i) continue;
        const auto& inner = program.segments[segment].ops;
        for (std::size_t k = 0; k < inner.size(); ++k) out.push_back({&inner[k], {-1, -1}, c, k});
      }
      if (i < ops.size()) out.push_back({&ops[i], call.mb, c, i});
    }
  }
  return out;
}

/// By the Program's rules alone: every op is looked at against every earlier one.
class DemandedOrder {
 public:
  DemandedOrder(const Program& program, const RankClass& list)
      : program_(program),
        list_(list),
        ops_(issued_ops(program, list)) {}

  std::vector<Ended> find() {
    std::array<std::size_t, kNumStreams> count{};
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      const ProgramOp& op = *ops_[i].op;
      const auto s = static_cast<std::size_t>(op.stream);
      ended_ = {};
      for (std::size_t k = i; k-- > 0;) {
        if (ops_[k].op->stream != op.stream) continue;
        after(k);
        break;
      }
      after_named(i);
      after_storage(i);
      note_uses(i);
      if (op.kind == OpKind::kFree) give_back(i);
      ended_[s] = ++count[s];
      out_.push_back(ended_);
    }
    return std::move(out_);
  }

 private:
  using Key = std::pair<ValueId, Microbatch>;
  struct Use {
    std::size_t op;
    bool changes;
  };

  void after(std::size_t before) { join(ended_, out_[before]); }

  Key storage(const Operand& operand, std::size_t i) const {
    const ValueId root = storage_root(program_, operand.value);
    const bool each = program_.values[root].scope == Scope::kMicrobatch;
    return {root, each ? ops_[i].mb[operand.slot] : 0};
  }

  /// The ops and calls that `after` names.
  void after_named(std::size_t i) {
    const Issued& at = ops_[i];
    for (const std::uint32_t edge : at.op->after) {
      for (std::size_t k = i; k-- > 0;) {
        const bool same_run = ops_[k].call == at.call && ops_[k].mb == at.mb &&
                              ops_[k].in_segment == edge &&
                              ops_[k].op == at.op - (at.in_segment - edge);
        if (!same_run) continue;
        after(k);
        break;
      }
    }
    for (const CallRef& before : list_.calls[at.call].after) {
      for (std::size_t k = 0; k < i; ++k) {
        if (ops_[k].call == before.call) after(k);
      }
    }
  }

  void after_storage(std::size_t i) {
    const ProgramOp& op = *ops_[i].op;
    const auto use = [&](const Operand& operand, bool changes) {
      for (const Use& earlier : uses_[storage(operand, i)]) {
        if (changes || earlier.changes) after(earlier.op);
      }
    };
    for (const Operand& operand : op.writes) take(operand, i);
    for (const Operand& operand : op.reads) use(operand, op.kind == OpKind::kFree);
    if (op.guard) use(*op.guard, false);
    for (const Operand& operand : op.writes) use(operand, true);
    for (const Operand& operand : op.accumulates) use(operand, true);
  }

  void take(const Operand& operand, std::size_t i) {
    const Key key = storage(operand, i);
    const Value& value = program_.values[key.first];
    if (!uses_[key].empty() || value.scope == Scope::kPersistent) return;
    if (value.pool != kNoIndex) {
      // The k-th taker gets the slot of the (k - slots)-th that was given back.
      auto& takers = taken_[value.pool];
      const auto slots = static_cast<std::size_t>(program_.pools[value.pool].slots);
      if (takers.size() >= slots) after(given_[value.pool].at(takers.size() - slots));
      takers.push_back(i);
    } else if (ops_[i].op->stream != StreamId::kMain) {
      for (const std::size_t free : freed_) after(free);
    }
  }

  void note_uses(std::size_t i) {
    const ProgramOp& op = *ops_[i].op;
    for (const Operand& operand : op.reads) uses_[storage(operand, i)].push_back({i, false});
    if (op.guard) uses_[storage(*op.guard, i)].push_back({i, false});
    for (const Operand& operand : op.writes) uses_[storage(operand, i)].push_back({i, true});
    for (const Operand& operand : op.accumulates) uses_[storage(operand, i)].push_back({i, true});
  }

  void give_back(std::size_t i) {
    for (const Operand& operand : ops_[i].op->reads) {
      const Key key = storage(operand, i);
      uses_[key].clear();
      const PoolId pool = program_.values[key.first].pool;
      if (pool != kNoIndex) {
        given_[pool].push_back(i);
      } else {
        freed_.push_back(i);
      }
    }
  }

  const Program& program_;
  const RankClass& list_;
  std::vector<Issued> ops_;
  std::map<Key, std::vector<Use>> uses_;  // of storage, since it was given back last
  std::map<PoolId, std::vector<std::size_t>> given_, taken_;
  std::vector<std::size_t> freed_;  // ops that freed arena storage
  Ended ended_{};                   // before the op that is looked at
  std::vector<Ended> out_;
};

/// What a rank's communicators should have been asked, in the order of issue.
std::map<std::string, std::vector<TransportCall>> expected_calls(const Program& program,
                                                                 std::int64_t rank,
                                                                 const RankClass& list) {
  const Coordinate at = coordinate_of(program, rank);
  std::map<std::string, std::vector<TransportCall>> out;
  for (const Issued& issued : issued_ops(program, list)) {
    const ProgramOp& op = *issued.op;
    if (!is_communication(op.kind)) continue;
    TransportCall call;
    call.kind = op.kind;
    call.bytes = message_bytes(program, op);
    std::vector<std::int64_t> ranks;
    std::string key;
    if (is_transfer(op.kind)) {
      call.peer = peer_of(program, program.transfers[op.transfer], at);
      const bool sends = op.kind == OpKind::kSend;
      ranks = {sends ? rank : call.peer, sends ? call.peer : rank};
      key = "transfer." + std::to_string(static_cast<int>(transfer_stream(op.stream))) + "." +
            std::to_string(ranks[0]) + "." + std::to_string(ranks[1]);
    } else {
      const Group& group = program.groups[op.group];
      ranks = members_of(program, group, at);
      key = group.name + "." + std::to_string(static_cast<int>(op.stream));
      if (ranks.size() == 1) continue;  // with itself a rank does not communicate
    }
    for (const std::int64_t member : ranks) key += "." + std::to_string(member);
    out[key].push_back(call);
  }
  return out;
}

/// Pairs of accesses to the same bytes, one of which writes, that no order keeps apart.
std::size_t races(const RecordedRank& rank, const std::vector<Ended>& order,
                  const std::vector<Issued>& ops) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < rank.memory.size(); ++i) {
    const MemoryAccess& later = rank.memory[i];
    for (std::size_t k = 0; k < i; ++k) {
      const MemoryAccess& earlier = rank.memory[k];
      if (earlier.launch == later.launch || !(earlier.writes || later.writes)) continue;
      if (earlier.end <= later.begin || later.end <= earlier.begin) continue;
      const auto s = static_cast<std::size_t>(ops[earlier.launch].op->stream);
      if (order[later.launch][s] < order[earlier.launch][s]) ++found;
    }
  }
  return found;
}

const char* const kStudy =
    "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}\n"
    "cluster: {preset: local, ranks: 1}\n"
    "training: {global_batch: 8, microbatch: 1, precision: fp32}\ndata: {path: synthetic}\n";

const std::vector<std::vector<std::string>> kLayouts = {
    {},
    {"cluster.ranks=2", "parallel.data=2"},
    {"cluster.ranks=2", "parallel.data=2", "parallel.zero=1"},
    {"cluster.ranks=2", "parallel.tensor=2"},
    {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
    {"cluster.ranks=2", "parallel.pipeline=2"},
    {"cluster.ranks=2", "parallel.pipeline=2", "schedule=gpipe"},
    {"cluster.ranks=2", "parallel.pipeline=2", "parallel.virtual_stages=2", "schedule=interleaved"},
    {"cluster.ranks=4", "parallel.pipeline=4", "recompute=selective"},
    {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2", "training.microbatch=2"},
    {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2", "parallel.zero=1",
     "recompute=full"},
    {"cluster.ranks=8", "parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2",
     "parallel.zero=1", "parallel.sequence_parallel=true", "training.precision=bf16"}};

}  // namespace

TEST_CASE("what a rank asks of its streams and communicators is what the Program says") {
  for (const auto& sets : kLayouts) {
    CAPTURE(sets);
    const RecordedRun run = run_recorded(kStudy, sets);
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
      CAPTURE(r);
      const RecordedRank& rank = run.ranks[r];
      const RankClass& list = run.program.body[list_of(run.program, static_cast<std::int64_t>(r))];
      const std::vector<Issued> ops = issued_ops(run.program, list);
      std::vector<const ProgramOp*> launched, issued;
      for (const StreamCall& call : rank.streams) {
        if (call.kind != StreamCall::kLaunch) continue;
        CHECK(call.stream == call.op->stream);
        launched.push_back(call.op);
      }
      for (const Issued& one : ops) issued.push_back(one.op);
      CHECK(launched == issued);
      const std::vector<Ended> order = recorded_order(rank);
      CHECK(order == DemandedOrder(run.program, list).find());
      CHECK(rank.calls == expected_calls(run.program, static_cast<std::int64_t>(r), list));
      CHECK(races(rank, order, ops) == 0);
    }
  }
}

TEST_CASE("what a transfer or collective makes lies where kernels of main take no scratch memory") {
  // A kernel's scratch memory is given back while the kernel may still run on a GPU, and is no
  // value of the Program that an event stands for.
  std::size_t made = 0;
  for (const auto& sets : kLayouts) {
    CAPTURE(sets);
    const RecordedRun run = run_recorded(kStudy, sets);
    const Program& program = run.program;
    for (std::size_t r = 0; r < run.ranks.size(); ++r) {
      const RecordedRank& rank = run.ranks[r];
      const RankClass& list = program.body[list_of(program, static_cast<std::int64_t>(r))];
      const std::vector<Issued> ops = issued_ops(program, list);
      for (const MemoryAccess& access : rank.memory) {
        const ProgramOp& op = *ops[access.launch].op;
        if (!access.writes || op.stream == StreamId::kMain || !is_communication(op.kind)) continue;
        const ValueId root = storage_root(program, op.writes[0].value);
        const Value& value = program.values[root];
        CAPTURE(value.name);
        // A slot has an order of its own; what is there already was ordered when it was made.
        if (value.pool != kNoIndex || value.scope == Scope::kPersistent) continue;
        if (!op.reads.empty() && storage_root(program, op.reads[0].value) == root) continue;
        CHECK(std::any_of(rank.beside_main.begin(), rank.beside_main.end(), [&](const auto& range) {
          return range.first <= access.begin && access.end <= range.second;
        }));
        ++made;
      }
    }
  }
  CHECK(made > 0);
}

TEST_CASE("the check for races finds what an event kept apart") {
  // The same record without its waits: communication no longer follows the kernels that it reads
  // from.
  RecordedRun run = run_recorded(kStudy, {"cluster.ranks=2", "parallel.tensor=2"});
  RecordedRank& rank = run.ranks[0];
  auto& calls = rank.streams;
  calls.erase(std::remove_if(calls.begin(), calls.end(),
                             [](const StreamCall& call) { return call.kind == StreamCall::kWait; }),
              calls.end());
  CHECK(races(rank, recorded_order(rank),
              issued_ops(run.program, run.program.body[list_of(run.program, 0)])) > 0);
}

}  // namespace trainyard::recorded_streams_test
