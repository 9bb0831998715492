// Which rank this is, from the variables that each launcher sets.
#include "real/launch/rank_environment.h"

#include <catch2/catch.hpp>
#include <map>

#include "engine/base/error.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::rank_environment_test {

namespace {

std::optional<RankEnvironment> read(const std::map<std::string, std::string>& variables) {
  return read_rank_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end()) return std::nullopt;
    return it->second;
  });
}

}  // namespace

TEST_CASE("no launcher: one's own ranks are started") {
  CHECK_FALSE(read({{"HOME", "/"}}).has_value());
}

TEST_CASE("torchrun, Slurm and mpirun say which rank this is") {
  const auto torchrun = read({{"RANK", "5"},
                              {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "4"},
                              {"MASTER_ADDR", "node7"},
                              {"MASTER_PORT", "1234"}});
  REQUIRE(torchrun.has_value());
  CHECK(torchrun->launcher == "torchrun");
  CHECK((torchrun->rank == 5 && torchrun->world_size == 8 && torchrun->local_rank == 1 &&
         torchrun->local_size == 4));
  CHECK((torchrun->master_host == "node7" && torchrun->master_port == 1234 &&
         !torchrun->serves_store));
  CHECK_FALSE(torchrun->on_one_machine());
  // Only where the launcher says how many ranks are here.
  CHECK(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}})->on_one_machine());
  CHECK_FALSE(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}})->on_one_machine());
  // torchrun's agent has the port itself.
  CHECK(read({{"RANK", "0"},
              {"WORLD_SIZE", "2"},
              {"MASTER_PORT", "1234"},
              {"TORCHELASTIC_RUN_ID", "x"}})
            ->master_port == 1235);

  const auto slurm = read({{"SLURM_STEP_ID", "0"},
                           {"SLURM_PROCID", "3"},
                           {"SLURM_NTASKS", "4"},
                           {"SLURM_LOCALID", "1"},
                           {"SLURM_TASKS_PER_NODE", "2(x2)"},
                           {"SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"}});
  REQUIRE(slurm.has_value());
  CHECK((slurm->launcher == "Slurm" && slurm->rank == 3 && slurm->world_size == 4 &&
         slurm->local_size == 2));
  CHECK((slurm->master_host == "10.0.0.1" && slurm->master_port == 29500));
  CHECK_FALSE(slurm->on_one_machine());
  // Inside sbatch but not started by srun: nobody has started ranks.
  CHECK_FALSE(read({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).has_value());

  const auto open_mpi = read({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  REQUIRE(open_mpi.has_value());
  CHECK((open_mpi->launcher == "mpirun" && open_mpi->serves_store && open_mpi->world_size == 2));
  CHECK(read({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}})->rank == 1);
}

TEST_CASE("variables that make no sense are refused by name") {
  CHECK(error_of([] {
          read({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
        }) == "environment variable RANK: expected an integer from 0 to 1048576, got 'x'");
  CHECK(error_of([] {
          read({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
        }) == "torchrun's environment variables say rank 2 of 2");
  CHECK(error_of([] {
          read({{"OMPI_COMM_WORLD_RANK", "0"}});
        }) == "environment variable OMPI_COMM_WORLD_SIZE is not set, but OMPI_COMM_WORLD_RANK is");
}

}  // namespace trainyard::rank_environment_test
