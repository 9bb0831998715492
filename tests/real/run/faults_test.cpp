// What happens when a rank dies, hangs, meets a full disk or computes nonsense: the run ends soon,
// says who, where and why (exit 3), leaves no process behind and the last complete checkpoint
// whole.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "real/checkpoint/checkpoint.h"
#include "tests/real/run/background_run.h"

namespace trainyard::faults_test {

namespace {

using namespace std::chrono_literals;

/// What ends "at once" ends long before the time-outs of the study (60 s), which would end it too.
constexpr double kSoon = 30;

const std::string kEndless =
    "--steps 100000 --set checkpoint.every=3 --ranks 4 --set parallel.tensor=2 --set "
    "parallel.pipeline=2";

}  // namespace

TEST_CASE(
    "a rank that is killed ends the run at once, and nothing before the last checkpoint is lost") {
  for (const int round : {0, 1, 2, 3, 4}) {
    CAPTURE(round);
    const TrainingFolder folder;
    std::chrono::steady_clock::time_point killed;
    Answer answer;
    {
      BackgroundTraining run(folder, kEndless + " --out " + folder.path("run"));
      // Somewhere in the steps, or in the writing of a checkpoint, which is done after every third.
      REQUIRE(run.wait_for_steps("run", 4 + static_cast<std::size_t>(round)));
      std::this_thread::sleep_for(std::chrono::milliseconds(7 * round));
      const pid_t victim = run.rank(round % 4);
      REQUIRE(victim > 0);
      killed = std::chrono::steady_clock::now();
      REQUIRE(kill(victim, SIGKILL) == 0);
      answer = run.answer();
      CHECK(seconds_since(killed) < kSoon);
      CHECK(run.ranks().empty());
    }
    CAPTURE(answer.err);
    CHECK(answer.exit == 3);
    CHECK(answer.err.find("rank " + std::to_string(round % 4) + " was killed by signal 9") !=
          std::string::npos);
    const auto latest = latest_complete(folder.path("run") + "/checkpoints");
    REQUIRE(latest.has_value());
    const auto checkpoint = Checkpoint::open(*latest, Verify::kChecksums);
    CHECK(checkpoint.info().step % 3 == 0);
    const std::string more = std::to_string(checkpoint.info().step + 2);
    CHECK(folder.train("--resume --steps " + more + " --out " + folder.path("run")).exit == 0);
  }
}

TEST_CASE("ranks end with a supervisor that is killed while they are being started") {
  // Before the first rank is there, while ranks are being loaded, while they find each other, in
  // steps.
  for (const int moment : {0, 1, 2, 3, 4, 5, 6}) {
    CAPTURE(moment);
    const TrainingFolder folder;
    BackgroundTraining run(folder, kEndless + " --out " + folder.path("run"));
    const pid_t supervisor = run.supervisor();
    REQUIRE(supervisor > 0);
    const auto seen = std::chrono::steady_clock::now();
    while (moment > 0 && run.ranks().empty() && seconds_since(seen) < kPatience)
      std::this_thread::sleep_for(1ms);
    if (moment > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10 << moment));
    REQUIRE(kill(supervisor, SIGKILL) == 0);
    CHECK(run.wait_for_end(kSoon));
    for (const pid_t rank : run.ranks()) kill(rank, SIGKILL);
  }
}

TEST_CASE("a rank that hangs is named by the others") {
  const TrainingFolder folder;
  Answer answer;
  {
    BackgroundTraining run(folder,
                           kEndless + " --set training.timeout_s=6 --out " + folder.path("run"));
    REQUIRE(run.wait_for_steps("run", 2));
    const pid_t victim = run.rank(1);
    REQUIRE(victim > 0);
    REQUIRE(kill(victim, SIGSTOP) == 0);
    const auto stopped = std::chrono::steady_clock::now();
    answer = run.answer();
    CHECK(seconds_since(stopped) < kSoon);
    CHECK(run.ranks().empty());
  }
  CAPTURE(answer.err);
  CHECK(answer.exit == 3);
  CHECK(answer.err.find("held up by rank 1, for ") != std::string::npos);
  CHECK(answer.err.find(" s at step ") != std::string::npos);
}

