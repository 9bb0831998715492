#include "engine/cost/kernel_form.h"

#include <sstream>

namespace trainyard {

namespace {

constexpr std::array<std::string_view, kNumFormFlags> kFlags = {"causal",  "mask",   "packed",
                                                                "grouped", "scaled", "tanh"};

}  // namespace

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
    if ((form.flags >> flag & 1U) != 0) (text += ' ') += kFlags[flag];
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
