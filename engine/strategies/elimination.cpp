#include "engine/strategies/elimination.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "engine/base/units.h"

namespace trainyard {

namespace {

/// A factor's place while a table is filled. Those over the innermost node are read a row at a
/// time, others are one number for the whole row.
struct Walk {
  const double* at;
  std::size_t step;                 // from one strategy of the eliminated node to the next
  std::vector<std::size_t> stride;  // of each outer node
};

/// out[j] = min(out[j], term(j)), j < width. Four at once, as vectors.
template <typename Term>
void take_less(double* __restrict out, std::size_t width, const Term& term) {
  const auto take = [&](std::size_t j) {
    const double cost = term(j);
    out[j] = cost < out[j] ? cost : out[j];
  };
  std::size_t j = 0;
  for (; j + 4 <= width; j += 4) {
    for (std::size_t k = 0; k < 4; ++k) take(j + k);
  }
  for (; j < width; ++j) take(j);
}

/// Keeps in `out` what is less: of what it has, and `base` and the rows of strategy k added up.
void keep_least(const std::vector<Walk>& rows, std::size_t k, double base,
                std::vector<double>& sums, double* out) {
  const std::size_t width = sums.size();
  const auto row = [&](std::size_t r) { return rows[r].at + k * rows[r].step; };
  if (rows.empty()) return take_less(out, width, [base](auto) { return base; });
  const double* const a = row(0);
  if (rows.size() == 1) return take_less(out, width, [=](std::size_t j) { return base + a[j]; });
  const double* const b = row(1);
  if (rows.size() == 2)
    return take_less(out, width, [=](std::size_t j) { return (base + a[j]) + b[j]; });
  for (std::size_t j = 0; j < width; ++j) sums[j] = (base + a[j]) + b[j];
  for (std::size_t r = 2; r < rows.size(); ++r) {
    const double* const more = row(r);
    for (std::size_t j = 0; j < width; ++j) sums[j] += more[j];
  }
  const double* const sum = sums.data();
  take_less(out, width, [=](std::size_t j) { return sum[j]; });
}

/// To the next strategies of the outer nodes, the last of them fastest; false: there are no more.
bool go_on(const std::vector<std::size_t>& sizes, std::vector<std::size_t>& digit,
           std::vector<Walk>& rows, std::vector<Walk>& numbers) {
  for (std::size_t i = sizes.size(); i-- > 0;) {
    const bool wraps = digit[i] + 1 == sizes[i];
    for (std::vector<Walk>* walks : {&rows, &numbers}) {
      for (Walk& walk : *walks) {
        if (wraps)
          walk.at -= digit[i] * walk.stride[i];
        else
          walk.at += walk.stride[i];
      }
    }
    digit[i] = wraps ? 0 : digit[i] + 1;
    if (!wraps) return true;
  }
  return false;
}

}  // namespace

Elimination::Elimination(const StrategyProblem& problem, std::size_t most_entries)
    : problem_(problem),
      place_(problem.nodes.size()),
      of_node_(problem.nodes.size()),
      own_(problem.nodes.size()) {
  choose_order();
  make_messages(most_entries);
  number_edges();
}

void Elimination::number_edges() {
  std::map<std::vector<double>, std::size_t> known;
  for (const std::vector<double>& table : edges_)
    edge_number_.emplace(table.data(), known.try_emplace(table, known.size()).first->second);
}

/// All that a message's table follows from: costs by number, and how its factors lie in it.
std::string Elimination::inputs_of(const Message& message, std::size_t own) const {
  std::string out;
  const auto add = [&](std::size_t number) {
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(message.own_cost ? own + 1 : 0);
  add(problem_.nodes[message.node].size());
  for (const std::size_t n : message.scope) add(problem_.nodes[n].size());
  for (const Factor& factor : message.factors) {
    const bool of_edge = factor.table != nullptr;
    add(of_edge ? 0 : 1);
    add(of_edge ? edge_number_.at(factor.table) : messages_[factor.message].like);
    add(factor.step);
    for (std::size_t i = 0; i < factor.scope.size(); ++i) {
      add(factor.stride[i]);
      add(std::find(message.scope.begin(), message.scope.end(), factor.scope[i]) -
          message.scope.begin());
    }
  }
  return out;
}

void Elimination::choose_order() {
  const std::size_t count = problem_.nodes.size();
  std::vector<std::set<std::size_t>> around(count);
  for (const StrategyEdge& edge : problem_.edges) {
    around[edge.from].insert(edge.to);
    around[edge.to].insert(edge.from);
  }
  const auto entries = [&](std::size_t n) {
    double product = 1;
    for (const std::size_t neighbour : around[n])
      product *= static_cast<double>(problem_.nodes[neighbour].size());
    return product;
  };
  std::set<std::pair<double, std::size_t>> queue;
  std::vector<double> size(count);
  for (std::size_t n = 0; n < count; ++n) queue.emplace(size[n] = entries(n), n);
  // Beyond this a table is divided anyway, and neighbours of all neighbours would be all of them.
  constexpr double kWide = 1e12;
  while (!queue.empty()) {
    const auto [entries_now, n] = *queue.begin();
    queue.erase(queue.begin());
    place_[n] = order_.size();
    order_.push_back(n);
    for (const std::size_t a : around[n]) {
      queue.erase({size[a], a});
      around[a].erase(n);
      if (entries_now < kWide) {
        for (const std::size_t b : around[n]) {
          if (a != b) around[a].insert(b);
        }
      }
      queue.emplace(size[a] = entries(a), a);
    }
    around[n].clear();
  }
}

Elimination::Factor Elimination::factor_over(const std::vector<std::size_t>& scope) const {
  Factor factor;
  factor.scope = scope;
  factor.stride.resize(scope.size());
  std::size_t entries = 1;
  for (std::size_t i = scope.size(); i-- > 0;) {
    factor.stride[i] = entries;
    entries *= problem_.nodes[scope[i]].size();
  }
  factor.step = entries;
  return factor;
}

void Elimination::make_messages(std::size_t most_entries) {
  std::vector<std::vector<Factor>> at(problem_.nodes.size());  // [node] factors to be eliminated
  edges_.reserve(problem_.edges.size());
  for (const StrategyEdge& edge : problem_.edges) {
    const bool forward = place_[edge.from] < place_[edge.to];
    const std::size_t first = forward ? edge.from : edge.to;
    const std::size_t second = forward ? edge.to : edge.from;
    const std::size_t rows = problem_.nodes[first].size(), columns = problem_.nodes[second].size();
    std::vector<double>& table = edges_.emplace_back(edge.cost);
    if (!forward) {
      for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) table[i * columns + j] = edge.cost[j * rows + i];
      }
    }
    Factor factor = factor_over({second});
    factor.table = table.data();
    at[first].push_back(std::move(factor));
  }
  const auto later = [&](std::size_t a, std::size_t b) { return place_[a] < place_[b]; };
  for (const std::size_t node : order_) {
    // The largest first, each into the first part where it fits.
    std::stable_sort(at[node].begin(), at[node].end(),
                     [](const Factor& a, const Factor& b) { return a.step > b.step; });
    std::vector<Message> parts(1);
    for (Factor& factor : at[node]) {
      for (std::size_t p = 0;; ++p) {
        if (p == parts.size()) parts.emplace_back();
        std::vector<std::size_t> scope;
        std::set_union(parts[p].scope.begin(), parts[p].scope.end(), factor.scope.begin(),
                       factor.scope.end(), std::back_inserter(scope), later);
        double entries = 1;
        for (const std::size_t n : scope) entries *= static_cast<double>(problem_.nodes[n].size());
        if (entries > static_cast<double>(most_entries) && !parts[p].factors.empty()) continue;
        parts[p].scope = std::move(scope);
        parts[p].factors.push_back(std::move(factor));
        break;
      }
    }
    exact_ = exact_ && parts.size() == 1;
    parts[0].own_cost = true;
    for (Message& part : parts) {
      part.node = node;
      const std::size_t number = messages_.size();
      const Factor whole = factor_over(part.scope);
      part.table.resize(whole.step);
      entries_ +=
          static_cast<double>(whole.step) * static_cast<double>(problem_.nodes[node].size());
      if (!part.scope.empty()) {
        const std::size_t next = part.scope[0];
        Factor factor = factor_over({part.scope.begin() + 1, part.scope.end()});
        factor.message = number;
        at[next].push_back(std::move(factor));
      }
      of_node_[node].push_back(number);
      messages_.push_back(std::move(part));
    }
  }
}

