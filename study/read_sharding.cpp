// The `sharding:` block: specs of modules' tensors, and how their ops use axes, by pattern. What is
// read here is well written and names axes that there are; whether the model has such modules, and
// their tensors such dims, is for resolve_sharding() to say.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/sharding/spec_text.h"
#include "study/sharding_names.h"
#include "study/study_origin.h"
#include "study/study_parts.h"

namespace trainyard {

namespace {

class ShardingReader {
 public:
  ShardingReader(Study& study, std::string key, std::vector<GivenSharding>& out)
      : study_(study),
        key_(std::move(key)),
        out_(out),
        names_(sharding_names(study.parallel)) {}

  void read(const YamlNode& block) {
    block.each_entry([&](const std::string& pattern, const YamlNode& module) {
      if (pattern.empty())
        throw ConfigError(block.key_pos(pattern), block.key_path(), "an empty module pattern");
      study_.origins[key_ + "." + pattern] = origin_of(module);
      GivenSharding given{pattern, {}, {}};
      module.each_entry([&](const std::string& name, const YamlNode& value) {
        if (name.empty()) {
          throw ConfigError(module.key_pos(name), module.key_path(),
                            "an empty name of a parameter, input or output");
        }
        study_.origins[key_ + "." + pattern + "." + name] = origin_of(value);
        name == "strategy" ? read_strategy(value, given) : read_spec(name, value, given);
      });
      if (given.specs.empty() && given.strategy.empty()) {
        module.fail(
            "expected specs by parameter, input or output, such as {weight: [tp, R]}, or a "
            "strategy");
      }
      out_.push_back(std::move(given));
    });
  }

 private:
  void read_spec(const std::string& name, const YamlNode& node, GivenSharding& given) const {
    if (node.is_sequence()) {
      given.specs.emplace_back(name, listed_spec(node));
      return;
    }
    if (!node.is_scalar()) {
      node.fail("expected a list with R, an axis or a list of axes per dim, or a spec such as " +
                in_quotes("[R, R, tp] R(dp)"));
    }
    const std::string text = node.as_string();
    const TensorSpec spec = parse(node, text, 0);
    require_once(node, spec);
    given.specs.emplace_back(name, given_text(spec, named_axes(text, names_), names_));
  }

  /// A list per dim, as text.
  std::string listed_spec(const YamlNode& node) const {
    TensorSpec spec;
    node.each_item([&](const YamlNode& item) {
      const std::string dim = item.is_sequence() ? list_of(item) : item.as_string();
      const TensorSpec one = parse(item, "[" + dim + "]", 1);
      if (one.dims.size() != 1) item.fail("expected one dim, got " + in_quotes(dim));
      spec.dims.push_back(one.dims.front());
      require_once(item, spec);
    });
    return to_text(spec, names_);
  }

  static std::string list_of(const YamlNode& node) {
    std::string list;
    for (const YamlNode& item : node.items()) list += (list.empty() ? "" : " ") + item.as_string();
    if (list.empty()) node.fail("expected axes; R says that no axis splits the dim");
    return list;
  }

  /// `before`: columns of `text` in front of what the node says.
  TensorSpec parse(const YamlNode& node, const std::string& text, int before) const {
    auto parsed = parse_spec(text, names_);
    if (const auto* error = std::get_if<SpecTextError>(&parsed)) {
      std::string problem = error->problem;
      if (problem.find("has no axis") != std::string::npos) problem += axes_there();
      const int column = error->column - before;
      if (column > 1) problem += ", at its column " + std::to_string(column);
      node.fail(problem);
    }
    refuse_stages(node, named_axes(text, names_));
    return std::get<TensorSpec>(std::move(parsed));
  }

  std::string axes_there() const {
    std::vector<std::string> known;
    for (const AxisId axis : names_.axis_ids()) {
      if (!names_.axes[axis].stages) known.push_back(names_.axis_name(axis));
    }
    for (const auto& [name, axes] : names_.names) known.push_back(name);
    std::string text = "; there are " + join_words(known);
    if (!names_.names.empty()) return text;
    const std::string& method = study_.parallel.tensor_method;
    const bool own_mesh = tensor_method(method).choose_mesh != nullptr;
    text += own_mesh ? "; tensor_method: {name: " + method + ", mesh: [2, 4]}"
                     : "; parallel.tensor: {tp0: 2, tp1: 4}";
    return text + " makes several";
  }

  void refuse_stages(const YamlNode& node, AxisSet named) const {
    if (has(named, stage_axis(names_)))
      node.fail("pp tells pipeline stages apart, which hold different layers: no spec names it");
  }

  /// An axis cuts one dim, and is in one state.
  void require_once(const YamlNode& node, const TensorSpec& spec) const {
    AxisSet seen = 0;
    for (const DimSplit& dim : spec.dims) {
      const auto twice = static_cast<AxisSet>(seen & axes_in(dim));
      if (twice != 0) fail_twice(node, twice);
      seen = static_cast<AxisSet>(seen | axes_in(dim));
    }
  }
  [[noreturn]] void fail_twice(const YamlNode& node, AxisSet twice) const {
    node.fail("axis " + names_.axis_name(axes_of(twice).front()) +
              " is named twice; it splits one dim of a tensor");
  }

  void read_strategy(const YamlNode& node, GivenSharding& given) const {
    AxisSet seen = 0;
    node.each_entry([&](const std::string& index, const YamlNode& value) {
      const std::string list = value.is_sequence() ? list_of(value) : value.as_string();
      const TensorSpec use = parse(value, "[" + list + "]", 1);
      const Axes axes = use.dims.size() == 1 ? use.dims.front().parts.front().axes : Axes{};
      if (axes.empty() || use != spec_of(axes))
        value.fail("expected an axis or a list of axes, got " + in_quotes(list));
      if (const auto twice = static_cast<AxisSet>(seen & set_of(axes)); twice != 0) {
        value.fail("axis " + names_.axis_name(axes_of(twice).front()) +
                   " is named twice; an op uses it in one way");
      }
      seen = static_cast<AxisSet>(seen | set_of(axes));
      const std::string text = to_text(use, names_);
      given.strategy.emplace_back(index, text.substr(1, text.size() - 2));
    });
  }
  static TensorSpec spec_of(const Axes& axes) {
    TensorSpec spec;
    spec.dims.push_back(split_over(axes));
    return spec;
  }

  Study& study_;
  std::string key_;  // of the block
  std::vector<GivenSharding>& out_;
  DeviceMesh names_;
};

}  // namespace

void read_sharding_entries(Study& study, const YamlNode& block, const std::string& key,
                           std::vector<GivenSharding>& out) {
  ShardingReader(study, key, out).read(block);
}

void read_sharding(Section& root) {
  const auto block = root.given("sharding");
  if (!block || root.draft().has_mistake_in("parallel.tensor")) return;
  read_sharding_entries(root.study(), *block, "sharding", root.study().sharding);
}

}  // namespace trainyard
