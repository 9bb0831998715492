// The words of the Program's text form, shared by writer and parser.
#pragma once

#include <array>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/program/program.h"

namespace trainyard::program_words {

inline constexpr IndexedArray<Scope, std::string_view, 4> kScopes = {"persistent", "step", "mb",
                                                                     "local"};
inline constexpr IndexedArray<MemoryClass, std::string_view, 5> kMemory = {
    "parameter", "gradient", "state", "activation", "buffer"};
inline constexpr IndexedArray<StreamId, std::string_view, kNumStreams> kStreams = {
    "main",   "tp",  "fwd", "bwd",  "dp",       "norm",   "fwd_in",
    "bwd_in", "d2h", "h2d", "host", "nvme_out", "nvme_in"};
/// As " host" behind a value or a pool; that of the device is not said.
inline constexpr IndexedArray<Space, std::string_view, 3> kSpaces = {"", "host", "nvme"};
inline constexpr IndexedArray<Combination, std::string_view, 9> kCombinations = {
    "equal", "less", "less_or_equal", "and", "or", "remainder", "quotient", "least", "largest"};
inline constexpr std::array<std::string_view, 2> kSlots = {"[m]", "[n]"};
inline constexpr std::array<std::string_view, 3> kParameters = {"()", "(m)", "(m,n)"};  // by slots
inline constexpr std::string_view kPhases = "FBIWRPUCV";                                // by Phase

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Calls visit(name, member of OpAttrs) for every attribute, in the order of the text.
template <typename Visit>
void for_attributes(const Visit& visit) {
  visit("heads", &OpAttrs::heads);
  visit("kv_heads", &OpAttrs::kv_heads);
  visit("head_dim", &OpAttrs::head_dim);
  visit("packed", &OpAttrs::packed);
  visit("causal", &OpAttrs::causal);
  visit("mask", &OpAttrs::has_mask);
  visit("bias", &OpAttrs::has_bias);
  visit("rate", &OpAttrs::rate);
  visit("scale", &OpAttrs::scale);
  visit("tanh", &OpAttrs::tanh_gelu);
  visit("eps", &OpAttrs::eps);
  visit("base", &OpAttrs::rope_base);
  visit("first_sample", &OpAttrs::first_sample);
  visit("vocab", &OpAttrs::vocab);
  visit("share", &OpAttrs::share);
  visit("dim", &OpAttrs::dim);
  visit("maximum", &OpAttrs::maximum);
  visit("in_passing", &OpAttrs::in_passing);
  visit("partial", &OpAttrs::partial_gradient);
  visit("dims", &OpAttrs::dims);
  visit("begin", &OpAttrs::begin);
  visit("copies", &OpAttrs::copies);
  visit("window", &OpAttrs::window);
  visit("stride", &OpAttrs::stride);
  visit("padding", &OpAttrs::padding);
  visit("dilation", &OpAttrs::dilation);
  visit("groups", &OpAttrs::groups);
  visit("samples", &OpAttrs::samples);
  visit("extra", &OpAttrs::extra);
  visit("bilinear", &OpAttrs::bilinear);
  visit("end", &OpAttrs::end);
  visit("by", &OpAttrs::by);
  visit("shift", &OpAttrs::shift);
  visit("exponent", &OpAttrs::exponent);
  visit("low", &OpAttrs::low);
  visit("high", &OpAttrs::high);
  visit("combination", &OpAttrs::combination);
  visit("attended", &OpAttrs::attended);
  visit("ring", &OpAttrs::ring);
  visit("rank_work", &OpAttrs::rank_work);
  visit("documents", &OpAttrs::documents);
  visit("softcap", &OpAttrs::softcap);
  visit("alibi", &OpAttrs::alibi);
  visit("rotary", &OpAttrs::rotary);
  visit("scaling", &OpAttrs::rope_scaling);
  visit("unbiased", &OpAttrs::unbiased);
  visit("draw", &OpAttrs::draw);
  visit("momentum", &OpAttrs::momentum);
  visit("aligned", &OpAttrs::aligned);
  visit("adds", &OpAttrs::adds);
  visit("states", &OpAttrs::states);
  visit("chunk", &OpAttrs::chunk);
}

/// Parts of an op's line after its name, in order; all but the first start with a keyword.
enum class OperandPart : std::uint8_t { kReads, kWrites, kAccumulates, kAfter, kGuard, kHostSync };

/// The part that `word` starts; kReads: none, it names a value.
constexpr OperandPart operand_part(std::string_view word) {
  if (word == "->") return OperandPart::kWrites;
  if (word == "+>") return OperandPart::kAccumulates;
  if (word.starts_with("after:")) return OperandPart::kAfter;
  if (word == "guard") return OperandPart::kGuard;
  if (word == "host_sync") return OperandPart::kHostSync;
  return OperandPart::kReads;
}

/// Whether a value of this name would be read back as something else.
constexpr bool is_reserved(std::string_view name) {
  return operand_part(name) != OperandPart::kReads || name.ends_with(kSlots[0]) ||
         name.ends_with(kSlots[1]);
}

}  // namespace trainyard::program_words
