// What studies say wrong of ranks that share sequences, and how they read back.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "study/study_writer.h"
#include "tests/study/study_fixture.h"

namespace trainyard::context_errors_test {

namespace {

std::string error(const std::string& context, const std::vector<std::string>& sets = {}) {
  return error_of(kLlamaStudy + "parallel: {data: 1, context: " + context + "}\n", sets);
}

ContextConfig read_context(const std::string& context, const std::vector<std::string>& sets = {}) {
  return read(kLlamaStudy + "parallel: {data: 1, context: " + context + "}\n", sets)
      .parallel.context;
}

}  // namespace

TEST_CASE("a degree alone is a ring from both ends, and ulysses balances nothing") {
  using Method = ContextConfig::Method;
  using Balance = ContextConfig::Balance;
  CHECK(read_context("4") == ContextConfig{4, Method::kRing, Balance::kZigZag});
  CHECK(read_context("{degree: 4, method: all-gather}") ==
        ContextConfig{4, Method::kAllGather, Balance::kZigZag});
  CHECK(read_context("{degree: 4, method: Ulysses}") ==
        ContextConfig{4, Method::kUlysses, Balance::kNone});
  CHECK(read_context("{degree: 4, balance: none}", {"model.attention_window=8"}) ==
        ContextConfig{4, Method::kRing, Balance::kNone});
}

TEST_CASE("cp is the degree, whatever the method") {
  using Method = ContextConfig::Method;
  using Balance = ContextConfig::Balance;
  CHECK(read_context("4", {"cp=2"}) == ContextConfig{.degree = 2});
  CHECK(read_context("{degree: 4, method: all-gather}", {"cp=2"}).method == Method::kAllGather);
  CHECK(read_context("{degree: 4, method: all-gather}", {"cp=2"}).degree == 2);
  CHECK(read_context("4", {"parallel.context.method=ulysses"}).method == Method::kUlysses);
  CHECK(read_context("4", {"parallel.context.method=ulysses", "cp=2"}).degree == 2);
  CHECK(read_context("{degree: 4, method: all-gather}", {"parallel.context=2"}).method ==
        Method::kAllGather);
  CHECK(read_context("{degree: 4, method: all-gather}", {"parallel.context={degree: 2}"}).method ==
        Method::kRing);
  CHECK(read(kLlamaStudy, {"cp=2", "dp=4"}).parallel.context.degree == 2);
  // Beside keys of its map, in any order and spelling, in the study and as options.
  const ContextConfig both{2, Method::kUlysses, Balance::kNone};
  for (const std::vector<std::string>& sets :
       std::vector<std::vector<std::string>>{{"cp=2", "cp.method=ulysses"},
                                             {"parallel.cp=2", "parallel.cp.method=ulysses"},
                                             {"parallel.context=2", "cp.method=ulysses"},
                                             {"cp.degree=2", "cp.method=ulysses"}})
    CHECK(read(kLlamaStudy, sets).parallel.context == both);
  CHECK(read(kLlamaStudy + "cp: 2\n", {"cp.method=ulysses"}).parallel.context == both);
  CHECK(error_of(kLlamaStudy + "cp: 2\nparallel: {context: {method: ulysses}}\n") ==
        "study.yaml:4:1: cp: stands for parallel.context, which is at study.yaml:5:12; say degree "
        "there, and leave this word out");
}

TEST_CASE(
    "ranks of a sequence are ranks: they divide the devices, and more than there are is wrong") {
  CHECK(read(kLlamaStudy + "parallel: {tensor: 2, context: 4}\n").parallel.data == 4);
  CHECK(error("64", {"model.seq_len=128"})
            .find("pp(1) * dp(1) * cp(64) * tp(1) = 64 ranks, but cluster at ") !=
        std::string::npos);
}

TEST_CASE("a study is written with all of its context, and reads back") {
  const Study study =
      read(kLlamaStudy + "parallel: {tensor: 2, context: {degree: 2, method: ulysses}}\n");
  const std::string text = resolved_study_text(study);
  CHECK(text.find("context:") != std::string::npos);
  CHECK(read(text).parallel == study.parallel);
}

TEST_CASE("what ranks of a sequence cannot share is refused at its key") {
  const std::string at = "study.yaml:4:30: parallel.context: ";
  CHECK(error("5") ==
        "study.yaml:1:99: model.seq_len: 48 is not a multiple of the 10 pieces that "
        "parallel.context cuts it into (2 x 5 ranks); 50 is");
  CHECK(error("8", {"tp=2", "sp=true"}) ==
        "study.yaml:1:99: model.seq_len: 48 is not a multiple of the 32 pieces that "
        "parallel.context cuts it into (2 x 8 ranks x tensor(2)); 64 is");
  CHECK(error("{degree: 2, method: ulysses, balance: zig-zag}") ==
        "study.yaml:4:68: parallel.context.balance: with method ulysses every rank attends whole "
        "sequences, and there is nothing to balance; write none");
  CHECK(error("{degree: 8, method: ulysses}") ==
        "study.yaml:4:39: parallel.context.degree: method ulysses exchanges heads: 8 ranks "
        "(tensor(1) x context(8)) would have to divide both 8 heads and 4 key-value heads; methods "
        "ring and all-gather need not");
  CHECK(error("2", {"training.flash_attention=false"}) ==
        at + "method ring computes attention by blocks, with flash kernels, and "
             "training.flash_attention is off here; write ulysses");
  CHECK(error("2", {"model={family: bert, layers: 4, hidden: 64, heads: 8, vocab: 64, seq_len: "
                    "48}"}) ==
        at + "ranks share sequences of families gpt and llama, not of bert; write 1");
}

TEST_CASE("what does not go with shared sequences is refused at its own key") {
  const std::string company = "does not go with parallel.context in this version; ";
  const auto refused = [&](const std::string& set, const std::string& key,
                           const std::string& remedy) {
    CAPTURE(set);
    CHECK(error("2", {set}) == "--set " + set + ": " + key + ": " + company + remedy);
  };
  refused("parallel.zero={stage: 1, by: parameter}", "parallel.zero.by", "write shard");
  refused("parallel.tensor={tp0: 2, tp1: 2}", "parallel.tensor", "write 4, one axis");
  refused("parallel.tensor_overlap=block", "parallel.tensor_overlap", "write none");
  refused("sharding={'*.mlp.down': {weight: [R, R]}}", "sharding", "leave one of them out");
}

}  // namespace trainyard::context_errors_test