void Elimination::fill(Message& message, const std::vector<double>& own) {
  const std::vector<std::size_t>& scope = message.scope;
  std::vector<std::size_t> outer;  // strategies of all of the scope but the innermost
  for (std::size_t i = 0; i + 1 < scope.size(); ++i)
    outer.push_back(problem_.nodes[scope[i]].size());
  const std::size_t width = scope.empty() ? 1 : problem_.nodes[scope.back()].size();
  std::vector<Walk> rows, numbers;
  for (const Factor& factor : message.factors) {
    Walk walk{table_of(factor), factor.step, std::vector<std::size_t>(outer.size())};
    std::size_t next = 0;
    for (std::size_t i = 0; i < factor.scope.size(); ++i) {
      while (scope[next] != factor.scope[i]) ++next;
      if (next < outer.size()) walk.stride[next] = factor.stride[i];
    }
    const bool row = !factor.scope.empty() && factor.scope.back() == scope.back();
    (row ? rows : numbers).push_back(std::move(walk));
  }
  std::vector<std::size_t> digit(outer.size());
  row_.resize(width);
  double* out = message.table.data();
  do {
    std::fill(out, out + width, kForever);
    for (std::size_t k = 0; k < own.size(); ++k) {
      double base = own[k];
      for (const Walk& walk : numbers) base += walk.at[k * walk.step];
      keep_least(rows, k, base, row_, out);
    }
    out += width;
  } while (go_on(outer, digit, rows, numbers));
}

