#include "engine/graph/op_kind.h"

#include "engine/base/indexed.h"

namespace trainyard {

namespace {

constexpr IndexedArray<OpKind, std::string_view, kNumOpKinds> kNames = {
#define TRAINYARD_NAME(enumerator, name) name,
    TRAINYARD_OP_KINDS(TRAINYARD_NAME)
#undef TRAINYARD_NAME
};

constexpr IndexedArray<OpPart, std::string_view, 4> kSuffixes = {"", "_dx", "_dw", "_b"};

}  // namespace

std::string_view to_string(OpKind kind) { return kNames[kind]; }

std::string op_name(OpKind kind, OpPart part) {
  return std::string(to_string(kind)) + std::string(kSuffixes[part]);
}

std::optional<KindAndPart> parse_op_name(std::string_view name) {
  for (const OpPart part : kSuffixes.keys()) {
    if (!name.ends_with(kSuffixes[part])) continue;
    const std::string_view stem = name.substr(0, name.size() - kSuffixes[part].size());
    for (const OpKind kind : kNames.keys()) {
      if (kNames[kind] == stem) return KindAndPart{kind, part};
    }
  }
  return std::nullopt;
}

}  // namespace trainyard
