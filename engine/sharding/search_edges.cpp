#include "engine/sharding/search_edges.h"

#include <algorithm>

#include "engine/sharding/spec_boxes.h"

namespace trainyard {

namespace {

std::uint8_t code_of(AxisState state) {
  return state == AxisState::kEntered   ? kCodeE
         : state == AxisState::kPartial ? kCodeP
         : state == AxisState::kHeld    ? kCodeToHolder
                                        : kCodeR;
}

double most_after(double pieces, const Axes& axes, std::size_t begin, std::size_t end,
                  const DeviceMesh& mesh) {
  auto most = static_cast<std::int64_t>(pieces);
  for (std::size_t i = begin; i < end; ++i)
    most = (most + mesh.size(axes[i]) - 1) / mesh.size(axes[i]);
  return static_cast<double>(most);
}

/// Calls `visit` with each non-empty ordered choice of `from`.
template <typename Visit>
void for_each_arrangement(const Axes& from, bool singles, Axes& chosen, Visit& visit) {
  for (const AxisId axis : from) {
    if (std::find(chosen.begin(), chosen.end(), axis) != chosen.end()) continue;
    chosen.push_back(axis);
    visit(chosen);
    if (!singles) for_each_arrangement(from, singles, chosen, visit);
    chosen.pop_back();
  }
}

/// An all-to-all of `axes` from a dim with `whole` elements to one with `there`: of the two dims,
/// what the busiest rank receives in forward and in backward.
struct Exchanged {
  double forward = 0;
  double backward = 0;
};

/// `f` and `g` elements of the two are left when axes before `at` have cut. Of an axis' ranks,
/// those with as many elements of both are alike.
void exchange_elements(std::int64_t whole, std::int64_t there, std::int64_t f, std::int64_t g,
                       const Axes& axes, std::size_t at, const DeviceMesh& mesh, Exchanged& most) {
  if (at == axes.size()) {
    most.forward = std::max(most.forward, static_cast<double>((whole - f) * g));
    most.backward = std::max(most.backward, static_cast<double>((there - g) * f));
    return;
  }
  const std::int64_t ranks = mesh.size(axes[at]);
  for (const std::int64_t first : {std::int64_t{0}, f % ranks, g % ranks}) {
    exchange_elements(whole, there, f / ranks + (first < f % ranks ? 1 : 0),
                      g / ranks + (first < g % ranks ? 1 : 0), axes, at + 1, mesh, most);
    if (f % ranks == 0 && g % ranks == 0) return;
  }
}

/// What a dim of `whole` elements brings the holder in a gather, and the busiest of the others in a
/// scatter.
struct HolderMoves {
  double gather;
  double scatter;
};
HolderMoves holder_moves(double whole, std::int64_t ranks, std::int32_t k) {
  const auto elements = static_cast<std::int64_t>(whole);
  const auto piece = [&](std::int64_t c) {
    const std::int64_t held = elements / ranks + (c < elements % ranks ? 1 : 0);
    return static_cast<double>(held);
  };
  return {whole - piece(k), piece(k == 0 ? 1 : 0)};
}

}  // namespace

SearchEdges::SearchEdges(const TensorSpec& from, const TensorSpec& to, const Extents& extents,
                         const DeviceMesh& mesh, const MoveCosts& costs)
    : mesh_(mesh),
      extents_(extents),
      costs_(costs),
      from_(from),
      to_(to),
      codec_(from, to, extents, mesh),
      own_moves_(costs.model == MoveCostModel::kColossal),
      lists_(extents.size()),
      most_(extents.size()) {
  fastest_ = costs.links.empty() ? AxisLink{} : costs.links.front();
  Coordinate last;
  for (const AxisId axis : mesh.axis_ids()) {
    const AxisLink& link = costs.links[axis];
    fastest_ = {std::min(fastest_.alpha, link.alpha), std::min(fastest_.beta, link.beta)};
    last.push_back(mesh.size(axis) - 1);
  }
  corners_ = {Coordinate(last.size(), 0), last};
  for (const TensorSpec* spec : {&from, &to}) {
    if (spec->held.empty()) continue;
    corners_.push_back(last);  // who holds it, and is last else
    for (const Held& held : spec->held) corners_.back().begin()[held.axis] = held.coordinate;
  }
  for (const Coordinate& corner : corners_) {
    auto& ranges = wanted_.emplace_back();
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const bool plain = !codec_.packed(static_cast<int>(d));
      ranges.push_back(plain ? cut_pieces(extents[d], to.dims[d].parts.front().axes, mesh, corner)
                             : IndexRange{});
    }
  }
}

