// Where the processes of a run listen: on addresses that the run needs, and on no other interface.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>

#include "engine/base/error.h"
#include "real/comm/address.h"
#include "real/launch/run_addresses.h"
#include "tests/real/run/background_run.h"

namespace trainyard::listening_test {

namespace {

namespace fs = std::filesystem;

/// Inodes of the sockets that a process holds.
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> out;
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", error)) {
    const std::string target = fs::read_symlink(entry.path(), error);
    if (target.starts_with("socket:[")) out.insert(target.substr(8, target.size() - 9));
  }
  return out;
}

/// Local addresses, as /proc/net writes them, of the sockets of a process that listen.
std::vector<std::string> listens_at(pid_t process) {
  const std::set<std::string> own = sockets_of(process);
  std::vector<std::string> out;
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream lines(read_text("/proc/" + std::to_string(process) + "/net/" + table));
    std::string line;
    std::getline(lines, line);  // the head
    while (std::getline(lines, line)) {
      std::istringstream in(line);
      std::string number, local, remote, state, skipped, inode;
      in >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) in >> skipped;  // queues, timer, retransmissions, user, time-out
      in >> inode;
      constexpr const char* kListen = "0A";
      if (state == kListen && own.count(inode) == 1)
        out.push_back(local.substr(0, local.find(':')));
    }
  }
  return out;
}

constexpr const char* kLoopback = "0100007F";  // 127.0.0.1, as a little-endian machine writes it

}  // namespace

TEST_CASE(
    "the ranks of a run on one machine, and what keeps their store, listen on its loopback alone") {
  const TrainingFolder folder;
  BackgroundTraining run(
      folder, "--steps 100000 --ranks 2 --set parallel.tensor=2 --out " + folder.path("run"));
  REQUIRE(run.wait_for_steps("run", 2));
  std::vector<pid_t> processes = run.ranks();
  REQUIRE(processes.size() == 2);
  processes.push_back(run.supervisor());
  for (const pid_t process : processes) {
    const std::vector<std::string> addresses = listens_at(process);
    CHECK_FALSE(addresses.empty());  // the store; Gloo, where the other rank comes to meet this one
    for (const std::string& address : addresses) CHECK(address == kLoopback);
  }
}

TEST_CASE("under a launcher that says that all ranks are here, they listen on the loopback, too") {
  const TrainingFolder folder;
  char host[256] = {};
  REQUIRE(gethostname(host, sizeof host - 1) == 0);
  const std::string variables = "WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=" + std::string(host) +
                                " MASTER_PORT=" + std::to_string(20007 + getpid() % 12000) + " ";
  const std::string arguments =
      "--steps 100000 --set cluster.ranks=2 --set parallel.tensor=2 --out " + folder.path("run");
  BackgroundTraining first(folder, arguments, variables + "RANK=0 ");
  BackgroundTraining second(folder, arguments, variables + "RANK=1 ");
  REQUIRE(first.wait_for_steps("run", 2));
  for (const int rank : {0, 1}) {
    const std::vector<std::string> addresses = listens_at(first.rank(rank, "RANK="));
    CHECK_FALSE(addresses.empty());
    for (const std::string& address : addresses) CHECK(address == kLoopback);
  }
}

TEST_CASE("a run of several machines listens at the addresses by which they reach each other") {
  RankEnvironment environment{.launcher = "torchrun",
                              .world_size = 4,
                              .local_size = 2,
                              .local_size_known = true,
                              .master_host = "10.1.2.3"};
  const RunAddresses several = run_addresses(environment, "10.1.2.4");
  CHECK((several.store == "10.1.2.3" && several.own == "10.1.2.4"));
  // A name that means the loopback here is of no use to the others: said, unless this machine's
  // address is known.
  environment.master_host = "127.0.1.1";
  CHECK(error_of([&] { run_addresses(environment, {}); }) ==
        "rank 0's host '127.0.1.1' is 127.0.1.1 on this machine, where the run's other machines "
        "cannot reach it; "
        "set TRAINYARD_HOST to this machine's address in their network");
  const RunAddresses told = run_addresses(environment, "10.1.2.3");
  CHECK((told.store == "10.1.2.3" && told.own == "10.1.2.3"));
  // All ranks here: whatever rank 0's name.
  environment.local_size = 4;
  environment.master_host = "10.1.2.3";
  CHECK(run_addresses(environment, {}).store == "127.0.0.1");
  // Nobody has said how many are here: the address is what there is to go by.
  environment.local_size_known = false;
  environment.master_host = "localhost";
  CHECK(run_addresses(environment, {}).own == "127.0.0.1");
}

TEST_CASE("names and addresses of this machine") {
  CHECK(resolve("localhost") == "127.0.0.1");
  CHECK(address_towards("127.0.0.1") == "127.0.0.1");
  CHECK_THROWS_WITH(resolve("no-such-host.invalid"),
                    Catch::Contains("host 'no-such-host.invalid' has no address: "));
  const ListeningSocket socket = listen_at("127.0.0.1", 0);
  CHECK(socket.port > 0);
  CHECK_THROWS_WITH(
      listen_at("127.0.0.1", socket.port),
      "listening at 127.0.0.1:" + std::to_string(socket.port) + ": Address already in use");
  close(socket.descriptor);
}

}  // namespace trainyard::listening_test
