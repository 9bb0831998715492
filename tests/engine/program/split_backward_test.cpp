// Programs whose schedule splits the backward, turns in a V or recomputes early: what stands in
// which segment, that nothing is left out or done twice, and how long values live.
#include "engine/passes/split_backward.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "engine/schedule/schedule_timing.h"
#include "tests/support/studies.h"

namespace trainyard::split_backward_test {

namespace {

const std::string kGpt = "{family: gpt, layers: 8, hidden: 16, heads: 4, vocab: 40, seq_len: 8}";

std::string study(const std::string& model, const std::string& parallel,
                  const std::string& schedule, int batch = 8) {
  return "model: " + model + "\ncluster: {preset: dgx-a100-80g, nodes: 2}\nparallel: " + parallel +
         "\ntraining: {global_batch: " + std::to_string(batch) +
         ", dropout: 0}\nschedule: " + schedule + "\n";
}

struct Compiled {
  Program program;
  PipelineSchedule schedule;
};

Compiled compiled(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  const Prepared prepared = prepare_text(yaml, sets);
  PassLog log;
  auto result = compile(prepared.model, prepared.study, prepared.software, log);
  if (const auto* reason = std::get_if<Infeasible>(&result)) FAIL(reason->reason);
  return {std::move(std::get<Program>(result)), log.schedule};
}

const Segment* find_segment(const Program& program, const std::string& name) {
  const auto it = std::find_if(program.segments.begin(), program.segments.end(),
                               [&](const Segment& segment) { return segment.name == name; });
  return it == program.segments.end() ? nullptr : &*it;
}

/// What an op does and to what, whatever segment it is in.
using Ops = std::map<std::string, std::int64_t>;

std::string key_of(const Program& program, const ProgramOp& op) {
  std::string text = op_name(op.kind, op.part) + " of " + program.modules[op.module] + ":";
  for (const auto* list : {&op.reads, &op.writes, &op.accumulates}) {
    for (const Operand& operand : *list) text += " " + program.values[operand.value].name;
    text += " |";
  }
  return text;
}

/// What one has more often than the other; empty where they are equal.
std::string difference(const Ops& a, const Ops& b) {
  std::string text;
  for (const auto& [op, count] : a) {
    const auto it = b.find(op);
    const std::int64_t other = it == b.end() ? 0 : it->second;
    if (count > other) text += op + " x " + std::to_string(count - other) + " in the first\n";
  }
  for (const auto& [op, count] : b) {
    const auto it = a.find(op);
    const std::int64_t other = it == a.end() ? 0 : it->second;
    if (count > other) text += op + " x " + std::to_string(count - other) + " in the second\n";
  }
  return text;
}

Ops ops_of(const Program& program, const std::vector<std::string>& segments) {
  Ops out;
  for (const std::string& name : segments) {
    const Segment* segment = find_segment(program, name);
    REQUIRE(segment != nullptr);
    for (const ProgramOp& op : segment->ops) {
      if (op.kind != OpKind::kFree) ++out[key_of(program, op)];
    }
  }
  return out;
}

/// Kernels and collectives of all microbatches by kind and module, over all ranks; what connects
/// stages left out.
Ops work_of(const Program& program) {
  Ops out;
  for (const RankClass& list : program.body) {
    for (const Call& call : list.calls) {
      const Segment& segment = program.segments[call.segment];
      for (const ProgramOp& op : segment.ops) {
        const bool connects =
            is_transfer(op.kind) || op.kind == OpKind::kSlice || op.kind == OpKind::kFree;
        const bool once = segment.phase == Phase::kPrepare || segment.phase == Phase::kUpdate;
        if (connects || once || segment.phase == Phase::kCommunicate) continue;
        if (op.stream == StreamId::kMain || op.stream == StreamId::kTp) {
          ++out[op_name(op.kind, op.part) + " of " + program.modules[op.module]];
        }
      }
    }
  }
  return out;
}

std::string kinds(const Segment& segment) {
  std::string out;
  for (const ProgramOp& op : segment.ops) {
    if (op.kind == OpKind::kFree) continue;
    out += (out.empty() ? "" : " ") + op_name(op.kind, op.part);
  }
  return out;
}

/// Most instances of a value alive at once on the rank, by where it is written and freed: "FW".
std::map<std::string, int> most_alive(const Program& program, const RankClass& list) {
  std::map<ValueId, std::pair<char, char>> ends;  // phases that write and free it
  const auto see = [&](const Segment& segment) {
    for (const ProgramOp& op : segment.ops) {
      for (const Operand& o : op.kind == OpKind::kFree ? op.reads : op.writes) {
        const Value& value = program.values[o.value];
        if (value.scope != Scope::kMicrobatch || value.alias || value.pool != kNoIndex) continue;
        auto& [written, freed] = ends.try_emplace(o.value, '?', '?').first->second;
        // The first microbatch of a pair is its forward's.
        const char phase = segment.slots == 2 && o.slot == 0 ? 'F' : letter(segment.phase);
        (op.kind == OpKind::kFree ? freed : written) = phase;
      }
    }
  };
  for (const Call& call : list.calls) see(program.segments[call.segment]);
  std::map<ValueId, int> alive;
  std::map<std::string, int> most;
  for (const Call& call : list.calls) {
    for (const ProgramOp& op : program.segments[call.segment].ops) {
      for (const Operand& o : op.kind == OpKind::kFree ? op.reads : op.writes) {
        const auto it = ends.find(o.value);
        if (it == ends.end()) continue;
        int& now = alive[o.value];
        now += op.kind == OpKind::kFree ? -1 : 1;
        int& peak = most[std::string{it->second.first, it->second.second}];
        peak = std::max(peak, now);
      }
    }
  }
  for (const auto& [value, left] : alive) CHECK(left == 0);
  return most;
}

}  // namespace

TEST_CASE("W adds to gradients of parameters; every gradient of an activation is I's") {
  // One layer of GPT: fc2, fc1, projection, qkv have a weight gradient each; norms give both
  // gradients in one kernel, biases of linears come with their weights. On the first stage I still
  // leads to the embedding's output.
  const Program p =
      compiled(study("{family: gpt, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}",
                     "{pipeline: 2, data: 1}", "zb-h1"))
          .program;
  CHECK(kinds(*find_segment(p, "0W")) ==
        "linear_dw linear_dw linear_dw linear_dw embedding_dw embedding_dw");
  CHECK(kinds(*find_segment(p, "0I")) ==
        "linear_dx gelu_dx linear_dx layer_norm_b add linear_dx flash_attention_dx linear_dx "
        "layer_norm_b add");
  CHECK(kinds(*find_segment(p, "1W")) == "linear_dw linear_dw linear_dw linear_dw linear_dw");
  CHECK(find_segment(p, "0B") == nullptr);
}

TEST_CASE(
    "gathers of kept shards, and products that a second kernel adds, go with the weight "
    "gradients") {
  const Program p =
      compiled(study(kGpt, "{pipeline: 4, tensor: 2, data: 1, sequence_parallel: true}", "zb-h1"))
          .program;
  // Stage 1, two layers: behind the norms the gathered input is kept as a shard, for fc1 and qkv.
  // The bias of a row-parallel GEMM comes after its reduction, so it has a gradient of its own.
  CHECK(kinds(*find_segment(p, "1W")) ==
        "add_bias_dw linear_dw all_gather linear_dw add_bias_dw linear_dw all_gather linear_dw "
        "add_bias_dw linear_dw all_gather linear_dw add_bias_dw linear_dw all_gather linear_dw");
  const Program apart = compiled(study(kGpt, "{pipeline: 4, data: 1}", "zb-h1"),
                                 {"framework={name: megatron-lm, version: 2021}"})
                            .program;
  CHECK(kinds(*find_segment(apart, "1W")).starts_with("linear_dw add linear_dw add"));
}

TEST_CASE("the halves of a backward hold its ops, each once") {
  const std::string model = GENERATE(
      as<std::string>(), kGpt,
      "{family: llama, layers: 8, hidden: 16, heads: 4, kv_heads: 2, ffn: 24, vocab: 40, seq_len: "
      "8}",
      "{family: bert, layers: 8, hidden: 16, heads: 4, vocab: 40, seq_len: 8, next_sentence: true}",
      "{family: t5, layers: 4, hidden: 16, heads: 4, vocab: 40, seq_len: 8}");
  const std::vector<std::string> sets = GENERATE(values<std::vector<std::string>>(
      {{"recompute=none"},
       {"recompute=full", "parallel.tensor=2"},
       {"recompute=selective", "parallel.tensor=2", "parallel.sequence_parallel=true",
        "training.flash_attention=false"},
       {"recompute=full", "parallel.tensor=2", "parallel.sequence_parallel=true"}}));
  CAPTURE(model, sets);
  const Program whole = compiled(study(model, "{pipeline: 4, data: 1}", "1f1b"), sets).program;
  const Program split = compiled(study(model, "{pipeline: 4, data: 1}", "zb-h1"), sets).program;
  for (const std::string stage : {"0", "1", "2", "3"}) {
    CHECK(difference(ops_of(split, {stage + "F"}), ops_of(whole, {stage + "F"})) == "");
    CHECK(difference(ops_of(split, {stage + "I", stage + "W"}), ops_of(whole, {stage + "B"})) ==
          "");
    // What is recomputed is I's: nothing of W computes a forward but gathers.
    for (const ProgramOp& op : find_segment(split, stage + "W")->ops) {
      if (op.part == OpPart::kForward && op.kind != OpKind::kFree) CHECK(is_collective(op.kind));
    }
  }
}

TEST_CASE("a schedule changes the order of a step's work, not the work") {
  const std::string tensor = GENERATE("1", "2");
  const std::string recompute = GENERATE("none", "full");
  CAPTURE(tensor, recompute);
  const std::vector<std::string> sets = {"parallel.tensor=" + tensor, "recompute=" + recompute};
  const auto work = [&](const std::string& parallel, const std::string& schedule) {
    return work_of(compiled(study(kGpt, parallel, schedule), sets).program);
  };
  const auto plain = work("{pipeline: 4, data: 1}", "1f1b");
  CHECK(difference(work("{pipeline: 4, data: 1}", "zb-h1"), plain) == "");
  if (recompute == "full")
    CHECK(difference(work("{pipeline: 4, data: 1}", "pre-recompute"), plain) == "");
  const auto virtual_stages =
      work("{pipeline: 4, virtual_stages: 2, data: 1, scatter_gather: false}", "interleaved");
  CHECK(difference(work("{pipeline: 4, virtual_stages: 2, data: 1, scatter_gather: false}",
                        "interleaved-zb1p"),
                   virtual_stages) == "");
  CHECK(difference(work("{pipeline: 4, data: 1, scatter_gather: false}", "zb-v"), virtual_stages) ==
        "");
  CHECK(difference(work("{pipeline: 4, data: 1, scatter_gather: false}", "dualpipe-v"),
                   virtual_stages) == "");
}

TEST_CASE(
    "R is a forward of its own for microbatches that recompute early, none of it is done twice") {
  // s = 4, m = 8. A backward behind an R recomputes nothing, one without recomputes inside.
  const Compiled scp = compiled(study(kGpt, "{pipeline: 4, data: 1}", "scp"), {"recompute=full"});
  const Program full =
      compiled(study(kGpt, "{pipeline: 4, data: 1}", "1f1b"), {"recompute=full"}).program;
  const Program none = compiled(study(kGpt, "{pipeline: 4, data: 1}", "1f1b")).program;
  for (const std::string stage : {"0", "1", "2"}) {
    CHECK(difference(ops_of(scp.program, {stage + "R", stage + "B"}),
                     ops_of(full, {stage + "B"})) == "");
    CHECK(difference(ops_of(scp.program, {stage + "B.r"}), ops_of(full, {stage + "B"})) == "");
  }
  CHECK(difference(ops_of(scp.program, {"3B"}), ops_of(none, {"3B"})) ==
        "");  // the last stage keeps its activations
  CHECK(find_segment(scp.program, "3R") == nullptr);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::map<Microbatch, std::string> order;
    for (const Call& call : scp.program.body[rank].calls) {
      const Segment& segment = scp.program.segments[call.segment];
      if (segment.phase <= Phase::kRecompute) order[call.mb[0]] += segment.name.substr(1) + " ";
    }
    for (const auto& [mb, calls] : order) {
      const auto& actions = scp.schedule.actions[rank];
      const bool early =
          std::any_of(actions.begin(), actions.end(), [&, m = mb](const Action& action) {
            return action.phase == ActionPhase::kEarlyRecompute && action.microbatch == m;
          });
      CHECK(calls == (rank == 3 ? "F B " : early ? "F R B " : "F B.r "));
    }
  }
}

