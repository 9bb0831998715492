// Index spaces of kinds that only carry elements elsewhere: their dims depend on what they are
// told.
#include <algorithm>
#include <map>
#include <set>

#include "engine/sharding/op_index_table.h"

namespace trainyard {

namespace {

std::string dim_name(std::int64_t dim) { return "d" + std::to_string(dim); }

/// The dims' names with `there` in place of dim `dim`.
std::string with_dim(std::int64_t dims, std::int64_t dim, const std::string& there) {
  std::string text;
  for (std::int64_t d = 0; d < dims; ++d)
    text += (d == 0 ? "" : " ") + (d == dim ? there : dim_name(d));
  return text;
}

/// Why `dim` is none of the first operand's; nullopt: it is.
std::optional<Infeasible> dim_problem(const std::vector<Extents>& operands, int dim) {
  if (operands.empty()) return Infeasible{"an op without operands"};
  if (operands[0].has(dim)) return std::nullopt;
  return Infeasible{"dim " + std::to_string(dim) + " of a tensor of " +
                    std::to_string(operands[0].size()) + " dims"};
}

}  // namespace

std::variant<std::string, Infeasible> permute_space(const std::vector<Extents>& operands,
                                                    const OpParameters& parameters) {
  const std::size_t dims = operands.empty() ? 0 : operands[0].size();
  const std::set<int> distinct(parameters.dims.begin(), parameters.dims.end());
  if (operands.size() != 1 || parameters.dims.size() != dims || distinct.size() != dims ||
      (dims > 0 && (*distinct.begin() != 0 || *distinct.rbegin() != static_cast<int>(dims) - 1)))
    return Infeasible{"the order of " + std::to_string(dims) + " dims names each of them once"};
  std::string text = with_dim(dims, dims, "") + " ->";
  for (const int dim : parameters.dims) text += " " + dim_name(dim);
  return text;
}

namespace {

/// Elements up to the end of each dim.
std::vector<std::int64_t> bounds_of(const Extents& extents) {
  std::vector<std::int64_t> out;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents) out.push_back(product *= extent);
  return out;
}

/// Whether each of the bounds divides the next.
bool nest(const std::set<std::int64_t>& bounds, std::int64_t last) {
  for (const std::int64_t bound : bounds) {
    if (bound % last != 0) return false;
    last = bound;
  }
  return true;
}

/// One side of a view: each dim a group of the factors between its bounds, or an index of its own,
/// never split, in a run whose bounds do not nest.
std::string view_side(const std::vector<std::int64_t>& bounds,
                      const std::map<std::int64_t, std::string>& factors, char side) {
  std::string text;
  std::int64_t last = 1;
  for (std::size_t d = 0; d < bounds.size(); ++d) {
    std::string group;
    for (auto at = factors.upper_bound(last); at != factors.end() && at->first <= bounds[d]; ++at)
      group += (group.empty() ? "" : " ") + at->second;
    if (bounds[d] == last) {
      group = "_";
    } else if (group.empty() || !factors.contains(bounds[d])) {
      group = "w" + std::to_string(d) + side + "=" + std::to_string(bounds[d] / last) + "!";
    }
    text += " (" + group + ")";
    last = bounds[d];
  }
  return text;
}

}  // namespace

/// Dims are cut into common factors, from the left: 8 16 -> 32 4 is a (b c) -> (a b) c with 8, 4
/// and 4. Between two bounds that both have, dims whose bounds do not nest are whole.
std::variant<std::string, Infeasible> view_space(const std::vector<Extents>& operands,
                                                 const OpParameters& parameters) {
  if (operands.size() != 1) return Infeasible{"a view has one operand"};
  const auto from = bounds_of(operands[0]);
  const auto to = bounds_of(parameters.to);
  const std::int64_t all = from.empty() ? 1 : from.back();
  if (all != (to.empty() ? 1 : to.back())) {
    return Infeasible{"a view of " + std::to_string(all) + " elements as " +
                      std::to_string(to.empty() ? 1 : to.back())};
  }
  std::map<std::int64_t, std::string> factors;  // by the bound where they end
  std::set<std::int64_t> run;                   // bounds since the last that both sides have
  std::set<std::int64_t> either(from.begin(), from.end());
  either.insert(to.begin(), to.end());
  either.erase(1);
  std::int64_t begin = 1;
  for (const std::int64_t bound : either) {
    run.insert(bound);
    if (std::count(from.begin(), from.end(), bound) == 0 ||
        std::count(to.begin(), to.end(), bound) == 0)
      continue;
    std::int64_t last = begin;
    for (const std::int64_t end : nest(run, begin) ? run : std::set<std::int64_t>()) {
      factors[end] = "v" + std::to_string(factors.size()) + "=" + std::to_string(end / last);
      last = end;
    }
    run.clear();
    begin = bound;
  }
  return view_side(from, factors, 'a') + " ->" + view_side(to, factors, 'b');
}