TEST_CASE("without a supervisor the survivors name the rank that died") {
  const TrainingFolder folder;
  const std::string variables =
      "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(20001 + getpid() % 12000) +
      " ";
  const std::string arguments =
      "--steps 100000 --set checkpoint.every=1000000 --set cluster.ranks=2 --set parallel.data=2 "
      "--out " +
      folder.path("run");
  std::thread other([&] {
    std::system((variables + "RANK=1 " + folder.command(arguments) + " > /dev/null 2>&1").c_str());
  });
  Answer answer;
  {
    BackgroundTraining run(folder, arguments, variables + "RANK=0 ");
    REQUIRE(run.wait_for_steps("run", 20));
    const pid_t victim = run.rank(1, "RANK=");
    REQUIRE(victim > 0);
    REQUIRE(kill(victim, SIGKILL) == 0);
    const auto killed = std::chrono::steady_clock::now();
    answer = run.answer();
    CHECK(seconds_since(killed) < kSoon);
  }
  other.join();
  CAPTURE(answer.err);
  CHECK(answer.exit == 3);
  CHECK(answer.err.find("last to move: rank 1, for ") != std::string::npos);
}

TEST_CASE("without a supervisor a rank that waits in a checkpoint hears of a dead one") {
  // A checkpoint after every step: writing it takes longer than the step, so that most kills meet a
  // rank there.
  int heard_in_checkpoint = 0;
  for (int round = 0; round < 4 || (heard_in_checkpoint == 0 && round < 12); ++round) {
    CAPTURE(round);
    const TrainingFolder folder;
    const std::string variables = "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                                  std::to_string(20003 + (getpid() + 17 * round) % 12000) + " ";
    const std::string arguments =
        "--steps 100000 --set checkpoint.every=1 --set cluster.ranks=2 --set parallel.data=2 "
        "--out " +
        folder.path("run");
    std::thread other([&] {
      std::system(
          (variables + "RANK=1 " + folder.command(arguments) + " > /dev/null 2>&1").c_str());
    });
    Answer answer;
    {
      BackgroundTraining run(folder, arguments, variables + "RANK=0 ");
      REQUIRE(run.wait_for_steps("run", 5));
      std::this_thread::sleep_for(std::chrono::milliseconds(11 * round));
      const pid_t victim = run.rank(1, "RANK=");
      REQUIRE(victim > 0);
      REQUIRE(kill(victim, SIGKILL) == 0);
      const auto killed = std::chrono::steady_clock::now();
      answer = run.answer();
      CHECK(seconds_since(killed) < kSoon);
    }
    other.join();
    CAPTURE(answer.err);
    CHECK(answer.exit == 3);
    CHECK(answer.err.find("last to move: rank 1, ") != std::string::npos);
    if (answer.err.find("rank 1 has not been heard of") != std::string::npos) ++heard_in_checkpoint;
    CHECK(latest_complete(folder.path("run") + "/checkpoints").has_value());
  }
  CHECK(heard_in_checkpoint > 0);
}

TEST_CASE("gradients that are not finite end the run at the op that made them so") {
  const TrainingFolder folder;
  const Answer answer = folder.train(
      "--steps 50 --set training.precision=fp32 --set training.optimizer=sgd "
      "--set training.clip_norm=0 --set training.lr.peak=9e5 --out " +
      folder.path("run"));
  CAPTURE(answer.err);
  CHECK(answer.exit == 3);
  CHECK(answer.err.find("its result is not finite, and all before it were") != std::string::npos);
  CHECK(answer.err.find("rank 0: step ") != std::string::npos);
  // The same holds of a step that the next one validates.
  const Answer late = folder.train(
      "--steps 50 --ranks 2 --set parallel.pipeline=2 --set schedule.method=1f1b "
      "--set schedule.post_validation=true --set training.precision=fp32 --set "
      "training.optimizer=sgd "
      "--set training.clip_norm=0 --set training.lr.peak=9e5 --out " +
      folder.path("late"));
  CAPTURE(late.err);
  CHECK(late.exit == 3);
  CHECK(late.err.find("its result is not finite, and all before it were") != std::string::npos);
}

TEST_CASE("a full disk ends the run, and the checkpoint before it is whole") {
  const TrainingFolder folder;
  REQUIRE(folder.train("--steps 2 --out " + folder.path("run")).exit == 0);
  // Files may not grow beyond 64 KiB: the next checkpoint cannot be written.
  const Answer answer = folder.shell(
      "ulimit -f 128; " + folder.command("--resume --steps 10 --out " + folder.path("run")));
  CAPTURE(answer.err);
  CHECK(answer.exit == 3);
  CHECK(answer.err.find("rank-00000.safetensors: cannot write: File too large") !=
        std::string::npos);
  const auto latest = latest_complete(folder.path("run") + "/checkpoints");
  REQUIRE(latest.has_value());
  CHECK(Checkpoint::open(*latest, Verify::kChecksums).info().step == 2);
}

}  // namespace trainyard::faults_test