TEST_CASE("what W reads lives until W, in as many microbatches as the schedule says") {
  const std::string schedule = GENERATE("zb-h1", "interleaved-zb1p", "zb-v", "dualpipe-v");
  const std::string virtual_stages = schedule == "zb-h1" ? "1" : "2";
  CAPTURE(schedule);
  const Compiled c = compiled(
      study(kGpt, "{pipeline: 4, data: 1, virtual_stages: " + virtual_stages + "}", schedule));
  for (int rank = 0; rank < 4; ++rank) {
    // Each stage of the rank counts apart, since a value belongs to a stage.
    int kept = 0, until_input = 0, between = 0;
    for (int stage = 0; stage < c.schedule.num_stages; ++stage) {
      if (c.schedule.rank_of(stage) != rank) continue;
      int whole_now = 0, input_now = 0, between_now = 0;
      for (const Action& action : c.schedule.actions[static_cast<std::size_t>(rank)]) {
        if (action.stage != stage) continue;
        if (action.phase == ActionPhase::kForward) ++whole_now, ++input_now;
        // Inside a backward the gradients that W reads are there, and what F kept still is.
        if (action.phase == ActionPhase::kBackwardInput || action.phase == ActionPhase::kBackward)
          ++between_now;
        kept = std::max(kept, whole_now);
        until_input = std::max(until_input, input_now);
        between = std::max(between, between_now);
        if (action.phase == ActionPhase::kBackwardInput) --input_now;
        if (action.phase == ActionPhase::kBackward) --whole_now, --input_now, --between_now;
        if (action.phase == ActionPhase::kBackwardWeight) --whole_now, --between_now;
      }
    }
    const auto most = most_alive(c.program, c.program.body[static_cast<std::size_t>(rank)]);
    CAPTURE(rank);
    CHECK(most.at("FW") == kept);
    CHECK(most.at("FI") == until_input);
    CHECK(most.at("IW") == between);
    if (virtual_stages == "1") CHECK(kept == peak_in_flight(c.schedule, rank));
  }
}