double SearchEdges::most_of_edge() const {
  AxisLink link{0, 0};
  for (const AxisLink& one : costs_.links)
    link = {std::max(link.alpha, one.alpha), std::max(link.beta, one.beta)};
  double elements = 1;
  for (const std::int64_t extent : extents_) elements *= static_cast<double>(extent);
  return 2 * (link.alpha + 2 * link.beta * elements * costs_.element_bytes + 100);
}

double SearchEdges::dim_most(int dim, const SearchState& state) {
  if (!codec_.packed(dim))
    return most_after(static_cast<double>(extents_[dim]), lists_[dim], 0, lists_[dim].size(),
                      mesh_);
  const int which = codec_.axes_in(state, dim, 0) != 0 ? 0 : 1;
  const AxisSet axes = codec_.axes_in(state, dim, which);
  const auto [at, made] = packed_most_.try_emplace({dim, which, axes}, 0);
  if (!made) return at->second;
  TensorSpec one;
  one.dims = {axes == 0 ? DimSplit{} : codec_.restricted(dim, which, axes)};
  for (const std::int64_t rank : group_of(mesh_, axes_of(axes), 0)) {
    at->second =
        std::max(at->second, static_cast<double>(local_elements(one, {extents_[dim]}, mesh_,
                                                                coordinate_of(mesh_, rank))));
  }
  return at->second;
}

void SearchEdges::enter(const SearchState& state) {
  state_ = state;
  edges_.clear();
  read_lists(state);
  local_ = 1;
  for (std::size_t d = 0; d < extents_.size(); ++d) {
    most_[d] = dim_most(static_cast<int>(d), state);
    local_ *= most_[d];
  }
}

void SearchEdges::read_lists(const SearchState& state) {
  for (Axes& list : lists_) list.clear();
  for (const AxisId axis : mesh_.axis_ids()) {
    const std::uint8_t code = state.axes[axis];
    if (!is_split_code(code) || codec_.packed(dim_of_code(code))) continue;
    Axes& list = lists_[dim_of_code(code)];
    const auto place = static_cast<std::size_t>(place_of_code(code));
    if (list.size() <= place) list.resize(place + 1);
    list[place] = axis;
  }
}

const std::vector<SearchEdge>& SearchEdges::out_of(const SearchState& state) {
  enter(state);
  change_states();
  split_axes();
  shorten_lists();
  if (!own_moves_) reorder_lists();
  for (int dim = 0; codec_.any_packed() && dim < static_cast<int>(extents_.size()); ++dim) {
    if (codec_.packed(dim)) change_packed(dim);
  }
  return edges_;
}

/// `forward` and `backward`: elements that the busiest rank receives.
void SearchEdges::add_plain(const SearchState& next, const Move& move, double forward,
                            double backward, double local_after) {
  const AxisLink link = link_of(costs_, move.axes);
  const std::int64_t ranks = group_size(mesh_, move.axes);
  const double cost = collective_cost(forward_kind(move), forward, local_, ranks, link, costs_) +
                      backward_cost(move, backward, local_, local_after, ranks, link, costs_);
  edges_.push_back({codec_.normal(next), move, cost});
}

/// Whether the search looks at an axis in such a state at all.
bool SearchEdges::may_become(AxisState state, AxisId axis) const {
  if (state == AxisState::kHeld) return holder(to_, axis).has_value();
  if (state == AxisState::kEntered && !costs_.gradient) return false;
  // Colossal-AI has S and R alone; what is wanted otherwise is reached all the same.
  return !own_moves_ || state == AxisState::kReplicated || state_beside(to_, axis) == state;
}

