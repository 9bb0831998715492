#include "engine/sharding/index_space.h"

#include <algorithm>

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

/// A tensor as its text has it: words of dims, not yet of an operand.
struct TensorText {
  std::vector<std::vector<std::vector<std::string>>> dims;  // dim, part, words
  std::vector<std::string> alike;
  bool optional = false;
  int term = 0;
  int part = -1;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// The pieces of `text` between characters of `marks` outside of [ ], and the mark behind each.
std::vector<std::pair<std::string_view, char>> pieces_of(std::string_view text,
                                                         std::string_view marks) {
  std::vector<std::pair<std::string_view, char>> out;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '\0';
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (i < text.size() && (depth > 0 || marks.find(c) == std::string_view::npos)) continue;
    out.emplace_back(trimmed(text.substr(begin, i - begin)), c);
    begin = i + 1;
  }
  return out;
}

TensorText read_tensor(std::string_view text) {
  TensorText out;
  bool in_dim = false;  // inside ( ) or [ ]
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) return;
    if (word.front() == '=') {
      out.alike.push_back(word.substr(1));
    } else {
      if (!in_dim) out.dims.push_back({{}});
      out.dims.back().back().push_back(word);
    }
    word.clear();
  };
  for (const char c : text) {
    if (c == '(' || c == '[') {
      out.dims.push_back({{}});
      in_dim = true;
    } else if (c == ')' || c == ']') {
      end_word();
      in_dim = false;
    } else if (c == '|') {
      end_word();
      out.dims.back().push_back({});
    } else if (c == '?') {
      out.optional = true;
    } else if (c == ' ') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return out;
}

bool has_ellipsis(const TensorText& tensor) {
  return std::any_of(tensor.dims.begin(), tensor.dims.end(),
                     [](const auto& dim) { return dim[0] == std::vector<std::string>{"..."}; });
}

/// Builds one index space.
class SpaceReader {
 public:
  explicit SpaceReader(const IndexExtents& known) : known_(known) {}

