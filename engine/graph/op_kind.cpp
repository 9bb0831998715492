#include "engine/graph/op_kind.h"

#include <array>

namespace trainyard {

namespace {

constexpr std::array<std::string_view, kNumOpKinds> kNames = {
#define TRAINYARD_NAME(enumerator, name) name,
    TRAINYARD_OP_KINDS(TRAINYARD_NAME)
#undef TRAINYARD_NAME
};

constexpr std::array<std::string_view, 4> kSuffixes = {"", "_dx", "_dw", "_b"};

}  // namespace

std::string_view to_string(OpKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

std::string op_name(OpKind kind, OpPart part) {
  return std::string(to_string(kind)) + std::string(kSuffixes[static_cast<std::size_t>(part)]);
}

std::optional<KindAndPart> parse_op_name(std::string_view name) {
  for (std::size_t part = 0; part < kSuffixes.size(); ++part) {
    if (!name.ends_with(kSuffixes[part])) continue;
    const std::string_view stem = name.substr(0, name.size() - kSuffixes[part].size());
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
      if (kNames[kind] == stem) return KindAndPart{OpKind(kind), OpPart(part)};
    }
  }
  return std::nullopt;
}

}  // namespace trainyard