/// Between R, E, P and H, of axes that split nothing; those in one state at once, too.
void SearchEdges::change_states() {
  for (const AxisState from :
       {AxisState::kReplicated, AxisState::kEntered, AxisState::kPartial, AxisState::kHeld}) {
    AxisSet all = 0;
    for (const AxisId axis : mesh_.axis_ids()) {
      const std::uint8_t code = state_.axes[axis];
      const bool idle = mesh_.size(axis) == 1 || mesh_.axes[axis].stages;
      if (!idle && !is_split_code(code) && state_of_code(code) == from)
        all = static_cast<AxisSet>(all | bit(axis));
    }
    for (unsigned set = all; set != 0; set = (set - 1) & all) {
      const Axes axes = axes_of(static_cast<AxisSet>(set));
      const bool single = axes.size() == 1;
      if (!single && (own_moves_ || from == AxisState::kHeld)) continue;
      for (const AxisState to :
           {AxisState::kReplicated, AxisState::kEntered, AxisState::kPartial, AxisState::kHeld}) {
        const bool held = to == AxisState::kHeld;
        if (from == to || (held && !single) || !may_become(to, axes[0])) continue;
        Move move{from, to, axes, -1, -1, held ? *holder(to_, axes[0]) : 0};
        SearchState next = state_;
        for (const AxisId axis : axes) next.axes[axis] = code_of(to);
        const auto received = [&](MoveKind kind) {
          const auto ranks = static_cast<double>(group_size(mesh_, axes));
          if (kind == MoveKind::kAllReduce) return 2 * (ranks - 1) / ranks * local_;
          return communicates(kind) ? local_ : 0;
        };
        add_plain(next, move, received(forward_kind(move)), received(backward_kind(move)), local_);
      }
    }
  }
}

bool SearchEdges::may_append(int dim, const Axes& axes) const {
  const Axes& list = lists_[dim];
  return !own_moves_ || list.empty() || list.back() < axes.front();
}

/// What a gather of `axes`, which stand behind `left` others in the dim's list, brings the busiest
/// rank, of the dim.
double SearchEdges::gathered_part(int dim, std::size_t left, const Axes& axes) const {
  const double whole = most_after(static_cast<double>(extents_[dim]), lists_[dim], 0, left, mesh_);
  auto least = static_cast<std::int64_t>(whole);
  for (const AxisId axis : axes) least /= mesh_.size(axis);
  return whole - static_cast<double>(least);
}

/// From R, E, P or H to S, at the end of a plain dim's list or as a packed dim's pattern has it.
void SearchEdges::split_axes() {
  for (const std::uint8_t code : {kCodeR, kCodeE, kCodeP, kCodeFromHolder, kCodeToHolder}) {
    Axes axes;
    for (const AxisId axis : mesh_.axis_ids()) {
      if (state_.axes[axis] == code && mesh_.size(axis) > 1 && !mesh_.axes[axis].stages)
        axes.push_back(axis);
    }
    const AxisState from = state_of_code(code);
    const bool held = from == AxisState::kHeld;
    for (int dim = 0; dim < static_cast<int>(extents_.size()); ++dim) {
      const auto visit = [&](const Axes& chosen) {
        Move move{from, AxisState::kSplit, chosen, -1, static_cast<std::int8_t>(dim), 0};
        if (codec_.packed(dim)) {
          if (chosen.size() == 1 && !codec_.frozen(dim)) gain(dim, state_, move);
          return;
        }
        if (!may_append(dim, chosen)) return;
        SearchState next = state_;
        std::size_t place = lists_[dim].size();
        for (const AxisId axis : chosen)
          next.axes[axis] = split_code(dim, static_cast<int>(place++));
        const double others = local_ / most_[dim];
        if (held) {
          const HolderMoves parts =
              holder_moves(most_[dim], mesh_.size(chosen[0]),
                           *holder(code == kCodeFromHolder ? from_ : to_, chosen[0]));
          const double piece = most_after(most_[dim], chosen, 0, 1, mesh_);
          return add_plain(next, move, parts.scatter * others, parts.gather * others,
                           piece * others);
        }
        const double whole = gathered_part(dim, lists_[dim].size(), chosen) * others;
        const double after = most_after(most_[dim], chosen, 0, chosen.size(), mesh_) * others;
        const bool scatters = from == AxisState::kPartial;  // forward; else backward may gather
        const bool gathers = communicates(backward_kind(move));
        add_plain(next, move, scatters ? whole : 0, gathers ? whole : 0, after);
      };
      Axes chosen;
      for_each_arrangement(axes, own_moves_ || held || codec_.packed(dim), chosen, visit);
    }
  }
}

