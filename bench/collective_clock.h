#ifndef MILLRACE_BENCH_COLLECTIVE_CLOCK_H_
#define MILLRACE_BENCH_COLLECTIVE_CLOCK_H_

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace millrace {

// Times what the ranks of MPI_COMM_WORLD do together, in turns.
class CollectiveClock {
 public:
  // Milliseconds from the last rank's begin to the last one's end; `prepare` is not in it.
  static double Time(const std::function<void()>& prepare, const std::function<void()>& body) {
    prepare();
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> own = std::chrono::steady_clock::now() - start;
    double slowest = own.count();
    MPI_Allreduce(MPI_IN_PLACE, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
  }

  void Add(const std::string& name, const std::function<void()>& prepare,
           const std::function<void()>& body) {
    taken_[name].push_back(Time(prepare, body));
  }
  // The least of what the ranks have measured by themselves, and `part` of it on that rank.
  void AddLeast(const std::string& name, double milliseconds, const std::string& part,
                double part_milliseconds) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const std::pair<double, double> own = {milliseconds, part_milliseconds};
    std::vector<std::pair<double, double>> all(static_cast<size_t>(ranks));
    MPI_Allgather(&own, 2, MPI_DOUBLE, all.data(), 2, MPI_DOUBLE, MPI_COMM_WORLD);
    const auto least = std::min_element(all.begin(), all.end());
    taken_[name].push_back(least->first);
    taken_[name + part].push_back(least->second);
  }
  double Median(const std::string& name) {
    std::vector<double>& all = taken_[name];
    std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
    return all[all.size() / 2];
  }
  // "{"name": median, ...}" of all that were taken.
  std::string Json() {
    std::map<std::string, double> medians;
    for (auto& [name, times] : taken_) medians[name] = Median(name);
    std::string text = "{";
    for (const auto& [name, value] : medians) {
      text += (text.size() > 1 ? ", \"" : "\"") + name + "\": " + std::to_string(value);
    }
    return text + "}";
  }

 private:
  std::map<std::string, std::vector<double>> taken_;
};

// Takes the caches: whatever was in them is in memory afterwards.
class Sweep {
 public:
  explicit Sweep(size_t bytes) : memory_(bytes) {}
  void Run() {
    for (size_t i = 0; i < memory_.size(); i += 64) ++memory_[i];
  }

 private:
  std::vector<unsigned char> memory_;
};

}  // namespace millrace

#endif  // MILLRACE_BENCH_COLLECTIVE_CLOCK_H_
