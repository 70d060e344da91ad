// bench_activation_memory NETWORK ROWS THREADS STEPS [recompute]: the memory of training steps of a
// network that WriteModel knows, in float32, on one batch of drawn values; with `recompute` the
// backward pass computes activations again. Prints one JSON object: the bytes of values between
// layers and their gradients, the most of these that are needed at a time, what the process took at
// its peak over its start, and the median time of a step.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "bench/trainer_step.h"
#include "trainer/backend/backend.h"

namespace millrace::bench {
namespace {

// A line of /proc/self/status, as "VmHWM:", in bytes.
int64_t ProcessBytes(std::string_view name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == name && status >> kib) break;
  }
  return kib * 1024;
}

struct Settings {
  std::string network;
  int64_t rows = 0;
  int threads = 0;
  int steps = 0;
  bool recomputes = false;
};

void Run(const Settings& settings) {
  const int64_t start = ProcessBytes("VmRSS:");
  const trainer::Model model = ModelOf(settings.network);
  trainer::BackendOptions options(settings.threads);
  options.recomputes_activations = settings.recomputes;
  constexpr auto kUse = trainer::NetworkUse::kTraining;
  const auto memory = Value(trainer::OneDnnActivationMemory(model, settings.rows, kUse, options));
  Training training(model);
  const auto backend = Value(
      trainer::MakeOneDnnBackend(model, training.weights, training.buffers,
                                 {training.gradients.begin(), training.gradients.end()}, options));
  const Batch batch(model, settings.rows);
  trainer::Network* const network = Value(backend->Compile(settings.rows, kUse));
  const Times step =
      Measure(settings.steps, settings.threads, [&] { RunStep(*network, batch, training); });
  absl::PrintF(
      "{\"bytes\": %d, \"live_bytes\": %d, \"process_bytes\": %d, \"step_ms\": %.2f, "
      "\"step_cpu_ms\": %.2f}\n",
      memory.bytes, memory.live_bytes, ProcessBytes("VmHWM:") - start, step.wall, step.cpu);
}

int Main(int argc, char** argv) {
  const bool recomputes = argc == 6 && std::string_view(argv[5]) == "recompute";
  if (argc != 5 && !recomputes) {
    std::fprintf(stderr, "usage: bench_activation_memory NETWORK ROWS THREADS STEPS [recompute]\n");
    return 2;
  }
  Run({argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), recomputes});
  return 0;
}

}  // namespace
}  // namespace millrace::bench

int main(int argc, char** argv) { return millrace::bench::Main(argc, argv); }
