// How many plans a process answers per second: points_per_second [rounds]. GPT-3 175B on 1,024 GPUs, every
// tensor x pipeline x microbatch that the study's batch can be cut into, at analytic fidelity; each point is read,
// compiled, timed and reported as `trainyard simulate` would. Prints CPU milliseconds of a point, and a sum of the step times by
// which two builds can be compared.
#include <ctime>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/prepare.h"
#include "cli/simulate_command.h"
#include "engine/report/summary.h"

using namespace trainyard;

namespace {

double cpu_seconds() {
  std::timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Point {
  std::vector<std::string> sets;
  std::string name;
};

std::vector<Point> all_points() {
  std::vector<Point> points;
  for (const int tensor : {1, 2, 4, 8}) {
    for (const int pipeline : {1, 2, 4, 8, 16, 32}) {
      for (const int microbatch : {1, 2, 4, 8}) {
        const int data = 1024 / tensor / pipeline;
        if (1536 % (data * microbatch) != 0) continue;
        const auto set = [](const std::string& key, int value) { return key + "=" + std::to_string(value); };
        points.push_back({{set("parallel.tensor", tensor), set("parallel.pipeline", pipeline),
                           set("parallel.data", data), set("training.microbatch", microbatch),
                           "parallel.sequence_parallel=" + std::string(tensor > 1 ? "true" : "false")},
                          "t" + std::to_string(tensor) + " p" + std::to_string(pipeline) + " b" + std::to_string(microbatch)});
      }
    }
  }
  return points;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string study = std::string(TRAINYARD_SOURCE_DIR) + "/configs/gpt3-175b-dgx-a100.yaml";
  const std::vector<Point> points = all_points();
  std::vector<double> reading(points.size(), 1e300), answering(points.size(), 1e300);
  double steps = 0;
  for (int round = 0; round < rounds; ++round) {
    steps = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double begin = cpu_seconds();
      const Prepared prepared = prepare(study, points[i].sets, "analytic");
      const double read = cpu_seconds();
      const auto answer = simulate(prepared, RunOptions{});
      if (const auto* result = std::get_if<Simulation>(&answer)) {
        steps += result->summary.iteration_time;
        if (summary_text(result->summary, prepared.study, 0).empty()) return 1;
      }
      const double end = cpu_seconds();
      reading[i] = std::min(reading[i], read - begin);
      answering[i] = std::min(answering[i], end - read);
    }
  }
  double read = 0, answered = 0, worst = 0;
  std::size_t slowest = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    read += reading[i];
    answered += answering[i];
    if (reading[i] + answering[i] <= worst) continue;
    worst = reading[i] + answering[i];
    slowest = i;
  }
  const auto n = static_cast<double>(points.size());
  std::printf("%zu points, CPU ms a point (least of %d rounds each): %.2f reading, %.2f answering, slowest %.2f (%s); step times sum to %.12g s\n",
              points.size(), rounds, 1e3 * read / n, 1e3 * answered / n, 1e3 * worst, points[slowest].name.c_str(), steps);
  return 0;
}
