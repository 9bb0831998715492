// The kernels, by the op table's names. Operands stand in the order of engine/graph/op_table.h:
// backward parts read the gradients of the outputs, the saved inputs, the saved outputs, write the
// gradients of activations and add to those of parameters.
#pragma once

#include "real/kernels/kernel.h"

namespace trainyard {

// linear.cpp
void linear(KernelCall& call);
void linear_dx(KernelCall& call);
void linear_dw(KernelCall& call);
void add_bias(KernelCall& call);
void add_bias_dw(KernelCall& call);

// fp8.cpp: products in 8 bits are linear's, these make their operands
void amax(KernelCall& call);
void quantize(KernelCall& call);
void update_scales(KernelCall& call);

// embedding.cpp
void embedding(KernelCall& call);
void embedding_dw(KernelCall& call);
void select_first(KernelCall& call);
void select_first_dx(KernelCall& call);

// norm.cpp
void layer_norm(KernelCall& call);
void layer_norm_b(KernelCall& call);
void rms_norm(KernelCall& call);
void rms_norm_b(KernelCall& call);

// head_norm.cpp
void head_norm(KernelCall& call);
void head_norm_b(KernelCall& call);

// attention.cpp
void flash_attention(KernelCall& call);
void flash_attention_dx(KernelCall& call);
void scores(KernelCall& call);
void scores_dx(KernelCall& call);
void add_attention_bias(KernelCall& call);
void add_attention_bias_dx(KernelCall& call);
void softmax(KernelCall& call);
void softmax_dx(KernelCall& call);
void block_attention(KernelCall& call);
void block_attention_dx(KernelCall& call);
void context(KernelCall& call);
void context_dx(KernelCall& call);
void relative_bias(KernelCall& call);
void relative_bias_dw(KernelCall& call);

// rope.cpp
void rope(KernelCall& call);
void rope_dx(KernelCall& call);

// elementwise.cpp
void add(KernelCall& call);
void gelu(KernelCall& call);
void gelu_dx(KernelCall& call);
void relu(KernelCall& call);
void relu_dx(KernelCall& call);
void tanh(KernelCall& call);
void tanh_dx(KernelCall& call);
void swiglu(KernelCall& call);
void swiglu_dx(KernelCall& call);
void geglu(KernelCall& call);
void geglu_dx(KernelCall& call);
void zero(KernelCall& call);
void cast(KernelCall& call);
void transpose(KernelCall& call);

// pointwise.cpp
void affine(KernelCall& call);
void affine_dx(KernelCall& call);
void power(KernelCall& call);
void power_dx(KernelCall& call);
void exp(KernelCall& call);
void exp_dx(KernelCall& call);
void log(KernelCall& call);
void log_dx(KernelCall& call);
void erf(KernelCall& call);
void erf_dx(KernelCall& call);
void sin(KernelCall& call);
void sin_dx(KernelCall& call);
void cos(KernelCall& call);
void cos_dx(KernelCall& call);
void sigmoid(KernelCall& call);
void sigmoid_dx(KernelCall& call);
void silu(KernelCall& call);
void silu_dx(KernelCall& call);
void softplus(KernelCall& call);
void softplus_dx(KernelCall& call);
void clamp(KernelCall& call);
void clamp_dx(KernelCall& call);

// carried.cpp
void view(KernelCall& call);
void permute(KernelCall& call);
void permute_dx(KernelCall& call);
void roll(KernelCall& call);
void roll_dx(KernelCall& call);
void flip(KernelCall& call);
void split(KernelCall& call);
void narrow(KernelCall& call);
void narrow_dx(KernelCall& call);
void narrow_dw(KernelCall& call);
void zero_pad(KernelCall& call);
void zero_pad_dx(KernelCall& call);
void concat(KernelCall& call);

// broadcast.cpp
void add_backward(KernelCall& call);
void mul(KernelCall& call);
void mul_backward(KernelCall& call);
void sub(KernelCall& call);
void sub_dw(KernelCall& call);
void div(KernelCall& call);
void div_dx(KernelCall& call);
void div_dw(KernelCall& call);
void where(KernelCall& call);
void where_dx(KernelCall& call);
void where_dw(KernelCall& call);
void gather(KernelCall& call);
void gather_dx(KernelCall& call);
void gather_dw(KernelCall& call);
void scatter(KernelCall& call);
void scatter_dx(KernelCall& call);
void scatter_dw(KernelCall& call);
void combine(KernelCall& call);
void argmax(KernelCall& call);
void topk(KernelCall& call);
void sum(KernelCall& call);
void sum_dx(KernelCall& call);
void cumsum(KernelCall& call);
void cumsum_dx(KernelCall& call);

// bmm.cpp
void bmm(KernelCall& call);
void bmm_dx(KernelCall& call);
void bmm_dw(KernelCall& call);

// conv2d.cpp
void conv2d(KernelCall& call);
void conv2d_dx(KernelCall& call);
void conv2d_dw(KernelCall& call);

// causal_conv1d.cpp
void causal_conv1d(KernelCall& call);
void causal_conv1d_b(KernelCall& call);

// chunk_scan.cpp
void chunk_scan(KernelCall& call);
void chunk_scan_b(KernelCall& call);

// conv_transpose2d.cpp
void conv_transpose2d(KernelCall& call);
void conv_transpose2d_dx(KernelCall& call);
void conv_transpose2d_dw(KernelCall& call);

// interpolate2d.cpp
void interpolate2d(KernelCall& call);
void interpolate2d_dx(KernelCall& call);

// pool.cpp
void max_pool2d(KernelCall& call);
void max_pool2d_dx(KernelCall& call);
void avg_pool2d(KernelCall& call);
void avg_pool2d_dx(KernelCall& call);

// batch_norm.cpp
void batch_norm(KernelCall& call);
void batch_norm_b(KernelCall& call);
void batch_moments(KernelCall& call);
void batch_moments_dx(KernelCall& call);
void batch_normalize(KernelCall& call);
void batch_normalize_b(KernelCall& call);

// norm_moments.cpp
void norm_moments(KernelCall& call);
void norm_moments_dx(KernelCall& call);
void normalize(KernelCall& call);
void normalize_b(KernelCall& call);

// group_norm.cpp
void group_norm(KernelCall& call);
void group_norm_b(KernelCall& call);

// dropout.cpp
void dropout(KernelCall& call);
void dropout_dx(KernelCall& call);

// loss.cpp
void cross_entropy_max(KernelCall& call);
void cross_entropy_sum(KernelCall& call);
void cross_entropy(KernelCall& call);
void cross_entropy_dx(KernelCall& call);

// mse.cpp
void mse(KernelCall& call);
void mse_dx(KernelCall& call);
void mse_dw(KernelCall& call);

// bce.cpp
void bce(KernelCall& call);
void bce_dx(KernelCall& call);
void bce_dw(KernelCall& call);

// optimizer.cpp
void sum_squares(KernelCall& call);
void adamw(KernelCall& call);
void sgd(KernelCall& call);
void average(KernelCall& call);

// correction.cpp
void within_clip(KernelCall& call);
void beyond_clip(KernelCall& call);
void correct_adamw(KernelCall& call);
void correct_sgd(KernelCall& call);

}  // namespace trainyard