TEST_CASE("stages of a V hand over on their rank, without a transfer") {
  const Program p = compiled(study(kGpt, "{pipeline: 2, data: 1}", "zb-v", 2)).program;
  CHECK(p.body.size() == 2);
  CHECK(find_segment(p, "0SEND_F") != nullptr);
  CHECK(find_segment(p, "1SEND_F") == nullptr);
  CHECK(find_segment(p, "2RECV_F") == nullptr);
  CHECK(find_segment(p, "2SEND_F") != nullptr);
  CHECK(find_segment(p, "2SEND_B") == nullptr);
  CHECK(find_segment(p, "3SEND_B") != nullptr);
  // Stage 1's output is stage 2's input; so is the gradient of one that of the other.
  const auto writes = [&](const std::string& segment) {
    std::set<ValueId> out;
    for (const ProgramOp& op : find_segment(p, segment)->ops) {
      for (const Operand& o : op.writes) out.insert(o.value);
    }
    return out;
  };
  const auto reads_of = [&](const std::string& segment, const std::set<ValueId>& of) {
    int count = 0;
    for (const ProgramOp& op : find_segment(p, segment)->ops) {
      count +=
          static_cast<int>(std::count_if(op.reads.begin(), op.reads.end(),
                                         [&](const Operand& o) { return of.contains(o.value); }));
    }
    return count;
  };
  CHECK(reads_of("2F", writes("1F")) == 2);  // the norm and the residual
  CHECK(reads_of("1I", writes("2I")) > 0);
}

