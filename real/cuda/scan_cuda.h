// What a state space model's scan computes beside products of matrices, on a GPU, without LibTorch.
//
// Cells are chunks of sequences, one behind the other. Shapes as in real/kernels/chunk_scan.cpp,
// with M = cells: numbers of tokens are [M, Q, G, R, P] as LibTorch has them, [M, N, Q, P] by head,
// [M, G, Q, R, P] by group. `Sum` is fp64 for fp64, else fp32; `Work` is bf16 for bf16, else Sum:
// what products of matrices read, as mamba_ssm's do. dt A are summed in fp64 from the first token
// of a chunk: differences of such sums have all of fp32's digits.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/base/dtype.h"
#include "real/kernels/scan_shape.h"

namespace trainyard {

/// Whether a row of pairs fits the registers of a warp.
bool scan_fits(std::int64_t tokens);

/// dt [M, N, Q] = softplus(raw + bias), past [M, N, Q] (fp64): sums of dt A up to each token.
struct ScanSteps {
  const void* raw = nullptr;                 // [M, Q, N]
  const void *bias = nullptr, *a = nullptr;  // [N], Sum
  void* dt = nullptr;                        // Sum
  double* past = nullptr;
};
cudaError_t launch_scan_steps(DType type, const ScanSteps& of, const ScanShape& shape,
                              cudaStream_t stream);

/// What products read of x: by head x dt, by group also what is left of it behind its chunk; or of
/// dy (dt null): itself, and by group what it reads of the state before its chunk.
struct ScanFactors {
  const void* of = nullptr;  // [M, Q, G, R, P]
  const void* dt = nullptr;
  const double* past = nullptr;
  void *by_head = nullptr, *by_group = nullptr;  // Work; by_head null: not wanted
};
cudaError_t launch_scan_factors(DType type, const ScanFactors& of, const ScanShape& shape,
                                cudaStream_t stream);

/// states [M, G, K, R, P] (Work), of what chunks add to them (Sum): before each chunk, or, back,
/// gradients behind each.
cudaError_t launch_scan_states(DType type, const void* added, const double* past, bool back,
                               void* states, const ScanShape& shape, cudaStream_t stream);

/// weights [M, N, Q, Q] (Work): scores [M, G, Q, Q] (Sum) times what is left of each column's token
/// at each row's, 0 above the diagonal.
cudaError_t launch_scan_weights(DType type, const void* scores, const double* past, void* weights,
                                const ScanShape& shape, cudaStream_t stream);

/// Parts of the rows of a cell, each of which has [M, N, Q] of launch_scan_pairs_b's `steps`.
std::int64_t scan_row_parts(DType type, const ScanShape& shape);
/// pairs (Work): gradients of weights before, weights behind. scores_gradient [M, G, Q, Q] (Work);
/// steps [M, N, parts, Q] (Sum): gradients of dt A.
struct ScanPairsGradient {
  const void* scores = nullptr;
  const double* past = nullptr;
  void *pairs = nullptr, *scores_gradient = nullptr, *steps = nullptr;
};
cudaError_t launch_scan_pairs_b(DType type, const ScanPairsGradient& of, const ScanShape& shape,
                                cudaStream_t stream);

/// y = of the state before its chunk [M, G, Q, R, P], what is left of it + of the chunk [M, N, Q,
/// P] + d x; both Sum.
struct ScanResult {
  const void *of_states = nullptr, *within = nullptr, *x = nullptr, *d = nullptr;
  const double* past = nullptr;
  void* y = nullptr;
};
cudaError_t launch_scan_y(DType type, const ScanResult& of, const ScanShape& shape,
                          cudaStream_t stream);

/// The rest of the way back, of tokens and then of heads. What is Sum: by head [M, N, Q, P], by
/// group [M, G, Q, R, P], of tokens [M, N, Q].
struct ScanGradient {
  const void *dy = nullptr, *x = nullptr, *raw = nullptr;
  const void *bias = nullptr, *a = nullptr, *d = nullptr;
  const void* dt = nullptr;
  const double* past = nullptr;
  const void *before = nullptr, *behind = nullptr;  // Work: of launch_scan_states
  const void* of_states = nullptr;                  // by group: c times the states before
  const void* moved = nullptr;                      // by head: gradient of x dt, within chunks
  const void* left = nullptr;                       // by group: b times the gradients behind
  const void* steps = nullptr;                      // of tokens: gradient of dt A, within chunks
  void* scratch = nullptr;                          // [4, M, N, Q], Sum
  void *dx = nullptr, *ddt = nullptr;               // as x and raw
  void* of_heads = nullptr;                         // [3, M, N], Sum: of a / A, bias, d
};
cudaError_t launch_scan_gradient(DType type, const ScanGradient& of, const ScanShape& shape,
                                 cudaStream_t stream);

}  // namespace trainyard
