#include "engine/sharding/spec_text.h"

#include <algorithm>
#include <charconv>

#include "engine/base/format.h"
#include "engine/base/place_of.h"
#include "engine/base/user_text.h"

namespace trainyard {

namespace {

std::string list_text(const Axes& axes, const DeviceMesh& mesh) {
  std::string text;
  for (const AxisId axis : axes) text += (text.empty() ? "" : " ") + mesh.axis_name(axis);
  return text.empty() ? "R" : text;
}

std::string dim_text(const DimSplit& dim, const DeviceMesh& mesh) {
  std::string text;
  for (const DimPart& part : dim.parts) {
    if (!text.empty()) text += "|";
    if (part.count != 0) text += std::to_string(part.count) + "x" + std::to_string(part.unit) + ":";
    text += list_text(part.axes, mesh) + (part.reversed ? "~" : "");
  }
  return dim.after.empty() ? text : text + " after " + list_text(dim.after, mesh);
}

/// Reads a spec from left to right; the first fault ends it.
class SpecReader {
 public:
  SpecReader(std::string_view text, const DeviceMesh& mesh) : text_(text), mesh_(mesh) {}

  std::variant<TensorSpec, SpecTextError> read() {
    TensorSpec spec;
    skip_spaces();
    expect('[');
    skip_spaces();
    if (!take(']')) {
      do spec.dims.push_back(read_dim());
      while (!error_ && take(','));
      expect(']');
    }
    for (skip_spaces(); !error_ && at_ < text_.size(); skip_spaces()) read_state(spec);
    if (error_) return *error_;
    return spec;
  }

