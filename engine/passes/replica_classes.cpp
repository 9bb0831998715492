#include "engine/passes/replica_classes.h"

#include <algorithm>

namespace trainyard {

namespace {

/// A piece of a boundary, from one replica to another.
struct Piece {
  std::int32_t from = 0, to = 0;
  SequenceRange sequences;  // of the microbatch
  std::size_t turn = 0;
  bool leads = false;
};

/// Ascending, each in the first turn in which neither of its replicas has another one.
std::vector<Piece> boundary_pieces(std::int64_t sequences, int from, int to) {
  std::vector<Piece> out;
  std::vector<std::vector<bool>> busy_from(from), busy_to(to);
  for (std::int32_t i = 0, j = 0; i < from && j < to;) {
    const SequenceRange a = sequences_of_replica(sequences, from, i);
    const SequenceRange b = sequences_of_replica(sequences, to, j);
    Piece piece{i, j, {std::max(a.begin, b.begin), std::min(a.end, b.end)}, 0, a.begin <= b.begin};
    auto &of_from = busy_from[i], &of_to = busy_to[j];
    const auto busy = [&](const std::vector<bool>& turns) {
      return piece.turn < turns.size() && turns[piece.turn];
    };
    while (busy(of_from) || busy(of_to)) ++piece.turn;
    for (auto* turns : {&of_from, &of_to}) {
      turns->resize(std::max(turns->size(), piece.turn + 1), false);
      (*turns)[piece.turn] = true;
    }
    out.push_back(piece);
    if (a.end <= b.end) ++i;
    if (b.end <= a.end) ++j;
  }
  return out;
}

BoundaryTurns turns_of(const std::vector<Piece>& pieces) {
  BoundaryTurns out;
  for (const Piece& piece : pieces) {
    out.resize(std::max(out.size(), piece.turn + 1));
    out[piece.turn].emplace_back(piece.from, piece.to);
  }
  return out;
}

/// Those of one replica, by turn.
std::vector<ReplicaPiece> pieces_of(const std::vector<Piece>& pieces, bool sends,
                                    std::int32_t replica, std::int64_t first) {
  std::vector<ReplicaPiece> out;
  for (const Piece& piece : pieces) {
    if ((sends ? piece.from : piece.to) != replica) continue;
    out.push_back(
        {piece.turn, {piece.sequences.begin - first, piece.sequences.end - first}, piece.leads});
  }
  return out;
}

/// The part of a replica of `rank` where the norm goes from rank to rank and back.
NumberTurns number_turns(const std::vector<int>& replicas, std::int32_t rank,
                         std::int32_t replica) {
  NumberTurns out;
  const int here = replicas[rank];
  const auto sends = [&](int there) { return std::max(0, turns_of_number(here, there - replica)); };
  if (rank + 1 < std::ssize(replicas)) {
    out.sends_next = sends(replicas[rank + 1]);
    out.receives_next = replica / replicas[rank + 1];
  }
  if (rank > 0) {
    out.sends_previous = sends(replicas[rank - 1]);
    out.receives_previous = replica / replicas[rank - 1];
  }
  return out;
}

}  // namespace

ReplicaPairs pairs_of_number(int from, int to, int turn) {
  ReplicaPairs out;
  for (std::int32_t i = 0; i < from && turn * from + i < to; ++i)
    out.emplace_back(i, turn * from + i);
  return out;
}

ReplicaClasses replica_classes(const std::vector<int>& replicas, const Numbered<StageForm>& forms,
                               const std::vector<std::int64_t>& sizes, bool passes_norm) {
  ReplicaClasses out;
  const auto boundaries = forms.size() - 1;
  std::vector<std::vector<std::vector<Piece>>> pieces(boundaries);  // [boundary][size]
  out.turns.resize(boundaries);
  for (std::size_t b = 0; b < boundaries; ++b) {
    const auto stage = static_cast<std::int64_t>(b);
    for (const std::int64_t size : sizes) {
      pieces[b].push_back(
          boundary_pieces(size, replicas[forms[stage].rank], replicas[forms[stage + 1].rank]));
      out.turns[b].push_back(turns_of(pieces[b].back()));
    }
  }
  for (std::int32_t rank = 0; rank < std::ssize(replicas); ++rank) {
    const std::size_t first_class = out.classes.size();
    const int here = replicas[rank];
    for (std::int32_t replica = 0; replica < here; ++replica) {
      ReplicaClass one;
      one.rank = rank;
      one.pieces.resize(boundaries);
      if (passes_norm) one.norm = number_turns(replicas, rank, replica);
      for (const std::int64_t size : sizes)
        one.sequences.push_back(sequences_of_replica(size, here, replica).size());
      for (std::size_t b = 0; b < boundaries; ++b) {
        const auto stage = static_cast<std::int64_t>(b);
        const bool sends = forms[stage].rank == rank;
        if (!sends && forms[stage + 1].rank != rank) continue;
        for (std::size_t s = 0; s < sizes.size(); ++s) {
          const SequenceRange own = sequences_of_replica(sizes[s], here, replica);
          one.pieces[b].push_back(pieces_of(pieces[b][s], sends, replica, own.begin));
        }
      }
      const auto same = std::find_if(out.classes.begin() + static_cast<std::ptrdiff_t>(first_class),
                                     out.classes.end(), [&](const ReplicaClass& known) {
                                       return known.sequences == one.sequences &&
                                              known.pieces == one.pieces && known.norm == one.norm;
                                     });
      if (same != out.classes.end()) {
        same->replicas.push_back(replica);
        continue;
      }
      one.replicas = {replica};
      out.classes.push_back(std::move(one));
    }
  }
  return out;
}

Numbered<bool> stages_with(std::int64_t sequences, const Numbered<StageForm>& forms,
                           const std::vector<int>& replicas,
                           const std::vector<std::int64_t>& sizes) {
  Numbered<bool> out;
  for (const StageForm& form : forms) {
    if (replicas.empty()) {
      out.push_back(true);
      continue;
    }
    const std::vector<std::int64_t> here = local_sizes(sizes, {replicas[form.rank]});
    out.push_back(std::find(here.begin(), here.end(), sequences) != here.end());
  }
  return out;
}

}  // namespace trainyard
