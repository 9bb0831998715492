// Which rank this process is, as the launcher that started it says: torchrun, Slurm, mpirun, or our
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace trainyard {

inline constexpr const char* kOwnLauncher = "trainyard";

struct RankEnvironment {
  std::string launcher;  // "torchrun", "Slurm", "mpirun", "trainyard"
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t local_rank = 0;
  std::int64_t local_size = 1;    // ranks on this machine
  bool local_size_known = false;  // the launcher has said it
  std::string master_host = "127.0.0.1";
  int master_port = 29500;    // torchrun's own default
  bool serves_store = false;  // rank 0, unless a supervisor keeps the store

  bool on_one_machine() const { return local_size_known && local_size == world_size; }
};

/// Value of an environment variable; nullopt: not set. getenv() but for tests.
using ReadVariable = std::function<std::optional<std::string>(const std::string&)>;
std::optional<std::string> environment_variable(const std::string& name);

/// nullopt: no launcher has set anything. Throws ConfigError where what is set makes no sense.
///   ours      TRAINYARD_RANK, TRAINYARD_WORLD_SIZE, TRAINYARD_MASTER (host:port)
///   torchrun  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
///   Slurm     SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_LAUNCH_NODE_IPADDR; SLURM_STEP_ID
///   says
///             that srun started this process, sbatch alone sets the others too
///   mpirun    OMPI_COMM_WORLD_RANK/_SIZE/_LOCAL_RANK or PMI_RANK/PMI_SIZE; MASTER_ADDR,
///   MASTER_PORT
/// MASTER_ADDR and MASTER_PORT win over what Slurm and mpirun imply.
std::optional<RankEnvironment> read_rank_environment(const ReadVariable& read);

}  // namespace trainyard