TEST_CASE("tied embeddings of a V lie on one rank, once") {
  const Program v = compiled(study(kGpt, "{pipeline: 4, data: 2}", "zb-v")).program;
  CHECK(std::none_of(v.groups.begin(), v.groups.end(),
                     [](const Group& group) { return group.name.starts_with("tied"); }));
  const Program line = compiled(study(kGpt, "{pipeline: 4, data: 2}", "1f1b")).program;
  CHECK(std::any_of(line.groups.begin(), line.groups.end(),
                    [](const Group& group) { return group.name.starts_with("tied"); }));
  // V h = 40 x 16 parameters of 2 bytes, and their gradients, are not on rank 3 a second time.
  const auto parameters = [](const Program& program) {
    Bytes sum = 0;
    for (const MemoryPeak& peak : memory_peaks(program, {})) sum += peak.parameters;
    return sum;
  };
  CHECK(parameters(line) - parameters(v) == 2 * 40 * 16);
}

TEST_CASE("buckets are reduced inside the last call that adds to them") {
  const std::string schedule = GENERATE("zb-h1", "zb-v", "dualpipe-v", "interleaved-zb1p");
  CAPTURE(schedule);
  const Program p = compiled(study(kGpt,
                                   "{pipeline: 2, data: 2, virtual_stages: " +
                                       std::string(schedule == "zb-h1" ? "1" : "2") + "}",
                                   schedule, 16),
                             {"training.bucket_elements=2000"})
                        .program;
  int reduced = 0;
  for (const RankClass& list : p.body) {
    // Counted from the end: the first op found to add to a storage is the last that does.
    std::map<ValueId, std::pair<std::size_t, std::size_t>> last_add;
    for (std::size_t i = list.calls.size(); i-- > 0;) {
      const auto& ops = p.segments[list.calls[i].segment].ops;
      for (std::size_t k = ops.size(); k-- > 0;) {
        if (ops[k].kind == OpKind::kSumSquares || ops[k].kind == OpKind::kAdamW) continue;
        for (const Operand& o : ops[k].accumulates)
          last_add.try_emplace(storage_root(p, o.value), i, k);
      }
    }
    for (std::size_t i = 0; i < list.calls.size(); ++i) {
      for (const auto& [at, inner] : list.calls[i].inside) {
        const ValueId bucket = storage_root(p, p.segments[inner].ops[0].reads[0].value);
        CHECK(last_add.at(bucket) == std::pair(i, static_cast<std::size_t>(at) - 1));
        ++reduced;
      }
    }
  }
  CHECK(reduced > 8);
}

TEST_CASE("Programs with split backwards parse back from their text") {
  for (const std::string schedule : {"zb-h1", "zb-v", "scp"}) {
    const Program p =
        compiled(study(kGpt, "{pipeline: 4, data: 1}", schedule), {"recompute=full"}).program;
    CHECK(to_text(parse_program(to_text(p), "program.txt")) == to_text(p));
  }
}

}  // namespace trainyard::split_backward_test
