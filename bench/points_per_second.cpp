// How many plans a process answers per second: points_per_second [rounds [point]]. Every 67th of
// 10,000 plans of GPT-3 175B on 384 to 6,144 GPUs (tensor x pipeline x microbatch x schedule x
// recompute x ZeRO), at analytic fidelity; each is read, compiled, timed and reported as `trainyard
// simulate` would. Plans that cannot be are refused, and count. Prints CPU milliseconds of a point,
// and a sum of the step times by which two builds can be compared.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "app/prepare.h"
#include "app/simulation.h"
#include "report/summary.h"

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

struct Schedule {
  const char* method;
  int virtual_stages;
};

/// Every `every`-th of the 10,000 plans.
std::vector<Point> some_points(std::size_t every) {
  constexpr Schedule kSchedules[] = {
      {"1f1b", 1}, {"gpipe", 1}, {"interleaved", 2}, {"interleaved", 4}, {"interleaved", 8}};
  std::vector<Point> points;
  std::size_t number = 0;
  for (const int nodes : {48, 96, 192, 384, 768}) {
    for (const int tensor : {1, 2, 4, 8}) {
      for (const int pipeline : {2, 4, 6, 8, 12}) {
        for (const int microbatch : {1, 2, 4, 8, 16}) {
          for (const Schedule& schedule : kSchedules) {
            for (const char* recompute : {"none", "full"}) {
              for (const int zero : {0, 1}) {
                if (number++ % every != 0) continue;
                const int data = nodes * 8 / tensor / pipeline;
                const auto set = [](const std::string& key, int value) {
                  return key + "=" + std::to_string(value);
                };
                points.push_back(
                    {{set("cluster.nodes", nodes), set("parallel.tensor", tensor),
                      set("parallel.pipeline", pipeline), set("parallel.data", data),
                      set("training.microbatch", microbatch), set("parallel.zero", zero),
                      set("parallel.virtual_stages", schedule.virtual_stages),
                      "schedule=" + std::string(schedule.method),
                      "recompute=" + std::string(recompute), "fidelity=analytic"},
                     std::to_string(nodes * 8) + " t" + std::to_string(tensor) + " p" +
                         std::to_string(pipeline) + " b" + std::to_string(microbatch) + " " +
                         schedule.method + std::to_string(schedule.virtual_stages) + " " +
                         recompute + " z" + std::to_string(zero)});
              }
            }
          }
        }
      }
    }
  }
  return points;
}

}  // namespace

int main(int argc, char** argv) {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 1 << 28);
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const std::string study = std::string(TRAINYARD_SOURCE_DIR) + "/configs/gpt3-175b-dgx-a100.yaml";
  std::vector<std::string> warnings;
  const StudyResolvers resolvers = make_resolvers(TRAINYARD_SOURCE_DIR, warnings);
  std::vector<Point> points = some_points(67);
  if (argc > 2) std::erase_if(points, [&](const Point& point) { return point.name != argv[2]; });
  std::vector<double> reading(points.size(), 1e300), answering(points.size(), 1e300);
  double steps = 0;
  int ran = 0;
  for (int round = 0; round < rounds; ++round) {
    steps = 0;
    ran = 0;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double begin = cpu_seconds();
      double read = begin;
      try {
        const Prepared prepared = prepare_study(
            read_study_node(YamlNode::load_file(study), points[i].sets, resolvers), resolvers);
        read = cpu_seconds();
        const auto answer = simulate(prepared, RunOptions{});
        if (const auto* result = std::get_if<Simulation>(&answer)) {
          ++ran;
          steps += result->summary.iteration_time;
          if (summary_text(result->summary, prepared.study, 0).empty()) return 1;
        }
      } catch (const ConfigError&) {
        read = cpu_seconds();
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
  std::printf(
      "%zu points (%d of them run), CPU ms a point (least of %d rounds each): %.2f reading, %.2f "
      "answering, slowest %.2f (%s); step times sum to %.12g s\n",
      points.size(), ran, rounds, 1e3 * read / n, 1e3 * answered / n, 1e3 * worst,
      points[slowest].name.c_str(), steps);
  return 0;
}
