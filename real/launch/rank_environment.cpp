#include "real/launch/rank_environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::int64_t kMaxRanks = std::int64_t{1} << 20;

std::int64_t integer(const std::string& name, const std::string& text, std::int64_t most) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
    throw ConfigError("environment variable " + name + ": expected an integer from 0 to " +
                      std::to_string(most) + ", got '" + text + "'");
  }
  return value;
}

class Reader {
 public:
  explicit Reader(const ReadVariable& read) : read_(read) {}

  std::optional<std::int64_t> number(const std::string& name, std::int64_t most = kMaxRanks) const {
    const auto text = read_(name);
    if (!text) return std::nullopt;
    return integer(name, *text, most);
  }
  std::int64_t required(const std::string& name, const std::string& because) const {
    const auto value = number(name);
    if (!value)
      throw ConfigError("environment variable " + name + " is not set, but " + because + " is");
    return *value;
  }
  std::optional<std::string> text(const std::string& name) const { return read_(name); }

 private:
  const ReadVariable& read_;
};

RankEnvironment checked(RankEnvironment environment) {
  if (environment.world_size < 1 || environment.rank >= environment.world_size) {
    throw ConfigError(environment.launcher + "'s environment variables say rank " +
                      std::to_string(environment.rank) + " of " +
                      std::to_string(environment.world_size));
  }
  return environment;
}

void note_local_size(std::optional<std::int64_t> said, std::int64_t otherwise,
                     RankEnvironment& environment) {
  environment.local_size = said.value_or(otherwise);
  environment.local_size_known = said.has_value();
}

void read_master(const Reader& read, RankEnvironment& environment) {
  if (const auto host = read.text("MASTER_ADDR")) environment.master_host = *host;
  if (const auto port = read.number("MASTER_PORT", 65535))
    environment.master_port = static_cast<int>(*port);
  environment.serves_store = environment.rank == 0;
}

}  // namespace

std::optional<std::string> environment_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

std::optional<RankEnvironment> read_rank_environment(const ReadVariable& read_variable) {
  const Reader read(read_variable);
  RankEnvironment out;
  if (const auto rank = read.number("TRAINYARD_RANK")) {
    out.launcher = kOwnLauncher;
    out.rank = out.local_rank = *rank;
    out.world_size = out.local_size = read.required("TRAINYARD_WORLD_SIZE", "TRAINYARD_RANK");
    const std::string master = read.text("TRAINYARD_MASTER").value_or("");
    const std::size_t colon = master.rfind(':');
    if (colon == std::string::npos)
      throw ConfigError("environment variable TRAINYARD_MASTER: expected host:port");
    out.local_size_known = true;
    out.master_host = master.substr(0, colon);
    out.master_port =
        static_cast<int>(integer("TRAINYARD_MASTER", master.substr(colon + 1), 65535));
    return checked(out);
  }
  if (const auto rank = read.number("RANK"); rank && read.text("WORLD_SIZE")) {
    out.launcher = "torchrun";
    out.rank = *rank;
    out.world_size = read.required("WORLD_SIZE", "RANK");
    out.local_rank = read.number("LOCAL_RANK").value_or(*rank);
    note_local_size(read.number("LOCAL_WORLD_SIZE"), out.world_size, out);
    read_master(read, out);
    // torchrun's agent keeps a store of its own at that port; ours is beside it.
    if (read.text("TORCHELASTIC_RUN_ID") && out.master_port < 65535) ++out.master_port;
    return checked(out);
  }
  if (read.text("SLURM_STEP_ID") && read.text("SLURM_PROCID")) {
    out.launcher = "Slurm";
    out.rank = read.required("SLURM_PROCID", "SLURM_STEP_ID");
    out.world_size = read.required("SLURM_NTASKS", "SLURM_PROCID");
    out.local_rank = read.number("SLURM_LOCALID").value_or(0);
    // "4(x2)" or "4,3": ranks of the first node are a fair guess for the others.
    if (const auto tasks = read.text("SLURM_TASKS_PER_NODE")) {
      note_local_size(std::max(1, std::atoi(tasks->c_str())), 1, out);
    }
    if (const auto host = read.text("SLURM_LAUNCH_NODE_IPADDR")) out.master_host = *host;
    read_master(read, out);
    return checked(out);
  }
  for (const auto& [rank_name, size_name, local_name, local_size_name] :
       {std::array{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                   "OMPI_COMM_WORLD_LOCAL_SIZE"},
        std::array{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}}) {
    const auto rank = read.number(rank_name);
    if (!rank) continue;
    out.launcher = "mpirun";
    out.rank = *rank;
    out.world_size = read.required(size_name, rank_name);
    out.local_rank = read.number(local_name).value_or(0);
    note_local_size(read.number(local_size_name), out.world_size, out);
    read_master(read, out);
    return checked(out);
  }
  return std::nullopt;
}

}  // namespace trainyard
