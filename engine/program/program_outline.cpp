#include "engine/program/program_outline.h"

#include <vector>

#include "engine/base/cut_middle.h"

namespace trainyard {

namespace {

constexpr std::size_t kTableLines = 5;    // of pools, of values, ...: each table
constexpr std::size_t kSegmentLines = 9;  // of a segment: its head and ops

/// A line that is not indented, and those below it that are.
struct Block {
  std::vector<std::string> lines;
  std::string kind() const { return lines.front().substr(0, lines.front().find(' ')); }
};

std::vector<Block> blocks_of(std::string_view text) {
  std::vector<Block> blocks;
  for (std::string& line : lines_of(text)) {
    if (blocks.empty() || !line.starts_with(' ')) blocks.emplace_back();
    blocks.back().lines.push_back(std::move(line));
  }
  return blocks;
}

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Blocks of a kind that follow one another: the first and the last of those with lines of their
/// own, each cut, else a table.
std::vector<std::string> outline(const std::vector<Block>& blocks, std::string_view hint) {
  std::vector<std::string> lines;
  const bool table = blocks.front().lines.size() == 1;
  if (table) {
    for (const Block& block : blocks) append(lines, block.lines);
    return cut_middle(lines, kTableLines, "", hint);
  }
  append(lines, cut_middle(blocks.front().lines, kSegmentLines, "  ", hint));
  if (blocks.size() == 1) return lines;
  std::size_t left_out = 0;
  for (std::size_t i = 1; i + 1 < blocks.size(); ++i) left_out += blocks[i].lines.size();
  if (left_out > 0) lines.push_back(left_out_line(left_out, "", hint));
  append(lines, cut_middle(blocks.back().lines, kSegmentLines, "  ", hint));
  return lines;
}

}  // namespace

std::string program_outline(std::string_view program_text, std::size_t columns,
                            std::string_view hint) {
  const std::vector<Block> blocks = blocks_of(program_text);
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    const std::string kind = blocks[begin].kind();
    while (end < blocks.size() && blocks[end].kind() == kind) ++end;
    const std::vector<Block> alike(blocks.begin() + static_cast<std::ptrdiff_t>(begin),
                                   blocks.begin() + static_cast<std::ptrdiff_t>(end));
    append(lines, outline(alike, hint));
  }
  lines = cut_middle(lines, kOutlineLines, "", hint);
  for (std::string& line : lines) line = cut_words(line, columns);
  return joined(lines);
}

}  // namespace trainyard
