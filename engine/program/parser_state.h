// What the parts of the Program's parser share: the Program so far, the names in it, and how words
// and names are read.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/base/place_of.h"
#include "engine/base/user_text.h"
#include "engine/graph/op_kind.h"
#include "engine/program/line_scanner.h"
#include "engine/program/program.h"

namespace trainyard {

inline constexpr std::int64_t kMaxInt16 = std::numeric_limits<std::int16_t>::max();
inline constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
inline constexpr std::int64_t kMaxElements = std::int64_t{1}
                                             << 50;  // of a value: bytes fit 64 bits

/// Names of one kind of thing -> ids in order of appearance. Keys are pieces of the text.
template <typename Id>
class Names {
 public:
  std::optional<Id> find(std::string_view name) const {
    const auto it = ids_.find(name);
    if (it == ids_.end()) return std::nullopt;
    return it->second;
  }
  bool add(std::string_view name) { return ids_.emplace(name, Id(ids_.size())).second; }

 private:
  std::unordered_map<std::string_view, Id> ids_;
};

struct ParserState {
  Program program;
  Names<GroupId> groups;
  Names<PoolId> pools;
  Names<ValueId> values;
  std::unordered_map<std::string, SpecId> specs;  // by their text
  Names<SegmentId> segments;
  Names<PathId> modules;
  std::string_view module;                                     // of the ops that follow
  std::unordered_map<std::string_view, KindAndPart> op_names;  // seen so far
};

template <std::size_t N>
std::optional<std::size_t> find_word(const std::array<std::string_view, N>& list,
                                     std::string_view word) {
  const std::size_t place = place_of(list, word);
  if (place == list.size()) return std::nullopt;
  return place;
}

/// One of `list`; as an enumerator, the one with that number.
template <typename Word, std::size_t N>
Word read_word(LineScanner& line, const std::array<std::string_view, N>& list,
               const std::string& what) {
  const std::size_t at = line.position();
  const std::string_view word = line.take(what);
  const auto found = find_word(list, word);
  if (found) return static_cast<Word>(*found);
  line.fail_at(at, in_quotes(word) + " is not " + what + "; there are " +
                       join_words({list.begin(), list.end()}));
}

AxisId read_axis(LineScanner& line, const DeviceMesh& mesh);
/// "[tp0,tp1]"; "[]": none.
Axes read_axes(LineScanner& line, const DeviceMesh& mesh);

/// A name that no other of its kind has; messages about the line say it from here on.
template <typename Id>
std::string_view read_new_name(LineScanner& line, const std::string& kind, std::string_view stops,
                               Names<Id>& names) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("the name of a " + kind, stops);
  if (!names.add(name)) line.fail_at(at, "a second " + kind + " called " + in_quotes(name));
  line.set_subject(kind + " " + printable(name, 60));
  return name;
}

/// The id of a name read before.
template <typename Id>
Id read_known_name(LineScanner& line, const std::string& kind, std::string_view stops,
                   const Names<Id>& names) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("the name of a " + kind, stops);
  const auto id = names.find(name);
  if (!id) line.fail_at(at, "no " + kind + " is called " + in_quotes(name));
  return *id;
}

}  // namespace trainyard
