// What a study is told of sizes that are no multiple of 8.
#include "study/unaligned_sizes.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/studies.h"

namespace trainyard::unaligned_sizes_test {

namespace {

std::vector<std::string> warnings(const std::string& model, const std::string& cluster,
                                  const std::string& parallel, const std::string& training) {
  return prepare_text("model: {family: gpt, layers: 4, seq_len: 64, " + model + "}\ncluster: {" +
                      cluster + "}\nparallel: {" + parallel + "}\ntraining: {global_batch: 32, " +
                      training + "}\n")
      .study.warnings;
}

const std::string kH100 = "preset: dgx-h100";

}  // namespace

TEST_CASE("a vocabulary of no multiple of 8 is warned of, with one that would do") {
  const std::string gpt2 = "hidden: 768, heads: 12, vocab: 50257";
  const std::string slower =
      "the arithmetic of its products takes 5.35 to 8 times as long on h100-sxm-80g; "
      "model.pad_vocab_to: ";
  CHECK(warnings(gpt2, kH100, "tensor: 1", "precision: bf16") ==
        std::vector<std::string>{"model.vocab: 50257 is no multiple of 8: " + slower +
                                 "50264 would do"});
  // 50257 up to a multiple of 2 ranks; the next multiple of 16 is 3142 x 16.
  CHECK(warnings(gpt2, kH100, "tensor: 2", "precision: bf16") ==
        std::vector<std::string>{"model.vocab: a rank's 25129 of 50258 is no multiple of 8: " +
                                 slower + "50272 would do"});
  CHECK(warnings(gpt2 + ", pad_vocab_to: 50264", kH100, "tensor: 1", "precision: bf16").empty());
  // fp32 products have no such rows, nor have CPUs.
  CHECK(warnings(gpt2, kH100, "tensor: 1", "precision: fp32").empty());
  for (const std::string& warning :
       warnings(gpt2, "preset: local, ranks: 1", "tensor: 1", "precision: bf16"))
    CHECK(warning.find("multiple of 8") == std::string::npos);
}

TEST_CASE("widths and heads of no multiple of 8 are warned of where products have them") {
  const std::string rest = "vocab: 512, hidden: 800, heads: 8, ffn: 3200";  // heads of 100
  CHECK(warnings(rest, kH100, "tensor: 1", "precision: bf16, flash_attention: true").empty());
  CHECK(warnings(rest, kH100, "tensor: 1", "precision: bf16, flash_attention: false") ==
        std::vector<std::string>{
            "model.head_dim: 100 is no multiple of 8: the arithmetic of its products takes 2.75 "
            "times as long on h100-sxm-80g; model.head_dim: 104 would do"});
  // 3208 over 2 ranks is 1604, a multiple of 4; FP8 wants 16 on each, 3232 in all.
  const std::string odd_ffn = "vocab: 512, hidden: 768, heads: 8, ffn: 3208";
  CHECK(warnings(odd_ffn, kH100, "tensor: 2", "precision: bf16") ==
        std::vector<std::string>{
            "model.ffn: a rank's 1604 of 3208 is no multiple of 8: the arithmetic of its products "
            "takes 2.75 times as long on h100-sxm-80g; model.ffn: 3216 would do"});
  const std::vector<std::string> fp8 = warnings(odd_ffn, kH100, "tensor: 1", "precision: fp8");
  CHECK(fp8 == std::vector<std::string>{
                   "model.ffn: a rank's 3208 is no multiple of 16, and GPUs have no FP8 products "
                   "of such rows: times are as if they had; model.ffn: 3216 would do"});
}

}  // namespace trainyard::unaligned_sizes_test
