// verify(): the worked example can run; every rule is broken once, and the violation is named.
#include "engine/program/verify.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "engine/program/program_text.h"
#include "tests/support/example_program.h"
#include "tests/support/studies.h"
#include "tests/support/timing.h"

namespace trainyard::verify_test {

namespace {

std::string violation(const std::string& text) {
  return find_violation(parse_program(text, "test")).value_or("none");
}

/// What is wrong with the example once `from` is `to`.
std::string violation(const std::string& from, const std::string& to) {
  return violation(with(kExampleProgram, from, to));
}

/// What is wrong with the example once `edit` has been at it: for what the text form cannot say.
template <typename Edit>
std::string violation_after(const Edit& edit) {
  Program program = parse_program(kExampleProgram, "test");
  edit(program);
  return find_violation(program).value_or("none");
}

const std::string kFirstList =
    "0ZERO 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0FREE_F0 0RECV_B1 0B1 0FREE_F1 0NORM 0UPDATE";
const std::string kSecondList =
    "1ZERO 1RECV_F0 1RECV_F1 1F0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1FREE_B0 1FREE_B1 1NORM 1UPDATE";

}  // namespace

TEST_CASE("the worked example can run") { CHECK(violation(kExampleProgram) == "none"); }

TEST_CASE("a value is read only once it is written") {
  CHECK(violation("  main linear_dx dy0[m] w2 -> da\n", "") ==
        "segment 0B: gelu_dx reads da, which nothing has written");
  CHECK(violation(kFirstList, with(kFirstList, "0RECV_B0 0B0", "0B0 0RECV_B0")) ==
        "class pp:0: 0B0: dy0 is used before it is written");
  CHECK(violation(kFirstList, with(kFirstList, "0ZERO ", "")) ==
        "class pp:0: 0B0: gw1 is used before it is written");
  // A step's value of another class is another value: each class writes its own.
  CHECK(violation("adamw N0 gw1 gw2", "adamw N1 gw1 gw2") ==
        "class pp:0: 0UPDATE: N1 is used before it is written");
  CHECK(violation("main adamw N0 gw1 gw2 +> w1 w2\n",
                  "main adamw N0 gw1 gw2 +> w1 w2 guard loss\n") ==
        "class pp:0: 0UPDATE: loss is used before it is written");
}

TEST_CASE("an instance is written once") {
  CHECK(violation("  main gelu h0[m] -> a0[m]\n",
                  "  main gelu h0[m] -> a0[m]\n  main gelu h0[m] -> a0[m]\n") ==
        "segment 0F: gelu writes a0 a second time");
  CHECK(violation(kFirstList, with(kFirstList, "0F1 ", "0F0 ")) ==
        "class pp:0: 0F0: x0 is written a second time");
  CHECK(violation(kFirstList, with(kFirstList, "0B0 ", "0B0 0ZERO ")) ==
        "class pp:0: 0ZERO: gw1 is written a second time");
}

TEST_CASE("a value is not used after it is freed, nor freed twice") {
  CHECK(violation("  main free p1[m] t1[m]\n",
                  "  main free p1[m] t1[m]\n  main gelu y1[m] -> dx1[m]\n") ==
        "segment 1F: gelu reads y1 after it was freed");
  CHECK(violation("  main free x0[m] dh\n", "  main free x0[m] dh\n  main free dh\n") ==
        "segment 0B: frees dh twice");
  CHECK(violation(kFirstList, with(kFirstList, "0FREE_F0 ", "0FREE_F0 0FREE_F0 ")) ==
        "class pp:0: 0FREE_F0: p0 is used after it was freed");
  CHECK(violation(kFirstList, with(kFirstList, "0SEND_F0 0F1", "0FREE_F0 0SEND_F0 0F1")) ==
        "class pp:0: 0SEND_F0: y0 is used after it was freed");
}

TEST_CASE("nothing leaks") {
  CHECK(violation("  main free da h0[m]\n", "  main free h0[m]\n") ==
        "segment 0B: da is never freed");
  CHECK(violation(kFirstList, with(kFirstList, " 0FREE_F1", "")) ==
        "class pp:0: p0 of microbatch 1 is never freed");
  CHECK(violation("free gv1 gv2 n1 loss", "free gv1 gv2 n1") == "class pp:1: loss is never freed");
}

TEST_CASE("only whole storages that end are freed") {
  CHECK(violation("main free p1[m]", "main free y1[m]") == "segment 1F: frees y1, a view");
  CHECK(violation("free gw1 gw2 n0", "free gw1 gw2 n0 w1") ==
        "segment 0UPDATE: frees w1, which is persistent");
}

TEST_CASE("a pool never holds more than its slots") {
  CHECK(violation("pool rf:2", "pool rf:1") ==
        "class pp:1: 1RECV_F: pool rf has 1 slots, all in use");
  // x1 is 16 x 4 fp32: two slots of 256 bytes.
  CHECK(violation("pool rf:2", "pool rf:2 buffer:512") == "none");
  CHECK(violation("pool rf:2", "pool rf:2 buffer:511") ==
        "pool rf: 2 slots for x1 are more than its buffer");
  CHECK(violation("pool rb:1", "pool rb:0") ==
        "class pp:0: 0RECV_B: pool rb has 0 slots, all in use");
  // One slot does for the receives of a rank that frees before it receives again.
  const std::string early = with(kFirstList, "0B0 0FREE_F0 0RECV_B1", "0RECV_B1 0B0 0FREE_F0");
  CHECK(violation(kFirstList, early) == "class pp:0: 0RECV_B: pool rb has 1 slots, all in use");
}

TEST_CASE("communication that crosses is a deadlock, and both ends are named") {
  // 1F1B as it is often drawn, with the receive right before its use: stage 0 sends its second
  // activation while stage 1 sends its first gradient.
  const std::string crossing =
      with(kSecondList, "1RECV_F1 1F0 1B0 1SEND_B0 1F1", "1F0 1B0 1SEND_B0 1RECV_F1 1F1");
  CHECK(violation(kSecondList, crossing) ==
        "no order of communication suits every rank: class pp:0 is stuck at 0SEND_F1; "
        "class pp:1 is stuck at 1SEND_B0");
}

TEST_CASE("a batch of transfers that the host waits for may cross another") {
  const std::string crossing =
      with(kSecondList, "1RECV_F1 1F0 1B0 1SEND_B0 1F1", "1F0 1B0 1SEND_B0 1RECV_F1 1F1");
  std::string text = with(kExampleProgram, kSecondList, crossing);
  text = with(text, "fwd recv:1 -> x1[m]", "fwd recv:1 -> x1[m] host_sync");
  text = with(text, "bwd recv:0 -> dy0[m]", "bwd recv:0 -> dy0[m] host_sync");
  CHECK(violation(text) == "none");
  // It is enough that one of the two is a batch; another call between its transfers ends it.
  text = with(text, "0SEND_F1 0RECV_B0 0B0 0FREE_F0", "0SEND_F1 0FREE_F0 0RECV_B0 0B0");
  CHECK(violation(text) == "none");
  std::string ended = with(text, "1SEND_B0 1RECV_F1", "1SEND_B0 1FREE_B0 1RECV_F1");
  ended = with(ended, "1FREE_B0 1FREE_B1 1NORM", "1FREE_B1 1NORM");
  CHECK(violation(ended) ==
        "no order of communication suits every rank: class pp:0 is stuck at 0SEND_F1; "
        "class pp:1 is stuck at 1SEND_B0");
}

TEST_CASE("what the host waits for ends what a batch issues") {
  const std::string crossing =
      with(kSecondList, "1RECV_F1 1F0 1B0 1SEND_B0 1F1", "1F0 1B0 1SEND_B0 1RECV_F1 1F1");
  std::string text = with(kExampleProgram, kSecondList, crossing);
  text = with(text, "fwd recv:1 -> x1[m]", "fwd recv:1 -> x1[m] host_sync");
  text = with(text, "bwd recv:0 -> dy0[m]", "bwd recv:0 -> dy0[m] host_sync");
  std::string receives_first = with(text, "0SEND_F1 0RECV_B0", "0RECV_B0 0SEND_F1");
  CHECK(violation(receives_first) == "none");
  receives_first = with(receives_first, "1SEND_B0 1RECV_F1", "1RECV_F1 1SEND_B0");
  CHECK(violation(receives_first) ==
        "no order of communication suits every rank: class pp:0 is stuck at 0RECV_B0; "
        "class pp:1 is stuck at 1RECV_F1");
}

TEST_CASE(
    "both ends of a transfer are there, for the same microbatch, in the same order and size") {
  SECTION("a receive that is missing") {
    std::string text = with(kExampleProgram, " 1RECV_F1 1F0", " 1F0");
    text = with(text, " 1F1 1B1 1SEND_B1", "");
    text = with(text, " 1FREE_B1", "");
    CHECK(violation(text) ==
          "no order of communication suits every rank: class pp:0 is stuck at 0SEND_F1; "
          "class pp:1 is stuck at 1SEND_B0");
  }
  SECTION("receives in another order") {
    CHECK(violation("1RECV_F0 1RECV_F1", "1RECV_F1 1RECV_F0") ==
          "no order of communication suits every rank: class pp:0 is stuck at 0SEND_F0; "
          "class pp:1 is stuck at 1RECV_F1");
  }
  SECTION("different bytes") {
    CHECK(violation("value x1 fp32[16,4]", "value x1 bf16[16,4]") ==
          "0SEND_F and 1RECV_F do not agree on the bytes of their transfer");
  }
  SECTION("one end on a device, the other on a host") {
    std::string text = with(kExampleProgram, "value x1 fp32[16,4] mb buffer [R, R] E(tp) pool:rf",
                            "value x1 fp32[16,4] mb buffer [R, R] E(tp) pool:rf host");
    text = with(text, "pool rf:2", "pool rf:2 host");
    CHECK(violation(text) == "0SEND_F and 1RECV_F do not agree on the way of their transfer");
  }
  SECTION("a receive may have a stream of its own") {
    CHECK(violation("fwd recv:1", "fwd_in recv:1") == "none");
  }
  SECTION("different streams") {
    CHECK(violation("fwd recv:1", "bwd recv:1") ==
          "no order of communication suits every rank: class pp:0 is stuck at 0SEND_F0; "
          "class pp:1 is stuck at 1RECV_F0");
  }
}

TEST_CASE("a collective of several pipeline ranks has all its members, in one order and size") {
  const std::string alone =
      "no order of communication suits every rank: class pp:0 is stuck at 0NORM; "
      "class pp:1 is stuck at 1SEND_B1";
  CHECK(violation(kFirstList, with(kFirstList, "0RECV_B1 0B1 0FREE_F1 0NORM 0UPDATE",
                                   "0NORM 0RECV_B1 0B1 0FREE_F1 0UPDATE")) == alone);
  const std::string different =
      "no order of communication suits every rank: class pp:0 is stuck at 0NORM; "
      "class pp:1 is stuck at 1NORM";
  CHECK(violation("value n1 fp32[1]", "value n1 fp32[2]") == different);
  CHECK(violation(with(with(kExampleProgram, "value N1 fp32[1] step gradient",
                            "value N1 fp32[1] step gradient [tp]"),
                       "norm all_reduce:all n1", "norm reduce_scatter:all n1")) == different);
  CHECK(violation("norm all_reduce:all n1", "dp all_reduce:all n1") == different);
  CHECK(violation(with(with(kExampleProgram, "norm all_reduce:all n0", "fwd all_reduce:all n0"),
                       "norm all_reduce:all n1", "fwd_in all_reduce:all n1")) == different);
  CHECK(violation("group all[pp,tp]", "group all[pp,tp]{0}") ==
        "class pp:1: 1NORM: is not in group all");
}

TEST_CASE("what is issued inside a call leaves alone what the call still uses") {
  // As if the gradients were reduced in the last backward: n0 = their sum is taken inside 0B1.
  const std::string list = with(kFirstList, "0B1 0FREE_F1 0NORM", "0B1{@7:0NORM} 0FREE_F1");
  CHECK(violation(kFirstList, list) == "none");
  std::string reduce = with(kExampleProgram, kFirstList, list);
  reduce = with(reduce, "main sum_squares gw1 gw2 -> n0",
                "main sum_squares gw1 gw2 -> n0\n  main add gw2 +> gw2");
  CHECK(violation(reduce) == "none");
  CHECK(violation(with(reduce, "@7:0NORM", "@1:0NORM")) ==
        "class pp:0: 0B op 1 uses gw2, which 0NORM inside it has taken over");
}

TEST_CASE("nothing is added to a gradient that has been reduced") {
  // The bucket's reduction moves from the last backward into the one before: what the last one adds
  // would reach no other rank.
  Program program = compiled_program(
      prepare_text("model: {family: gpt, layers: 1, hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
                   "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {data: 2}\n"
                   "training: {global_batch: 4, microbatch: 1}\n"));
  CHECK(find_violation(program).value_or("none") == "none");
  std::vector<Call*> backwards;
  for (Call& call : program.body[0].calls) {
    if (program.segments[call.segment].name == "0B") backwards.push_back(&call);
  }
  REQUIRE(backwards.size() == 2);
  REQUIRE(backwards[1]->inside.size() == 1);
  backwards[0]->inside.swap(backwards[1]->inside);
  CHECK(find_violation(program).value_or("none") ==
        "class: 0B1: linear_dw adds to grad.embedding.tokens.weight, which 0REDUCE_GRAD.0 has "
        "reduced");
}

TEST_CASE("a bucket may be added to beside the part of it that has been reduced") {
  // One storage g: gw1, gw2, and 32 more elements that nobody adds to.
  std::string text =
      with(kExampleProgram,
           "value gw1 fp32[8,4] step gradient [tp, R]\nvalue gw2 fp32[4,8] step gradient [R, tp]\n",
           "value g fp32[96] step gradient [tp]\nvalue gw1 fp32[8,4] step gradient [tp, R] in:g+0\n"
           "value gw2 fp32[4,8] step gradient [R, tp] in:g+32\n"
           "value r fp32[32] step gradient [tp] in:g+64\n");
  text = with(text, "group all", "group one[pp]{0}\ngroup all");
  text = with(with(text, "zero -> gw1 gw2", "zero -> g"), "free gw1 gw2 n0", "free g n0");
  text = with(text, "0B1 ", "0REDUCE 0B1 ");
  const auto reducing = [&](const std::string& part, const std::string& sum) {
    const std::string values = with(text, "value loss", "value R " + sum + "\nvalue loss");
    return violation(with(
        values, "segment 0NORM()",
        "segment 0REDUCE() stage:0 C\n  tp all_reduce:one " + part + " -> R\nsegment 0NORM()"));
  };
  CHECK(reducing("r", "fp32[32] step gradient [tp] in:g+64") == "none");
  CHECK(reducing("gw2", "fp32[4,8] step gradient [R, tp] in:g+32") ==
        "class pp:0: 0B1: linear_dw adds to gw2, which 0REDUCE has reduced");
  CHECK(reducing("g", "fp32[96] step gradient [tp] in:g+0") ==
        "class pp:0: 0B1: linear_dw adds to gw2, which 0REDUCE has reduced");
}

TEST_CASE("a view lies inside its storage and lives as long") {
  CHECK(violation("N0 fp32[1] step gradient in:n0+0", "N0 fp32[1] step gradient in:n0+1") ==
        "value N0: reaches past the end of n0");
  CHECK(violation("N0 fp32[1]", "N0 fp32[2]") == "value N0: reaches past the end of n0");
  CHECK(violation("N0 fp32[1] step gradient", "N0 fp32[1] persistent gradient") ==
        "value N0: does not live as long as n0");
}

TEST_CASE("ops have the operands that their kind takes") {
  CHECK(violation("tp all_reduce:tp p0", "tp all_reduce p0") ==
        "segment 0F op 4: all_reduce: has no group");
  CHECK(violation("fwd send:0", "fwd send") == "segment 0SEND_F op 0: send: has no peer");
  CHECK(violation("fwd send:0 y0[m]", "fwd send:0 y0[m] x0[m]") ==
        "segment 0SEND_F op 0: send: reads 1 and writes 0 value");
  CHECK(violation("fwd recv:1 -> x1[m]", "fwd recv:1 x1[m]") ==
        "segment 1RECV_F op 0: recv: reads 0 and writes 1 value");
  CHECK(violation("main free p1[m]", "tp free p1[m]") ==
        "segment 1F op 6: free: is not on the main stream");
  CHECK(violation("main gelu h0[m] -> a0[m]", "main gelu h0[m] -> a0[m] after:2") ==
        "segment 0F op 2: gelu: waits for a later op");
  CHECK(violation("main gelu h0[m] -> a0[m]", "main gelu h0[n] -> a0[m]") ==
        "segment 0F op 2: gelu: h0 of no such microbatch");
  CHECK(violation("main zero -> gw1 gw2", "main zero -> gw1 gw2 x0[m]") ==
        "segment 0ZERO op 0: zero: x0 without a microbatch");
  CHECK(violation("transfer 0 pp+1", "transfer 0 pp+2") ==
        "segment 0SEND_F op 0: send: is its own peer");
  CHECK(violation("transfer 0 pp+1", "transfer 0 tp+1") ==
        "transfer 0 leaves the pipeline; this version has none that do");
}

TEST_CASE("calls name segments that can be called so") {
  CHECK(violation("0B0 ", "0B0^6 ") == "class pp:0 call 6: 0B waits for a call after it");
  CHECK(violation("0B0 ", "0B0{@8:0NORM} ") == "class pp:0 call 6: 0B: a call inside at no op");
  CHECK(violation("0B0 ", "0B0{@3:0NORM;@2:0NORM} ") ==
        "class pp:0 call 6: 0B: calls inside that are not in order");
  CHECK(violation("0B0 ", "0B0{@3:0F} ") == "class pp:0 call 6: 0B: no segment to call inside");
  CHECK(violation_after([](Program& p) { p.segments[SegmentId(2)].slots = 2; }) ==
        "class pp:0 call 1: 0F called with microbatch -1");
  const auto pair = [](Microbatch second) {
    return [second](Program& p) {
      p.segments[SegmentId(2)].slots = 2;
      for (Call& call : p.body[0].calls) {
        if (call.segment == SegmentId(2)) call.mb[1] = second;
      }
    };
  };
  CHECK(violation_after(pair(0)) == "class pp:0 call 1: 0F called with microbatch 0 twice");
  CHECK(violation_after(pair(2)) == "class pp:0 call 1: 0F called with microbatch 2");
  CHECK(violation_after([](Program& p) { p.body[0].calls[1].mb[1] = 1; }) ==
        "class pp:0 call 1: 0F called with microbatch 1");
}

TEST_CASE("every pipeline rank has its class, every rank its number") {
  CHECK(violation("class pp:1\n", "class\n") == "class 1 is not 'class pp:1'");
  CHECK(violation("class pp:1\n  " + kSecondList + "\n", "") == "1 classes for 2 pipeline ranks");
  CHECK(violation("placement pp:2", "placement pp:1") ==
        "the placement does not give every rank its own number");
}

TEST_CASE("ids that name nothing are found before anything is looked up by them") {
  const auto op = [](Program& p) -> ProgramOp& {
    return p.segments[SegmentId(2)].ops[2];
  };  // gelu of 0F
  CHECK(violation_after([&](Program& p) { op(p).reads[0].value = ValueId(99); }) ==
        "segment 0F op 2: gelu: no value 99");
  CHECK(violation_after([&](Program& p) {
          op(p).guard = Operand{kNoIndex, 0};
        }) == "segment 0F op 2: gelu: no value -1");
  CHECK(violation_after([&](Program& p) { op(p).attrs = AttrId(5); }) ==
        "segment 0F op 2: gelu: no attributes 5");
  CHECK(violation_after([&](Program& p) { op(p).module = PathId(-2); }) ==
        "segment 0F op 2: gelu: no module -2");
  CHECK(violation_after([&](Program& p) { op(p).group = GroupId(0); }) ==
        "segment 0F op 2: gelu: has a group");
  CHECK(violation_after([&](Program& p) { op(p).transfer = TransferId(0); }) ==
        "segment 0F op 2: gelu: has a peer");
  CHECK(violation_after([](Program& p) { p.segments[SegmentId(2)].ops[4].group = GroupId(2); }) ==
        "segment 0F op 4: all_reduce: has no group");
  CHECK(violation_after([](Program& p) { p.values[ValueId(0)].pool = PoolId(2); }) ==
        "value w1: no such pool");
  CHECK(violation("pool rf:2", "pool rf:2 host") == "value x1: is in another space than its pool");
  CHECK(violation_after([](Program& p) {
          p.values[ValueId(0)].alias = Alias{ValueId(0), 0, {}};
        }) == "value w1: its storage leads nowhere");
  CHECK(violation_after([](Program& p) { p.values[ValueId(0)].dims[0].bound = 7; }) ==
        "value w1: bad extent");
  CHECK(violation_after([](Program& p) { p.groups[GroupId(1)].members = {2}; }) ==
        "group all: bad members");
  CHECK(violation_after([](Program& p) { p.mesh.axes[1].size = 0; }) ==
        "the mesh: axis tp has 0 ranks; 1 is the least");
  CHECK(violation_after([](Program& p) { p.body[0].calls[1].segment = SegmentId(50); }) ==
        "class pp:0 call 1: no segment 50");
  CHECK(violation_after([](Program& p) { p.body[0].calls[1].mb[0] = 2; }) ==
        "class pp:0 call 1: 0F called with microbatch 2");
  CHECK(violation_after([](Program& p) { p.body[0].calls[0].mb[0] = 0; }) ==
        "class pp:0 call 0: 0ZERO called with microbatch 0");
}

TEST_CASE("whatever order of calls is accepted, the executor runs to its end") {
  // Calls moved about at random in the example and in a compiled study: an accepted order that
  // deadlocks would abort the executor.
  const Program compiled = compiled_program(prepare_text(
      "model: {family: gpt, layers: 3, hidden: 8, heads: 2, vocab: 16, seq_len: 4}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\nparallel: {tensor: 2, pipeline: 3, data: 1}\n"
      "training: {global_batch: 4, microbatch: 1}\n"));
  std::mt19937 random(5);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    Program program = i % 2 == 0 ? parse_program(kExampleProgram, "test") : compiled;
    for (int moves = 0; moves < 2; ++moves) {
      auto& calls = program.body[random() % program.body.size()].calls;
      const auto from = calls.begin() + static_cast<std::ptrdiff_t>(random() % calls.size());
      const auto to = calls.begin() + static_cast<std::ptrdiff_t>(random() % calls.size());
      if (from < to)
        std::rotate(from, from + 1, to + 1);
      else
        std::rotate(to, from, from + 1);
    }
    if (find_violation(program)) {
      ++refused;
      continue;
    }
    ++accepted;
    CHECK(run(program, zero_costs(program, free_links(program.mesh.num_ranks()))).period == 0);
  }
  CHECK(accepted > 100);
  CHECK(refused > 100);
}

}  // namespace trainyard::verify_test