  std::variant<IndexSpace, Infeasible> read(std::string_view text,
                                            const std::vector<Extents>& operands) {
    const std::size_t arrow = text.find("->");
    check(arrow != std::string_view::npos, "an index space without ->");
    std::vector<TensorText> tensors = read_operands(text.substr(0, arrow));
    drop_optional(tensors, operands.size());
    if (tensors.size() != operands.size()) {
      return Infeasible{"the op has " + std::to_string(tensors.size()) + " operands, not " +
                        std::to_string(operands.size())};
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!has_ellipsis(tensors[i])) continue;
      const std::size_t named = tensors[i].dims.size() - 1;
      if (operands[i].size() >= named) leading_ = std::max(leading_, operands[i].size() - named);
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (auto problem = add_operand(tensors[i], operands[i], i)) return Infeasible{*problem};
    }
    if (auto problem = solve_extents(operands)) return Infeasible{*problem};
    int part = 0;
    const auto results = pieces_of(text.substr(arrow + 2), ";|");
    const bool by_part = results.front().second == '|';
    for (const auto& [result, mark] : results) {
      TensorText tensor = read_tensor(result);
      tensor.part = by_part ? part++ : -1;
      space_.results.push_back(indexed(tensor, leading_));
    }
    for (OpIndex& index : space_.indices) {
      if (index.extent == 0 && index.use == IndexUse::kWhole) index.extent = 1;
      if (index.extent == 0)
        return Infeasible{"the extent of index " + index.name + " is not known"};
    }
    return std::move(space_);
  }

 private:
  static std::vector<TensorText> read_operands(std::string_view text) {
    std::vector<TensorText> out;
    int term = 0;
    const auto pieces = pieces_of(text, ",+|");
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      TensorText tensor = read_tensor(pieces[i].first);
      tensor.term = term;
      const bool by_part = pieces[i].second == '|' || (i > 0 && pieces[i - 1].second == '|');
      if (by_part) tensor.part = static_cast<int>(i);
      if (pieces[i].second == '+' || pieces[i].second == '|') ++term;
      out.push_back(std::move(tensor));
    }
    return out;
  }

  static void drop_optional(std::vector<TensorText>& tensors, std::size_t count) {
    for (std::size_t i = tensors.size(); i-- > 0 && tensors.size() > count;) {
      if (tensors[i].optional) tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  int index_of(std::string name) {
    IndexUse use = IndexUse::kFree;
    if (name.back() == '!') use = IndexUse::kWhole;
    if (name.back() == '*') use = IndexUse::kExchanged;
    if (use != IndexUse::kFree) name.pop_back();
    std::int64_t extent = 0;
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      extent = std::stoll(name.substr(equals + 1));
      name.resize(equals);
    }
    for (std::size_t i = 0; i < space_.indices.size(); ++i) {
      if (space_.indices[i].name == name) return static_cast<int>(i);
    }
    const auto at = known_.find(name);
    space_.indices.push_back({name, use, at == known_.end() ? extent : at->second});
    return static_cast<int>(space_.indices.size()) - 1;
  }

  /// `leading`: how many dims `...` stands for here; they are the last of the op's.
  IndexedTensor indexed(const TensorText& tensor, std::size_t leading) {
    IndexedTensor out;
    out.term = tensor.term;
    out.part = tensor.part;
    for (const std::string& name : tensor.alike) out.alike.push_back(index_of(name));
    for (const auto& dim : tensor.dims) {
      if (dim[0] == std::vector<std::string>{"..."}) {
        for (std::size_t i = leading_ - leading; i < leading_; ++i)
          out.dims.push_back({{{index_of("d" + std::to_string(i))}, false}});
        continue;
      }
      IndexedDim& parts = out.dims.emplace_back();
      for (const auto& words : dim) {
        IndexGroup& group = parts.emplace_back();
        for (std::string word : words) {
          if (word == "_") continue;
          if (word.front() == '~') {
            group.reversed = true;
            word.erase(0, 1);
          }
          group.indices.push_back(index_of(word));
        }
      }
    }
    return out;
  }

  std::optional<std::string> add_operand(const TensorText& tensor, const Extents& extents,
                                         std::size_t which) {
    const bool leading = has_ellipsis(tensor);
    const std::size_t named = tensor.dims.size() - (leading ? 1 : 0);
    if (extents.size() < named || (!leading && extents.size() != named)) {
      return "operand " + std::to_string(which) + " has " + std::to_string(extents.size()) +
             " dims, not " + std::to_string(named) + (leading ? " or more" : "");
    }
    IndexedTensor made = indexed(tensor, extents.size() - named);
    for (std::size_t d = 0; d < extents.size(); ++d) {
      IndexGroup& group = made.dims[d].front();
      const bool single = made.dims[d].size() == 1 && group.indices.size() == 1;
      if (!single) continue;
      OpIndex& index = space_.indices[group.indices.front()];
      const bool broadcast = index.name.front() == 'd' && leading;
      if (index.extent == 0 || (broadcast && index.extent == 1)) index.extent = extents[d];
    }
    space_.operands.push_back(std::move(made));
    return std::nullopt;
  }

  /// Extents of groups and parts follow where all but one index of a part is known.
  std::optional<std::string> solve_extents(const std::vector<Extents>& operands) {
    for (std::size_t round = 0; round < space_.indices.size() + 1; ++round) {
      for (std::size_t o = 0; o < operands.size(); ++o) {
        for (std::size_t d = 0; d < operands[o].size(); ++d)
          solve_dim(space_.operands[o].dims[d], operands[o][d]);
      }
    }
    for (std::size_t o = 0; o < operands.size(); ++o) {
      for (std::size_t d = 0; d < operands[o].size(); ++d) {
        IndexedDim& dim = space_.operands[o].dims[d];
        std::int64_t sum = 0;
        for (const IndexGroup& group : dim) sum += space_.extent_of(group);
        if (sum == operands[o][d]) continue;
        const bool single = dim.size() == 1 && dim[0].indices.size() == 1;
        if (operands[o][d] == 1 && single) {
          dim[0].indices.clear();  // broadcast along it
          continue;
        }
        return "dim " + std::to_string(d) + " of operand " + std::to_string(o) + " has " +
               std::to_string(operands[o][d]) + " elements, and its indices " + std::to_string(sum);
      }
    }
    return std::nullopt;
  }

  void solve_dim(const IndexedDim& dim, std::int64_t extent) {
    int unknown = -1;
    std::int64_t factor = 0;  // what the unknown index counts for
    for (const IndexGroup& group : dim) {
      std::int64_t product = 1;
      int missing = -1;
      for (const int index : group.indices) {
        const std::int64_t one = space_.indices[index].extent;
        if (one != 0) {
          product *= one;
        } else if (missing < 0) {
          missing = index;
        } else {
          return;
        }
      }
      if (missing < 0) {
        extent -= product;
      } else if (unknown >= 0 && missing != unknown) {
        return;
      } else {
        unknown = missing;
        factor += product;
      }
    }
    if (unknown >= 0 && extent > 0 && extent % factor == 0)
      space_.indices[unknown].extent = extent / factor;
  }

  const IndexExtents& known_;
  IndexSpace space_;
  std::size_t leading_ = 0;
};

}  // namespace

std::int64_t IndexSpace::extent_of(const IndexGroup& group) const {
  std::int64_t extent = 1;
  for (const int index : group.indices) extent *= indices[index].extent;
  return extent;
}

Extents IndexSpace::extents_of(const IndexedTensor& tensor) const {
  Extents extents;
  for (const IndexedDim& dim : tensor.dims) {
    extents.push_back(0);
    for (const IndexGroup& group : dim) extents.back() += extent_of(group);
  }
  return extents;
}

std::variant<IndexSpace, Infeasible> read_index_space(std::string_view text,
                                                      const std::vector<Extents>& operands,
                                                      const IndexExtents& known) {
  return SpaceReader(known).read(text, operands);
}

}  // namespace trainyard