 private:
  void fail(std::size_t at, const std::string& problem) {
    if (!error_) error_ = SpecTextError{static_cast<int>(at) + 1, problem};
  }
  std::string found() const {
    return at_ < text_.size() ? in_quotes(text_.substr(at_, 1)) : "the end";
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (error_ || peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(at_, format("expected '%c', got %s", c, found().c_str()));
  }
  void skip_spaces() {
    while (peek() == ' ') ++at_;
  }
  std::string_view word() {
    const std::size_t begin = at_;
    const auto in_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (in_word(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  /// "tp0 tp1", up to what is no axis; `after` ends it.
  Axes read_axes() {
    Axes axes;
    AxisSet seen = 0;
    for (skip_spaces(); !error_; skip_spaces()) {
      const std::size_t begin = at_;
      const std::string_view name = word();
      if (name.empty() || name == "after") {
        at_ = begin;
        break;
      }
      const auto named = find_axes(mesh_, name);
      if (!named) {
        fail(begin, "the mesh has no axis " + in_quotes(name));
        break;
      }
      if ((seen & set_of(*named)) != 0) {
        fail(begin, in_quotes(name) + " is named twice");
        break;
      }
      seen = static_cast<AxisSet>(seen | set_of(*named));
      axes.insert(axes.end(), named->begin(), named->end());
    }
    return axes;
  }

  std::int64_t read_number(const char* what) {
    const std::size_t begin = at_;
    std::int64_t value = 0;
    const auto [end, problem] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (problem != std::errc() || value < 0 || value > kMostExtent) {
      fail(begin, std::string("expected ") + what + ", got " + found());
      return 0;
    }
    at_ = length_between(text_.data(), end);
    return value;
  }

  /// Whether COUNTxUNIT: stands here.
  bool has_count() const {
    std::size_t i = at_;
    while (i < text_.size() && text_[i] >= '0' && text_[i] <= '9') ++i;
    if (i == at_ || i >= text_.size() || text_[i] != 'x') return false;
    const std::size_t unit = ++i;
    while (i < text_.size() && text_[i] >= '0' && text_[i] <= '9') ++i;
    return i > unit && i < text_.size() && text_[i] == ':';
  }

  DimPart read_part() {
    DimPart part;
    skip_spaces();
    if (has_count()) {
      const std::size_t begin = at_;
      part.count = read_number("a count of pieces");
      expect('x');
      part.unit = read_number("elements per piece");
      expect(':');
      if (part.count == 0 || part.unit == 0) fail(begin, "a part has at least one element");
      skip_spaces();
    }
    const std::size_t begin = at_;
    if (!take('R')) part.axes = read_axes();
    if (!error_ && at_ == begin) fail(at_, "expected axes or R, got " + found());
    part.reversed = take('~');
    skip_spaces();
    return part;
  }

  DimSplit read_dim() {
    const std::size_t begin = at_;
    DimSplit dim;
    dim.parts.clear();
    do dim.parts.push_back(read_part());
    while (!error_ && take('|'));
    if (dim.parts.size() > 1) {
      for (const DimPart& part : dim.parts) {
        if (part.count == 0) fail(begin, "each of several parts needs its COUNTxUNIT:");
      }
    }
    const std::size_t behind = at_;
    if (word() == "after") {
      dim.after = read_axes();
      if (dim.after.empty()) fail(at_, "expected axes behind 'after', got " + found());
    } else {
      at_ = behind;
    }
    return dim;
  }

  void read_state(TensorSpec& spec) {
    const std::size_t begin = at_;
    const char name = peek();
    AxisState state = AxisState::kReplicated;
    std::int64_t coordinate = 0;
    bool maximum = false;
    ++at_;
    if (name == 'P') {
      state = AxisState::kPartial;
      if (text_.substr(at_, 3) == "max") {
        maximum = true;
        at_ += 3;
      }
    } else if (name == 'E') {
      state = AxisState::kEntered;
    } else if (name == 'H') {
      state = AxisState::kHeld;
      expect('@');
      coordinate = read_number("a coordinate");
      if (coordinate >= kMostMeshRanks) fail(begin, "no axis has as many ranks");
    } else if (name != 'R') {
      fail(begin, "expected P, Pmax, E, H@k or R, got " + in_quotes(text_.substr(begin, 1)));
    }
    expect('(');
    const Axes axes = read_axes();
    expect(')');
    if (!error_ && axes.empty()) fail(begin, "a state without axes");
    for (const AxisId axis : axes) {
      if (has(named_, axis)) fail(begin, mesh_.axis_name(axis) + " has two states");
      named_ = static_cast<AxisSet>(named_ | bit(axis));
      set_state(spec, axis, state, static_cast<std::int32_t>(coordinate));
    }
    if (state == AxisState::kPartial && begin > 0) {
      if (partial_named_) fail(begin, "P stands twice");
      partial_named_ = true;
      spec.maximum = maximum;
    }
  }

  std::string_view text_;
  const DeviceMesh& mesh_;
  std::size_t at_ = 0;
  AxisSet named_ = 0;
  bool partial_named_ = false;
  std::optional<SpecTextError> error_;
};

}  // namespace

std::string to_text(const TensorSpec& spec, const DeviceMesh& mesh, NamedAxes named) {
  std::string text = "[";
  for (std::size_t d = 0; d < spec.dims.size(); ++d)
    text += (d == 0 ? "" : ", ") + dim_text(spec.dims[d], mesh);
  text += "]";
  const auto add = [&](const std::string& state, const Axes& axes) {
    if (!axes.empty()) text += " " + state + "(" + list_text(axes, mesh) + ")";
  };
  add(spec.maximum ? "Pmax" : "P", axes_of(spec.partial));
  add("E", axes_of(spec.entered));
  for (const Held& held : spec.held) add("H@" + std::to_string(held.coordinate), {held.axis});
  if (named == NamedAxes::kNeeded) return text;
  Axes replicated;
  for (const AxisId axis : mesh.axis_ids()) {
    if (mesh.size(axis) > 1 && !mesh.axes[axis].stages && !splits_everything(spec, axis) &&
        state_beside(spec, axis) == AxisState::kReplicated)
      replicated.push_back(axis);
  }
  add("R", replicated);
  return text;
}

AxisSet named_axes(std::string_view text, const DeviceMesh& mesh) {
  const auto in_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  AxisSet named = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && in_name(text[end])) ++end;
    const auto axes = find_axes(mesh, text.substr(begin, end - begin));
    if (axes) named = static_cast<AxisSet>(named | set_of(*axes));
    begin = std::max(end, begin + 1);
  }
  return named;
}

std::variant<TensorSpec, SpecTextError> parse_spec(std::string_view text, const DeviceMesh& mesh) {
  return SpecReader(text, mesh).read();
}

}  // namespace trainyard
