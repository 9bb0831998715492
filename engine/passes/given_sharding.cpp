#include "engine/passes/given_sharding.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/user_text.h"
#include "engine/graph/op_space.h"
#include "engine/passes/complete_spec.h"
#include "engine/passes/given_modules.h"
#include "engine/sharding/normal_form.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

/// Which entry says something: of several that mean one tensor or op, the most specific wins.
struct Source {
  std::size_t given = 0;     // of the plan's list
  std::size_t literals = 0;  // characters of its pattern that are not *
  std::string path;          // of the module
  std::string key;
};

template <typename What>
struct Claim {
  What what;
  Source source;
};

class GivenReader {
 public:
  GivenReader(const PlannedGraph& base, const std::vector<GivenSharding>& given)
      : base_(base),
        given_(given),
        mesh_(base.sharding.mesh),
        modules_(base.graph) {}

  std::variant<FoundSharding, std::vector<GivenMistake>> run() {
    for (std::size_t i = 0; i < given_.size(); ++i) read(i);
    if (!mistakes_.empty()) return std::move(mistakes_);
    FoundSharding out;
    for (auto& [tensor, claim] : tensors_)
      out.tensors.push_back({tensor, std::move(claim.what), claim.source.key});
    for (auto& [op, claim] : ops_) out.ops.push_back({op, std::move(claim.what), claim.source.key});
    out.whole = std::move(whole_);
    return out;
  }

 private:
  using Module = GivenModules::Module;

  void fail(const std::string& key, const std::string& problem) {
    const bool said = std::any_of(mistakes_.begin(), mistakes_.end(),
                                  [&](const GivenMistake& one) { return one.key == key; });
    if (!said) mistakes_.push_back({key, problem});
  }

  void read(std::size_t which) {
    const GivenSharding& given = given_[which];
    const std::string key = "sharding." + given.modules;
    const auto modules = modules_.matched(given.modules);
    whole_.push_back(given);
    if (modules.empty()) {
      fail(key, "matches no module; of the first layer and the ends there are " +
                    join_words(modules_.some_paths()));
      return;
    }
    Source source{which, 0, "", ""};
    for (const char c : given.modules) source.literals += c == '*' ? 0 : 1;
    for (std::size_t i = 0; i < given.specs.size(); ++i) {
      source.key = key + "." + given.specs[i].first;
      read_spec(source, i, modules);
    }
    source.key = key + ".strategy";
    if (!given.strategy.empty()) read_strategy(source, modules);
  }

  // --- specs ---