double Elimination::run(double price) {
  for (std::size_t n = 0; n < problem_.nodes.size(); ++n) {
    const StrategyNode& node = problem_.nodes[n];
    own_[n].resize(node.size());
    for (std::size_t k = 0; k < node.size(); ++k)
      own_[n][k] = node.cost[k] + price * node.memory[k];
  }
  std::map<std::vector<double>, std::size_t> own_number;
  std::unordered_map<std::string, std::size_t> filled;
  double bound = 0;
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    Message& message = messages_[m];
    const std::vector<double>& own = own_[message.node];
    const std::size_t number = own_number.try_emplace(own, own_number.size()).first->second;
    const auto [known, is_new] = filled.try_emplace(inputs_of(message, number), m);
    message.like = known->second;
    const std::vector<double> none(own.size());
    if (is_new) fill(message, message.own_cost ? own : none);
    if (message.scope.empty()) bound += table_of(message)[0];
  }
  return bound;
}

double Elimination::value(const Message& message, const Choice& choice) const {
  std::size_t at = 0;
  for (const std::size_t n : message.scope) at = at * problem_.nodes[n].size() + choice[n];
  return table_of(message)[at];
}

void Elimination::costs_of(std::size_t node, const Choice& choice, std::vector<double>& out) const {
  out = own_[node];
  for (const std::size_t number : of_node_[node]) {
    for (const Factor& factor : messages_[number].factors) {
      const double* at = table_of(factor);
      for (std::size_t i = 0; i < factor.scope.size(); ++i)
        at += choice[factor.scope[i]] * factor.stride[i];
      for (std::size_t k = 0; k < out.size(); ++k) out[k] += at[k * factor.step];
    }
  }
}

double Elimination::said_of(std::size_t node, const Choice& choice) const {
  double sum = 0;
  for (const std::size_t number : of_node_[node]) sum += value(messages_[number], choice);
  return sum;
}

Choice Elimination::best() const {
  Choice choice(problem_.nodes.size());
  std::vector<double> costs;
  for (std::size_t i = order_.size(); i-- > 0;) {
    costs_of(order_[i], choice, costs);
    choice[order_[i]] = std::min_element(costs.begin(), costs.end()) - costs.begin();
  }
  return choice;
}

}  // namespace trainyard