std::variant<std::string, Infeasible> split_space(const std::vector<Extents>& operands,
                                                  const OpParameters& parameters) {
  if (auto problem = dim_problem(operands, parameters.dim)) return *problem;
  const int dim = parameters.dim;
  std::string parts, results;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parameters.sizes.size(); ++i) {
    const std::string part = "p" + std::to_string(i);
    parts += (i == 0 ? "" : " | ") + part + "=" + std::to_string(parameters.sizes[i]);
    results += (i == 0 ? " " : " | ") + with_dim(operands[0].size(), dim, part);
    sum += parameters.sizes[i];
  }
  if (parameters.sizes.empty() || sum != operands[0][dim] ||
      *std::min_element(parameters.sizes.begin(), parameters.sizes.end()) < 1) {
    return Infeasible{"parts of " + std::to_string(sum) + " elements of a dim of " +
                      std::to_string(operands[0][dim])};
  }
  return with_dim(operands[0].size(), dim, "[" + parts + "]") + " ->" + results;
}

std::variant<std::string, Infeasible> concat_space(const std::vector<Extents>& operands,
                                                   const OpParameters& parameters) {
  if (auto problem = dim_problem(operands, parameters.dim)) return *problem;
  const int dim = parameters.dim;
  std::string parts, text;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string part = "p" + std::to_string(i);
    parts += (i == 0 ? "" : " | ") + part;
    text += (i == 0 ? "" : " | ") + with_dim(operands[0].size(), dim, part);
  }
  return text + " -> " + with_dim(operands[0].size(), dim, "[" + parts + "]");
}

std::variant<std::string, Infeasible> narrow_space(const std::vector<Extents>& operands,
                                                   const OpParameters& parameters) {
  if (auto problem = dim_problem(operands, parameters.dim)) return *problem;
  const int dim = parameters.dim;
  return with_dim(operands[0].size(), dim, "whole!") + " -> " +
         with_dim(operands[0].size(), dim, "left!");
}

std::variant<std::string, Infeasible> sum_space(const std::vector<Extents>& operands,
                                                const OpParameters& parameters) {
  std::string results;
  if (operands.size() != 1) return Infeasible{"a sum has one operand"};
  for (const int dim : parameters.dims) {
    if (auto problem = dim_problem(operands, dim)) return *problem;
  }
  for (std::size_t d = 0; d < operands[0].size(); ++d) {
    const bool summed =
        std::count(parameters.dims.begin(), parameters.dims.end(), static_cast<int>(d)) > 0;
    if (!summed) results += " " + dim_name(d);
    if (summed && parameters.keepdim) results += " _";
  }
  if (results.empty()) results = " _";  // one element, as tensors have one dim at least
  return with_dim(operands[0].size(), operands[0].size(), "") + " ->" + results;
}

/// A dim of whatever parts into (A rest), A an index of its own: parameters.extents has c, the
/// pieces.
std::variant<std::string, Infeasible> pieces_space(const std::vector<Extents>& operands,
                                                   const OpParameters& parameters) {
  if (auto problem = dim_problem(operands, parameters.dim)) return *problem;
  const int dim = parameters.dim;
  return with_dim(operands[0].size(), dim, "(c rest)") + " -> " +
         with_dim(operands[0].size(), dim, "c rest");
}

std::variant<std::string, Infeasible> roll_space(const std::vector<Extents>& operands,
                                                 const OpParameters& parameters) {
  if (auto problem = dim_problem(operands, parameters.dim)) return *problem;
  const int dim = parameters.dim;
  const std::string dims = with_dim(operands[0].size(), dim, "c*");
  return dims + " -> " + dims;
}

}  // namespace trainyard
