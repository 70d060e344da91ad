#include "cli/tune/setting.h"

#include <algorithm>
#include <iterator>

#include "pipeline/edit_plan.h"

namespace millrace::cli {
namespace {

struct Row {
  std::string_view field;
  int Settings::*value;
  int most;
};

// In the order of Setting. No search goes further than these.
constexpr Row kRows[] = {
    {"threads", &Settings::threads, 1024},
    {"io_threads", &Settings::io_threads, 256},
    {"read_ahead_runs", &Settings::read_ahead_runs, 4096},
    {"run_us", &Settings::run_us, 3200},
    {pipeline::kPrefetchField, &Settings::prefetch_batches, 256},
    {"memory_budget_mib", &Settings::memory_budget_mib, 1 << 24},
};
static_assert(std::size(kRows) == kSettings.size());

const Row& RowOf(Setting setting) { return kRows[static_cast<size_t>(setting)]; }

// As docs/pipeline.md says.
int DefaultOf(const Settings& settings, Setting setting, const Defaults& defaults) {
  const int threads = settings.threads > 0 ? settings.threads : defaults.threads;
  switch (setting) {
    case Setting::kThreads:
      return defaults.threads;
    case Setting::kIoThreads:
      return std::clamp(2 * threads, 4, 64);
    case Setting::kReadAhead:
      return 2 * threads + 8;
    case Setting::kRun:
      return 50;
    case Setting::kRing:
      return defaults.ring;
    case Setting::kMemory:
      return defaults.memory_budget_mib;
  }
  return 0;
}

}  // namespace

std::string_view FieldOf(Setting setting) { return RowOf(setting).field; }

std::string_view JobFieldOf(Setting setting) {
  switch (setting) {
    case Setting::kThreads:
      return "pipeline_threads";
    case Setting::kMemory:
      return "memory_budget_mib";
    default:
      return "";
  }
}

int MostOf(Setting setting) { return RowOf(setting).most; }

int& ValueOf(Settings& settings, Setting setting) { return settings.*RowOf(setting).value; }

int ValueOf(const Settings& settings, Setting setting) { return settings.*RowOf(setting).value; }

int InEffect(const Settings& settings, Setting setting, const Defaults& defaults) {
  const int value = ValueOf(settings, setting);
  return value != 0 ? value : DefaultOf(settings, setting, defaults);
}

}  // namespace millrace::cli
