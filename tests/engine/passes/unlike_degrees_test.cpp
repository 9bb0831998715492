// Plans whose pipeline ranks have tensor degrees of their own: who sends whom what, and the Program
// that comes of it.
#include "engine/passes/unlike_degrees.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/passes/degree_pieces.h"
#include "engine/program/program_text.h"
#include "engine/program/rank_places.h"
#include "engine/program/verify.h"
#include "tests/support/unlike_degrees.h"

namespace trainyard::unlike_degrees_test {

namespace {

using Degrees = std::vector<int>;
using Strings = std::vector<std::string>;

std::string study(const std::string& rest = "") {
  return "model: {family: llama, layers: 4, hidden: 32, heads: 4, ffn: 48, vocab: 64, seq_len: 8}\n"
         "cluster: {preset: local, ranks: 1}\n"
         "training: {global_batch: 8, microbatch: 1, clip_norm: 1}\n" +
         rest;
}

Program program_of(const Degrees& degrees, Strings sets = {}, int data = 1) {
  const Strings layout = sets_of_degrees(degrees, data);
  sets.insert(sets.begin(), layout.begin(), layout.end());
  return unlike_degrees_program(prepare_text(study(), sets), degrees);
}

DegreeRuns cut(std::int64_t elements, std::int64_t ranks) {
  DegreeRuns out;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    out.push_back({{elements / ranks * rank, elements / ranks * (rank + 1)}});
  return out;
}

/// "0>1[0-4)" of each piece, turn by turn.
Strings texts(const std::vector<DegreePiece>& pieces) {
  Strings out;
  for (const DegreePiece& piece : pieces) {
    out.resize(std::max(out.size(), piece.turn + 1));
    std::string& turn = out[piece.turn];
    turn += turn.empty() ? "" : " ";
    turn += std::to_string(piece.from) + ">" + std::to_string(piece.to) + "[" +
            std::to_string(piece.range.begin) + "-" + std::to_string(piece.range.end) + ")";
  }
  return out;
}

DegreeRuns all_have(std::int64_t elements, std::int64_t ranks) {
  return DegreeRuns(ranks, IndexRanges{{0, elements}});
}

/// Each receiver gets what it needs once, from who has it; a rank has one piece a turn.
void check_pieces(const DegreeRuns& from, const DegreeRuns& to) {
  const std::vector<DegreePiece> pieces = pieces_between(from, to);
  for (const std::int64_t j : to.keys()) {
    IndexRanges got;
    for (const DegreePiece& piece : pieces) {
      if (piece.to != j) continue;
      const auto& runs = from[piece.from];
      CHECK(std::any_of(runs.begin(), runs.end(), [&](const IndexRange& run) {
        return run.begin <= piece.range.begin && piece.range.end <= run.end;
      }));
      got.push_back(piece.range);
    }
    std::sort(got.begin(), got.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
    IndexRanges joined;
    for (const IndexRange& range : got) {
      if (!joined.empty() && joined.back().end == range.begin)
        joined.back().end = range.end;
      else
        joined.push_back(range);
    }
    CHECK(joined == to[j]);
  }
  for (const DegreePiece& a : pieces) {
    for (const DegreePiece& b : pieces) {
      if (&a == &b || a.turn != b.turn) continue;
      CHECK(a.from != b.from);
      CHECK(a.to != b.to);
    }
  }
}

}  // namespace

TEST_CASE("ranks of another degree get what they lack from those who have it, turn by turn") {
  const DegreeRuns two = all_have(12, 2), three = all_have(12, 3);
  // All have all: of two senders the first serves 0 and 2, the second 1.
  CHECK(texts(pieces_between(two, three)) == Strings{"0>0[0-12) 1>1[0-12)", "0>2[0-12)"});
  CHECK(texts(pieces_between(three, two)) == Strings{"0>0[0-12) 1>1[0-12)"});
  // Halves of 12 are 0-6 and 6-12, thirds 0-4, 4-8 and 8-12: the middle one has some of both.
  CHECK(texts(pieces_between(cut(12, 2), cut(12, 3))) ==
        Strings{"0>0[0-4) 1>1[6-8)", "0>1[4-6) 1>2[8-12)"});
  CHECK(texts(pieces_between(cut(12, 2), three)) ==
        Strings{"0>0[0-6) 1>1[6-12)", "1>0[6-12) 0>1[0-6)", "0>2[0-6)", "1>2[6-12)"});
  CHECK(texts(pieces_between(two, cut(12, 3))) == Strings{"0>0[0-4) 1>1[4-8)", "0>2[8-12)"});
  // The second dim of [2, 4] over two ranks and over one: each row's half is a run.
  const DegreeRuns halves = {{{0, 2}, {4, 6}}, {{2, 4}, {6, 8}}};
  CHECK(texts(pieces_between(halves, all_have(8, 1))) ==
        Strings{"0>0[0-2)", "0>0[4-6)", "1>0[2-4)", "1>0[6-8)"});
  check_pieces(all_have(8, 1), halves);
  CHECK(place_in_runs(halves[1], 7) == 3);
  for (const int a : {1, 2, 3, 4, 6}) {
    for (const int b : {1, 2, 3, 4, 6}) {
      CAPTURE(a, b);
      const DegreeRuns from = all_have(24, a), to = all_have(24, b);
      check_pieces(from, to);
      check_pieces(cut(24, a), cut(24, b));
      check_pieces(from, cut(24, b));
      if (a != b) check_pieces(cut(24, a), to);
    }
  }
}

TEST_CASE("pipeline ranks of unlike tensor degrees are a Program that is printed and read back") {
  const Program program = program_of({1, 2}, {"parallel.scatter_gather=false"});
  CHECK(program.mesh.num_ranks() == 3);
  const std::string text = to_text(program);
  CAPTURE(text);
  CHECK(text.find("mesh pp=2:stages tp=1,2\n") != std::string::npos);
  CHECK(text.find("group norm[pp,tp]\n") != std::string::npos);
  // The first stage tells both ranks of the second one, of whom the first answers.
  CHECK(text.find("transfer 0 pp+1 0>0\ntransfer 1 pp+1 0>1\ntransfer 2 pp-1 0>0\n") !=
        std::string::npos);
  CHECK(text.find("class pp:0 tp:0\n") != std::string::npos);
  CHECK(text.find("class pp:1 tp:0\n") != std::string::npos);
  CHECK(text.find("class pp:1 tp:1\n") != std::string::npos);
  // A rank alone reduces nothing; of two each has half of the heads.
  CHECK(text.find("all_reduce:tp decoder.layers.0.") == std::string::npos);
  CHECK(text.find("all_reduce:tp decoder.layers.3.") != std::string::npos);
  CHECK(text.find("decoder.layers.0.attention.proj.weight bf16[32,32]") != std::string::npos);
  CHECK(text.find("decoder.layers.3.attention.proj.weight bf16[32,16]") != std::string::npos);
  CHECK(to_text(parse_program(text, "program.txt")) == text);
}

TEST_CASE("pipeline ranks of unlike tensor degrees verify beside what else a plan has") {
  const Degrees degrees = GENERATE(Degrees{1, 2}, Degrees{2, 1}, Degrees{2, 4}, Degrees{4, 2},
                                   Degrees{1, 4}, Degrees{4, 1}, Degrees{2, 2});
  const Strings sets =
      GENERATE(Strings{}, Strings{"parallel.scatter_gather=false"}, Strings{"schedule=gpipe"},
               Strings{"schedule=zb-h1"}, Strings{"recompute=full"}, Strings{"recompute=selective"},
               Strings{"parallel.sequence_parallel=true"}, Strings{"training.microbatch=2"},
               Strings{"parallel.sequence_parallel=true", "training.microbatch=2"},
               Strings{"schedule=interleaved", "parallel.virtual_stages=2"},
               Strings{"schedule=zb-v"}, Strings{"schedule=dualpipe-v", "training.global_batch=16"},
               Strings{"schedule={method: zb-h1, post_validation: true}"},
               Strings{"training.microbatch=[3, 1]"}, Strings{"framework=megatron-lm"},
               Strings{"parallel.zero=1"}, Strings{"parallel.zero={stage: 1, by: parameter}"},
               Strings{"parallel.zero=2"}, Strings{"parallel.zero=3"},
               Strings{"recompute=full", "offload={activations: true, horizon: 1}"},
               Strings{"parallel.tensor_overlap=block", "training.microbatch=2"},
               Strings{"partition={cuts: [1, 3], on: [0, 1, 0]}"});
  const int data = GENERATE(1, 2);
  const bool of_several = sets.size() == 1 && (sets[0].starts_with("parallel.zero") ||
                                               sets[0].starts_with("training.microbatch=["));
  if (data == 1 && of_several) return;
  CAPTURE(degrees, sets, data);
  // unlike_degrees_program() has verified it.
  const Program program = program_of(degrees, sets, data);
  CHECK(program.mesh.num_ranks() == data * (degrees[0] + degrees[1]));
  const std::string text = to_text(program);
  CHECK(to_text(parse_program(text, "program.txt")) == text);
}

TEST_CASE("two pipeline ranks send each other what they have of a shared weight's gradient") {
  const std::string text = to_text(program_of({1, 2}, {"model.tied_embeddings=true"}));
  CAPTURE(text);
  // The first stage has all 64 rows of 32, each rank of the second a half.
  CHECK(text.find("segment 0REDUCE_TIED.1() stage:0 C\n"
                  "  norm send:0 b1.grad.sent0-1024\n"
                  "  norm send:1 b1.grad.sent1024-2048\n"
                  "  norm recv:0 -> b1.grad.of_other.received0-1024\n"
                  "  norm recv:1 -> b1.grad.of_other.received1024-2048\n"
                  "  main join b1.grad.of_other.received0-1024 b1.grad.of_other.received1024-2048 "
                  "-> b1.grad.of_other\n"
                  "  main add b1.grad b1.grad.of_other -> b1.grad.tied_sum\n"
                  "  main free b1.grad.of_other\n") != std::string::npos);
  CHECK(text.find("segment 1REDUCE_TIED.3() stage:1 C\n"
                  "  norm recv:2 -> b3.grad.of_other\n"
                  "  norm send:2 b3.grad\n"
                  "  main add b3.grad b3.grad.of_other -> b3.grad.tied_sum\n"
                  "  main free b3.grad.of_other\n") != std::string::npos);
  CHECK(text.find("group tied") == std::string::npos);
}

TEST_CASE("verify reads the size of an axis where a value lies") {
  Program program = program_of({1, 2});
  const auto named = [&](const std::string& name) -> Value& {
    for (Value& value : program.values) {
      if (value.name == name) return value;
    }
    throw std::logic_error("no value " + name);
  };
  // A quarter of the rows, as four ranks would have: of two, each has a half.
  named("decoder.layers.3.mlp.gate_up.weight").dims[0] = {24, 24, -1};
  CHECK(find_violation(program).value_or("").find(
            "decoder.layers.3.mlp.gate_up.weight: no rank has 24 elements of its dim 0") !=
        std::string::npos);
}

TEST_CASE("what unlike tensor degrees do not go with is refused with the reason") {
  const auto reason = [](const std::string& rest, const Strings& sets, const Degrees& degrees) {
    Strings all = sets_of_degrees({2, 2});
    all.insert(all.end(), sets.begin(), sets.end());
    const Prepared prepared = prepare_text(study(rest), all);
    PassLog log;
    const auto compiled = compile_unlike_degrees(prepared.model, program_inputs(prepared.study),
                                                 degrees, prepared.software, log);
    const auto* refused = std::get_if<Infeasible>(&compiled);
    return refused != nullptr ? refused->reason : "compiled";
  };
  CHECK(reason("", {}, {1, 2}) == "compiled");
  CHECK(reason("", {}, {1, 2, 2}) == "3 tensor degrees for 2 pipeline ranks");
  CHECK(reason("", {}, {0, 2}) == "a tensor degree below 1");
  CHECK(reason("", {}, {1, 3}).find("3") != std::string::npos);
  CHECK(reason("", {"parallel.tensor_method=auto"}, {1, 2}) ==
        "unlike tensor degrees do not go with method auto");
  CHECK(reason("sharding: {'*.mlp.down': {weight: [R, tp]}}", {}, {1, 2})
            .find("a sharding of the study's own where one of them is 1") != std::string::npos);
  CHECK(reason("sharding: {'*.mlp.down': {weight: [R, tp]}}", {}, {2, 2}) == "compiled");
  const Strings tied = {"model.tied_embeddings=true"};
  CHECK(reason("", tied, {1, 2}) == "compiled");
  CHECK(reason("", {tied[0], "cluster.ranks=8", "parallel.data=2", "parallel.zero=1"}, {1, 2})
            .find("or what ZeRO divides of them") != std::string::npos);
}

}  // namespace trainyard::unlike_degrees_test
