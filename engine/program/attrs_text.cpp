#include "engine/program/attrs_text.h"

#include <string_view>
#include <type_traits>

#include "engine/program/program_words.h"

namespace trainyard {

namespace {

template <typename Number>
void write_attribute(Number value, TextSink& out) {
  out.number(value);
}
void write_attribute(const Combination& combination, TextSink& out) {
  out.text(program_words::kCombinations[combination]);
}
void write_attribute(const HeightWidth& both, TextSink& out) {
  out.number(both.height);
  out.text("x");
  out.number(both.width);
}
void write_attribute(const RopeScaling& scaling, TextSink& out) {
  for (const float part : {scaling.factor, scaling.low, scaling.high}) {
    out.number(part);
    out.text("/");
  }
  out.number(scaling.original);
}
void write_attribute(const DimList& dims, TextSink& out) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out.text(",");
    out.number(dims[i]);
  }
}

}  // namespace

void write_attrs(const OpAttrs& attrs, TextSink& out) {
  bool first = true;
  program_words::for_attributes([&](std::string_view name, auto member) {
    const auto value = attrs.*member;
    if (value == OpAttrs{}.*member) return;
    out.text(first ? "{" : " ");
    first = false;
    out.text(name);
    if constexpr (!std::is_same_v<decltype(value), const bool>) {
      out.text("=");
      write_attribute(value, out);
    }
  });
  if (!first) out.text("}");
}

}  // namespace trainyard
