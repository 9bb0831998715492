// Attention by the kernel that never keeps the scores, and by those that do.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/documents.h"

namespace trainyard {

struct AttentionTrial {
  std::int64_t heads = 4, kv_heads = 4, head_dim = 6;
  std::int64_t queries = 9, keys = 9;
  bool packed = true;  // q, k and v in one tensor: of as many queries as keys
  bool causal = false;
  bool padded = false;            // samples end with padding, each with another number of tokens
  bool deferred = false;          // kernels that may not look at numbers
  std::int32_t attended = 0;      // keys that a query sees, the latest; 0: all
  DocumentConfig documents = {};  // of samples 0, 1, ...
  bool contiguous = false;        // of ranks: each has a run, not a piece from each end
};

struct Attention {
  std::vector<double> out, dq, dk, dv;
};

/// In fp64, of numbers that are the same in all.
Attention attend_by_flash(const AttentionTrial& trial);
/// Each document by itself, where there are any.
Attention attend_by_scores(const AttentionTrial& trial);
/// By `ranks` ranks, each with its part of the sequence: keys and values go round them, or
/// all are at hand. Queries and keys are of one sequence.
Attention attend_by_blocks(const AttentionTrial& trial, int ranks, bool ring);

/// Rotary positions of two samples from `first` on: as documents, each of these as a sequence of
/// its own, and as if a sample were one piece.
struct RotatedDocuments {
  std::vector<double> together, apart, as_one;
};
RotatedDocuments rotate_documents(const DocumentConfig& documents, std::int64_t length,
                                  std::int64_t first);

}  // namespace trainyard
