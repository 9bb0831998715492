// Whether ranks can share sequences as parallel.context says: what goes with it, and what divides.
#include <string>

#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using Method = ContextConfig::Method;
using Balance = ContextConfig::Balance;

/// Where the key that a rule is about stands: its own, or that of the whole.
std::string key_of(const Study& study, const std::string& key) {
  const std::string own = "parallel.context." + key;
  return is_said(study, own) ? own : "parallel.context";
}

std::string method_of(const Study& study) {
  return "method " + std::string(kContextMethodWords[study.parallel.context.method]);
}

void check_model(const Study& study) {
  const Family family = study.model.family;
  if (family == Family::kGpt || family == Family::kLlama) return;
  fail_at(study, key_of(study, "degree"),
          "ranks share sequences of families gpt and llama, not of " +
              std::string(to_string(family)) + "; write 1");
}

/// What other keys ask for beside it.
void check_company(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const auto refuse = [&](bool wrong, const std::string& key, const std::string& remedy) {
    if (wrong) fail_at(study, key, "does not go with parallel.context in this version; " + remedy);
  };
  refuse(!study.sharding.empty(), "sharding", "leave one of them out");
  refuse(parallel.tensor_overlap != "none", "parallel.tensor_overlap", "write none");
  refuse(!parallel.tensor_axes.empty(), "parallel.tensor",
         "write " + std::to_string(parallel.tensor) + ", one axis");
  refuse(parallel.zero.stage > 0 && parallel.zero.by == ZeroConfig::By::kParameter,
         "parallel.zero.by", "write shard");
}

void check_sequence(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  const bool zig_zag = parallel.context.balance == Balance::kZigZag;
  const bool split_again = parallel.sequence_parallel && parallel.tensor > 1;
  const std::int64_t pieces = std::int64_t{parallel.context.degree} * (zig_zag ? 2 : 1) *
                              (split_again ? parallel.tensor : 1);
  const std::int64_t length = study.model.seq_len;
  if (length % pieces == 0) return;
  std::string product =
      (zig_zag ? "2 x " : "") + std::to_string(parallel.context.degree) + " ranks";
  if (split_again) product += " x tensor(" + std::to_string(parallel.tensor) + ")";
  fail_at(study, "model.seq_len",
          std::to_string(length) + " is not a multiple of the " + std::to_string(pieces) +
              " pieces that parallel.context cuts it into (" + product + "); " +
              std::to_string((length / pieces + 1) * pieces) + " is");
}

/// Every rank has all keys of some heads then.
void check_exchange(const Study& study) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.context.balance == Balance::kZigZag) {
    fail_at(study, key_of(study, "balance"),
            "with method ulysses every rank attends whole sequences, and there is nothing to "
            "balance; write none");
  }
  const std::int64_t ranks = std::int64_t{parallel.tensor} * parallel.context.degree;
  const std::int64_t heads = study.model.heads, groups = study.model.kv_heads;
  if (heads % ranks == 0 && groups % ranks == 0) return;
  fail_at(study, key_of(study, "degree"),
          "method ulysses exchanges heads: " + std::to_string(ranks) + " ranks (tensor(" +
              std::to_string(parallel.tensor) + ") x context(" +
              std::to_string(parallel.context.degree) + ")) would have to divide both " +
              std::to_string(heads) + " heads and " + std::to_string(groups) +
              " key-value heads; methods ring and all-gather need not");
}

/// Keys of other ranks come in blocks.
void check_blocks(const Study& study) {
  if (study.training.flash_attention != FlashAttention::kOn) {
    const bool drops = study.training.dropout > 0;
    fail_at(study, key_of(study, "method"),
            method_of(study) +
                " computes attention by blocks, with flash kernels, and training.flash_attention "
                "is off here; " +
                (drops ? "training.dropout: 0 may allow it, or write ulysses" : "write ulysses"));
  }
}

}  // namespace

void check_context(const Study& study) {
  if (study.parallel.context.degree == 1) return;
  check_model(study);
  check_company(study);
  check_sequence(study);
  study.parallel.context.method == Method::kUlysses ? check_exchange(study) : check_blocks(study);
}

}  // namespace trainyard