  TensorId tensor_of(const Module& module, const std::string& name) const {
    if (name == "output") return modules_.output(module);
    if (name == "input") return modules_.input(module, 0);
    constexpr std::string_view kNumbered = "input.";
    if (!name.starts_with(kNumbered)) return modules_.parameter(module, name);
    std::size_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + kNumbered.size(), end, number);
    if (error != std::errc{} || stop != end) return kNoIndex;
    return modules_.input(module, number);
  }

  void read_spec(Source source, std::size_t entry, const std::vector<const Module*>& modules) {
    const auto& [name, text] = given_[source.given].specs[entry];
    const auto parsed = parse_spec(text, mesh_);
    if (const auto* error = std::get_if<SpecTextError>(&parsed))
      return fail(source.key, error->problem);
    const PartialSpec partial{std::get<TensorSpec>(parsed), named_axes(text, mesh_)};
    std::optional<TensorSpec> all;
    bool any = false, same = true;
    for (const Module* module : modules) {
      const TensorId tensor = tensor_of(*module, name);
      if (tensor == kNoIndex || base_.sharding.stored[tensor] == kNoIndex) continue;
      any = true;
      auto completed = complete_spec(base_, tensor, partial);
      if (const auto* problem = std::get_if<std::string>(&completed))
        return fail(source.key, *problem);
      source.path = module->path;
      const TensorSpec& spec = std::get<TensorSpec>(completed);
      same = same && all.value_or(spec) == spec;
      all = spec;
      claim(tensors_, tensor, spec, source);
    }
    if (!any) {
      return fail(source.key, "no module that the pattern matches has " + in_quotes(name) + "; " +
                                  modules.front()->path + " has " +
                                  join_words(modules_.names_of(*modules.front())));
    }
    if (same) whole_[source.given].specs[entry].second = to_text(*all, mesh_, NamedAxes::kAll);
  }

  /// Two equal patterns that mean the same are a contradiction, or would become one.
  template <typename Id, typename What>
  void claim(std::map<Id, Claim<What>>& claims, Id id, const What& what, const Source& source) {
    const auto [it, fresh] = claims.try_emplace(id, Claim<What>{what, source});
    if (fresh) return;
    Claim<What>& known = it->second;
    if (known.source.literals > source.literals) return;
    const bool equal = known.source.literals == source.literals;
    const bool twice = known.source.path == source.path && known.source.given != source.given;
    if (equal && (twice || known.what != what)) {
      fail(source.key, "says of " + source.path + " what " + in_quotes(known.source.key) +
                           " says, too, and neither pattern is more specific: both have " +
                           std::to_string(source.literals) + " literal characters");
    }
    if (!equal) known = {what, source};
  }

  // --- strategies ---

  struct Use {
    std::string name;  // of an index, or entered, passed, whole
    Axes axes;
  };

  void read_strategy(Source source, const std::vector<const Module*>& modules) {
    std::vector<Use> uses;
    for (const auto& [name, list] : given_[source.given].strategy) {
      const auto parsed = parse_spec("[" + list + "]", mesh_);
      if (const auto* error = std::get_if<SpecTextError>(&parsed))
        return fail(source.key, error->problem);
      uses.push_back({name, std::get<TensorSpec>(parsed).dims.front().parts.front().axes});
    }
    bool any = false;
    std::set<std::string> there;  // indices of ops that lack one of those named
    for (const Module* module : modules) {
      source.path = module->path;
      for (const OpId id : module->own) {
        const Op& op = base_.graph.ops[id];
        const auto space = base_space(base_, op);
        if (!space) continue;
        if (!has_all(*space, uses)) {
          there.insert(std::string(to_string(op.kind)) + indices_of(*space));
          continue;
        }
        any = true;
        const Strategy& before = base_.sharding.splits[base_.sharding.ops[id]].strategy;
        const Strategy strategy = with_uses(*space, before, uses);
        if (uses_of(strategy, base_.sharding.late) != uses_of(before, base_.sharding.late)) {
          return fail(source.key,
                      "the batch stays split over dp as the method has it; leave dp out");
        }
        claim(ops_, id, strategy, source);
      }
    }
    if (!any) {
      fail(source.key,
           "no op of a module that the pattern matches has all of these indices; " +
               (there.empty() ? "there is none with indices"
                              : "there are " + join_words({there.begin(), there.end()})));
    }
  }

  static std::string indices_of(const IndexSpace& space) {
    std::string text;
    for (const OpIndex& index : space.indices) {
      if (index.use == IndexUse::kFree) text += (text.empty() ? " (" : " ") + index.name;
    }
    return text.empty() ? " ()" : text + ")";
  }
  static bool is_beside(const std::string& name) {
    return name == "entered" || name == "passed" || name == "whole";
  }
  static int index_named(const IndexSpace& space, const std::string& name) {
    for (std::size_t i = 0; i < space.indices.size(); ++i) {
      if (space.indices[static_cast<std::int64_t>(i)].name == name) return static_cast<int>(i);
    }
    return -1;
  }
  static bool has_all(const IndexSpace& space, const std::vector<Use>& uses) {
    return std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
      return is_beside(use.name) || index_named(space, use.name) >= 0;
    });
  }

  /// The strategy with the axes of `uses` used so, and all others as before.
  static Strategy with_uses(const IndexSpace& space, const Strategy& before,
                            const std::vector<Use>& uses) {
    AxisSet named = 0;
    for (const Use& use : uses) named = static_cast<AxisSet>(named | set_of(use.axes));
    Strategy out = without(before, named);
    for (const Use& use : uses) {
      if (use.name == "entered") out.entered = static_cast<AxisSet>(out.entered | set_of(use.axes));
      if (use.name == "passed") out.passed = static_cast<AxisSet>(out.passed | set_of(use.axes));
      if (is_beside(use.name)) continue;
      const int index = index_named(space, use.name);
      auto at = std::find_if(out.split.begin(), out.split.end(),
                             [&](const IndexSplit& split) { return split.index >= index; });
      if (at == out.split.end() || at->index != index) at = out.split.insert(at, {index, {}});
      at->axes = merged(use.axes, at->axes);
    }
    return out;
  }
  static Strategy without(const Strategy& strategy, AxisSet axes) {
    Strategy out;
    for (const IndexSplit& split : strategy.split) {
      Axes kept;
      for (const AxisId axis : split.axes) {
        if (!has(axes, axis)) kept.push_back(axis);
      }
      if (!kept.empty()) out.split.push_back({split.index, kept});
    }
    out.entered = static_cast<AxisSet>(strategy.entered & ~axes);
    out.passed = static_cast<AxisSet>(strategy.passed & ~axes);
    return out;
  }
  static Strategy uses_of(const Strategy& strategy, AxisSet axes) {
    return without(strategy, static_cast<AxisSet>(~axes));
  }

  const PlannedGraph& base_;
  const std::vector<GivenSharding>& given_;
  const DeviceMesh& mesh_;
  GivenModules modules_;
  std::map<TensorId, Claim<TensorSpec>> tensors_;
  std::map<OpId, Claim<Strategy>> ops_;
  std::vector<GivenSharding> whole_;
  std::vector<GivenMistake> mistakes_;
};

}  // namespace

std::variant<FoundSharding, std::vector<GivenMistake>> find_given(
    const PlannedGraph& base, const std::vector<GivenSharding>& given) {
  return GivenReader(base, given).run();
}

}  // namespace trainyard
