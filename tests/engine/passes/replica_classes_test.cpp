// Microbatches split among unlike numbers of replicas: who has which sequences, who sends which to
// whom, and which replicas run one list.
#include "engine/passes/replica_classes.h"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "tests/support/studies.h"

namespace trainyard::replica_classes_test {

namespace {

Numbered<StageForm> stages_on(const std::vector<std::int32_t>& ranks) {
  Numbered<StageForm> forms(ranks.size());
  for (std::size_t stage = 0; stage < ranks.size(); ++stage)
    forms[static_cast<std::int64_t>(stage)].rank = ranks[stage];
  return forms;
}

std::vector<std::int64_t> begins(std::int64_t sequences, std::int64_t replicas) {
  std::vector<std::int64_t> out;
  for (std::int64_t r = 0; r < replicas; ++r)
    out.push_back(sequences_of_replica(sequences, replicas, r).begin);
  return out;
}

}  // namespace

TEST_CASE("the first replicas have one sequence more") {
  CHECK(begins(7, 3) == std::vector<std::int64_t>{0, 3, 5});  // 3, 2, 2
  CHECK(sequences_of_replica(7, 3, 2).end == 7);
  CHECK(begins(6, 3) == std::vector<std::int64_t>{0, 2, 4});
  CHECK(local_sizes(std::vector<std::int64_t>{8, 7}, {1, 3}) ==
        std::vector<std::int64_t>{8, 7, 3, 2});  // 8 and 7; 3 3 2; 3 2 2
}

TEST_CASE("one replica sends each of three its part, in a turn of its own") {
  // 8 sequences: 0 to 3, 3 to 6, 6 to 8.
  const ReplicaClasses found = replica_classes({1, 3}, stages_on({0, 1}), {8});
  REQUIRE(found.turns ==
          std::vector<std::vector<BoundaryTurns>>{{{{{{0, 0}}}, {{{0, 1}}}, {{{0, 2}}}}}});
  REQUIRE(found.classes.size() == 4);
  CHECK(found.classes[0].rank == 0);
  CHECK(found.classes[0].pieces[0][0] ==
        std::vector<ReplicaPiece>{{0, {0, 3}, true}, {1, {3, 6}, true}, {2, {6, 8}, true}});
  CHECK(found.classes[3].replicas == std::vector<std::int32_t>{2});
  CHECK(found.classes[3].sequences == std::vector<std::int64_t>{2});
  CHECK(found.classes[3].pieces[0][0] == std::vector<ReplicaPiece>{{2, {0, 2}, true}});
}

TEST_CASE("a number goes to every replica of a neighbour once, in turns of replicas that differ") {
  // The first of 3 tells 0 and 3, the second 1 and 4, the third 2; three of 5 tell one each.
  CHECK(turns_of_number(3, 5) == 2);
  CHECK(pairs_of_number(3, 5, 0) == ReplicaPairs{{0, 0}, {1, 1}, {2, 2}});
  CHECK(pairs_of_number(3, 5, 1) == ReplicaPairs{{0, 3}, {1, 4}});
  CHECK(turns_of_number(5, 3) == 1);
  CHECK(pairs_of_number(5, 3, 0) == ReplicaPairs{{0, 0}, {1, 1}, {2, 2}});
  const ReplicaClasses found = replica_classes({3, 5}, stages_on({0, 1}), {7}, true);
  // The third and the last of the five are alike but for that: the third tells one of the three.
  REQUIRE(found.classes.size() == 3 + 5);
  CHECK(found.classes[0].norm == NumberTurns{2, 0, -1, 0});
  CHECK(found.classes[2].norm == NumberTurns{1, 0, -1, 0});
  CHECK(found.classes[3].norm == NumberTurns{0, 1, 0, -1});
  CHECK(found.classes[7].norm == NumberTurns{0, 0, 1, -1});
  // As many replicas, which differ in their sequences alone, are as many classes as without it.
  CHECK(replica_classes({1000, 1000}, stages_on({0, 1}), {2500}, true).classes.size() ==
        replica_classes({1000, 1000}, stages_on({0, 1}), {2500}).classes.size());
}

TEST_CASE("seven sequences go from three replicas to five in two turns") {
  // 0-3 3-5 5-7 against 0-2 2-4 4-5 5-6 6-7: the overlaps are 0-2 2-3 | 3-4 4-5 | 5-6 6-7.
  const ReplicaClasses found = replica_classes({3, 5}, stages_on({0, 1}), {7});
  CHECK(found.turns[0][0] == BoundaryTurns{{{0, 0}, {1, 1}, {2, 3}}, {{0, 1}, {1, 2}, {2, 4}}});
  // Both replicas with two sequences send one each time, but only the last leads both of its peers.
  // Of the five, the third and the last are alike: one sequence, in the second turn.
  REQUIRE(found.classes.size() == 3 + 4);
  CHECK(found.classes[5].replicas == std::vector<std::int32_t>{2, 4});
  CHECK(found.classes[1].pieces[0][0] ==
        std::vector<ReplicaPiece>{{0, {0, 1}, false}, {1, {1, 2}, true}});
  CHECK(found.classes[2].pieces[0][0] ==
        std::vector<ReplicaPiece>{{0, {0, 1}, true}, {1, {1, 2}, true}});
}

TEST_CASE("replicas that do alike are one class") {
  // 2,500 sequences on 1,000 replicas: 500 have three, 500 two; every one sends to its own.
  const ReplicaClasses alike = replica_classes({1000, 1000}, stages_on({0, 1}), {2500});
  REQUIRE(alike.classes.size() == 4);  // two of each pipeline rank
  CHECK(alike.classes[0].replicas.size() == 500);
  CHECK(alike.classes[1].replicas.front() == 500);
  CHECK(alike.turns[0][0].size() == 1);
  // 2 replicas of 6 sequences send to 4 of 3: each to two, in two turns.
  const ReplicaClasses halves = replica_classes({2, 4}, stages_on({0, 1}), {12});
  CHECK(halves.turns[0][0] == BoundaryTurns{{{0, 0}, {1, 2}}, {{0, 1}, {1, 3}}});
  REQUIRE(halves.classes.size() == 3);
  CHECK(halves.classes[1].replicas == std::vector<std::int32_t>{0, 2});
}

TEST_CASE("pieces are every sequence once, and a turn has each replica at most once") {
  std::mt19937 random(3);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<int> replicas = {draw(1, 9), draw(1, 9)};
    const std::int64_t sequences = std::max(replicas[0], replicas[1]) + draw(0, 20);
    CAPTURE(replicas, sequences);
    const ReplicaClasses found = replica_classes(replicas, stages_on({0, 1, 0}), {sequences});
    std::vector<std::int64_t> of_rank(2, 0);
    for (const ReplicaClass& one : found.classes) {
      of_rank[static_cast<std::size_t>(one.rank)] += std::ssize(one.replicas);
      for (const auto& boundary : one.pieces) {
        std::int64_t next = 0;
        std::set<std::size_t> turns;
        for (const ReplicaPiece& piece : boundary[0]) {
          CHECK(piece.within.begin == next);
          CHECK(turns.insert(piece.turn).second);
          next = piece.within.end;
        }
        CHECK(next == one.sequences[0]);
      }
    }
    CHECK(of_rank == std::vector<std::int64_t>{replicas[0], replicas[1]});
    for (const auto& boundary : found.turns) {
      for (const ReplicaPairs& turn : boundary[0]) {
        std::set<std::int32_t> from, to;
        for (const auto& [a, b] : turn) {
          CHECK(from.insert(a).second);
          CHECK(to.insert(b).second);
        }
      }
    }
  }
}

TEST_CASE("replicas are placed stage by stage, or in RaNNC's rounds") {
  ParallelConfig parallel;
  parallel.pipeline = 2;
  parallel.data = 4;
  parallel.replicas = {4, 4};
  const DeviceMesh mesh = mesh_of(parallel);
  CHECK(place_replicas(mesh, "stages") == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(place_replicas(mesh, "flat") == std::vector<std::int64_t>{0, 2, 4, 6, 1, 3, 5, 7});
  parallel.replicas = {2, 4};  // two rounds of one replica of rank 0 and two of rank 1
  CHECK(place_replicas(mesh_of(parallel), "flat") == std::vector<std::int64_t>{0, 3, 1, 2, 4, 5});
}

}  // namespace trainyard::replica_classes_test
