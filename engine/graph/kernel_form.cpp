#include "engine/graph/kernel_form.h"

#include <bit>
#include <cmath>
#include <sstream>

#include "engine/base/indexed.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, kNumFormFlags> kFlags = {
    "causal", "mask", "packed", "grouped", "scaled", "tanh", "window", "alibi"};

constexpr std::size_t kNumTypes = static_cast<std::size_t>(DType::kUint8) + 1;

/// [list][type]: operands read, written, added to.
std::array<IndexedArray<DType, int, kNumTypes>, 3> count_types(const KernelForm& form) {
  std::array<IndexedArray<DType, int, kNumTypes>, 3> counts{};
  std::size_t next = 0, list = 0;
  for (const std::uint8_t size : {form.num_reads, form.num_writes, form.num_accumulates}) {
    for (std::uint8_t i = 0; i < size; ++i) ++counts[list][form.types[next++]];
    ++list;
  }
  return counts;
}

}  // namespace

KernelFamily family_of(const KernelForm& form) {
  KernelFamily family{form.kind, form.part, 0};
  for (std::size_t i = 0; i < form.num_operands(); ++i) {
    const DType type = form.types[i];
    if (!is_integer(type)) family.types |= 1U << static_cast<unsigned>(type);
  }
  return family;
}

double form_distance_squared(const KernelForm& a, const KernelForm& b) {
  if (a == b) return 0;
  double squares = std::popcount(static_cast<unsigned>(a.flags ^ b.flags));
  const auto of_a = count_types(a), of_b = count_types(b);
  for (std::size_t list = 0; list < of_a.size(); ++list) {
    for (const DType type : of_a[list].keys()) {
      if (of_a[list][type] == of_b[list][type]) continue;
      const double doublings = std::log2((1.0 + of_a[list][type]) / (1.0 + of_b[list][type]));
      squares += doublings * doublings;
    }
  }
  return squares;
}

std::string to_string(const KernelForm& form) {
  std::string text = op_name(form.kind, form.part);
  std::size_t next = 0;
  const auto list = [&](std::string_view before, std::size_t count) {
    if (count == 0) return;
    text += before;
    for (std::size_t i = 0; i < count; ++i) (text += ' ') += to_string(form.types[next++]);
  };
  list("", form.num_reads);
  list(" ->", form.num_writes);
  list(" +>", form.num_accumulates);
  for (std::size_t flag = 0; flag < kFlags.size(); ++flag) {
    if (form.has(FormFlag(flag))) (text += ' ') += kFlags[flag];
  }
  return text;
}

std::optional<KernelForm> parse_kernel_form(std::string_view text) {
  std::istringstream words{std::string(text)};
  std::string word;
  if (!(words >> word)) return std::nullopt;
  const std::optional<KindAndPart> op = parse_op_name(word);
  if (!op) return std::nullopt;
  KernelForm form;
  form.kind = op->kind;
  form.part = op->part;
  std::uint8_t* count = &form.num_reads;
  while (words >> word) {
    if (word == "->" || word == "+>") {
      count = word == "->" ? &form.num_writes : &form.num_accumulates;
      continue;
    }
    if (const std::optional<DType> type = parse_dtype(word)) {
      if (form.num_operands() == KernelForm::kMostOperands) return std::nullopt;
      form.types[form.num_operands()] = *type;
      ++*count;
      continue;
    }
    std::size_t flag = 0;
    while (flag < kFlags.size() && kFlags[flag] != word) ++flag;
    if (flag == kFlags.size()) return std::nullopt;
    form.set(FormFlag(flag));
  }
  if (to_string(form) != text) return std::nullopt;  // lists or words in another order
  return form;
}

}  // namespace trainyard
