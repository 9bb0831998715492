#include "models/onnx/dim_groups.h"

#include <algorithm>

namespace trainyard {

namespace {

/// Elements up to each dim's end.
std::vector<std::int64_t> ends_of(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> ends;
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) ends.push_back(elements *= dim);
  return ends;
}

}  // namespace

std::optional<std::vector<std::int64_t>> refined_dims(const std::vector<std::int64_t>& a,
                                                      const std::vector<std::int64_t>& b) {
  const std::vector<std::int64_t> of_a = ends_of(a), of_b = ends_of(b);
  std::vector<std::int64_t> ends;  // an end of both is one; as many times as in the one with more
  std::set_union(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), std::back_inserter(ends));
  std::vector<std::int64_t> out;
  std::int64_t before = 1;
  for (const std::int64_t end : ends) {
    if (end % before != 0) return std::nullopt;
    out.push_back(end / before);
    before = end;
  }
  return out;
}

Numbered<std::size_t> dim_groups(const std::vector<std::int64_t>& finer,
                                 const std::vector<std::int64_t>& dims) {
  Numbered<std::size_t> groups;
  std::size_t at = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::size_t begin = at;
    std::int64_t elements = 1;
    do elements *= finer[at++];
    while (elements != dims[d]);
    const bool takes_ones = d + 2 >= dims.size();
    // The last dim has to have one left.
    const std::size_t left = dims.size() - d - 1;
    while (takes_ones && finer.size() - at > left && finer[at] == 1) ++at;
    groups.push_back(at - begin);
  }
  return groups;
}

}  // namespace trainyard