/// From S, of the last axes of a plain dim's list.
void SearchEdges::shorten_lists() {
  for (int dim = 0; dim < static_cast<int>(extents_.size()); ++dim) {
    const Axes& list = lists_[dim];
    if (codec_.packed(dim)) continue;
    for (std::size_t length = 1;
         length <= (own_moves_ ? std::min<std::size_t>(1, list.size()) : list.size()); ++length) {
      const std::size_t left = list.size() - length;
      const Axes suffix(list.begin() + static_cast<std::ptrdiff_t>(left), list.end());
      const double others = local_ / most_[dim];
      const double whole = most_after(static_cast<double>(extents_[dim]), list, 0, left, mesh_);
      const double part = gathered_part(dim, left, suffix) * others;
      for (const AxisState to :
           {AxisState::kReplicated, AxisState::kEntered, AxisState::kPartial, AxisState::kHeld}) {
        const bool held = to == AxisState::kHeld;
        if ((held && length > 1) || !may_become(to, suffix[0])) continue;
        Move move{AxisState::kSplit,
                  to,
                  suffix,
                  static_cast<std::int8_t>(dim),
                  -1,
                  held ? *holder(to_, suffix[0]) : 0};
        SearchState next = state_;
        for (const AxisId axis : suffix) next.axes[axis] = code_of(to);
        if (held) {
          const HolderMoves parts = holder_moves(whole, mesh_.size(suffix[0]), move.coordinate);
          add_plain(next, move, parts.gather * others, parts.scatter * others, whole * others);
          continue;
        }
        add_plain(next, move, communicates(forward_kind(move)) ? part : 0,
                  communicates(backward_kind(move)) ? part : 0, whole * others);
      }
      exchange(dim, suffix);
    }
  }
}

void SearchEdges::exchange(int dim, const Axes& suffix) {
  const std::size_t left = lists_[dim].size() - suffix.size();
  // Colossal-AI: not from a dim of two axes, and between two split dims towards the first alone.
  if (own_moves_ && left > 0) return;
  for (int to_dim = 0; to_dim < static_cast<int>(extents_.size()); ++to_dim) {
    if (to_dim == dim) continue;
    Move move{AxisState::kSplit,
              AxisState::kSplit,
              suffix,
              static_cast<std::int8_t>(dim),
              static_cast<std::int8_t>(to_dim),
              0};
    SearchState next = state_;
    for (const AxisId axis : suffix) next.axes[axis] = kCodeR;
    if (codec_.packed(to_dim)) {
      if (suffix.size() == 1 && !codec_.frozen(to_dim)) gain(to_dim, next, move);
      continue;
    }
    if (own_moves_ && !lists_[to_dim].empty() &&
        (to_dim > dim || lists_[to_dim].size() > 1 || !may_append(to_dim, suffix)))
      continue;
    std::size_t place = lists_[to_dim].size();
    for (const AxisId axis : suffix)
      next.axes[axis] = split_code(to_dim, static_cast<int>(place++));
    const double others = local_ / most_[dim] / most_[to_dim];
    const auto whole = static_cast<std::int64_t>(
        most_after(static_cast<double>(extents_[dim]), lists_[dim], 0, left, mesh_));
    const auto there = static_cast<std::int64_t>(most_[to_dim]);
    Exchanged most;
    exchange_elements(whole, there, whole, there, suffix, 0, mesh_, most);
    const double after = static_cast<double>(whole) *
                         most_after(most_[to_dim], suffix, 0, suffix.size(), mesh_) * others;
    add_plain(next, move, most.forward * others, most.backward * others, after);
  }
}

}  // namespace trainyard
