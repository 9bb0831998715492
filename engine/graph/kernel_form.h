// What of an op, beside its shapes, decides which code a kernel runs: its kind and part, the types
// of its operands, and the attributes that switch something on. Measured curves are kept by it.
//
// Text: "linear_dw bf16 bf16 +> fp32 fp32": the op's name, what it reads, "->" what it writes, "+>"
// what it adds to, then the attributes: "softmax fp32 -> fp32 causal mask".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/dtype.h"
#include "engine/graph/op_kind.h"

namespace trainyard {

enum class FormFlag : std::uint8_t {
  kCausal,   // causal
  kMask,     // a padding mask among the inputs
  kPacked,   // q, k and v in one input
  kGrouped,  // fewer heads of keys and values than of queries
  kScaled,   // results are multiplied by a factor
  kTanh,     // the tanh approximation of gelu
  kWindow,   // attention to the latest keys alone
  kAlibi     // scores less what grows with the distance
};
inline constexpr int kNumFormFlags = 8;

struct KernelForm {
  static constexpr std::size_t kMostOperands = 10;  // what comes behind is not told apart

  OpKind kind = OpKind::kAdd;
  OpPart part = OpPart::kForward;
  std::uint8_t flags = 0;  // bit i: FormFlag(i)
  std::uint8_t num_reads = 0, num_writes = 0,
               num_accumulates = 0;          // together at most kMostOperands
  std::array<DType, kMostOperands> types{};  // in that order

  std::size_t num_operands() const { return std::size_t{num_reads} + num_writes + num_accumulates; }
  void set(FormFlag flag) {
    flags = static_cast<std::uint8_t>(flags | 1U << static_cast<unsigned>(flag));
  }
  bool has(FormFlag flag) const { return (flags >> static_cast<unsigned>(flag) & 1U) != 0; }
  friend auto operator<=>(const KernelForm&, const KernelForm&) = default;
};

/// Forms whose kernels are made alike and compute in the same types: a curve is measured for each,
/// together.
struct KernelFamily {
  OpKind kind = OpKind::kAdd;
  OpPart part = OpPart::kForward;
  std::uint32_t types = 0;  // bit t: a floating-point DType(t) among the operands
  friend auto operator<=>(const KernelFamily&, const KernelFamily&) = default;
};
KernelFamily family_of(const KernelForm& form);

/// By how much two forms of a family differ, squared: 1 for each flag, and for each type the
/// doublings of one more than the operands of it that are read, written, added to. A distance in a
/// space of forms.
double form_distance_squared(const KernelForm& a, const KernelForm& b);

std::string to_string(const KernelForm& form);
/// nullopt: not such a text.
std::optional<KernelForm> parse_kernel_form(std::string_view text);

}  // namespace trainyard
